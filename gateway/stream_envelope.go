package gateway

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-run/sluice/gateway/codec"
)

// envelopeHeader holds what a query cannot, such as a principal with parents: an envelope
// as for POST /v1/turns, without what to run.
const envelopeHeader = "Sluice-Envelope"

// streamFields are the fields of an envelope that a query may hold, one value each but for
// lists.
var streamFields = map[string]func(e *Envelope, v string) error{
	"trace":             func(e *Envelope, v string) error { e.Trace = v; return nil },
	"turn":              func(e *Envelope, v string) error { e.Turn = v; return nil },
	"principal":         func(e *Envelope, v string) error { e.Principal.ID = v; return nil },
	"format":            func(e *Envelope, v string) error { e.Format = codec.Format(v); return nil },
	"workspace":         func(e *Envelope, v string) error { e.Workspace = v; return nil },
	"mode":              func(e *Envelope, v string) error { e.Mode = v; return nil },
	"placement":         func(e *Envelope, v string) error { e.Placement = v; return nil },
	"on_error":          func(e *Envelope, v string) error { e.OnError = v; return nil },
	"traceparent":       func(e *Envelope, v string) error { e.Traceparent = v; return nil },
	"can_ask":           func(e *Envelope, v string) (err error) { e.CanAsk, err = strconv.ParseBool(v); return err },
	"parallel_disjoint": func(e *Envelope, v string) (err error) { e.Disjoint, err = strconv.ParseBool(v); return err },
	"wait_ms":           func(e *Envelope, v string) (err error) { e.WaitMS, err = strconv.ParseInt(v, 10, 64); return err },
	"max_concurrency":   func(e *Envelope, v string) (err error) { e.Limits.Concurrency, err = strconv.Atoi(v); return err },
	"call_bytes":        func(e *Envelope, v string) (err error) { e.Limits.CallBytes, err = strconv.Atoi(v); return err },
	"turn_bytes":        func(e *Envelope, v string) (err error) { e.Limits.TurnBytes, err = strconv.Atoi(v); return err },
	"deadline_ms": func(e *Envelope, v string) (err error) {
		e.Limits.DeadlineMS, err = strconv.ParseInt(v, 10, 64)
		return err
	},
	"call_deadline_ms": func(e *Envelope, v string) (err error) {
		e.Limits.CallMS, err = strconv.ParseInt(v, 10, 64)
		return err
	},
}

// streamQuery are all parameters of the route.
const streamQuery = "trace turn principal format workspace mode can_ask allow placement on_error parallel_disjoint wait_ms secrets " +
	"max_concurrency deadline_ms call_deadline_ms call_bytes turn_bytes traceparent done"

// streamIn is a request to submit a stream, without the stream.
type streamIn struct {
	order   Order // without calls
	secrets []string
	stream  *codec.Stream
	shown   bool // the caller wants to see what comes of it
}

// streamOf reads all of such a request but its body.
func streamOf(r *http.Request) (streamIn, error) {
	e, err := streamEnvelope(r)
	if err != nil {
		return streamIn{}, err
	}
	in := streamIn{secrets: e.Secrets, shown: accepts(r, "text/event-stream")}
	o := codec.StreamOptions{Framing: framingOf(r), Previews: in.shown}
	switch v := r.URL.Query().Get("done"); v {
	case "", "required":
	case "optional":
		o.NoDone = true
	default:
		return in, BadRequest(fmt.Sprintf("done %.40q", v), "say required or optional")
	}
	if in.stream, err = codec.NewStream(e.Format, o); err != nil {
		return in, StreamProblem(err)
	}
	e.Calls, e.Secrets = json.RawMessage(`[]`), nil // they are still to come
	in.order, err = e.Order()
	return in, err
}

// streamEnvelope reads the envelope, out of the query or the header.
func streamEnvelope(r *http.Request) (Envelope, error) {
	var e Envelope
	q := r.URL.Query()
	heads := r.Header[envelopeHeader]
	if len(heads) == 0 {
		return e, queryEnvelope(q, &e)
	}
	for name := range q {
		if name != "done" {
			return e, BadRequest(fmt.Sprintf("query parameter %.60q beside the header %s", name, envelopeHeader), "say it all in one of them")
		}
	}
	if len(heads) > 1 {
		return e, BadRequest(envelopeHeader+" stands twice", "send it once")
	}
	if err := decodeStrict([]byte(heads[0]), &e); err != nil {
		return e, err
	}
	if !isNull(e.Message) || !isNull(e.ToolCalls) || !isNull(e.Calls) || e.Stream != "" {
		return e, BadRequest(envelopeHeader+" says what to run", "leave message, tool_calls, calls and stream out: the body is the model's stream")
	}
	return e, nil
}

func queryEnvelope(q url.Values, e *Envelope) error {
	for _, name := range strings.Fields(streamQuery) { // the first wrong one, always the same
		values, there := q[name]
		switch name {
		case "allow":
			e.Allow = several(values)
			continue
		case "secrets":
			e.Secrets = several(values)
			continue
		case "done":
			continue
		}
		if !there {
			continue
		}
		if len(values) > 1 {
			return BadRequest(fmt.Sprintf("query parameter %q stands %d times", name, len(values)), "send it once")
		}
		if err := streamFields[name](e, values[0]); err != nil {
			return BadRequest(fmt.Sprintf("query parameter %s=%.40q", name, values[0]), "send a whole number, or true or false, as the documentation says")
		}
	}
	return nil
}

// accepts says whether a request asks for answers of a media type by its name.
func accepts(r *http.Request, media string) bool {
	return slices.ContainsFunc(several(r.Header["Accept"]), func(v string) bool {
		name, params, err := mime.ParseMediaType(strings.TrimSpace(v))
		return err == nil && name == media && params["q"] != "0"
	})
}
