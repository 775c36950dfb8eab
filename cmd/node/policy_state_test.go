package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
)

func writePolicy(t *testing.T, path, text string) {
	t.Helper()
	tmp := path + ".new"
	if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, path); err != nil {
		t.Fatal(err)
	}
}

const (
	permitAll = "@id(\"yes\") permit (principal, action, resource);\n"
	forbidAll = "@id(\"no\") forbid (principal, action, resource);\n"
)

// While a policy is exchanged, every verdict is of one version, and what that one says.
// One that does not load changes nothing, and is told with who asked for it.
func TestReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.cedar")
	writePolicy(t, path, permitAll)
	j, err := newJudge(path)
	if err != nil {
		t.Fatal(err)
	}
	if st := j.state(); st.By != thisUser("start") || st.Policies != 1 || st.Source != path || st.Loaded.IsZero() || st.Failed != nil || len(st.Files) != 1 {
		t.Errorf("%+v", st)
	}
	says := map[string]policy.Decision{j.Version(): policy.Allow}
	writePolicy(t, path, forbidAll)
	ann := actor{ID: "ann", Kind: "person", Via: "http"}
	version, err := j.reload(ann)
	if err != nil || version == "" || says[version] != "" {
		t.Fatal(version, err)
	}
	says[version] = policy.Deny

	ctx, stop := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			r := policy.Request{Tool: "Read", Known: true, Mode: events.ModeWrite, Op: events.Operation{Class: events.OpRead}}
			for ctx.Err() == nil {
				if v := j.Authorize(r); says[v.Version] != v.Decision {
					t.Errorf("%+v", v)
					return
				}
			}
		})
	}
	for i := range 60 {
		text := []string{permitAll, forbidAll, "@id(\"yes\") permit (principal, action", ""}[i%4]
		writePolicy(t, path, text)
		before := j.state()
		_, err := j.reload(ann)
		after := j.state()
		switch {
		case (err != nil) != (i%4 > 1):
			t.Errorf("%q: %v", text, err)
		case err == nil && (after.Failed != nil || after.By != ann || !after.Loaded.After(before.Loaded)):
			t.Errorf("%+v", after)
		case err != nil && (after.Version != before.Version || after.Loaded != before.Loaded || after.Failed == nil || after.Failed.By != ann || !strings.Contains(after.Failed.Error, "p.cedar")):
			t.Errorf("%+v", after)
		}
	}
	stop()
	asking.Wait()
	more := map[string]string{}
	if err := j.tell(more); err != nil || more["policy_reloads"] != "61" || more["policy_error"] == "" {
		t.Errorf("%v, %v", more, err)
	}
	var told policyState
	if err := json.Unmarshal(stateJSON(j), &told); err != nil || told.Version != j.Version() || !strings.HasPrefix(told.Digest, "sha256:"+strings.TrimPrefix(told.Version, "cedar-")) {
		t.Errorf("%+v, %v", told, err)
	}
}

// Who asks by the command is whose word lies in the data directory, if it is fresh; a
// bare signal names nobody.
func TestWhoAsksForAReload(t *testing.T) {
	s := newSettings()
	s.Data = t.TempDir()
	at := filepath.Join(s.Data, askedFile)
	nobody := actor{ID: "unknown", Via: "signal"}
	if got := s.sender(time.Now()); got != nobody {
		t.Errorf("%+v", got)
	}
	for range 2 { // a second word takes the place of one that nobody heard
		if err := s.sign(); err != nil {
			t.Fatal(err)
		}
	}
	got := s.sender(time.Now())
	if got.Via != "command" || !strings.Contains(got.ID, "uid "+strconv.Itoa(os.Getuid())) {
		t.Errorf("%+v", got)
	}
	if got := s.sender(time.Now()); got != nobody {
		t.Errorf("the same word twice: %+v", got)
	}
	if err := s.sign(); err != nil {
		t.Fatal(err)
	}
	if got := s.sender(time.Now().Add(2 * askedFresh)); got != nobody {
		t.Errorf("an old word: %+v", got)
	}
	if err := os.Symlink("/etc/passwd", at); err != nil {
		t.Fatal(err)
	}
	if got := s.sender(time.Now()); got != nobody {
		t.Errorf("a link: %+v", got)
	}
	s.NATS = "nats://127.0.0.1:1"
	if got := s.sender(time.Now()); got != nobody {
		t.Errorf("%+v", got)
	}
}

// A door names who it has let in, whatever its name holds.
func TestADoorsReloadNamesWho(t *testing.T) {
	s := &serving{set: newSettings()}
	if _, err := s.ReloadPolicy(events.Principal{ID: "ann"}); err == nil || !strings.Contains(err.Error(), "no --policy") {
		t.Errorf("%v", err)
	}
	if got := (actor{ID: "a\x1b[2Jb", Via: "http"}).String(); strings.ContainsAny(got, "\x1b\n") {
		t.Errorf("%q", got)
	}
}
