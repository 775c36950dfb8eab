package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestArchivesOfEveryRelease are listed, shown, rendered, verified and imported by the
// verbs; a redacted one says so, and one that was cut off is read as far as it goes.
func TestArchivesOfEveryRelease(t *testing.T) {
	files, err := filepath.Glob("../../test/corpus/archives/*/*.sluice")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file), func(t *testing.T) {
			verb := func(code int, args ...string) (string, string) {
				t.Helper()
				var out, errw bytes.Buffer
				if got := run(t.Context(), args, strings.NewReader(""), &out, &errw); got != code {
					t.Fatalf("%q: exit %d, want %d\n%s%s", args, got, code, out.String(), errw.String())
				}
				return out.String(), errw.String()
			}
			list, _ := verb(0, "list", "--archive", file)
			if strings.Count(list, "\n") != 9 || !strings.Contains(list, "mid-charge") {
				t.Errorf("list:\n%s", list)
			}
			verified, _ := verb(0, "verify", "--archive", file)
			redacted := strings.Contains(file, "redacted")
			if strings.Contains(verified, "redacted") != redacted || !strings.Contains(verified, "all laws hold") {
				t.Errorf("verify: %s", verified)
			}
			for _, trace := range []string{"plain", "large", "mid-bash", "mid-waits", "waits"} {
				shown, _ := verb(0, "show", "--archive", file, trace)
				if !strings.Contains(shown, "turn t  ") || strings.Contains(shown, "[redacted ") != redacted {
					t.Errorf("show %s:\n%s", trace, shown)
				}
				verb(0, "messages", "--archive", file, trace)
			}
			dir := filepath.Join(t.TempDir(), "log")
			if out, _ := verb(0, "import", "--data", dir, file); !strings.Contains(out, "8 imported, 0 attached") {
				t.Errorf("import:\n%s", out)
			}
			verb(0, "verify", "--data", dir)
			cutShort(t, verb, file)
		})
	}
}

// cutShort reads two thirds of an archive.
func cutShort(t *testing.T, verb func(int, ...string) (string, string), file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.sluice")
	if err := os.WriteFile(cut, b[:len(b)*2/3], 0o600); err != nil {
		t.Fatal(err)
	}
	out, said := verb(1, "list", "--archive", cut)
	if !strings.Contains(out, "plain") || strings.Contains(out, "waits  ") || !strings.Contains(said, "it was cut off") {
		t.Errorf("list of what is left:\n%s%s", out, said)
	}
	verb(1, "show", "--archive", cut, "plain")
	verb(1, "verify", "--archive", cut)
}
