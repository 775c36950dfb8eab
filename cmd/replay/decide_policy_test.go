package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/policyfile"
	"github.com/sluice-run/sluice/cmd/internal/session"
)

// decide asks the policy of the node that runs, as explain does, unless it is told which;
// and says so where the node has not read yet what lies there.
func TestTheNodesPolicyDecides(t *testing.T) {
	house := filepath.Join(t.TempDir(), "house.cedar")
	if err := os.WriteFile(house, []byte("@id(\"all\") permit (principal, action, resource);"), 0o600); err != nil {
		t.Fatal(err)
	}
	version := func(path string) string {
		t.Helper()
		s, err := policyfile.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		return s.Version()
	}
	for _, c := range []struct {
		name, asked string
		told        map[string]string // nil: no node runs
		want        string            // version; "" the recorded verdicts
		note        bool
	}{
		{"no node", "", nil, version(""), false},
		{"a node without one", "", map[string]string{"workspace": "/w"}, version(""), false},
		{"the node's", "", map[string]string{"policy": house, "policy_version": version(house)}, version(house), false},
		{"the node's, changed since", "", map[string]string{"policy": house, "policy_version": "cedar-0"}, version(house), true},
		{"the default", policyDefault, map[string]string{"policy": house, "policy_version": "cedar-0"}, version(""), false},
		{"the recorded word", policyRecorded, map[string]string{"policy": house, "policy_version": "cedar-0"}, "", false},
		{"another", house, map[string]string{"policy": "/nowhere", "policy_version": "cedar-0"}, version(house), false},
	} {
		var errs bytes.Buffer
		a := &app{err: &errs}
		r := &reading{}
		if c.told != nil {
			r.session = &session.Session{Found: &jetlog.Running{More: c.told}}
		}
		conf, err := a.decidingBy(t.Context(), &deciding{policy: c.asked}, r)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got := ""
		if conf.Policy != nil {
			got = conf.Policy.Version()
		}
		if got != c.want || c.note != strings.Contains(errs.String(), "sluice-node policy reload") {
			t.Errorf("%s: %s, want %s; %s", c.name, got, c.want, errs.String())
		}
	}
}
