package fs

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/tooltest"
)

// expecting gives a tool's attempts and probes the expectation that the gate
// would have injected: the file as it was before the first attempt.
func expecting(t tools.Tool) tools.Tool {
	var mu sync.Mutex
	was := map[events.CallKey]events.Expectation{}
	inject := func(ctx context.Context, in tools.Invocation) tools.Invocation {
		mu.Lock()
		defer mu.Unlock()
		e, ok := was[in.Call]
		if !ok {
			seen, err := Look(ctx, in.Workspace, pathOf(in.Args, ""))
			if err != nil {
				return in // the tool itself says what is wrong
			}
			e = expectationOf(seen)
			was[in.Call] = e
		}
		in.Expect = []events.Expectation{e}
		return in
	}
	run, probe := t.Run, t.Probe
	t.Run = func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		return run(ctx, inject(ctx, in))
	}
	t.Probe = func(ctx context.Context, in tools.Invocation) (tools.Finding, error) {
		return probe(ctx, inject(ctx, in))
	}
	return t
}

func TestEveryToolPassesTheSuite(t *testing.T) {
	files := map[string]string{"a.go": "package a\n\nfunc f() {\n\tg()\n}\n", "crlf": "\ufeffa\r\nb\r\n", "bin": "\xff\x00", ".gitignore": "skip\n", "skip": "x"}
	example := func(args m, fails events.Code) tooltest.Example {
		raw, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		return tooltest.Example{Args: string(raw), Files: files, Fails: fails}
	}
	examples := map[string][]tooltest.Example{
		ReadName: {
			example(m{"path": "a.go"}, ""), example(m{"path": "a.go", "offset": 2, "limit": 1}, ""), example(m{"path": "bin"}, events.BinaryFile),
			example(m{"path": "../x"}, events.AccessDenied), example(m{"path": "none"}, events.NotFound), example(m{"path": "."}, events.IsDirectory),
		},
		GrepName: {
			example(m{"pattern": "func"}, ""), example(m{"pattern": "g", "output_mode": "content", "context": 2}, ""),
			example(m{"pattern": "("}, events.InvalidParam),
		},
		GlobName: {example(m{"pattern": "**"}, ""), example(m{"pattern": "../*"}, events.InvalidParam)},
		EditName: {
			example(m{"path": "a.go", "old_string": "g()", "new_string": "h()"}, ""), example(m{"path": "crlf", "old_string": "a\nb", "new_string": ""}, ""),
			example(m{"path": "d/new", "old_string": "", "new_string": "x\n"}, ""), example(m{"path": "a.go", "old_string": "zzz", "new_string": "y"}, events.InvalidParam),
			example(m{"path": "bin", "old_string": "\u001b]52\u202e", "new_string": "y\r"}, events.BinaryFile),
		},
		WriteName: {
			example(m{"path": "d/e/new", "text": "x\u001b\n"}, ""), example(m{"path": "a.go", "text": ""}, ""), example(m{"path": "bin", "text": "x"}, ""),
			example(m{"path": "../x", "text": ""}, events.AccessDenied),
		},
	}
	list, err := Tools()
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list {
		if tool.Name == EditName {
			tool = expecting(tool)
		}
		t.Run(tool.Name, func(t *testing.T) { tooltest.Run(t, tool, examples[tool.Name]...) })
	}
}
