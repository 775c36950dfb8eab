package otlp

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Protocols of OTLP, by the names that OpenTelemetry gives them.
const (
	ProtocolHTTP = "http/protobuf"
	ProtocolGRPC = "grpc"
)

// Target is a collector, and how it is spoken to.
type Target struct {
	Protocol string // ProtocolHTTP, the meaning of "", or ProtocolGRPC
	// URL is http or https. Over HTTP spans are posted to it as it stands; over gRPC
	// its host and port count.
	URL     *url.URL
	Headers map[string]string // sent with each request; secrets, often
	TLS     *tls.Config       // of https; nil: the system's authorities
	Timeout time.Duration     // of one request; 0 means 10 s
	Gzip    bool
}

// TracesPath is where a collector takes spans over HTTP.
const TracesPath = "/v1/traces"

// ParseTarget reads the address of a collector, as OTEL_EXPORTER_OTLP_ENDPOINT has it:
// over HTTP the path of traces is put behind it, unless it ends so.
func ParseTarget(raw, protocol string) (Target, error) {
	t := Target{Protocol: cmp.Or(protocol, ProtocolHTTP)}
	if t.Protocol != ProtocolHTTP && t.Protocol != ProtocolGRPC {
		return t, fmt.Errorf("protocol %q: want %s or %s", protocol, ProtocolHTTP, ProtocolGRPC)
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return t, errors.New("the address cannot be read") // its text may hold a secret
	case u.Scheme != "http" && u.Scheme != "https":
		return t, errors.New("the address is not http:// or https://, whatever the protocol: want for example http://collector:4318")
	case u.Hostname() == "":
		return t, errors.New("the address names no host")
	case u.User != nil:
		return t, errors.New("the address holds a user or a password: give them as a header")
	case u.Fragment != "":
		return t, errors.New("the address has a fragment, which no server sees")
	}
	if t.URL = u; t.Protocol == ProtocolGRPC {
		if u.Port() == "" {
			u.Host += ":4317"
		}
		return t, nil
	}
	if !strings.HasSuffix(u.Path, TracesPath) {
		u.Path = strings.TrimSuffix(u.Path, "/") + TracesPath
	}
	return t, nil
}

func (t Target) secure() bool { return t.URL.Scheme == "https" }

func (t Target) timeout() time.Duration { return cmp.Or(t.Timeout, 10*time.Second) }

// sender is what sends to the target.
func (t Target) sender(f frame) (sender, error) {
	for name, value := range t.Headers {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("header %q cannot be sent: a name of letters, digits and -, and a value in one line", name)
		}
	}
	if t.Protocol == ProtocolGRPC {
		return newGRPCSender(t, f)
	}
	return newHTTPSender(t, f), nil
}
