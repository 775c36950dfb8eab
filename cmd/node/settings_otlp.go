package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/gateway/keys"
	"github.com/sluice-run/sluice/gateway/otlp"
)

// otlpSettings say who is told of the spans of what the log holds.
type otlpSettings struct {
	endpoint, protocol, headers, ca, cert, key string
	timeout                                    time.Duration
	gzip, content                              bool
}

// otlpOff is the endpoint of a node that exports nothing, whatever the environment says.
const otlpOff = "off"

func (o *otlpSettings) otlpFlags(f *pflag.FlagSet) {
	f.StringVar(&o.endpoint, "otlp", "", "`URL` of a collector of OpenTelemetry that is sent the spans of all turns, http or https, for example http://localhost:4318; off: nobody is.\n"+
		"Left out: what OTEL_EXPORTER_OTLP_ENDPOINT and its kind say")
	f.StringVar(&o.protocol, "otlp-protocol", "", "http/protobuf or grpc; left out: as OTEL_EXPORTER_OTLP_PROTOCOL says, else http/protobuf")
	f.StringVar(&o.headers, "otlp-headers", "", "`file` with headers of requests to the collector, name: value, one a line, for this user's eyes only")
	f.StringVar(&o.ca, "otlp-ca", "", "PEM `file` of the authorities that the collector's certificate may come from; left out: the system's")
	f.StringVar(&o.cert, "otlp-cert", "", "PEM `file` of the certificate that the collector is shown")
	f.StringVar(&o.key, "otlp-key", "", "PEM `file` of its key")
	f.DurationVar(&o.timeout, "otlp-timeout", 0, "how long one request to the collector may take, 100ms to 5m; 0: as OTEL_EXPORTER_OTLP_TIMEOUT says, else 10s")
	f.BoolVar(&o.gzip, "otlp-gzip", false, "compress what is sent to the collector")
	f.BoolVar(&o.content, "otlp-content", false, "spans hold arguments and results, too, without secrets and cut to 8 KiB each")
}

// environ is what the environment says of OTLP: of traces, else of everything.
func environ(name string) (value, from string) {
	for _, from := range []string{"OTEL_EXPORTER_OTLP_TRACES_" + name, "OTEL_EXPORTER_OTLP_" + name} {
		if v := os.Getenv(from); v != "" {
			return v, from
		}
	}
	return "", ""
}

// on says whether spans are exported.
func (o *otlpSettings) on() bool {
	switch o.endpoint {
	case "":
	case otlpOff, "false": // which is what YAML makes of a plain off
		return false
	default:
		return true
	}
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	switch os.Getenv("OTEL_TRACES_EXPORTER") {
	case "otlp":
		return true
	case "":
		value, _ := environ("ENDPOINT")
		return value != ""
	}
	return false // none, or something that is nothing of ours
}

// config is what the settings and the environment say of an exporter; nil where there is
// none.
func (o *otlpSettings) config() (*otlp.Config, error) {
	if !o.on() {
		return nil, nil
	}
	t, err := o.target()
	if err != nil {
		return nil, err
	}
	if t.Headers, err = o.readHeaders(); err != nil {
		return nil, err
	}
	if t.TLS, err = o.tls(); err != nil {
		return nil, err
	}
	if t.Timeout, err = o.wait(); err != nil {
		return nil, err
	}
	compression, from := environ("COMPRESSION")
	if compression != "" && compression != "gzip" && compression != "none" {
		return nil, exit.Misused(fmt.Errorf("%s=%s: want gzip or none", from, compression), "mend or unset it")
	}
	t.Gzip = o.gzip || compression == "gzip"
	about, err := resource(os.Hostname)
	if err != nil {
		return nil, err
	}
	return &otlp.Config{Target: t, Content: o.content, Resource: about, Version: command.Version(), Rand: rand.Float64}, nil
}

// target is where spans go.
func (o *otlpSettings) target() (otlp.Target, error) {
	protocol, from := o.protocol, "--otlp-protocol"
	if protocol == "" {
		protocol, from = environ("PROTOCOL")
	}
	address, of := o.endpoint, "--otlp"
	if address == "" {
		address, of = environ("ENDPOINT")
	}
	if address == "" { // OTEL_TRACES_EXPORTER=otlp, and no more
		address, of = "http://localhost:4318", "OTEL_TRACES_EXPORTER"
		if protocol == otlp.ProtocolGRPC {
			address = "http://localhost:4317"
		}
	}
	if protocol == otlp.ProtocolGRPC && !strings.Contains(address, "://") { // host:port, which is usual there
		scheme := "https://"
		if insecure, _ := environ("INSECURE"); strings.EqualFold(insecure, "true") {
			scheme = "http://"
		}
		address = scheme + address
	}
	t, err := otlp.ParseTarget(address, protocol)
	switch {
	case err != nil && protocol != "" && protocol != otlp.ProtocolHTTP && protocol != otlp.ProtocolGRPC:
		return t, exit.Misused(fmt.Errorf("%s: %w", from, err), "leave it out for "+otlp.ProtocolHTTP)
	case err != nil:
		return t, exit.Misused(fmt.Errorf("%s: %w", of, err), "for example http://localhost:4318, or off")
	}
	if strings.HasSuffix(of, "_TRACES_ENDPOINT") { // that one is taken as it stands
		plain, err := url.Parse(address)
		if err != nil {
			return t, err
		}
		t.URL.Path = plain.Path
	}
	return t, nil
}

// maxHeaders is the size in bytes of the largest file of headers.
const maxHeaders = 16 << 10

// readHeaders are those of the environment, and those of the file over them.
func (o *otlpSettings) readHeaders() (map[string]string, error) {
	out := make(map[string]string)
	if text, from := environ("HEADERS"); text != "" {
		if err := pairs(text, out); err != nil {
			return nil, exit.Misused(fmt.Errorf("%s: %w", from, err), "write name=value, and commas between them")
		}
	}
	if o.headers == "" {
		return lower(out), nil
	}
	bad := func(err error) error {
		return exit.Misused(fmt.Errorf("--otlp-headers: %w", err), "write name: value, one a line, and let nobody else read the file: chmod 600")
	}
	if err := keys.CheckFile(o.headers); err != nil {
		return nil, bad(err)
	}
	body, err := readSmall(o.headers, maxHeaders)
	if err != nil {
		return nil, bad(err)
	}
	for line := range bytes.Lines(body) {
		text := strings.TrimSpace(string(line))
		if text == "" || text[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(text, ":")
		if !ok {
			return nil, bad(fmt.Errorf("%s: a line without a colon", o.headers))
		}
		out[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return lower(out), nil
}

// lower are headers with names in lower case, which gRPC asks for.
func lower(in map[string]string) map[string]string {
	out := make(map[string]string, len(in))
	for name, value := range in {
		out[strings.ToLower(name)] = value
	}
	return out
}

// tls is how a collector is spoken to over https.
func (o *otlpSettings) tls() (*tls.Config, error) {
	pick := func(flag, name string) string {
		value, _ := environ(name)
		return cmp.Or(flag, value)
	}
	ca, cert, key := pick(o.ca, "CERTIFICATE"), pick(o.cert, "CLIENT_CERTIFICATE"), pick(o.key, "CLIENT_KEY")
	bad := func(err error) error {
		return exit.Misused(fmt.Errorf("the collector's certificates: %w", err), "name PEM files that can be read")
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := readSmall(ca, maxSettings)
		if err != nil {
			return nil, bad(err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, bad(fmt.Errorf("%s holds no certificate", ca))
		}
	}
	switch {
	case cert == "" && key == "":
		return out, nil
	case cert == "" || key == "":
		return nil, bad(errors.New("a certificate and its key are named together"))
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, bad(err)
	}
	out.Certificates = []tls.Certificate{pair}
	return out, nil
}

// wait is how long one request may take. The environment gives it in milliseconds.
func (o *otlpSettings) wait() (time.Duration, error) {
	d, from := o.timeout, "--otlp-timeout"
	if text, of := environ("TIMEOUT"); text != "" && d == 0 {
		ms, err := time.ParseDuration(text + "ms")
		if err != nil {
			return 0, exit.Misused(fmt.Errorf("%s=%s: want milliseconds", of, text), "mend or unset it")
		}
		d, from = ms, of
	}
	if d = cmp.Or(d, 10*time.Second); d < 100*time.Millisecond || d > 5*time.Minute {
		return 0, exit.Misused(fmt.Errorf("%s: %v, want 100ms to 5m", from, d), "leave it out for 10s")
	}
	return d, nil
}

// resource is what the spans are of: this machine, and what the environment says.
func resource(hostname func() (string, error)) (map[string]string, error) {
	out := make(map[string]string)
	if host, err := hostname(); err == nil && host != "" {
		out["host.name"] = host
	}
	if text := os.Getenv("OTEL_RESOURCE_ATTRIBUTES"); text != "" {
		if err := pairs(text, out); err != nil {
			return nil, exit.Misused(fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err), "write name=value, and commas between them")
		}
	}
	if name := os.Getenv("OTEL_SERVICE_NAME"); name != "" {
		out["service.name"] = name
	}
	return out, nil
}

// startOTLP makes the exporter, where the settings want one, and begins to export. It is
// called BEFORE a turn can be submitted here.
func (s *serving) startOTLP(ctx context.Context, c *otlp.Config) error {
	if c == nil {
		return nil
	}
	if c.Resource["service.instance.id"] == "" {
		c.Resource["service.instance.id"] = s.node.boot
	}
	c.Desk, c.Bus, c.Holder, c.Log, c.Now = s.node.desk, s.ses.Bus, s.node.boot, s.log, s.ses.Now
	x, err := otlp.New(*c)
	if err != nil {
		return exit.Misused(fmt.Errorf("--otlp: %w", err), "mend the settings of the exporter, or switch it off with --otlp off")
	}
	to := c.Target.URL
	s.log.Info("spans are exported", "to", to.Scheme+"://"+to.Host, "protocol", cmp.Or(c.Target.Protocol, otlp.ProtocolHTTP), "content", c.Content)
	if to.Scheme == "http" && !local(to.Hostname()) && (c.Content || len(c.Target.Headers) > 0) {
		s.log.Warn("spans go to the collector in clear, with headers or contents that others on the way can read: use https", "to", to.Host)
	}
	if err := x.Start(ctx); err != nil {
		x.Stop()
		return err
	}
	s.spans = x
	return s.node.metrics.Also(x)
}
