package jetlog

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events"
)

// What the traced process is told, and what it writes.
const (
	tracedDir    = "SLUICE_TRACED_DIR"
	tracedToken  = "token-Qm4x7ZsLw2"
	tracedMarker = "marker-Vb9k3TnHy6"
)

// TestTracedAppend is the process that TestTheOrderIsWriteSyncAnswer traces. By
// itself it has nothing to do.
func TestTracedAppend(t *testing.T) {
	dir := os.Getenv(tracedDir)
	if dir == "" {
		return
	}
	b, _ := opened(t, ServerConfig{Dir: dir})
	if err := b.Barrier().Wait(t.Context()); err != nil { // what the start left to do
		t.Fatal(err)
	}
	_, err := b.Append(t.Context(), events.Commit{ID: tracedToken, Turn: testTurn, Records: []events.Record{
		{Call: 0, Seq: 1, Event: &events.Progress{Attempt: 1}},
	}}, 0)
	if err == nil {
		err = b.Barrier().Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stdout.WriteString(tracedMarker + "\n"); err != nil { // the answer leaves
		t.Fatal(err)
	}
}

// TestTheOrderIsWriteSyncAnswer watches the system calls of a real process: the
// commit is written to a block, then that block is synced, and only then does
// the answer leave.
func TestTheOrderIsWriteSyncAnswer(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("SKIPPED, and the order of write, sync and answer is NOT checked: strace is missing; install it with: apt-get install strace")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	trace := filepath.Join(t.TempDir(), "trace")
	cmd := exec.CommandContext(t.Context(), strace, "-f", "-y", "-s", "4096", "-o", trace,
		"-e", "trace=write,pwrite64,fdatasync", self, "-test.run=^TestTracedAppend$", "-test.v")
	cmd.Env = append(os.Environ(), tracedDir+"="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if bytes.Contains(out, []byte("Operation not permitted")) && !bytes.Contains(out, []byte(tracedMarker)) {
		t.Skipf("SKIPPED, and the order of write, sync and answer is NOT checked: this machine does not let strace trace; "+
			"allow it (docker: --cap-add=SYS_PTRACE): %s", out)
	}
	if err != nil || !bytes.Contains(out, []byte(tracedMarker)) {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkOrder(string(text)); err != nil {
		t.Error(err)
	}
}

var (
	callBegins  = regexp.MustCompile(`^\d+ +(write|pwrite64|fdatasync)\(\d+<([^>]*)>`)
	callResumes = regexp.MustCompile(`^\d+ +<\.\.\. (write|pwrite64|fdatasync) resumed>`)
)

// checkOrder reads a trace line by line. Calls of several threads overlap: one
// line says that a call begins, a later one that it ended.
func checkOrder(trace string) error {
	block := ""                    // that the token was written to
	pending := map[string]string{} // what each thread is doing
	synced := false
	end := func(what string, ok bool) {
		path, isSync := strings.CutPrefix(what, "sync ")
		if isSync && ok && path == block {
			synced = true
		}
		if path, isWrite := strings.CutPrefix(what, "write "); isWrite && ok {
			block = path
		}
	}
	for line := range strings.Lines(trace) {
		thread, _, _ := strings.Cut(line, " ")
		ok := !strings.Contains(line, " = -1 ")
		if callResumes.MatchString(line) {
			end(pending[thread], ok)
			delete(pending, thread)
			continue
		}
		call := callBegins.FindStringSubmatch(line)
		if call == nil {
			continue
		}
		what := ""
		switch name, path := call[1], call[2]; {
		case strings.Contains(line, tracedMarker):
			if block == "" {
				return errors.New("the answer left before the commit was written")
			}
			if !synced {
				return errors.New("the answer left before " + block + " was synced")
			}
			return nil
		case name == "fdatasync" && block != "": // begun after the write had ended
			what = "sync " + path
		case strings.Contains(line, tracedToken) && strings.Contains(path, "/"+StreamLog+"/msgs/"):
			what = "write " + path
		}
		if strings.Contains(line, "<unfinished ...>") {
			pending[thread] = what
		} else {
			end(what, ok)
		}
	}
	return errors.New("the answer is not in the trace")
}

func TestCheckOrderFindsDisorder(t *testing.T) {
	const (
		write  = `7 pwrite64(9</d/SLUICE/msgs/1.blk>, "..` + tracedToken + `..", 300, 0) = 300` + "\n"
		sync   = `8 fdatasync(9</d/SLUICE/msgs/1.blk>) = 0` + "\n"
		begin  = `8 fdatasync(9</d/SLUICE/msgs/1.blk> <unfinished ...>` + "\n"
		resume = `8 <... fdatasync resumed>) = 0` + "\n"
		failed = `8 fdatasync(9</d/SLUICE/msgs/1.blk>) = -1 EIO (Input/output error)` + "\n"
		other  = `8 fdatasync(9</d/SLUICE/msgs/2.blk>) = 0` + "\n"
		answer = `9 write(1<pipe:[1]>, "` + tracedMarker + `\n", 9) = 9` + "\n"
	)
	for trace, good := range map[string]bool{
		write + sync + answer:           true,
		write + begin + resume + answer: true,
		write + answer + sync:           false,
		sync + write + answer:           false,
		write + begin + answer + resume: false,
		begin + write + resume + answer: false,
		write + failed + answer:         false,
		write + other + answer:          false,
		sync + answer:                   false,
		write + sync:                    false,
	} {
		if err := checkOrder(trace); (err == nil) != good {
			t.Errorf("%v for\n%s", err, trace)
		}
	}
}
