package secrets

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/test/data"
)

func TestScratch(t *testing.T) {
	for _, name := range []string{"airline_gpt4o.jsonl", "coding_marshmallow.jsonl"} {
		b, err := data.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now()
		spans := Find(string(b))
		t.Logf("%s: %d bytes %v: %d spans", name, len(b), time.Since(at), len(spans))
		for _, s := range spans {
			t.Logf("  %s %q", s.Kind, string(b)[max(0, s.Start-40):min(len(b), s.End+10)])
		}
		for _, line := range strings.Split(string(b), "\n") {
			if line == "" {
				continue
			}
			if r := RedactArgs(line); r != line {
				i := 0
				for i < len(r) && i < len(line) && r[i] == line[i] {
					i++
				}
				t.Logf("  args: %q", r[max(0, i-60):min(len(r), i+60)])
			}
		}
	}
	out, _ := exec.Command("git", "-C", "../..", "ls-files").Output()
	n, size := 0, 0
	at := time.Now()
	for _, f := range strings.Fields(string(out)) {
		b, err := os.ReadFile("../../" + f)
		if err != nil || strings.HasSuffix(f, ".gz") {
			continue
		}
		size += len(b)
		for _, s := range Find(string(b)) {
			n++
			t.Logf("  %s %s %q", f, s.Kind, string(b)[max(0, s.Start-40):min(len(b), s.End+10)])
		}
	}
	t.Logf("repo: %d spans in %d bytes, %v", n, size, time.Since(at))
}
