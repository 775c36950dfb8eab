package gateway

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/keys"
	"github.com/sluice-run/sluice/policy/access"
)

// visit is what the door knows of a request while it serves it.
type visit struct {
	who   access.Identity // the zero value may do nothing
	share *share          // what its identity uses of the door; nil: nobody counts
	body  int64           // bytes that are held of the budget for bodies

	stream int64 // bytes that are held of the budget for models' streams

	expires time.Time // of what proved who it is; zero: never
}

// visitKey finds the visit in a request's context.
type visitKey struct{}

// visitOf is the visit of a request: of nobody, where the door has not looked at it.
func visitOf(r *http.Request) *visit {
	if v, ok := r.Context().Value(visitKey{}).(*visit); ok {
		return v
	}
	return new(visit)
}

// who is who a request comes from.
func who(r *http.Request) access.Identity { return visitOf(r).who }

var (
	errNoProof  = errors.New("the request has no Authorization header and no client certificate")
	errNoBearer = errors.New("the Authorization header holds no bearer token")
)

// realm is what a client is told of the door when it has to say who it is.
const realm = `Bearer realm="sluice"`

// identify says who a request comes from: by its bearer token, else by its client
// certificate. Where everybody is believed, it is anybody.
func (a *API) identify(r *http.Request) (keys.Found, error) {
	if a.keys == nil {
		return keys.Found{Identity: access.Identity{Trusted: true, Via: events.ViaLoopback}}, nil
	}
	ring := a.keys()
	switch given := r.Header["Authorization"]; {
	case len(given) == 1:
		token, ok := bearer(given[0])
		if !ok {
			return keys.Found{}, errNoBearer
		}
		return ring.Token(token, a.now())
	case len(given) > 1:
		return keys.Found{}, errNoBearer
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return ring.Certificate(r.TLS.PeerCertificates[0], a.now())
	}
	return keys.Found{}, errNoProof
}

// bearer is the token of an Authorization header.
func bearer(header string) (token string, ok bool) {
	scheme, token, _ := strings.Cut(header, " ")
	token = strings.TrimLeft(token, " ")
	return token, strings.EqualFold(scheme, "Bearer") && token != "" && !strings.ContainsAny(token, " \t,")
}

// authenticated finds out who a request comes from BEFORE anything else is looked at:
// who may not come in does not learn which resources there are.
func (a *API) authenticated(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := mux.Handler(r)
		if a.keys != nil && a.open[pattern] {
			mux.ServeHTTP(w, r)
			return
		}
		if p := a.shunned(r); p != nil {
			a.refuse(w, r, "limited", p)
			return
		}
		found, err := a.identify(r)
		if err != nil {
			why, p := a.unknown(w, r, err)
			a.refuse(w, r, why, p)
			return
		}
		s, p := a.shares.take(found.Identity, a.now())
		if p != nil {
			a.refuse(w, r, "rate", p)
			return
		}
		defer a.shares.give(s)
		v := &visit{who: found.Identity, share: s, expires: found.Expires}
		mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), visitKey{}, v)))
	})
}

// shunned is why nothing is heard from an address whose proofs were wrong too often.
func (a *API) shunned(r *http.Request) *Problem {
	if a.keys == nil || !a.failures.apart(r.RemoteAddr) {
		return nil
	}
	if wait := a.failures.wait(r.RemoteAddr, a.now()); wait > 0 {
		return tooMany("This address has failed to say who it is too often", wait)
	}
	return nil
}

// unknown counts a request from nobody, and is the problem that answers it. What was
// given as a proof is told to nobody, and not logged.
func (a *API) unknown(w http.ResponseWriter, r *http.Request, err error) (why string, p *Problem) {
	first, wait := a.failures.count(r.RemoteAddr, a.now())
	if first {
		a.log.Warn("a request from somebody who is not known", "address", r.RemoteAddr, "error", err)
	}
	if wait > 0 {
		return "limited", tooMany("This address has failed to say who it is too often", wait)
	}
	challenge, detail, next := realm, err.Error(), "send Authorization: Bearer and a token of yours, or come with a client certificate"
	switch {
	case errors.Is(err, errNoProof):
		why = "no_proof"
	case errors.Is(err, keys.ErrExpired):
		why, next = "expired", "ask whoever keeps the file of --http-auth for a new one"
		challenge += `, error="invalid_token", error_description="expired"`
	default:
		why = "unknown"
		challenge += `, error="invalid_token"`
	}
	w.Header().Set("WWW-Authenticate", challenge)
	return why, problem(http.StatusUnauthorized, "unauthenticated", "This door wants to know who you are", detail, next)
}

// tooMany is the problem of somebody who asks too often.
func tooMany(title string, wait time.Duration) *Problem {
	p := problem(http.StatusTooManyRequests, "too-many", title, "wait "+wait.Round(time.Second/10).String(), "ask again after Retry-After")
	p.wait = wait
	return p
}

// refuse answers a request that comes no further than the door.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, why string, p *Problem) {
	if a.metrics != nil {
		a.metrics.refused.WithLabelValues(why).Inc()
	}
	if why != "rate" {
		w.Header().Set("Connection", "close") // nobody holds connections for nothing
	}
	a.writeProblem(w, r, p)
}

// still says whether whoever opened a stream may still read it: a token can have expired,
// and the file can have been read anew, with other roles.
func (a *API) still(r *http.Request) bool {
	found, err := a.identify(r)
	return err == nil && reflect.DeepEqual(found.Identity, who(r))
}
