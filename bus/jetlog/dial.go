package jetlog

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	neturl "net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-run/sluice/bus"
)

// DialConfig says how to reach servers that are not ours.
type DialConfig struct {
	URL   string // one or several, with commas between them; "" means nats://127.0.0.1:4222
	Creds string // path of a credentials file; "" means none
	NKey  string // path of an nkey seed file; "" means none
	CA    string // path of the certificates to trust, PEM; "" means the machine's
	Cert  string // path of the client's certificate, PEM; needs Key
	Key   string // path of its key, PEM
	Pin   string // SHA-256 in hex of the only certificate to trust, whatever its names; "": by CA
	// TLS is asked for also where the URL does not say tls://.
	TLS bool
	Log *slog.Logger // nil discards
}

// Dial checks once that a server can be reached and has JetStream, and returns
// what opens connections to it, for Config.Connect. The error says what is
// wrong: it wraps bus.ErrUnavailable where no server answers.
func Dial(ctx context.Context, c DialConfig) (func(name string) (*nats.Conn, error), error) {
	url := c.url()
	extra, err := c.options()
	if err != nil {
		return nil, err
	}
	connect := func(name string) (*nats.Conn, error) {
		nc, err := nats.Connect(url, append(Options(name, c.Log), extra...)...)
		if err != nil {
			return nil, dialError(url, err)
		}
		return nc, nil
	}
	return connect, probe(ctx, url, connect)
}

func (c DialConfig) url() string { return cmp.Or(c.URL, nats.DefaultURL) }

// options are what the connection needs beside the options of all.
func (c DialConfig) options() ([]nats.Option, error) {
	if (c.Cert == "") != (c.Key == "") {
		return nil, errors.New("connect to NATS: a client certificate needs its key, and a key its certificate")
	}
	var extra []nats.Option
	if c.NKey != "" {
		seed, err := nats.NkeyOptionFromSeed(c.NKey)
		if err != nil {
			return nil, fmt.Errorf("connect to NATS: nkey seed file %s: %w", c.NKey, err)
		}
		extra = append(extra, seed)
	}
	if c.Creds != "" {
		extra = append(extra, nats.UserCredentials(c.Creds))
	}
	if c.CA != "" {
		extra = append(extra, nats.RootCAs(c.CA))
	}
	if c.Cert != "" {
		extra = append(extra, nats.ClientCert(c.Cert, c.Key))
	}
	if c.Pin != "" {
		return append(extra, pinned(c.Pin)), nil
	}
	if c.TLS {
		extra = append(extra, nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12}))
	}
	return extra, nil
}

// probe opens one connection, looks whether it has JetStream, and closes it.
func probe(ctx context.Context, url string, connect func(string) (*nats.Conn, error)) error {
	nc, err := connect("sluice-probe")
	if err != nil {
		return err
	}
	defer nc.Close()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) {
			stop(err) // nobody answers what the server does not let through
		}
	})
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	err = insist(ctx, func(one context.Context) error {
		_, err := js.AccountInfo(one)
		return err
	})
	refused := context.Cause(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(refused, nats.ErrPermissionViolation):
		return fmt.Errorf("NATS at %s: this user may not open the log, which takes the permissions of a node: with --as it can ask at a node's door, where it is let: %w",
			nc.ConnectedUrlRedacted(), refused)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("NATS at %s has no JetStream: start it with -js, or with a jetstream block in its configuration: %w",
			nc.ConnectedUrlRedacted(), err)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("NATS at %s has JetStream, but not for this account: enable it there: %w", nc.ConnectedUrlRedacted(), err)
	}
	return fmt.Errorf("%w: NATS at %s: JetStream does not answer: does its cluster have a leader? %w",
		bus.ErrUnavailable, nc.ConnectedUrlRedacted(), err)
}

// Refusal is why a server that is there does not let somebody work with it.
type Refusal int

// The refusals.
const (
	NotRefused   Refusal = iota // it is something else, or the server is not there
	BadProof                    // it does not know the credentials
	NoTrust                     // the client does not know the server's certificate, or the authority of it
	NotForTheLog                // who came in may not open the log
)

// RefusalOf is what an error of Dial or DialDoor says of that.
func RefusalOf(err error) Refusal {
	var trust *tls.CertificateVerificationError
	switch {
	case err == nil:
	case errors.Is(err, nats.ErrPermissionViolation):
		return NotForTheLog
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return BadProof
	case errors.As(err, &trust):
		return NoTrust
	}
	return NotRefused
}

func dialError(url string, err error) error {
	var dns *net.DNSError
	switch {
	case errors.Is(err, nats.ErrNoServers), errors.Is(err, nats.ErrTimeout):
		return fmt.Errorf("%w: no NATS server answers at %s: is it running, and is the address right? %w", bus.ErrUnavailable, redact(url), err)
	case errors.As(err, &dns):
		return fmt.Errorf("%w: the host of %s is not known: %w", bus.ErrUnavailable, redact(url), err)
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return fmt.Errorf("NATS at %s refuses the credentials: %w", redact(url), err)
	case errors.Is(err, nats.ErrSecureConnRequired):
		return fmt.Errorf("NATS at %s wants TLS: use a tls:// address: %w", redact(url), err)
	}
	return fmt.Errorf("%w: connect to NATS at %s: %w", bus.ErrUnavailable, redact(url), err)
}

// Options are what every connection of a Bus needs, in-process ones too: it
// comes back by itself for ever, and refuses to publish while it is away, so
// that nothing is sent long after its caller has gone. log nil discards.
func Options(name string, log *slog.Logger) []nats.Option {
	log = Config{Log: log}.logger().With("connection", name)
	return []nats.Option{
		nats.Name(name),
		nats.CustomInboxPrefix(bus.NodeInbox), // what answers a node is for nodes alone: permissions can say so
		nats.SetCustomDialer(&dialer{}),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		nats.ReconnectBufSize(-1),
		nats.PingInterval(20 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("connection to NATS lost", "err", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) { log.Info("connection to NATS is back", "server", nc.ConnectedUrlRedacted()) }),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			subject := ""
			if s != nil {
				subject = s.Subject
			}
			log.Warn("NATS", "subject", subject, "err", err)
		}),
	}
}

// redact takes user and password out of a list of addresses.
func redact(urls string) string {
	parts := strings.Split(urls, ",")
	for i, p := range parts {
		if u, err := neturl.Parse(strings.TrimSpace(p)); err == nil {
			parts[i] = u.Redacted()
		} else {
			parts[i] = "(an address that does not parse)"
		}
		if at := strings.LastIndexByte(parts[i], '@'); at >= 0 {
			parts[i] = parts[i][at+1:]
		}
	}
	return strings.Join(parts, ",")
}
