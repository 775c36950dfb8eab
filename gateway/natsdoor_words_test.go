package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/bus"
)

// TestNATSDoorSpeaksOfItself: what it tells somebody to do next can be done at this door.
func TestNATSDoorSpeaksOfItself(t *testing.T) {
	d := NewNATSDoor(NATSDoorConfig{})
	seen := make(map[string]bool)
	for _, v := range verdicts {
		var p Problem
		must(t, json.Unmarshal(d.refuse(bus.Knock{User: "ann", Verb: "approve"}, fmt.Errorf("of a test: %w", v.is)).Body, &p))
		for _, foreign := range []string{"GET ", "POST ", "/v1/", "--http"} {
			if strings.Contains(p.Next, foreign) {
				t.Errorf("%s: %q is HTTP's", v.word, p.Next)
			}
		}
		if p.Next == "" || p.Status != v.status {
			t.Errorf("%s: %+v", v.word, p)
		}
		seen[v.word] = true
	}
	for word := range natsNext {
		if !seen[word] {
			t.Errorf("%s: there is no such problem", word)
		}
	}
}

// TestServiceVersions: who looks for services takes semantic versions only, and hears which
// build it is all the same.
func TestServiceVersions(t *testing.T) {
	for v, want := range map[string]string{
		"v1.2.3": "1.2.3", "1.2.3-rc.1+x": "1.2.3-rc.1+x", "v0.0.0-20261130132221-de0ebacc0324": "0.0.0-20261130132221-de0ebacc0324",
		"": "0.0.0", "de0ebac": "0.0.0+de0ebac", "(devel) de0ebacc0324": "0.0.0+devel.de0ebacc0324", "v1.2": "0.0.0+v1.2",
		"01.2.3": "0.0.0+01.2.3", "1.2.3-a..b": "0.0.0+1.2.3-a.b", "1.2.3\nx": "0.0.0+1.2.3.x", "ö": "0.0.0", "v1.2.3+a b": "0.0.0+v1.2.3.a.b",
	} {
		got := semantic(v)
		if got != want || !release.MatchString(got) {
			t.Errorf("%q: %q, want %q", v, got, want)
		}
	}
}
