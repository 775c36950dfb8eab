// Package mcp makes tools of what MCP servers offer. A Host keeps the servers of an
// operator's file running or connected: over standard input and output, in the sandbox,
// or over streamable HTTP. What a server lists is registered under the server's name and
// kept as it changes; a call goes to the server, and what it answers becomes a result.
// The protocol is the official SDK's; what that does not keep (exact digits, answers that
// come late, whether a request was sent at all) is taken from the messages as they pass.
//
// Nothing that a server says is believed: its names, texts, schemas and sizes are
// bounded, and what it says of its tools' effects can only make a tier stricter than the
// operator's word.
package mcp

import (
	"cmp"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/sandbox"
)

// Config is what a Host works with. Zero fields mean the defaults beside them.
type Config struct {
	// Provide registers all tools of one source, in place of its earlier ones; required.
	// It is tools.Registry's.
	Provide func(source string, list []tools.Tool) error
	// Sandbox is what contains servers that are started: of it Use, Hide and Limits count.
	// The zero value contains nothing.
	Sandbox sandbox.Policy
	// Workspace is where servers run whose entry names no directory: absolute.
	Workspace string
	// Path is the PATH of servers; "" means this process's.
	Path string
	// Version is this program's, as servers are told it; "" means unknown.
	Version string
	// Log hears of servers that come and go, and of what they write; nil means nobody.
	Log *slog.Logger
	// Times are how long things may take; its zero value is right but for tests.
	Times Times
	// Rand draws from 0 to 1, for pauses that differ; nil means math/rand's.
	Rand func() float64
}

// Times are how long things may take. Zero fields mean the defaults beside them.
type Times struct {
	Connect  time.Duration // from the start of a server to its list of tools; 0 means 60 s
	Patience time.Duration // how long a call waits for a server that is being connected; 0 means 10 s
	Backoff  time.Duration // before the second attempt to connect, doubled for each further one; 0 means 250 ms
	MaxPause time.Duration // between two attempts; 0 means 30 s
	Healthy  time.Duration // a connection that lasted so long is no failure; 0 means 10 s
	Ping     time.Duration // between two looks at a connected server; 0 means 10 s, and 3 s over HTTP while calls run
	Pong     time.Duration // how long a server may take to say that it is there; 0 means 5 s
	Relist   time.Duration // least time between two lists of one server, five of which a list stays fresh at least; 0 means 1 s
	Close    time.Duration // how long a server may take to end once its input is closed; 0 means 2 s
}

func (t Times) withDefaults() Times {
	t.Connect = cmp.Or(t.Connect, 60*time.Second)
	t.Patience = cmp.Or(t.Patience, 10*time.Second)
	t.Backoff = cmp.Or(t.Backoff, 250*time.Millisecond)
	t.MaxPause = cmp.Or(t.MaxPause, 30*time.Second)
	t.Healthy = cmp.Or(t.Healthy, 10*time.Second)
	t.Pong = cmp.Or(t.Pong, 5*time.Second)
	t.Relist = cmp.Or(t.Relist, time.Second)
	t.Close = cmp.Or(t.Close, 2*time.Second)
	return t
}

// busyPing is how often a server is looked at over HTTP while calls run: there is no
// process whose end would be heard of.
const busyPing = 3 * time.Second

// idlePing is how often one is else.
const idlePing = 10 * time.Second

func (c Config) withDefaults() Config {
	c.Times = c.Times.withDefaults()
	c.Version = cmp.Or(c.Version, "unknown")
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	return c
}

// Bounds on what servers say.
const (
	maxLine        = 16 << 20 // bytes of one message
	maxTools       = 1000     // of one server
	maxPages       = 100      // of one list
	maxDescription = 4 << 10  // bytes of a tool's description
	maxBlocks      = 1000     // parts of one result
	maxMessage     = 16 << 10 // bytes of an error that is told
	maxSaid        = 4 << 10  // bytes of standard errors that are told with a server's end
	maxServers     = 64       // in one file
	maxForeign     = 64       // requests of a server that are answered at once
	maxAbandoned   = 1024     // calls of one connection that nobody waits for any more
	maxTTL         = time.Hour
	defaultAtOnce  = 16 // calls of one server
)
