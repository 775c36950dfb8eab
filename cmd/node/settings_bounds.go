package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/events"
)

// within are the bounds of a setting.
type within[T int | time.Duration] struct {
	name      string
	low, high T
	zero      string // what 0 means where it is allowed besides; "": nothing
}

// longest is a time that nobody waits for.
const longest = 100 * 365 * 24 * time.Hour

// The bounds of every setting that is a number or a time. Those of presence, which can be
// off, are beside the ones that it is compared with.
var (
	numbers = []within[int]{
		{"replicas", 1, 5, ""},
		{"room", 1, 100_000, ""},
		{"breaker-failures", 1, 1_000_000, ""},
		{"http-rate", 1, 1_000_000, "any number"},
		{"webhook-attempts", 1, 100, ""},
	}
	spans = []within[time.Duration]{
		{"retention", time.Minute, longest, "for ever"},
		{"drain", time.Millisecond, 24 * time.Hour, ""},
		{"approval", time.Second, longest, ""},
		{"ack-wait", 2 * time.Second, 10 * time.Minute, ""},
		{"key-retention", time.Minute, longest, ""},
		{"breaker-window", time.Second, 720 * time.Hour, ""},
		{"webhook-timeout", time.Second, time.Minute, ""},
		{"mcp-patience", time.Second, time.Hour, ""},
		{"mcp-linger", time.Millisecond, time.Minute, "it is cancelled at once"},
		{"otlp-timeout", 100 * time.Millisecond, 5 * time.Minute, "as the environment says"},
		{"remote-silence", minSilence, maxSilence, ""},
		{"remote-gone", minGone, maxGone, ""},
	}
)

const minPresence, maxPresence = time.Second, time.Minute

// check is what is wrong with a value.
func (w within[T]) check(v T) error {
	switch {
	case v >= w.low && v <= w.high, v == 0 && w.zero != "":
		return nil
	case w.zero != "":
		return fmt.Errorf("%s %v: want %v to %v, or 0: %s", w.name, v, w.low, w.high, w.zero)
	}
	return fmt.Errorf("%s %v: want %v to %v", w.name, v, w.low, w.high)
}

// outside are the settings among some flags whose values are out of bounds.
func outside(f *pflag.FlagSet) (errs []error) {
	for _, n := range numbers {
		if v, err := f.GetInt(n.name); err == nil { // otherwise this verb has no such setting
			errs = append(errs, n.check(v))
		}
	}
	for _, d := range spans {
		if v, err := f.GetDuration(d.name); err == nil {
			errs = append(errs, d.check(v))
		}
	}
	return errs
}

// bounds are what is wrong with the values of a node's settings beside others.
func (s *settings) bounds() []error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch p := s.presence; {
	case p.off:
	case p.span < minPresence || p.span > maxPresence:
		wrong("presence %v: want %v to %v, or off", p.span, minPresence, maxPresence)
	case p.span >= s.ackWait:
		wrong("presence %v is not shorter than ack-wait %v, and would never be of use: shorten it, or say off", p.span, s.ackWait)
	}
	if s.NATS == "" && s.replicas > 1 {
		wrong("replicas %d without nats: the log of a data directory has one copy; name a cluster of NATS servers, or leave it out", s.replicas)
	}
	errs = append(errs, s.misplaced())
	switch {
	case s.keyRetention <= s.approval:
		wrong("key-retention %v is not longer than approval %v: a call that waits for a person would lose its key, and another one with that key would run, too", s.keyRetention, s.approval)
	case s.retention > 0 && s.keyRetention >= s.retention:
		wrong("key-retention %v is not shorter than retention %v: a key would be remembered whose call the log has forgotten", s.keyRetention, s.retention)
	}
	if s.retention > 0 && s.approval >= s.retention {
		wrong("approval %v is not shorter than retention %v: the log would forget what a person is asked", s.approval, s.retention)
	}
	if r := s.secret.redact; !slices.Contains([]string{"on", "off", "true", "false"}, r) { // the last two are what YAML makes of them
		wrong("redact %q: use on or off", r)
	}
	return errs
}

// misplaced is what is wrong with the placements: with a name that no turn can have none of
// them would be served.
func (s *settings) misplaced() error {
	if len(s.placements) == 0 {
		return errors.New("placements: none is named, and this node would run no turn; leave it out for " + events.DefaultPlacement)
	}
	for _, p := range s.placements {
		if err := events.CheckID("placements", p); err != nil {
			return err
		}
	}
	return nil
}

// spanOrOff is a duration that can be switched off.
type spanOrOff struct {
	span time.Duration
	off  bool
}

// String is pflag.Value's.
func (v *spanOrOff) String() string {
	if v.off {
		return "off"
	}
	return v.span.String()
}

// Set is pflag.Value's.
func (v *spanOrOff) Set(text string) error {
	if text == "off" || text == "false" { // which is what YAML makes of a plain off
		*v = spanOrOff{off: true}
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return errors.New("want a duration, for example 3s, or off")
	}
	*v = spanOrOff{span: d}
	return nil
}

// Type is pflag.Value's.
func (v *spanOrOff) Type() string { return "duration|off" }

// ttl is the TTL of the presence key as package actors takes it: negative is off.
func (v spanOrOff) ttl() time.Duration {
	if v.off {
		return -1
	}
	return v.span
}
