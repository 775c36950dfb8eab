package codec

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// asked is a call as far as its id goes.
type asked struct {
	id   string // the provider's, or call_<offset> where it gave none
	own  bool   // the provider's, and short enough to be shown
	none bool   // the provider gave none
}

// askedAs are calls with those ids, at those offsets. Long ones are shortened where all of them
// together would leave the answers too little room: then each that is longer than usual.
func askedAs(ids []string, offset func(i int) int) []asked {
	all := 0
	for _, id := range ids {
		all += len(marshal(id))
	}
	most, out := lifecycle.ShownID(all), make([]asked, len(ids))
	for i, id := range ids {
		switch {
		case id == "":
			out[i] = asked{id: "call_" + strconv.Itoa(offset(i)), none: true}
		case len(marshal(id)) > most:
			out[i] = asked{id: prefix(id, 32) + "-" + shortHash(id)}
		default:
			out[i] = asked{id: id, own: true}
		}
	}
	return out
}

func askedFor(calls []events.RawCall) []asked {
	ids := make([]string, len(calls))
	for i, c := range calls {
		ids[i] = c.ProviderID
	}
	return askedAs(ids, func(i int) int { return i })
}

// askedIn are the calls that answers are to. Those that a log holds of one turn are all there.
func askedIn(answers []events.Answer) []asked {
	ids := make([]string, len(answers))
	for i, a := range answers {
		ids[i] = a.ProviderID
	}
	return askedAs(ids, func(i int) int { return answers[i].Call })
}

// unique gives each call an id of its own that is not in seen either: its id as it
// is where that is free, the provider's own first; else with -2, -3 … behind it, cut so
// that it has at most most bytes (0: as many as it takes).
func unique(calls []asked, seen []string, most int) []string {
	taken := make(map[string]bool, len(seen)+len(calls))
	for _, id := range seen {
		taken[id] = true
	}
	out := make([]string, len(calls))
	for i, c := range calls {
		if c.own && !taken[c.id] {
			out[i], taken[c.id] = c.id, true
		}
	}
	next := make(map[string]int) // so that 256 equal ids do not take 256² looks
	for i, c := range calls {
		if out[i] != "" {
			continue
		}
		id, n := c.id, max(next[c.id], 1)
		for taken[id] {
			n++
			id = suffixed(c.id, n, most)
		}
		out[i], taken[id], next[c.id] = id, true, n
	}
	return out
}

func suffixed(id string, n, most int) string {
	suffix := "-" + strconv.Itoa(n)
	if most > 0 {
		id = prefix(id, most-len(suffix))
	}
	return id + suffix
}

// plain is s with everything but A-Z a-z 0-9 _ - replaced by _.
func plain(s string) string {
	b := []byte(s)
	for i, c := range b {
		if !plainByte(c) {
			b[i] = '_'
		}
	}
	return string(b)
}

func plainByte(c byte) bool {
	return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// maxName is the length in bytes of the longest name that providers accept.
const maxName = 64

// functionName is a tool's name as providers accept it in a model's message.
func functionName(s string) string {
	p := plain(s)
	switch {
	case p == "":
		return "_"
	case len(p) > maxName:
		return p[:maxName-9] + "-" + shortHash(s)
	}
	return p
}

// shownName is a tool's name beside its answer, or "" where a provider could not take it.
func shownName(s string) string {
	if len(s) > lifecycle.MaxShownName {
		return ""
	}
	for i := range len(s) {
		if c := s[i]; !plainByte(c) && c != ':' && c != '.' {
			return ""
		}
	}
	return s
}

func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:4])
}

// fit bounds the answers.
func fit(answers []events.Answer, o Options) []events.Answer {
	out, _ := lifecycle.FitTurn(answers, o.CallBytes, o.TurnBytes)
	return out
}
