// Package openapi holds the published OpenAPI document to programs that others have
// written: a linter, and a compiler of types.
package openapi

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/test/npm"
)

// patience bounds each program.
const patience = 3 * time.Minute

// run runs a program of an npm package on a copy of the document.
func run(t *testing.T, dir, script string, args ...string) (string, error) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	cmd := exec.CommandContext(ctx, npm.Node(t), append([]string{filepath.Join(dir, "node_modules", script)}, args...)...)
	cmd.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true", "CI=true")
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func document(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../schemas/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLint: a linter finds nothing wrong, and finds what is.
func TestLint(t *testing.T) {
	dir := npm.Install(t, "@redocly/cli@2.77.0")
	lint := func(path string) (string, error) {
		// What only the events of a stream refer to, it thinks unused.
		return run(t, dir, "@redocly/cli/bin/cli.js", "lint", path, "--extends=recommended", "--skip-rule=no-unused-components")
	}
	if out, err := lint(document(t)); err != nil || !strings.Contains(out, "is valid") {
		t.Errorf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(document(t))
	if err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(t.TempDir(), "openapi.json")
	if err := os.WriteFile(bad, []byte(strings.Replace(string(text), "#/components/schemas/Turn\"", "#/components/schemas/Nothing\"", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := lint(bad); err == nil {
		t.Errorf("a reference that leads nowhere is valid:\n%s", out)
	}
}

const program = `import type { paths, components } from "./api";
type Submit = paths["/v1/turns"]["post"];
const body: Submit["requestBody"]["content"]["application/json"] = { trace: "t", calls: [{ tool: "echo" }], wait_ms: WAIT };
const done: Submit["responses"][200]["content"]["application/json"] = { trace: "t", turn: "u", state: "completed", attached: false };
const states = (t: components["schemas"]["Turn"]): string[] => t.calls.map((c) => c.state);
const next = (p: Submit["responses"][409]["content"]["application/problem+json"]): string | undefined => p.next;
export { body, done, states, next };
`

// TestTypes: the document becomes types by which TypeScript tells right programs from wrong.
func TestTypes(t *testing.T) {
	dir := npm.Install(t, "openapi-typescript@7.13.0", "typescript@5.9.3")
	work := t.TempDir()
	if out, err := run(t, dir, "openapi-typescript/bin/cli.js", document(t), "-o", filepath.Join(work, "api.d.ts")); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for wait, fits := range map[string]bool{"1000": true, `"soon"`: false} {
		path := filepath.Join(work, "use.ts")
		if err := os.WriteFile(path, []byte(strings.Replace(program, "WAIT", wait, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := run(t, dir, "typescript/bin/tsc", "--noEmit", "--strict", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler", path)
		if (err == nil) != fits {
			t.Errorf("wait_ms: %s: %v\n%s", wait, err, out)
		}
	}
}
