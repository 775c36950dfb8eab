package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/cmd/internal/exit"
)

// withFlags is what a command makes of flags.
func withFlags(t *testing.T, args ...string) *settings {
	t.Helper()
	s, f := newSettings(), pflag.NewFlagSet("test", pflag.ContinueOnError)
	s.storeFlags(f)
	s.nodeFlags(f)
	s.doorFlags(f)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err := s.complete(f); err != nil {
		t.Fatal(err)
	}
	s.patience = time.Millisecond
	return s
}

// TestNobodyStandsInForANode that was started in its own right with other settings, unless
// told to: its turns would be run by another policy, or elsewhere.
func TestNobodyStandsInForANode(t *testing.T) {
	dir := t.TempDir()
	data, policy := filepath.Join(dir, "data"), filepath.Join(dir, "p.cedar")
	writeFile(t, policy, "permit (principal, action, resource);")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	served := []string{"--data", data, "--workspace", dir, "--policy", policy, "--http", "none", "--drain", "1s", "--log-level", "debug"}
	if unlike, err := withFlags(t, "--data", data).standsIn(); err != nil || len(unlike) != 0 {
		t.Errorf("no node was there before: %v, %v", unlike, err)
	}
	if err := withFlags(t, served...).keepWays(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		unlike string
	}{
		{served[:6], ""}, // what it logs, how it listens and drains is its own
		{served[:4], "policy"},
		{[]string{"--data", data, "--policy", policy}, "workspace"},
		{append(slices.Clone(served), "--fixtures", "--sandbox", "off", "--placements", "a,b"), "fixtures placements sandbox"},
	} {
		s := withFlags(t, c.args...)
		unlike, err := s.standsIn()
		if got := strings.Join(unlike, " "); err != nil || got != c.unlike {
			t.Errorf("%q: it differs in %q, %v", c.args, got, err)
		}
		var said bytes.Buffer
		a := &app{set: s, out: &sink{w: &said}, err: &said}
		log, err := s.quiet(&said)
		if err != nil {
			t.Fatal(err)
		}
		for _, here := range []bool{false, true} {
			ses, err := a.openToRun(t.Context(), here, false, log)
			if err == nil {
				err = ses.Close()
			}
			if refused := c.unlike != "" && !here; refused != (err != nil) || refused && (exitCode(err) != exit.Unavailable || !strings.Contains(err.Error(), strings.ReplaceAll(c.unlike, " ", ", "))) {
				t.Errorf("%q, here %t: %v", c.args, here, err)
			}
		}
	}
	writeFile(t, filepath.Join(data, keptFile), "{")
	if _, err := withFlags(t, served...).standsIn(); err == nil || exitCode(err) != exit.Unavailable {
		t.Errorf("a file that cannot be read: %v", err)
	}
}
