package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/policy/cedar"
)

// block is a piece of code in a document.
type block struct{ language, text string }

func blocks(t *testing.T, path string) []block {
	t.Helper()
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []block
	for _, m := range regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$").FindAllStringSubmatch(string(body), -1) {
		out = append(out, block{m[1], m[2]})
	}
	return out
}

// words are those of a command line that knows single quotes and nothing else.
func words(line string) []string {
	var out []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			out = append(out, part)
			continue
		}
		out = append(out, strings.Fields(part)...)
	}
	return out
}

var (
	inFile  = regexp.MustCompile(`^(?://|#) ((?:policies|more)/\S+)\n`)
	version = regexp.MustCompile(`cedar-[0-9a-f]{12}`)
)

// The policies, cases and commands of the document are what it says.
func TestPolicyDocument(t *testing.T) {
	list := blocks(t, "../../docs/policy.md")
	t.Setenv("HOME", t.TempDir())
	t.Chdir(t.TempDir())
	write := func(name, text string) {
		if err := os.WriteFile(filepath.FromSlash(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"policies", "more"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		write(dir+"/default.cedar", cedar.DefaultText())
	}
	files := 0
	for _, b := range list {
		if m := inFile.FindStringSubmatch(b.text); m != nil {
			write(m[1], b.text)
			files++
		}
	}
	commands := 0
	for _, b := range list {
		if b.language != "console" {
			continue
		}
		for _, one := range strings.Split("\n"+b.text, "\n$ ")[1:] {
			line, want, _ := strings.Cut(one, "\n")
			var out, errs bytes.Buffer
			run(t.Context(), words(line)[1:], strings.NewReader(""), &out, &errs)
			got := strings.TrimSpace(version.ReplaceAllString(out.String(), "cedar-…") + errs.String())
			if diff := cmp.Diff(strings.TrimSpace(want), got); diff != "" {
				t.Errorf("$ %s\n(- the document, + what it is)\n%s", line, diff)
			}
			commands++
		}
	}
	if files < 8 || commands < 8 {
		t.Errorf("only %d files and %d commands were found in the document", files, commands)
	}
}
