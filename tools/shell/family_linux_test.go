package shell

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/shell/family"
)

// daemon is a program that leaves its session, its parent, its environment and
// its output behind, closes nothing else, and stays.
func daemon() {
	if os.Getenv("SHELL_TEST_DAEMON") == "stay" {
		<-time.After(time.Minute)
		return
	}
	c := exec.Command(os.Args[0], os.Args[1:]...)
	c.Env = []string{"SHELL_TEST_DAEMON=stay"}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// headless goes on without its first thread: such a process looks dead in the
// table, and is not.
func headless() {
	runtime.LockOSThread() // TestMain runs on the first
	go func() {
		<-time.After(time.Minute)
		os.Exit(0)
	}()
	_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
}

// trees are command lines that leave something behind; %s is a number of
// seconds that only the processes of one test sleep for.
var trees = map[string]string{
	"background":            `sleep %s & `,
	"nohup":                 `nohup sleep %s >/dev/null 2>&1 & `,
	"disown":                `sleep %s & disown; `,
	"setsid":                `setsid sleep %s & `,
	"setsid fork":           `setsid -f sleep %s; `,
	"double fork":           `( ( sleep %s & ) & ); `,
	"double fork, silent":   `( ( setsid sleep %s </dev/null >/dev/null 2>&1 & ) & ); `,
	"grandchild with pipe":  `bash -c 'bash -c "sleep %s; true" & ' ; `,
	"deaf to TERM":          `(trap "" TERM; sleep %s) & `,
	"deaf to HUP and TERM":  `setsid bash -c 'trap "" TERM HUP INT; sleep %s; true' & `,
	"no marker":             `env -i setsid sleep %s & `,
	"no marker, no output":  `env -i setsid -f sleep %s </dev/null >/dev/null 2>&1; `,
	"stopped":               `sleep %s & sleep .2; kill -STOP $!; `,
	"other name, other dir": `(cd / && exec -a innocent setsid sleep %s) & `,
	"by every door at once": `env -i bash -c 'exec >/dev/null 2>&1 </dev/null; (setsid sleep %s &)'; `,
	"two sessions deep":     `env -i setsid -f setsid -f sleep %s </dev/null >/dev/null 2>&1; `,
	"below a stopped one":   `setsid bash -c 'env -i setsid sleep %s & kill -STOP $$' </dev/null >/dev/null 2>&1 & sleep .2; `,
	"coprocess":             `coproc sleep %s; `,
	"process substitution":  `: > >(sleep %s); `,
	"many":                  `for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do setsid sleep %s & done; `,
}

// TestNothingSurvivesAnAnswer: the command ends by itself, and takes what it
// left with it.
func TestNothingSurvivesAnAnswer(t *testing.T) {
	n := 0
	for name, tree := range trees {
		n++
		mark := fmt.Sprintf("71.%d", n)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := bash(t, fmt.Sprintf(tree, mark)+"echo hi")
			if left := sleepers(mark); len(left) > 0 {
				t.Errorf("pids %v still run", left)
			}
			if r.Class != events.ClassOK || !r.Confirmed || !strings.Contains(r.Result.Text.Text, "hi\n") {
				t.Errorf("%+v", r)
			}
			if r.Run > 30*time.Second {
				t.Errorf("took %s", r.Run)
			}
			if r.Result.Stats.More["swept"] == 0 {
				t.Error("nothing was swept: the tree did not leave anything behind")
			}
		})
	}
}

// TestNothingSurvivesACancel: the command is ended from outside.
func TestNothingSurvivesACancel(t *testing.T) {
	n := 0
	for name, tree := range trees {
		n++
		mark := fmt.Sprintf("72.%d", n)
		main := fmt.Sprintf("73.%d", n)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				waitFor(t, func() bool { return len(sleepers(mark)) > 0 && len(sleepers(main)) > 0 })
				cancel()
			}()
			r := runIn(ctx, t, Config{Kill: 100 * time.Millisecond}, t.TempDir(),
				Args{Command: fmt.Sprintf(tree, mark) + "touch x; echo so far; sleep " + main})
			if left := append(sleepers(mark), sleepers(main)...); len(left) > 0 {
				t.Errorf("pids %v still run", left)
			}
			if r.Class != events.ClassCancelled || !r.Confirmed || r.Effects != events.EffectsPossible {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestADaemonThatClosesEverythingElse leaves by every door but one.
func TestADaemonThatClosesEverythingElse(t *testing.T) {
	me, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const mark = "-daemon=74"
	r := bash(t, fmt.Sprintf("SHELL_TEST_DAEMON=fork %s %s; echo hi", me, mark))
	if left := sleepers(mark); len(left) > 0 || !r.Confirmed || r.Result.Stats.More["swept"] == 0 {
		t.Errorf("pids %v still run, swept %v, %+v", left, r.Result.Stats.More, r)
	}
}

// TestAProcessWithoutItsFirstThread is not taken for dead.
func TestAProcessWithoutItsFirstThread(t *testing.T) {
	me, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	line := "SHELL_TEST_DAEMON=headless setsid %s </dev/null >/dev/null 2>&1 & echo $! > pid; until grep -q ') Z' /proc/$!/stat; do sleep .02; done; cat /proc/$!/stat; cat pid"
	r := runBare(t.Context(), t, Config{}, t.TempDir(), Args{Command: fmt.Sprintf(line, me)})
	lines := strings.Fields(r.Result.Text.Text)
	if len(lines) < 3 || lines[2] != "Z" || !r.Confirmed {
		t.Fatalf("%+v: %q", r, r.Result.Text.Text)
	}
	if err := syscall.Kill(mustInt(t, lines[0]), 0); err == nil {
		t.Error("it still runs")
	}
}

func mustInt(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestAChainOfProcessesEnds is a program that starts the next one and ends, for
// ever, deaf and each time in a session of its own: nobody can signal it by a
// number that was read a moment ago.
func TestAChainOfProcessesEnds(t *testing.T) {
	dir := t.TempDir()
	link := "#!/bin/bash\ntrap '' TERM HUP INT\n[ $1 -gt 2000 ] && exit\necho $1 > at\nsetsid ./link $(($1+1)) &\n"
	if err := os.WriteFile(filepath.Join(dir, "link"), []byte(link), 0o755); err != nil {
		t.Fatal(err)
	}
	at := func() int {
		b, _ := os.ReadFile(filepath.Join(dir, "at"))
		n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
		return n
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		waitFor(t, func() bool { return at() > 5 })
		cancel()
	}()
	r := runIn(ctx, t, Config{Kill: 20 * time.Millisecond, Sweep: 3 * time.Second}, dir, Args{Command: "./link 0; sleep 75.6"})
	n := at()
	if !r.Confirmed || r.Class != events.ClassCancelled || n > 1900 {
		t.Errorf("%+v, at link %d", r, n)
	}
	family.Within(200*time.Millisecond, nil)
	if now := at(); now != n {
		t.Errorf("it went on from link %d to %d", n, now)
	}
}

// TestAChildMadeWhileItIsEnded: what a trap starts is ended, too.
func TestAChildMadeWhileItIsEnded(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		waitFor(t, func() bool { _, err := os.Stat(filepath.Join(dir, "ready")); return err == nil })
		cancel()
	}()
	r := runIn(ctx, t, Config{Kill: 10 * time.Second}, dir, Args{
		Command: `trap 'env -i setsid sleep 75.7 </dev/null >/dev/null 2>&1 & echo trapped >> ready; exit 0' TERM; touch ready; while :; do sleep .01; done`,
	})
	text, _ := os.ReadFile(filepath.Join(dir, "ready"))
	if left := sleepers("75.7"); len(left) > 0 || !r.Confirmed || string(text) != "trapped\n" {
		t.Errorf("%v still run, %q, %+v", left, text, r)
	}
}

// TestAKeeperThatIsKilled: without a sandbox a command can do that. Then nobody can
// prove that nothing is left, and the end is not confirmed, whatever is found.
func TestAKeeperThatIsKilled(t *testing.T) {
	r := runBare(t.Context(), t, Config{}, t.TempDir(), Args{Command: "kill -9 $PPID; setsid sleep 75.8 & sleep 75.8"})
	if r.Confirmed || len(r.Pids) == 0 || r.Answered || r.Effects != events.EffectsPossible {
		t.Errorf("%+v", r)
	}
	if left := sleepers("75.8"); len(left) > 0 {
		t.Errorf("%v bear the marker, and still run", left)
	}
	if r.Result.Error == nil || !strings.Contains(r.Result.Error.Message, "watched over") {
		t.Errorf("%+v", r.Result.Error)
	}
}

// TestAKeeperThatIsStopped is woken.
func TestAKeeperThatIsStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		waitFor(t, func() bool { return len(sleepers("75.9")) > 0 })
		cancel()
	}()
	r := runIn(ctx, t, Config{Sweep: 3 * time.Second}, t.TempDir(), Args{Command: "kill -STOP $PPID; sleep 75.9"})
	if left := sleepers("75.9"); len(left) > 0 || !r.Confirmed || r.Class != events.ClassCancelled {
		t.Errorf("%v still run, %+v", left, r)
	}
}

// TestALoopInTheBackgroundStopsAtOnce is a child that writes for ever: once the
// end was told, the file must not grow.
func TestALoopInTheBackgroundStopsAtOnce(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "m")
	size := func() int64 {
		info, err := os.Stat(file)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		waitFor(t, func() bool { return size() > 0 })
		cancel()
	}()
	r := runIn(ctx, t, Config{}, dir, Args{Command: "(while :; do date >> m; sleep .02; done) & wait"})
	before := size()
	if r.Class != events.ClassCancelled || !r.Confirmed || before == 0 {
		t.Errorf("%+v, %d bytes", r, before)
	}
	family.Within(300*time.Millisecond, nil) // fifteen rounds of the loop
	if after := size(); after != before {
		t.Errorf("the file grew from %d to %d bytes after the end", before, after)
	}
}

// TestAForkStormEnds multiplies as fast as it can, in sessions of their own.
func TestAForkStormEnds(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "storm"), []byte("#!/bin/bash\n[ $1 -gt 6 ] && exec sleep 75.5\nsetsid ./storm $(($1+1)) & setsid ./storm $(($1+1)) &\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		waitFor(t, func() bool { return len(sleepers("75.5")) > 3 })
		cancel()
	}()
	r := runIn(ctx, t, Config{Sweep: 3 * time.Second}, dir, Args{Command: "./storm 0; sleep 75"})
	if left := sleepers("75.5"); len(left) > 0 || !r.Confirmed || r.Class != events.ClassCancelled {
		t.Errorf("%d still run, %+v", len(left), r)
	}
}

func TestNeighboursAreLeftAlone(t *testing.T) {
	other := exec.Command("sleep", "76.1")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	started := make(chan tools.Report, 1)
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	go func() {
		started <- runIn(ctx, t, Config{}, dir, Args{Command: "setsid sleep 76.2 & sleep 76.3"})
	}()
	waitFor(t, func() bool { return len(sleepers("76.2")) == 1 && len(sleepers("76.3")) == 1 })
	bash(t, "setsid sleep 76.4 & nohup sleep 76.5 & true")
	if len(sleepers("76.1")) != 1 || len(sleepers("76.2")) != 1 || len(sleepers("76.3")) != 1 {
		t.Error("a sweep ended what was not its own")
	}
	cancel()
	<-started
	if len(sleepers("76.1")) != 1 || len(sleepers("76.2")) != 0 {
		t.Error("a cancel ended too much or too little")
	}
}

// TestNoDescriptorsAreLeft runs many commands and looks at this process.
func TestNoDescriptorsAreLeft(t *testing.T) {
	count := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	bash(t, "true") // what is opened once is open now
	before := count()
	for range 10 {
		bash(t, "sleep 77 & echo hi")
	}
	waitFor(t, func() bool { return count() <= before }) // the keeper of a namespace goes a moment after its word
}

// TestNothingOfTheNodeIsInherited: a node may have been started with
// descriptors that are not closed by themselves.
func TestNothingOfTheNodeIsInherited(t *testing.T) {
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const leak = 150
	if err := unix.Dup3(int(f.Fd()), leak, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(leak)
	r := bash(t, "for n in 1 99 150; do [ -e /proc/$$/fd/$n ] && echo $n; done")
	if r.Result.Text.Text != "1\n" {
		t.Errorf("descriptors %q", r.Result.Text.Text)
	}
}
