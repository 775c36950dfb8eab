package fs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/events"
)

func TestGlob(t *testing.T) {
	b := project(t)
	b.link("run.go", "link.go")
	b.link("web", "weblink")
	for name, c := range map[string]struct {
		args m
		want string
	}{
		"here":      {m{"pattern": "*.go"}, "link.go\nmain.go\nrun.go\nrun_test.go"},
		"all":       {m{"pattern": "**/*.go"}, ".hidden/run.go\nlink.go\nmain.go\nrun.go\nrun_test.go"},
		"sub":       {m{"pattern": "*.js", "path": "web"}, "web/app.js"},
		"base":      {m{"pattern": "web/*"}, "web/app.js"},
		"dot":       {m{"pattern": "./web/**"}, "web/app.js"},
		"braces":    {m{"pattern": "{main,run}.go"}, "main.go\nrun.go"},
		"no ignore": {m{"pattern": "**/*.js", "no_ignore": true}, "node_modules/x/run.js\nweb/app.js\nweb/app.min.js"},
		"page":      {m{"pattern": "**", "limit": 2, "offset": 2}, "bin\ndocs/a.md\n[files 3-4 of 11; go on with offset 4, or narrow it down]"},
		"none":      {m{"pattern": "*.js"}, "[no file matches *.js; **/*.js looks in all directories below, too]\n[1 entries that .gitignore names were skipped; no_ignore: true looks there, too]"},
		"git":       {m{"pattern": ".git/**", "no_ignore": true}, "[no file matches .git/**]"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, b.ok(GlobName, c.args).Text.Text); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for pattern, word := range map[string]string{"": "1 to", "/etc/*": "leading slash", "../*": "..", "a/../../*": "..", "[a": "not closed", "a\x00": "NUL"} {
		b.fails(events.InvalidParam, []string{word}, GlobName, m{"pattern": pattern})
	}
	b.fails(events.InvalidParam, []string{"no directory"}, GlobName, m{"pattern": "*", "path": "main.go"})
	b.fails(events.NotFound, []string{"web"}, GlobName, m{"pattern": "*", "path": "wep"})
}

func TestGlobIsBounded(t *testing.T) {
	files := map[string]string{}
	for i := range 600 {
		files[fmt.Sprintf("%s/%03d", strings.Repeat("n", 120), i)] = ""
	}
	b := newBench(t, files)
	r := b.ok(GlobName, m{"pattern": "**", "limit": 2000})
	if len(r.Text.Text) > maxText || r.Status != events.Partial || r.Stats.More["files"] != 600 {
		t.Errorf("%d bytes, %s, %+v", len(r.Text.Text), r.Status, r.Stats)
	}
	if r := b.ok(GlobName, m{"pattern": "**"}); !strings.Contains(r.Text.Text, "of 600; go on with offset") {
		t.Errorf("…%q", r.Text.Text[len(r.Text.Text)-80:])
	}
}
