package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// mounted puts a file system of so many MiB in memory on a directory, until the
// test ends. Only who may mount can run such a test.
func mounted(t *testing.T, dir string, mib int) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
		t.Skipf("THIS IS NOT TESTED HERE: mounting a small disk needs the right to mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// readOnly takes the right to write in a directory from everybody, until the test ends.
func readOnly(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		if err := os.Chmod(dir, 0o555); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(dir, 0o755) }) // for the removal
		return
	}
	mounted(t, dir, 1)
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
}

// TestAFullDisk: what is refused says why, nothing is half-written, and once there
// is room everything that was accepted is there.
func TestAFullDisk(t *testing.T) {
	p := newPlace(t)
	if err := os.Mkdir(p.data, 0o755); err != nil {
		t.Fatal(err)
	}
	mounted(t, p.data, 96)
	n := p.serve()
	filler := filepath.Join(p.data, "filler")
	fill(t, filler, p.data, 3<<20)

	big := strings.Repeat("x", 600_000)
	var accepted []string
	refused := ""
	for i := 0; refused == "" && i < 200; i++ {
		name := fmt.Sprint("t", i)
		status, body, err := n.try(http.MethodPost, "/v1/turns", turn{Trace: "full", Turn: name, Calls: []call{
			{Tool: "echo", Args: args{"v": name + big}}, charge("full-"+name, 1),
		}})
		switch {
		case err != nil:
			refused = err.Error()
		case status >= 300:
			refused = fmt.Sprintf("%d %s", status, body)
		default:
			accepted = append(accepted, name)
		}
	}
	t.Logf("%d turns were accepted, and then: %.300s", len(accepted), refused)
	if refused == "" || len(accepted) == 0 {
		t.Error("the disk did not fill up on the way")
	}
	poll(t, "a node that can keep nothing any more ends", func() bool {
		select {
		case <-n.ended:
			return true
		default:
			return false
		}
	})
	if n.code <= 0 {
		t.Errorf("exit %d", n.code)
	}
	if log := strings.ToLower(n.log.String()); !strings.Contains(log, "space") && !strings.Contains(refused, "space") {
		t.Errorf("nothing says that the disk is full: %s\n%s", refused, tail(log, 3000))
	}
	if s := verb(t, "", p.args()...); s.code != 3 || !strings.Contains(s.err, "disk") {
		t.Errorf("a start on a full disk: exit %d, %s", s.code, s.err)
	}

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	n = p.serve()
	for _, name := range accepted {
		v := n.end("full", name)
		v.Calls[0].is(t, "completed", "", "")
		if c := v.Calls[1]; c.State != "completed" && c.State != "unknown" {
			t.Errorf("%s: %+v", name, c)
		}
		if k := p.charged("full-" + name); k != 1 && v.Calls[1].State == "completed" || k > 1 {
			t.Errorf("%s was charged %d times: %+v", name, k, v.Calls[1])
		}
	}
	verified(t, p, n)
}

// fill leaves only so many bytes of a disk free.
func fill(t *testing.T, path, disk string, left int64) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	chunk := make([]byte, 1<<20)
	for {
		var st unix.Statfs_t
		if err := unix.Statfs(disk, &st); err != nil {
			t.Fatal(err)
		}
		free := int64(st.Bavail) * st.Bsize
		if free <= left {
			return
		}
		if _, err := f.Write(chunk[:min(free-left, 1<<20)]); err != nil {
			t.Fatal(err)
		}
	}
}
