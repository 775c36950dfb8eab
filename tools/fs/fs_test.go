package fs

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/test/leaks"
	"github.com/sluice-run/sluice/tools"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// bench is a workspace and the tools that work on it.
type bench struct {
	t   testing.TB
	dir string
	reg *tools.Registry
}

func newBench(t testing.TB, files map[string]string) *bench {
	t.Helper()
	list, err := Tools()
	if err != nil {
		t.Fatal(err)
	}
	reg, err := tools.NewRegistry(list...)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, dir: t.TempDir(), reg: reg}
	for name, content := range files {
		b.put(name, content)
	}
	return b
}

func (b *bench) put(name, content string) {
	b.t.Helper()
	p := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) get(name string) string {
	b.t.Helper()
	content, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(content)
}

func (b *bench) link(target, name string) {
	b.t.Helper()
	if err := os.Symlink(target, filepath.Join(b.dir, name)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) invocation(tool string, args any) tools.Invocation {
	b.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		b.t.Fatal(err)
	}
	return tools.Invocation{Tool: tool, Args: raw, Workspace: b.dir, Progress: func(events.Progress) {}}
}

// try runs a call whose arguments pass the schema, as every call's do.
func (b *bench) try(tool string, args any, expect ...events.Expectation) (events.Result, error) {
	b.t.Helper()
	t, ok := b.reg.Lookup(tool)
	if !ok {
		b.t.Fatalf("no tool %s", tool)
	}
	in := b.invocation(tool, args)
	in.Expect = expect
	if vs := tools.Validate(t, in.Args); vs != nil {
		b.t.Fatalf("%s %s: %v", tool, in.Args, vs)
	}
	return t.Run(b.t.Context(), in)
}

func (b *bench) ok(tool string, args any, expect ...events.Expectation) events.Result {
	b.t.Helper()
	r, err := b.try(tool, args, expect...)
	if err != nil {
		b.t.Fatalf("%s %v: %v", tool, args, err)
	}
	return r
}

// fails wants a failure with that code, whose message says all of the words,
// and which has changed nothing.
func (b *bench) fails(code events.Code, words []string, tool string, args any, expect ...events.Expectation) *tools.Error {
	b.t.Helper()
	r, err := b.try(tool, args, expect...)
	e, ok := errors.AsType[*tools.Error](err)
	if !ok {
		b.t.Fatalf("%s %v: got %q, %v; want %s", tool, args, r.Text.Text, err, code)
	}
	if e.Code != code || e.Effects != events.EffectsNone {
		b.t.Errorf("%s %v: got %s with effects %q, want %s with none", tool, args, e, e.Effects, code)
	}
	for _, w := range words {
		if !strings.Contains(e.Message, w) {
			b.t.Errorf("%s %v: %q does not say %q", tool, args, e.Message, w)
		}
	}
	return e
}

type m = map[string]any

func expectationOf(s events.Seen) events.Expectation {
	return events.Expectation(s)
}

// leftovers are temporary files that somebody forgot.
func (b *bench) leftovers() []string {
	b.t.Helper()
	var out []string
	err := filepath.WalkDir(b.dir, func(p string, _ os.DirEntry, err error) error {
		if leftover(filepath.Base(p)) {
			out = append(out, p)
		}
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

func TestSpecsSayWhatTheToolsDo(t *testing.T) {
	b := newBench(t, nil)
	for _, tool := range b.reg.List() {
		var schema struct {
			Properties map[string]struct{ Type, Description string }
			Required   []string
			Additional *bool `json:"additionalProperties"`
		}
		if err := json.Unmarshal(tool.Schema, &schema); err != nil {
			t.Fatal(err)
		}
		if schema.Additional == nil || *schema.Additional || len(schema.Required) == 0 {
			t.Errorf("%s: the schema is not strict: %s", tool.Name, tool.Schema)
		}
		for name, p := range schema.Properties {
			if p.Type == "" || p.Description == "" {
				t.Errorf("%s: %s has no type or no description", tool.Name, name)
			}
		}
		args := json.RawMessage(`{"path":"./src//x/../a.go"}`)
		op := tool.Operation(args)
		changes := tool.Name == EditName || tool.Name == WriteName
		wantClass, wantTier := events.OpRead, events.Readonly
		if changes {
			wantClass, wantTier = events.OpWrite, events.Reversible
		}
		if op.Class != wantClass || len(op.Paths) != 1 || tool.Tier != wantTier || tool.HonoursKey {
			t.Errorf("%s: %+v, %s", tool.Name, op, tool.Tier)
		}
		if !changes {
			if tool.Resources != nil || tool.Writes != nil {
				t.Errorf("%s locks", tool.Name)
			}
			continue
		}
		if got := tool.Resources(args); len(got) != 1 || got[0] != (events.ResourceUse{Name: "file:src/a.go", Exclusive: true}) {
			t.Errorf("%s locks %v", tool.Name, got)
		}
		if tool.Compensate == nil || tool.Probe == nil || len(tool.Writes) != 1 {
			t.Errorf("%s has no undo, no probe or no expectation", tool.Name)
		}
	}
}
