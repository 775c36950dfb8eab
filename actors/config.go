// Package actors is the shell around the deciders: a node that claims turns,
// with one actor for each turn and one for each call, on proto.actor. Actors
// hold no opinions: they fold, decide, append and hand out what is due.
package actors

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/tools"
)

// Config is what a node is made of. Bus, Registry, Authorizer, Boot and
// Workspace are required; zero elsewhere means the default beside the field.
type Config struct {
	Bus        bus.Bus
	Registry   *tools.Registry
	Authorizer policy.Authorizer
	Boot       string   // unique to this start of this process: 1 to 64 of A-Za-z0-9_-
	Name       string   // for people; "" means the boot id
	Version    string   // of the program, for people; "" says nothing
	Workspace  string   // absolute; where a turn runs that names none
	Placements []string // nil means events.DefaultPlacement. EndPlacement is always served

	Closed []string // absolute paths of the node's own, which no tool opens; see tools.Invocation

	// Allow gives the allowlist of a principal; nil, or an answer of nil, does
	// not narrow. It is asked for the principal and each of its parents.
	Allow   func(principal string) []string
	Network bool // tools may use the network

	// Limits are the limits on what runs at once and begins in a time; nil: there are none.
	// It is asked for each start, so that others can come into force, from many goroutines.
	Limits func() lifecycle.Limits

	Room      int           // turns at once; 0 means 512
	Drain     time.Duration // how long Stop waits for running attempts; 0 means 10 s
	Heartbeat time.Duration // between in-progress acks of a claim; 0 means 5 s
	Approval  time.Duration // how long a person has to answer; 0 means 24 h
	Breaker   lifecycle.BreakerConfig
	Presence  time.Duration // TTL of the presence key; 0 means 3 s, negative: there is none, and only redelivery tells that a node has died
	Probing   time.Duration // for how long a probe that cannot be made, or fails, is made again; 0 means 30 s, negative: once
	LockTTL   time.Duration // of a lease; 0 means lifecycle.LockTTL
	Sweep     time.Duration // between looks for turns that nobody has in mind; 0 means 10 s, negative none
	Retention time.Duration // of the log; 0 means for ever. A turn that nobody has claimed by half of it is abandoned
	Keys      time.Duration // how long an idempotency key is remembered; 0 means 30 days

	// Setup is what the node tells others of the files that it goes by; nil: nothing. It is
	// asked whenever somebody asks who this is, from many goroutines.
	Setup func() bus.Setup

	// Vault has the values of secrets; nil: calls with secrets end without being run.
	Vault Vault
	// ShowSecrets leaves in what tools answer whatever only looks like a secret. The
	// values that a tool was given are taken out in any case.
	ShowSecrets bool

	// Traced says that somebody exports the spans of this log: tools then hand on the span
	// of their attempt, and otherwise what the turn's caller gave. The same on all nodes.
	Traced bool

	// System is what the node's actors live in; nil means one of its own.
	System *System
	// Execute runs one attempt, or asks one probe; nil means tools.Execute.
	Execute func(context.Context, tools.Tool, tools.Invocation, tools.Options) tools.Report
	// Scheduler is where goroutines, timers and waits come from; nil means
	// goroutines and the real clock.
	Scheduler Scheduler

	Now    func() time.Time // nil means time.Now. What nodes write into the log is compared, so it should go with theirs
	Steady func() time.Time // a clock that nobody puts right, for leases; nil means Now
	Rand   func() float64   // from 0 to 1, for jitter; nil means math/rand
	ID     func() string    // a new id, unlike any other in the cluster; nil means a ULID
	Log    *slog.Logger     // nil discards
	Seen   Observer         // nil observes nothing
}

// Observer hears what a node does, for metrics. Its methods must not block, and
// are called from many goroutines.
type Observer interface {
	// Committed is told of every commit that this node appended.
	Committed(s bus.Stored, tools map[int]string)
	// Count adds to a counter of the node's own: conflicts, takeovers, redeliveries,
	// actor_panics, late_results, barrier_waits, circuits_full.
	Count(name string, n int)
}

// Finished is a turn that this node has brought to its end, past the barrier.
type Finished struct {
	Turn    lifecycle.Turn
	Commits []bus.Stored // all of the turn, or nil where the node did not see its beginning
	Tools   map[int]string
	Key     events.TurnKey
}
