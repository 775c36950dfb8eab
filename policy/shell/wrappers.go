package shell

import "strings"

// wrapper is a command that runs another one.
type wrapper struct {
	flags  flagSet
	skip   int  // operands of its own before the command
	assign bool // NAME=value may stand before the command
	same   bool // it changes nothing that matters: the line may be allowed
}

func wrap(skip int, notation string) *wrapper {
	return &wrapper{flags: flags(notation), skip: skip}
}

func (w *wrapper) transparent() *wrapper { w.same = true; return w }

var wrappers = map[string]*wrapper{
	"nice":    wrap(0, "-# n: --adjustment:").transparent(),
	"timeout": wrap(1, "-fpv k: s: --kill-after: --signal: --foreground --preserve-status --verbose").transparent(),
	"command": wrap(0, "-p").transparent(),
	"env": {
		flags: flags("-i0v u: C@ --ignore-environment --null --unset: --chdir@ --debug --default-signal= --ignore-signal= --block-signal="), assign: true,
	},
	"nohup":   wrap(0, ""),
	"setsid":  wrap(0, "-cfw --ctty --fork --wait"),
	"stdbuf":  wrap(0, "i: o: e: --input: --output: --error:"),
	"ionice":  wrap(0, "-t c: n: p: --class: --classdata: --ignore"),
	"chrt":    wrap(1, "-abfiomrv p: --all-tasks --batch --fifo --idle --other --rr"),
	"taskset": wrap(1, "-ac --all-tasks --cpu-list"),
	"time":    wrap(0, "-apqvV f: o@ --append --format: --output@ --portability --quiet --verbose"),
	"chroot":  wrap(1, "--userspec: --groups: --skip-chdir"),
	"unshare": wrap(0, "-fimnprTuUC R@ w@ S: G: --fork --ipc= --mount= --net= --pid= --user= --uts= --cgroup= --time= --map-root-user --map-current-user "+
		"--mount-proc= --root@ --wd@ --kill-child="),
	"nsenter": wrap(0, "-amuinpCUTF t: S: G: --all --target: --mount= --uts= --ipc= --net= --pid= --user="),
	"xargs": wrap(0, "-0rtpxo a@ d: E: I: L: n: P: s: i= l= e= --null --arg-file@ --delimiter: --replace= --max-lines= --max-args: "+
		"--max-procs: --max-chars: --no-run-if-empty --verbose --interactive --exit --open-tty --process-slot-var:"),
	"parallel":         wrap(0, "-0kqrtu X a@ j: I: N: n: --jobs: --null --keep-order --dry-run --halt: --bar --eta --arg-file@"),
	"flock":            wrap(1, "-eFnosux c: E: w: --exclusive --shared --nonblock --timeout: --unlock --close --command:"),
	"strace":           wrap(0, "-cCdDfFhikqrtTvVwxyzZ e: o@ p: s: a: b: E: I: O: P: S: u: X:"),
	"ltrace":           wrap(0, "-bcCfhirStTV e: o@ p: s: a: l: n: u: x: A: D: F:"),
	"caffeinate":       wrap(0, "-disu t: w:"),
	"systemd-run":      wrap(0, "-dGPqrStT p: u: E: --user --scope --pty --pipe --wait --quiet --unit: --property: --setenv: --collect"),
	"setarch":          wrap(1, "-3BFILRSTXZv"),
	"linux32":          wrap(0, "-3BFILRSTXZv"),
	"linux64":          wrap(0, "-3BFILRSTXZv"),
	"prlimit":          wrap(0, "-cdefilmnpqrstuvxy --noheadings"),
	"numactl":          wrap(0, "-ahlHs C: i: m: N: p:"),
	"proot":            wrap(0, "-0 b: r: R: S: q: w: v:"),
	"fakeroot":         wrap(0, "-u i@ s@ b: l: --unknown-is-real"),
	"unbuffer":         wrap(0, "-p"),
	"eatmydata":        wrap(0, ""),
	"entr":             wrap(0, "-acdnprsxz"),
	"torsocks":         wrap(0, ""),
	"proxychains":      wrap(0, "-q f@"),
	"xvfb-run":         wrap(0, "-al e@ f@ n: p: s: w:"),
	"dbus-run-session": wrap(0, "--"),
	"ssh-agent":        wrap(0, "-cDdks a: E: P: t:"),
	"faketime":         wrap(1, "-fm"),
	"rlwrap":           wrap(0, ""),
	"chpst":            wrap(0, ""),
	"softlimit":        wrap(0, ""),
}

// wrapped judges a command that runs another one: it can only be stricter than
// the inner command alone.
func (c *classifier) wrapped(base string, args []word, piped bool) {
	w := wrappers[base]
	if base == "command" && len(args) > 1 && (args[1].is("-v") || args[1].is("-V")) {
		if x, found := unsafe(args[1:]); found {
			c.add(ruleExpansion, x.text)
		}
		return // it only says what a name stands for
	}
	rest, ok := w.strip(c, args[1:])
	if !ok {
		c.add(ruleWrapper, args[0].text)
		c.collectHosts(args[1:])
		c.search(args[1:], piped)
		return
	}
	c.collectHosts(args[1 : len(args)-len(rest)])
	if base == "flock" && anyFlag(args[1:], "-c", "--command") {
		c.add(ruleShell, args[0].text)
	}
	for _, x := range args[:len(args)-len(rest)] {
		if !x.plain() {
			c.add(ruleIndirect, x.text) // the command may begin elsewhere
		}
	}
	if !w.same || len(rest) == 0 || args[0].text != base {
		r := ruleWrapper
		if base == "env" && len(rest) == 0 {
			r = ruleEnvironment
		}
		c.add(r, args[0].text)
	}
	if len(rest) > 0 {
		c.simple(rest, piped)
	}
}

func anyFlag(args []word, flags ...string) bool {
	for _, w := range args {
		for _, f := range flags {
			if strings.HasPrefix(w.text, f) {
				return true
			}
		}
	}
	return false
}

// strip takes a wrapper's own flags and operands away.
func (w *wrapper) strip(c *classifier, args []word) (rest []word, ok bool) {
	for len(args) > 0 && args[0].flag() {
		if args[0].is("--") {
			args = args[1:]
			break
		}
		if !args[0].plain() {
			return nil, false
		}
		_, given, kind, known := w.flags.split(args[0].text, map[string]bool{})
		if !known {
			return nil, false
		}
		args = args[1:]
		if given == nil && (kind == value || kind == pathname) {
			if len(args) == 0 || args[0].flag() && !numeral(args[0].text[1:]) {
				return nil, false
			}
			args = args[1:]
		}
	}
	for w.assign && len(args) > 0 && strings.Contains(args[0].text, "=") {
		name, _, _ := strings.Cut(args[0].text, "=")
		c.assign(name)
		args = args[1:]
	}
	if len(args) < w.skip {
		return nil, false
	}
	return args[w.skip:], true
}

// search looks for what may never run among all arguments: where the flags of a
// wrapper are not understood, any of them may be the command.
func (c *classifier) search(args []word, piped bool) {
	for i, w := range args {
		if w.plain() && w.text != "" && !w.flag() {
			c.never(baseName(w.text), args[i:], piped)
		}
		if strings.ContainsAny(w.text, " \t\n") && w.plain() {
			first, _, _ := strings.Cut(strings.TrimLeft(w.text, " \t\n"), " ")
			if first != "" {
				c.never(baseName(first), []word{{text: first}}, piped)
			}
		}
	}
}
