package policyfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/policy/cedar"
)

func write(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const permit = "permit (principal, action, resource);"

func ids(s *cedar.Set) (out []string) {
	for _, p := range s.Policies() {
		out = append(out, p.ID)
	}
	return out
}

func TestFileAndDirectory(t *testing.T) {
	dir := write(t, t.TempDir(), map[string]string{
		"b.cedar": "@id(\"b\") " + permit, "a.cedar": "@id(\"a\") " + permit, "c.txt": "no policy", ".hidden.cedar": "no policy", "a.cedar~": "no policy",
		"below/d.cedar": "no policy", "tests/x.test.yaml": "cases: []",
	})
	all, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := ids(all); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%v", got)
	}
	one, err := Load(filepath.Join(dir, "b.cedar"))
	if err != nil {
		t.Fatal(err)
	}
	if got := ids(one); !slices.Equal(got, []string{"b"}) || one.Find("b")[0].File != "b.cedar" {
		t.Errorf("%v", got)
	}
	moved := write(t, t.TempDir(), map[string]string{"b.cedar": "@id(\"b\") " + permit, "a.cedar": "@id(\"a\") " + permit})
	again, err := Load(moved)
	if err != nil || again.Version() != all.Version() {
		t.Errorf("the same policy elsewhere: %v, %v", again, err)
	}
	if err := os.Symlink(dir, filepath.Join(moved, "link")); err != nil {
		t.Fatal(err)
	}
	if linked, err := Load(filepath.Join(moved, "link")); err != nil || linked.Version() != all.Version() {
		t.Errorf("through a link: %v, %v", linked, err)
	}
}

func TestRefused(t *testing.T) {
	dir := write(t, t.TempDir(), map[string]string{
		"empty/x.txt": "", "none/a.cedar": "", "bad/a.cedar": "@aks(\"x\") " + permit, "big.cedar": permit + strings.Repeat(" ", cedar.MaxFile),
		"undo.cedar": "@id(\"undo.named\") " + permit,
	})
	many, total, crowd := map[string]string{}, map[string]string{}, map[string]string{}
	for i := range cedar.MaxFiles + 1 {
		many[fmt.Sprintf("many/%03d.cedar", i)] = permit
	}
	for i := range 3 {
		total[fmt.Sprintf("total/%d.cedar", i)] = permit + strings.Repeat(" ", cedar.MaxFile-len(permit))
	}
	for i := range maxEntries + 1 {
		crowd[fmt.Sprintf("crowd/%d", i)] = ""
	}
	for _, files := range []map[string]string{many, total, crowd} {
		write(t, dir, files)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.cedar"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "folder", "x.cedar"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"nothing.cedar": "no such file",
		"empty":         "the directory has no file *.cedar",
		"none":          "there is no policy: everything would be denied",
		"bad":           "a.cedar:1:2: there is no annotation @aks",
		"undo.cedar":    "the id undo.named is one of the program's own",
		"big.cedar":     "it has more than 262144 bytes",
		"many":          "the directory has 129 files *.cedar, at most 128",
		"total":         "more than 524288 bytes in all",
		"crowd":         "more than 4096 entries",
		"pipe.cedar":    "it is no regular file",
		"folder":        "it is no regular file",
	} {
		a, err := Open(filepath.Join(dir, path))
		f, ok := errors.AsType[*exit.Failure](err)
		if !ok || !strings.Contains(err.Error(), want) || f.Code != exit.Usage || f.Hint == "" {
			t.Errorf("%s: %v, %v, want %q", path, a, err, want)
		}
	}
}

// Without a path it is the policy of a node that was given none; and no policy overrules
// what the program says of undoing.
func TestRulesOfTheProgram(t *testing.T) {
	dir := write(t, t.TempDir(), map[string]string{"all.cedar": permit})
	for _, path := range []string{"", dir} {
		a, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		r := policy.Request{
			Tool: lifecycle.UndoTool, Known: true, Tier: events.Irreversible, Mode: events.ModeWrite, CanAsk: true,
			Args: json.RawMessage(`{"call":"t/u/0"}`), Op: events.Operation{Class: events.OpExecute},
		}
		if v := policy.Judge(a, r); v.Decision != policy.Deny || !slices.Equal(v.Policies, []string{"undo.named"}) {
			t.Errorf("%q: %+v", path, v)
		}
		r.Principal, r.Allowlists = events.Principal{ID: "ann", Kind: "person"}, [][]string{{lifecycle.UndoTool}}
		if v := policy.Judge(a, r); v.Decision != policy.Allow {
			t.Errorf("%q: %+v", path, v)
		}
	}
}
