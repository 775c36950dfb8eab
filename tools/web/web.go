// Package web holds the tool that reads from the network: Fetch. It dials only
// what is meant for the public, whatever names, forms of addresses or redirects
// say, and sends nothing but a GET. No goroutine outlives a call.
package web

import (
	"cmp"
	"context"
	"encoding/json"
	"net/netip"
	"time"

	"code.dny.dev/ssrf"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// FetchName is the tool's name, as models know it.
const FetchName = "Fetch"

const (
	maxText      = 51_200  // bytes of one answer, its first line and notes included
	maxURL       = 8 << 10 // bytes of an address
	maxRedirects = 5
	maxWait      = time.Hour // longest Retry-After that is passed on
)

// Config says what Fetch may do. The zero Config is safe: public addresses,
// the port of the scheme, and redirects to other hosts only where the policy allows them.
type Config struct {
	Ports    []uint16      // that may be dialled; nil means 80 and 443
	Body     int64         // most bytes read of an answer, decompressed; 0 means 5 MiB
	Timeout  time.Duration // of a whole fetch, redirects included; 0 means 30 s
	Agent    string        // User-Agent; "" means sluice
	Loopback bool          // dangerous: also this machine, on any port. For tests
}

func (c Config) body() int64 { return cmp.Or(max(c.Body, 0), 5<<20) }

func (c Config) timeout() time.Duration { return cmp.Or(max(c.Timeout, 0), 30*time.Second) }

// guard is what looks at every address that is dialled.
func (c Config) guard() *ssrf.Guardian {
	var o []ssrf.Option
	if c.Ports != nil {
		o = append(o, ssrf.WithPorts(c.Ports...))
	}
	if c.Loopback {
		o = append(o, ssrf.WithAnyPort(),
			ssrf.WithAllowedV4Prefixes(netip.MustParsePrefix("127.0.0.0/8")), ssrf.WithAllowedV6Prefixes(netip.MustParsePrefix("::1/128")))
	}
	return ssrf.New(o...)
}

type fetchIn struct {
	URL    string `json:"url" jsonschema:"the address; http or https"`
	Raw    bool   `json:"raw,omitempty" jsonschema:"show HTML as it is; otherwise its text with headings and links"`
	Offset int    `json:"offset,omitempty" jsonschema:"description=how many bytes of the text to leave out at the beginning,minimum=0"`
}

// Fetch makes the tool that reads a web page or another text by its address.
func Fetch(c Config) (tools.Tool, error) {
	f := newFetcher(c)
	return tools.Typed(tools.Spec{
		Name: FetchName,
		Description: "Reads a web page or another text by its address (GET, no cookies, no credentials). HTML becomes plain text unless raw is set. " +
			"Private addresses are refused. A redirect to another host is followed where the policy allows that host, else it is told.",
		Tier:      events.Readonly,
		Limits:    tools.Limits{Wall: c.timeout() + 5*time.Second, Lines: maxText, Text: maxText},
		Operation: operation,
		Circuit:   circuit,
		Preview:   preview,
	}, func(ctx context.Context, in tools.Invocation, args fetchIn) (events.Result, error) {
		return f.fetch(ctx, in, args)
	})
}

// operation names the host that a call asks for. What is no address is its own
// host, which no rule allows.
func operation(args json.RawMessage) events.Operation {
	var in fetchIn
	op := events.Operation{Class: events.OpNetwork}
	if json.Unmarshal(args, &in) != nil {
		return op
	}
	u, bad := parseURL(in.URL)
	if bad != nil {
		op.Hosts = []string{in.URL}
		return op
	}
	op.Hosts = []string{hostPort(u)}
	return op
}
