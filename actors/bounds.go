package actors

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// Bounds in bytes of what the gates write into events. A model's arguments may be
// a mebibyte, and whatever it says, each event must fit a commit.
const (
	maxReason  = 4 << 10  // a sentence for the model
	maxPointer = 512      // a JSON Pointer
	maxName    = 512      // a key, a resource, a path, a host or a command
	maxNames   = 256      // of each of those in one verdict
	maxAsks    = 64 << 10 // what a person reads before saying yes
)

// cutTo is a text of at most n bytes that says what it lacks.
func cutTo(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const mark = "… [%d bytes more]"
	end := n - len(mark) - 8 // the number's digits
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + fmt.Sprintf(mark, len(s)-end)
}

// nameOf is a name itself, or, where it is long, its beginning and its digest:
// names that differ stay different.
func nameOf(s string) string {
	if len(s) <= maxName {
		return s
	}
	return strings.ToValidUTF8(s[:maxName/2], "") + "…" + lifecycle.Digest([]byte(s))
}

// pointerOf is a JSON Pointer itself, or, where it is long, that of what is around.
func pointerOf(p string) string {
	for len(p) > maxPointer {
		p = p[:max(strings.LastIndexByte(p, '/'), 0)]
	}
	return p
}

// bounded is a finding whose words fit an event.
func bounded(f lifecycle.Finding) lifecycle.Finding {
	f.Reason, f.Path = cutTo(f.Reason, maxReason), pointerOf(f.Path)
	return f
}

// bound has a verdict fit an event. The gates have judged the whole: what is left
// out here is only not told.
func bound(v *events.Verdict) {
	for _, list := range []*[]string{&v.Operation.Paths, &v.Operation.Hosts, &v.Operation.Commands} {
		if slices.ContainsFunc(*list, func(s string) bool { return len(s) > maxName }) {
			*list = slices.Clone(*list)
			for i, s := range *list {
				(*list)[i] = cutTo(s, maxName)
			}
		}
		if more := len(*list) - maxNames; more > 0 {
			*list = append(slices.Clone((*list)[:maxNames]), fmt.Sprintf("… and %d more", more))
		}
	}
	if slices.ContainsFunc(v.Resources, func(r events.ResourceUse) bool { return len(r.Name) > maxName }) {
		v.Resources = slices.Clone(v.Resources)
		for i := range v.Resources {
			v.Resources[i].Name = nameOf(v.Resources[i].Name)
		}
	}
}

// askable denies a call that a person would have to agree to and could not read:
// nobody says yes to what is not shown whole. It returns the findings up to that.
func askable(findings []lifecycle.Finding, v events.Verdict, asks string) []lifecycle.Finding {
	at := slices.IndexFunc(findings, func(f lifecycle.Finding) bool { return f.Gate == lifecycle.GateAuthorize })
	if len(asks) <= maxAsks || at < 0 || findings[at].Ruling != lifecycle.Ask && v.Tier != events.Approval {
		return findings
	}
	out := slices.Clone(findings[:at+1])
	out[at].Ruling, out[at].Code = lifecycle.Deny, events.TooLarge
	out[at].Reason = fmt.Sprintf("this needs a person's approval, and %d bytes are more than a person can be shown (%d): ask for less at once", len(asks), maxAsks)
	return out
}
