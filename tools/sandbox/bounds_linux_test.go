package sandbox_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/tools/sandbox"
)

// TestStatusInside: what the kernel itself says of a contained process.
func TestStatusInside(t *testing.T) {
	_, landlock, all := forms(t)
	for _, form := range []form{landlock, all} {
		t.Run(form.name, func(t *testing.T) {
			form.need(t)
			workspace, _ := dirs(t)
			// Landlock alone shows no process's table, its own included.
			got := run(t, job{
				line:   `cat /proc/self/status; ulimit -c; umask; tty; hostname; echo $PPID; ls /proc | grep -c '^[0-9]'`,
				policy: sandbox.Policy{Workspace: workspace, Use: form.use},
			})
			want := []string{"\n0\n", "\n0022\n", "not a tty\n"}
			if form.use.Namespaces {
				want = append(want, "NoNewPrivs:\t1\n", "Seccomp:\t2\n", "CapInh:\t0000000000000000\n", "CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n",
					"CapBnd:\t0000000000000000\n", "CapAmb:\t0000000000000000\n", "\nsluice\n1\n4\n")
			}
			for _, w := range want {
				if !strings.Contains(got.out, w) {
					t.Errorf("no %q in %s", w, got.out)
				}
			}
		})
	}
}

// TestCommandsStillWork: what people do in a workspace is possible inside.
func TestCommandsStillWork(t *testing.T) {
	_, landlock, all := forms(t)
	lines := []string{
		`echo x > f && cat f && mkdir -p a/b && mv f a/b/ && rm -r a`,
		`mkdir p q; echo x > p/f; mv p/f q/f; ln q/f q/g; ln -s f q/l; cat q/l; chmod 755 q/f; rm -r p q`,
		`cat <(echo a) <(echo b) | wc -l | grep 2`,
		`t=$(mktemp) && echo x > $t && cat $t && rm $t`,
		`cat <<< here | grep here`,
		`echo x > /dev/null; head -c 4 /dev/urandom | wc -c | grep 4; echo x > /dev/stderr; echo y > /dev/stdout`,
		`mkfifo pipe; (echo x > pipe &) ; cat pipe; rm pipe`,
		`sort /etc/passwd >/dev/null; ls /usr/bin >/dev/null; date; id -u`,
		`set -o pipefail; seq 100000 | sort -rn | head -1 | grep 100000 || [ $? = 141 ]`,
		`tar cf t.tar -C /usr/share/misc . 2>/dev/null || tar cf t.tar -C /etc passwd; mkdir x; tar xf t.tar -C x; rm -r x t.tar`,
		`ATTACK="own pair" $ME`,
		`ATTACK="own limits" $ME; ulimit -c 0; (ulimit -n 100; ulimit -n); nice -n 5 true`,
	}
	for _, form := range []form{landlock, all} {
		t.Run(form.name, func(t *testing.T) {
			form.need(t)
			workspace, _ := dirs(t)
			mine := lines
			if form.use.Namespaces {
				mine = append(slices.Clone(lines), `ATTACK="own net" $ME`, `[ $(ps ax | wc -l) -lt 10 ]`, `git init -q g && cd g && git status >/dev/null && cd .. && rm -r g`)
			}
			for _, line := range mine {
				got := run(t, job{line: "set -e; " + line, policy: sandbox.Policy{Workspace: workspace, Write: true, Use: form.use}})
				if got.exit != 0 || len(got.left) > 0 {
					t.Errorf("%s: %+v", line, got)
				}
			}
			// What it makes is the node's user's own.
			run(t, job{line: "echo x > mine", policy: sandbox.Policy{Workspace: workspace, Write: true, Use: form.use}})
			if err := os.Remove(filepath.Join(workspace, "mine")); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWhatIsGranted: paths beside the workspace, to read or to write, and the network.
func TestWhatIsGranted(t *testing.T) {
	_, landlock, all := forms(t)
	for _, form := range []form{landlock, all} {
		t.Run(form.name, func(t *testing.T) {
			form.need(t)
			p := hunted(t)
			cache := filepath.Join(p.outside, "cache")
			write(t, filepath.Join(cache, "f"), "cached\n")
			policy := sandbox.Policy{Workspace: p.workspace, Read: []string{p.outside}, Writable: []string{cache, "/nonexistent/cache"}, Network: true, Use: form.use}
			for line, works := range map[string]bool{
				`cat $HOME_DIR/.ssh/id`: true, `cat $HOME_DIR/cache/f`: true, `echo x > $HOME_DIR/cache/g`: true, `ATTACK=tcp $ME`: true, `ATTACK=udp $ME`: true,
				`echo x > $HOME_DIR/made`: false, `mv $HOME_DIR/.ssh/id $HOME_DIR/cache/`: false, `echo x > made`: false, `touch .`: form.name == "landlock",
				`ATTACK=abstract $ME`: false, `ATTACK=signal $ME`: false, `ATTACK=vsock $ME`: false,
			} {
				if got := run(t, job{line: line, env: p.env, policy: policy}); (got.exit == 0) != works {
					t.Errorf("%s: want success %v: %+v", line, works, got)
				}
			}
		})
	}
}

// TestAReadingCommandCannotWrite, whatever it tries; it can write what is its own.
func TestAReadingCommandCannotWrite(t *testing.T) {
	_, landlock, all := forms(t)
	for _, form := range []form{landlock, all} {
		t.Run(form.name, func(t *testing.T) {
			form.need(t)
			workspace, _ := dirs(t)
			write(t, filepath.Join(workspace, "f"), "as it was")
			write(t, filepath.Join(workspace, "d/g"), "as it was")
			policy := sandbox.Policy{Workspace: workspace, Use: form.use}
			for _, line := range []string{
				"echo x > new", "echo x > f", "echo x >> f", "rm f", "mv f h", "mkdir n", "ln f h", "ln -s f l", "mkfifo p", "truncate -s 0 f", "rmdir d", "rm -r d", "cp f d/",
				"mv d/g .", "git init -q .", "echo x > $PWD/../*/f", "echo x > /proc/self/cwd/f", "cat /proc/self/root$PWD/f > /proc/self/root$PWD/new",
				`exec 3<f; echo x > /proc/self/fd/3`,
			} {
				if got := run(t, job{line: line, policy: policy}); got.exit == 0 {
					t.Errorf("%s: %+v", line, got)
				}
			}
			for name, want := range map[string]string{"f": "as it was", "d/g": "as it was"} {
				if b, err := os.ReadFile(filepath.Join(workspace, name)); err != nil || string(b) != want {
					t.Errorf("%s: %q %v", name, b, err)
				}
			}
			if got := run(t, job{line: `cat f d/g && echo x > ${TMPDIR:-/tmp}/t`, policy: policy}); got.exit != 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestLimits: each limit holds.
func TestLimits(t *testing.T) {
	_, landlock, all := forms(t)
	limits := sandbox.Limits{CPU: time.Second, Memory: 1 << 30, File: 1 << 20, Temp: 1 << 20, Processes: 64, Open: 64}
	for _, form := range []form{landlock, all} {
		t.Run(form.name, func(t *testing.T) {
			form.need(t)
			workspace, _ := dirs(t)
			policy := sandbox.Policy{Workspace: workspace, Write: true, Limits: limits, Use: form.use}
			for line, spaces := range map[string]bool{
				`head -c 5000000 /dev/zero > big`: false,
				`ATTACK=memory $ME`:               false,
				`while :; do :; done`:             false,
				`ATTACK=nofile $ME`:               false,
				`ulimit -c unlimited`:             false,
				`ulimit -n 100000`:                false,
				`for i in 1 2 3 4; do head -c 1000000 /dev/zero > /tmp/$i || exit; done`: true,
				`head -c 5000000 /dev/zero > /dev/shm/x`:                                 true,
				`ATTACK=fork $ME`:                                                        true,
			} {
				if spaces && !form.use.Namespaces {
					continue
				}
				got := run(t, job{line: line, policy: policy})
				if got.exit == 0 || len(got.left) > 0 || strings.HasPrefix(got.out, "not started: ") {
					t.Errorf("%s: %+v", line, got)
				}
			}
			if info, err := os.Stat(filepath.Join(workspace, "big")); err != nil || info.Size() > limits.File {
				t.Errorf("%v %v", info, err)
			}
		})
	}
}

// TestABombEnds: what multiplies as fast as it can is bounded, and ends with the call.
func TestABombEnds(t *testing.T) {
	_, _, all := forms(t)
	all.need(t)
	workspace, _ := dirs(t)
	most := 0
	got := run(t, job{
		line: `b() { sleep 83.25 & b & b & wait; }; b 2>/dev/null`, policy: sandbox.Policy{Workspace: workspace, Limits: sandbox.Limits{Processes: 100}, Use: all.use},
		until: func() bool { most = max(most, len(sleepers("83.25"))); return most > 20 },
	})
	if left := sleepers("83.25"); len(got.left) > 0 || got.lost || len(left) > 0 || most > 500 {
		t.Errorf("%d at once, %d left: %+v", most, len(left), got)
	}
}

// TestNothingOutlivesTheNamespace: the first process of a namespace takes all with it,
// also what its keeper cannot end in time, and the keeper cannot be killed from inside.
func TestNothingOutlivesTheNamespace(t *testing.T) {
	_, _, all := forms(t)
	all.need(t)
	for name, line := range map[string]string{
		"killing its keeper":  `kill -9 $PPID; kill -9 1; kill -STOP 1; setsid -f sleep 83.5; kill -9 -1`,
		"leaving every way":   `setsid -f sleep 83.5 >/dev/null 2>&1 </dev/null; (trap '' TERM HUP INT; nohup setsid sleep 83.5 & ) ; disown -a; ( ( sleep 83.5 & ) & )`,
		"asking for services": `systemd-run sleep 83.5; echo sleep 83.5 | at now; crontab - <<< '* * * * * sleep 83.5'; setsid -f sleep 83.5`,
	} {
		t.Run(name, func(t *testing.T) {
			workspace, _ := dirs(t)
			got := run(t, job{line: line, policy: sandbox.Policy{Workspace: workspace, Write: true, Use: all.use}})
			if left := sleepers("83.5"); len(left) > 0 || len(got.left) > 0 || got.lost {
				t.Errorf("%v still run: %+v", left, got)
			}
		})
	}
}

// sleepers are the processes whose command line holds mark as an argument.
func sleepers(mark string) []string {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	return slices.DeleteFunc(files, func(f string) bool {
		b, err := os.ReadFile(f)
		return err != nil || !slices.Contains(strings.Split(string(b), "\x00"), mark)
	})
}

// TestHiddenUnderEveryName: a link is no other place.
func TestHiddenUnderEveryName(t *testing.T) {
	_, landlock, all := forms(t)
	for _, form := range []form{landlock, all} {
		t.Run(form.name, func(t *testing.T) {
			form.need(t)
			workspace, outside := dirs(t)
			data := filepath.Join(outside, "data")
			write(t, filepath.Join(data, "log"), secret)
			write(t, filepath.Join(data, "in/log"), secret)
			write(t, filepath.Join(outside, "token"), secret)
			for name, to := range map[string]string{"toData": data, "toTop": outside, "inData": data + "/in"} {
				if err := os.Symlink(to, filepath.Join(workspace, name)); err != nil {
					t.Fatal(err)
				}
			}
			hide := []string{data, filepath.Join(outside, "token"), "/nonexistent/data"}
			line := `cat log in/log data/log data/in/log token "$PWD/data/log" "$OUT/data/log" "$OUT/token"; ls -A data; exit 1`
			for _, dir := range []string{data, data + "/in", workspace + "/toData", workspace + "/inData", outside, workspace + "/toTop", workspace} {
				got := run(t, job{line: line, env: []string{"OUT=" + outside}, policy: sandbox.Policy{Workspace: dir, Write: true, Hide: hide, Use: form.use}})
				holds := dir == outside || strings.HasSuffix(dir, "toTop") // nothing can be hidden in what is granted without namespaces
				if strings.Contains(got.out, secret) && (form.use.Namespaces || !holds) {
					t.Errorf("workspace %s: %+v", dir, got)
				}
				if inside := strings.Contains(dir, "ata"); inside != strings.HasPrefix(got.out, "not started: ") {
					t.Errorf("workspace %s: %+v", dir, got)
				}
			}
			for _, grant := range []string{workspace + "/toTop", outside} {
				got := run(t, job{line: "cat " + grant + "/token " + grant + "/data/log", policy: sandbox.Policy{Workspace: workspace, Read: []string{grant}, Hide: hide, Use: form.use}})
				if form.use.Namespaces && strings.Contains(got.out, secret) {
					t.Errorf("%s: %+v", grant, got)
				}
			}
		})
	}
}

// TestAFailureIsNoRun: what cannot be contained is not started.
func TestAFailureIsNoRun(t *testing.T) {
	_, landlock, all := forms(t)
	for _, form := range []form{landlock, all} {
		t.Run(form.name, func(t *testing.T) {
			form.need(t)
			workspace, outside := dirs(t)
			for name, p := range map[string]sandbox.Policy{
				"no workspace":       {Workspace: filepath.Join(workspace, "none")},
				"everything":         {Workspace: "/"},
				"a relative one":     {Workspace: "here"},
				"a relative path":    {Workspace: workspace, Read: []string{"x"}},
				"hidden from itself": {Workspace: workspace, Hide: []string{workspace}},
			} {
				p.Use, p.Write = form.use, true
				got := run(t, job{line: "touch " + outside + "/ran " + workspace + "/ran; echo ran", policy: p})
				if !strings.HasPrefix(got.out, "not started: ") {
					t.Errorf("%s: %+v", name, got)
				}
			}
		})
	}
}

// TestWords are what a log says for ever.
func TestWords(t *testing.T) {
	for want, p := range map[string]sandbox.Policy{
		"": {},
		"userns,mountns,pidns,ipcns,utsns,netns,landlock6,nnp,rlimits,seccomp": {Use: sandbox.Use{Namespaces: true, Landlock: 6, Seccomp: true, Limits: true}},
		"userns,mountns,pidns,ipcns,utsns,nnp,rlimits":                         {Network: true, Use: sandbox.Use{Namespaces: true, Limits: true}},
		"landlock7,nnp,rlimits,seccomp":                                        {Use: sandbox.Use{Landlock: 7, Seccomp: true, Limits: true}},
	} {
		if got := strings.Join(p.Words(), ","); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	p := sandbox.Policy{Workspace: "/w", Hide: []string{"/w/data"}, Limits: sandbox.Limits{CPU: time.Minute}, Use: sandbox.Use{Landlock: 6}}
	b, err := json.Marshal(p)
	var back sandbox.Policy
	if err != nil || json.Unmarshal(b, &back) != nil || back.Limits != p.Limits || back.Use != p.Use {
		t.Errorf("%s %v", b, err)
	}
}

// TestShows: a command is shown what something grants by its name, and behind its links.
func TestShows(t *testing.T) {
	at, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"w", "r", "r/secret", "other"} {
		if err := os.Mkdir(filepath.Join(at, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, dir, "f"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"w/in": "../r/f", "w/out": "../other/f", "other/in": "../w/f", "alias": "r", "w/hid": "../r/secret/f"} {
		if err := os.Symlink(to, filepath.Join(at, link)); err != nil {
			t.Fatal(err)
		}
	}
	p := sandbox.Policy{
		Workspace: at + "/w", Read: []string{at + "/r", at + "/alias"}, Hide: []string{at + "/r/secret"}, Path: "/root:/usr/bin", Use: sandbox.Use{Namespaces: true},
	}
	for path, want := range map[string]bool{
		at + "/w": true, at + "/w/f": true, at + "/w/gone": false, at + "/r/f": true, at + "/alias/f": true, "/usr/bin": true, "/etc/passwd": true, "/etc/shadow": false,
		at + "/other/f": false, at: false, at + "/w/in": true, at + "/w/out": false, at + "/other/in": false, at + "/r/secret/f": false, at + "/w/hid": false, "/": false,
	} {
		if got := p.Shows(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
	if p.Use = (sandbox.Use{Seccomp: true}); !p.Shows(at + "/other/f") {
		t.Error("where paths are not held, everything is shown")
	}
}
