package npm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestInstallTwiceIsOnce(t *testing.T) {
	dir := Install(t, "is-number@7.0.0")
	file := filepath.Join(dir, "complete")
	first, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if again := Install(t, "is-number@7.0.0"); again != dir {
		t.Errorf("installed into %s and %s", dir, again)
	}
	second, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if !first.ModTime().Equal(second.ModTime()) {
		t.Error("what was complete was installed again")
	}
	cmd := exec.Command(Node(t), "--input-type=module", "-e", `import n from "is-number"; console.log(n("7"), n("x"))`)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "true false" {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestUnreachable(t *testing.T) {
	for said, want := range map[string]bool{
		"npm error code ENOTFOUND\nnpm error network request to … failed": true,
		"npm error code E404\nnpm error 404 Not Found":                    false,
		"npm error code ETARGET":                                          false,
	} {
		if unreachable(said) != want {
			t.Errorf("%q: %v, want %v", said, !want, want)
		}
	}
}

func TestNode22(t *testing.T) {
	out, err := exec.Command(Node22(t), "--version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "v22.") {
		t.Errorf("got %q, %v", out, err)
	}
}
