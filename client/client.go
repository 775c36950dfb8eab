// Package client speaks to a Sluice node over HTTP: it submits turns and waits for their
// answers, follows the log, and does what people and operators do.
//
//	c, err := client.New("https://node:8383", client.Options{Token: token})
//	answers, err := c.Run(ctx, client.Submission{Message: response})
//
// Every request may be repeated, and the client repeats those whose answer it did not
// hear: the ids of a turn are made before the first try, so that a turn which was kept is
// met again and never run twice. Errors of the node are a *Problem, which tells the next
// move; they compare with the Codes:
//
//	if errors.Is(err, client.TurnExists) { … }
//
// A Client may be used from many goroutines at once. Every method ends with its ctx.
package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Options say how a Client speaks to its node. The zero value is for a node of this
// machine that believes everybody.
type Options struct {
	// Token says who the caller is; "" sends none. It goes to the node's own address
	// alone: redirects are never followed.
	Token string
	// PlainText allows a token to be sent over http to another machine, where whoever reads
	// the wire has it then.
	PlainText bool
	// TLS is for https: authorities, a client's certificate. nil means the machine's own
	// authorities. It cannot be given together with HTTP.
	TLS *tls.Config
	// HTTP sends the requests; nil makes one. A Timeout in it would end waits and event
	// streams: leave it 0, and use ctx.
	HTTP *http.Client
	// Retry says how often what was not answered is asked again.
	Retry Retry
	// Timeout bounds one try, beyond what it asks the node to wait; 0 means 30 s. A try
	// that runs out of it is repeated.
	Timeout time.Duration
	// Silence is how long an event stream may say nothing, not even that it lives, before
	// it is taken for dead and opened again; 0 means 60 s.
	Silence time.Duration
	// MaxAnswer bounds an answer in bytes; 0 means 64 MiB. A longer one is an ErrAnswer.
	MaxAnswer int64
	// Agent is told as the User-Agent; "" means sluice-client.
	Agent string
}

// Bounds of a Client, where nothing else is said.
const (
	defaultTimeout = 30 * time.Second
	defaultSilence = 60 * time.Second
	defaultAnswer  = 64 << 20
)

// Client speaks to one node. New makes one.
type Client struct {
	base *url.URL // without a slash at its end
	http *http.Client
	own  *http.Transport // that Close ends; nil where the caller has brought one
	o    Options
}

// ErrOptions says that a Client cannot be made of what was given.
var ErrOptions = errors.New("no client can be made of that")

// New makes a client of the node at an address, for example http://127.0.0.1:8383. It
// sends nothing. It returns an ErrOptions.
func New(address string, o Options) (*Client, error) {
	base, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	case base.Scheme != "http" && base.Scheme != "https" || base.Host == "":
		return nil, fmt.Errorf("%w: address %q: want http:// or https:// and a host", ErrOptions, address)
	case base.User != nil || base.RawQuery != "" || base.Fragment != "":
		return nil, fmt.Errorf("%w: the address has more than a host and a path; a token goes into Options.Token", ErrOptions)
	case o.TLS != nil && o.HTTP != nil:
		return nil, fmt.Errorf("%w: TLS and HTTP exclude each other: give HTTP's own transport the certificates", ErrOptions)
	case o.Token != "" && base.Scheme == "http" && !o.PlainText && !loopback(base.Hostname()):
		return nil, fmt.Errorf("%w: the token would cross the network in the clear to %s: use https, or say PlainText", ErrOptions, base.Host)
	case strings.ContainsAny(o.Token, " \t\r\n,"):
		return nil, fmt.Errorf("%w: the token holds blanks or line ends", ErrOptions)
	}
	base.Path = strings.TrimRight(base.Path, "/")
	c := &Client{base: base, o: o.filled()}
	var h http.Client
	if o.HTTP != nil {
		h = *o.HTTP
	} else {
		c.own = &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: o.TLS, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 64,
			IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second,
		}
		h.Transport = c.own
	}
	h.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &h
	return c, nil
}

func (o Options) filled() Options {
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.Silence <= 0 {
		o.Silence = defaultSilence
	}
	if o.MaxAnswer <= 0 {
		o.MaxAnswer = defaultAnswer
	}
	if o.Agent == "" {
		o.Agent = "sluice-client"
	}
	o.Retry = o.Retry.filled()
	return o
}

// loopback says whether a host is this machine.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// Close gives idle connections back. It ends no request, and what goes on after it works
// as before. Connections of Options.HTTP are left to who brought it.
func (c *Client) Close() {
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
}
