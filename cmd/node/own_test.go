package main

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/spf13/pflag"
)

// TestWhatSettingsNameIsTheNodesOwn: every file that a setting names, or whoever may write
// into its folder chooses the node's settings at its next start.
func TestWhatSettingsNameIsTheNodesOwn(t *testing.T) {
	t.Parallel()
	s := newSettings()
	if s.CA = "/etc/ssl/certs/ca-certificates.crt"; slices.Contains(s.ownFiles(), s.CA) {
		t.Error("commands do not see whom the machine trusts")
	}
	others := []string{"workspace", "ledger"} // turns run in it; the fixtures' tools write it
	allSettings().VisitAll(func(flag *pflag.Flag) {
		if what, _ := pflag.UnquoteUsage(flag); what != "file" && what != "directory" || slices.Contains(others, flag.Name) {
			return
		}
		s, f := newSettings(), pflag.NewFlagSet("test", pflag.ContinueOnError)
		s.storeFlags(f)
		s.nodeFlags(f)
		s.doorFlags(f)
		path := filepath.Join(t.TempDir(), "of-the-node")
		if err := f.Parse([]string{"--" + flag.Name, path}); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(s.ownFiles(), path) {
			t.Errorf("what --%s names is open to tools", flag.Name)
		}
	})
}
