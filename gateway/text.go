package gateway

import (
	"slices"
	"strings"

	"github.com/sluice-run/sluice/events"
)

// wholeText replaces what is no text by U+FFFD: invalid UTF-8.
func wholeText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// wholeJSON is wholeText for JSON: half of a surrogate pair, written as an
// escape, becomes U+FFFD too. It need not be valid JSON, and is not made so.
func wholeJSON(s string) string { return string(events.WholeJSON([]byte(s))) }

// whole makes text of everything in a submission, once, at the door. What is
// the same is spelt the same afterwards, so that submitting again attaches.
func whole(s events.TurnSubmitted) events.TurnSubmitted {
	s.Principal.ID, s.Principal.Kind = wholeText(s.Principal.ID), wholeText(s.Principal.Kind)
	s.Principal.Parents = wholeAll(s.Principal.Parents)
	s.Allow = wholeAll(s.Allow)
	s.Workspace, s.Traceparent = wholeText(s.Workspace), wholeText(s.Traceparent)
	if c, ok := events.ParseTraceparent(s.Traceparent); ok {
		s.Traceparent = c.String() // of a later version as far as it is understood: its rest may be anything, and of any length
	}
	s.Imported = wholeText(s.Imported)
	s.Calls = slices.Clone(s.Calls)
	for i := range s.Calls {
		c := &s.Calls[i]
		c.ProviderID, c.Tool, c.Key = wholeText(c.ProviderID), wholeText(c.Tool), wholeText(c.Key)
		c.Args.Text, c.Extra.Text = wholeJSON(c.Args.Text), wholeJSON(c.Extra.Text)
		if len(c.Secrets) == 0 {
			c.Secrets = nil
		}
	}
	return s
}

func wholeAll(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = wholeText(s)
	}
	return out
}
