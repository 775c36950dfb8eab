package main

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Bounds of settings.
const (
	minAckWait, maxAckWait   = 2 * time.Second, 10 * time.Minute
	minPresence, maxPresence = time.Second, time.Minute
	minKeys                  = time.Minute
)

// bounds are what is wrong with the values of a node's settings, each by itself and
// with the others.
func (s *settings) bounds() []error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if s.ackWait < minAckWait || s.ackWait > maxAckWait {
		wrong("ack-wait %v: want %v to %v", s.ackWait, minAckWait, maxAckWait)
	}
	switch p := s.presence; {
	case p.off:
	case p.span < minPresence || p.span > maxPresence:
		wrong("presence %v: want %v to %v, or off", p.span, minPresence, maxPresence)
	case p.span >= s.ackWait:
		wrong("presence %v is not shorter than ack-wait %v, and would never be of use: shorten it, or say off", p.span, s.ackWait)
	}
	switch {
	case s.keyRetention < minKeys:
		wrong("key-retention %v: want %v or more", s.keyRetention, minKeys)
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
