package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools/remote"
	"github.com/sluice-run/sluice/tools/remote/wire"
)

// TestRemoteTiersAreRead: what the operator says of tiers is taken as it stands, or refused.
func TestRemoteTiersAreRead(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) string {
		path := filepath.Join(dir, "tiers.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var good remoteSettings
	for text, want := range map[string]events.Tier{"saw: readonly\n": events.Readonly, `"*": declared`: events.Reversible, "plane: readonly\n": events.Irreversible} {
		s := good
		s.tiers = write(text)
		trust, err := s.trust()
		if tier, _ := trust.Of("saw", events.Readonly); err != nil || want == events.Readonly && tier != want {
			t.Errorf("%q: %s, %v", text, tier, err)
		}
		if tier, _ := trust.Of("saw", events.Reversible); tier != map[events.Tier]events.Tier{events.Readonly: events.Reversible}[want] && tier != want {
			t.Errorf("%q: %s of a reversible one", text, tier)
		}
	}
	for _, text := range []string{"", "saw: harmless\n", "- saw\n", "saw: [readonly]\n", "\t"} {
		s := good
		s.tiers = write(text)
		if _, err := s.trust(); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	s := good
	s.tiers = filepath.Join(dir, "Declared")
	if _, err := s.trust(); err == nil || !strings.Contains(exit.Hint(err), "the word declared") {
		t.Errorf("no file: %v (%s)", err, exit.Hint(err))
	}
	s.tiers = "declared"
	if trust, err := s.trust(); err != nil || !trust.Declared {
		t.Errorf("%+v, %v", trust, err)
	}
}

// TestDefinitionsAreKept: what is written is read, and what is broken is as if it were not there.
func TestDefinitionsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), remoteFile)
	var said strings.Builder
	log := slog.New(slog.NewTextHandler(&said, nil))
	if list := knownTools(path, log); list != nil || said.Len() > 0 {
		t.Errorf("%v, %s", list, &said)
	}
	want := []remote.Known{{Tool: "saw", Definition: wire.Definition{Schema: []byte(`{"type":"object"}`), Tier: events.Readonly}}}
	if err := keepTools(path, want); err != nil {
		t.Fatal(err)
	}
	if list := knownTools(path, log); len(list) != 1 || list[0].Tool != "saw" || list[0].Definition.Digest() != want[0].Definition.Digest() {
		t.Errorf("%+v", list)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.WriteFile(path, []byte(`[{"tool":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if list := knownTools(path, log); len(list) != 0 || !strings.Contains(said.String(), "cannot be read") {
		t.Errorf("%v, %s", list, &said)
	}
}

// TestWorkersHaveUsers: the role and the tools go together, and are given alone.
func TestWorkersHaveUsers(t *testing.T) {
	const hash = "    password: $2a$04$abcdefghijklmnopqrstuuQ9x3nM0uF3pHqTqk0eT8m3xv6v1Yc8W\n"
	for text, fault := range map[string]string{
		"  - name: w\n    kind: service\n    roles: [worker]\n    tools: [saw, plane_2]\n":  "",
		"  - name: w\n    roles: [worker]\n    tools: [saw]\n":                              "",
		"  - name: w\n    roles: [worker]\n":                                                "go together",
		"  - name: w\n    roles: [submitter]\n    tools: [saw]\n":                           "go together",
		"  - name: w\n    kind: service\n    roles: [worker, observer]\n    tools: [saw]\n": "does nothing else",
		"  - name: w\n    kind: service\n    roles: [worker]\n    tools: [\"saw.>\"]\n":     "can be called",
		"  - name: w\n    kind: service\n    roles: [worker]\n    tools: [files__read]\n":   "can be called",
	} {
		f, err := parseNATSUsers([]byte("users:\n" + text + hash))
		if err == nil {
			err = f.check()
		}
		if fault == "" && err != nil || fault != "" && (err == nil || !strings.Contains(err.Error(), fault)) {
			t.Errorf("%s: %v, want %q", text, err, fault)
		}
	}
}
