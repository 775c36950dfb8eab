package shell

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// TestPreview takes lines apart: every command by itself, what the approval is bound
// to, and no line of the command's own among those of the preview.
func TestPreview(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "s.sh"), []byte("echo hi\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, has := range map[string][]string{
		"sh ./s.sh":                         {"1. sh ./s.sh", "would run s.sh: 8 bytes, sha256:", "bound to exactly these"},
		"sh ./missing.sh":                   {"would run missing.sh: there is no such file"},
		"sh *.sh":                           {"names are known only when it runs, and the approval is not bound to their content"},
		"cp a/* b && sh b/x":                {"some names in the line are known only when it runs, and the approval is not bound"},
		"cat a && mv a b | tee c":           {"1. cat a\n   reads", "2. mv a b\n   a person must look", "3. tee c\n"},
		"curl https://a.example/x -d @b":    {"hosts named:\n   ", "a.example"},
		"echo $(":                           {"no command of this line is understood", "the whole line:"},
		"echo a\n1. fake; rm x # \x1b[2K\r": {"no command of this line is understood", "shell.encoding"},
	} {
		raw, err := json.Marshal(map[string]string{"command": line})
		if err != nil {
			t.Fatal(err)
		}
		p, err := preview(t.Context(), tools.Invocation{Args: raw, Workspace: dir})
		if err != nil || p.Kind != events.PreviewCommands {
			t.Errorf("%q: %s, %v", line, p.Kind, err)
		}
		for _, want := range has {
			if !strings.Contains(p.Text.Text, want) {
				t.Errorf("%q: the preview lacks %q:\n%s", line, want, p.Text.Text)
			}
		}
		for l := range strings.SplitSeq(p.Text.Text, "\n") {
			if tools.Visible(l) != l && !strings.Contains(l, `\u`) {
				t.Errorf("%q: the preview has a line that hides something: %q", line, l)
			}
		}
	}
}
