package shell

import (
	"slices"
	"strings"
)

// interpreter is how a program that runs scripts is called.
type interpreter struct {
	shell  bool     // its code is a command line too
	input  bool     // it runs what it reads, whatever its arguments
	only   bool     // scripts come only behind one of file
	code   []string // flags behind which the code itself stands
	module []string // flags behind which the name of a module stands
	file   []string // flags behind which a file of code stands
	value  []string // other flags with a value
	skip   []string // words before the script that are none
	ends   []string // what may be left out at the end of a script's name
	reads  []string // files beside the script that say what runs
}

var (
	aShell = interpreter{
		shell: true, file: []string{"--rcfile", "--init-file"}, value: []string{"-o", "-O", "+o", "+O"},
	}
	aPython = interpreter{code: []string{"-c"}, module: []string{"-m"}, value: []string{"-W", "-X", "-Q", "--check-hash-based-pycs"}, ends: []string{"/__main__.py"}}
	aNode   = interpreter{
		code: []string{"-e", "-p", "-pe", "--eval", "--print"}, file: []string{"-r", "--require", "--import", "--loader", "--experimental-loader", "--env-file", "-c", "--config"},
		value: []string{"-C", "--conditions", "--input-type"}, skip: []string{"run", "exec", "watch", "test", "x"},
		ends: []string{".js", ".mjs", ".cjs", ".json", ".ts", "/index.js", "/package.json"}, reads: []string{"package.json"},
	}
	aDeno   = interpreter{code: []string{"--eval"}, file: []string{"-c", "--config", "--import-map"}, skip: []string{"run", "test", "bench", "task", "serve"}, reads: []string{"deno.json", "deno.jsonc"}}
	aScript = interpreter{code: []string{"-e", "-E"}, file: []string{"-r", "-f"}, value: []string{"-I", "-M", "-C", "-l", "-L"}}
	aPerl   = interpreter{code: []string{"-e", "-E"}, value: []string{"-I"}}
	aPHP    = interpreter{code: []string{"-r", "-R", "-B", "-E"}, file: []string{"-f", "-F", "-z", "-c"}, value: []string{"-d", "-S", "-t"}}
	aFilter = interpreter{only: true, file: []string{"-f", "--file", "--from-file"}, value: []string{"-e", "-v", "-F", "-L"}}
	aQuery  = interpreter{only: true, input: true, file: []string{"-f", "--file", "-init", "--init-command"}, value: []string{"-c", "-d", "-h", "-U", "-p", "-u", "-e", "-cmd"}}
	aJava   = interpreter{file: []string{"-jar", "--jar", "@"}, value: []string{"-cp", "-classpath", "--class-path", "-p", "--module-path"}}
	aPlay   = interpreter{file: []string{"-i", "--inventory", "-e", "--extra-vars"}, value: []string{"-l", "--limit", "-t", "--tags", "-u", "-f"}, reads: []string{"ansible.cfg"}}
)

var interpreters = map[string]interpreter{
	"sh": aShell, "bash": aShell, "dash": aShell, "ash": aShell, "zsh": aShell, "ksh": aShell, "mksh": aShell, "rbash": aShell, "fish": aShell,
	"oksh": aShell, "yash": aShell, "posh": aShell, "csh": aShell, "tcsh": aShell, "osh": aShell, "nu": aShell, "elvish": aShell, "xonsh": aShell,
	"pwsh": {code: []string{"-c", "-Command", "-command"}, file: []string{"-File", "-file", "-f"}}, "powershell": {file: []string{"-File", "-file", "-f"}},
	"python": aPython, "pypy": aPython, "pythonw": aPython, "ipython": aPython, "jython": aPython,
	"node": aNode, "nodejs": aNode, "bun": aNode, "tsx": aNode, "ts-node": aNode, "nodemon": aNode, "electron": aNode, "zx": aNode, "deno": aDeno,
	"ruby": aScript, "jruby": aScript, "perl": aPerl, "raku": aPerl, "php": aPHP, "lua": aScript, "luajit": aScript, "julia": aScript, "Rscript": aScript,
	"R": {only: true, file: []string{"-f", "--file"}, code: []string{"-e"}}, "tclsh": aScript, "wish": aScript, "guile": aScript, "racket": aScript,
	"sbcl": {only: true, file: []string{"--script", "--load"}, code: []string{"--eval"}}, "ocaml": aScript, "elixir": aScript, "escript": aScript, "groovy": aScript,
	"scala": aScript, "swift": aScript, "runghc": aScript, "runhaskell": aScript, "clojure": aScript, "bb": aScript, "octave": aScript, "osascript": aScript,
	"expect": aScript, "gnuplot": aScript, "bc": aScript, "dc": aScript, "m4": aScript, "awk": aFilter, "gawk": aFilter, "mawk": aFilter, "nawk": aFilter,
	"sed": aFilter, "jq": aFilter, "at": {only: true, input: true, file: []string{"-f"}}, "batch": {only: true, input: true}, "gdb": {file: []string{"-x", "-ix", "--command"}, value: []string{"-ex", "-p"}}, "crontab": {value: []string{"-u"}},
	"psql": aQuery, "mysql": aQuery, "mariadb": aQuery, "sqlite": aQuery, "duckdb": aQuery,
	"java": aJava, "dotnet": {skip: []string{"run", "exec"}}, "wasmtime": {skip: []string{"run"}}, "mono": {}, "wine": {}, "qemu": {}, "qjs": aScript,
	"ansible-playbook": aPlay, "ld.so": {}, "ld-linux-x": {}, "coverage": {skip: []string{"run"}, value: []string{"--source", "--rcfile", "-m"}, reads: []string{".coveragerc"}},
	"streamlit": {skip: []string{"run"}}, "jupyter": {skip: []string{"nbconvert", "execute"}}, "k": {},
}

// interpreterOf finds a program whatever version its name carries.
func interpreterOf(name string) (interpreter, bool) {
	if in, ok := interpreters[name]; ok {
		return in, true
	}
	in, ok := interpreters[strings.TrimRight(strings.TrimSuffix(name, ".exe"), "0123456789.-")]
	return in, ok
}

// wrapper is a program that runs the command behind its own flags.
type wrapper struct {
	value    []string // flags with a value
	line     []string // flags with a command line
	operands int      // own operands before the command
	assigns  bool     // variables may stand before the command
	verbs    []string // one of these stands before the command; without, it is no wrapper
	joined   bool     // the command's words are put together to a line
}

var aRunner = wrapper{verbs: []string{"run", "exec", "x", "dlx"}, value: []string{"-p", "--python", "-n", "--name", "-c", "--directory", "--with", "-C", "--package"}}

var wrappers = map[string]wrapper{
	"env":   {value: []string{"-u", "-C", "--unset", "--chdir"}, line: []string{"-S", "--split-string"}, assigns: true},
	"nohup": {}, "setsid": {}, "command": {}, "builtin": {}, "exec": {value: []string{"-a"}}, "busybox": {}, "toybox": {},
	"time": {value: []string{"-f", "-o", "--format", "--output"}}, "coproc": {}, "catchsegv": {}, "eatmydata": {}, "torsocks": {}, "rlwrap": {}, "winpty": {}, "stdbuf": {value: []string{"-i", "-o", "-e"}},
	"nice": {value: []string{"-n", "--adjustment"}}, "ionice": {value: []string{"-c", "-n", "-p"}}, "chrt": {operands: 1}, "taskset": {operands: 1},
	"timeout": {value: []string{"-k", "-s", "--kill-after", "--signal"}, operands: 1}, "gtimeout": {value: []string{"-k", "-s"}, operands: 1},
	"sudo": {value: []string{"-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "--user", "--group", "--chdir"}, assigns: true},
	"doas": {value: []string{"-u", "-C"}}, "su": {line: []string{"-c", "--command"}, operands: 1}, "runuser": {value: []string{"-u"}, line: []string{"-c"}},
	"pkexec": {value: []string{"--user"}}, "setpriv": {}, "gosu": {operands: 1}, "chroot": {operands: 1, value: []string{"--userspec", "--groups"}},
	"unshare": {value: []string{"-R", "-w", "-S", "-G", "--root", "--wd"}}, "nsenter": {value: []string{"-t", "--target"}}, "firejail": {},
	"bwrap": {value: []string{"--chdir"}}, "proot": {value: []string{"-b", "-r", "-w"}}, "fakeroot": {}, "fakechroot": {}, "systemd-run": {value: []string{"-p", "-u", "-E"}},
	"xargs":    {value: []string{"-I", "-n", "-P", "-L", "-d", "-a", "-s", "-E", "--max-args", "--max-procs", "--delimiter", "--arg-file", "--replace"}},
	"parallel": {value: []string{"-j", "-a", "-I", "-N", "-n", "--jobs", "--arg-file"}, joined: true}, "watch": {value: []string{"-n", "--interval"}, joined: true},
	"hyperfine": {value: []string{"-w", "-r", "--warmup", "--runs"}, line: []string{"-p", "-s", "--prepare", "--setup"}, joined: true},
	"strace":    {value: []string{"-e", "-o", "-p", "-s", "-P", "-u", "-E", "-a", "-b", "-S"}}, "ltrace": {value: []string{"-e", "-o", "-p", "-s"}}, "valgrind": {},
	"perf": {verbs: []string{"record", "stat", "trace"}, value: []string{"-e", "-o", "-F", "-g"}}, "gdb": {verbs: []string{"--args"}}, "rr": {verbs: []string{"record"}},
	"flock": {value: []string{"-w", "-E", "--timeout"}, line: []string{"-c", "--command"}, operands: 1}, "script": {line: []string{"-c", "--command"}, operands: 1},
	"unbuffer": {}, "entr": {}, "xvfb-run": {value: []string{"-e", "-f", "-n", "-p", "-s", "-w"}}, "dbus-run-session": {}, "faketime": {operands: 1},
	"caffeinate": {value: []string{"-t", "-w"}}, "setarch": {operands: 1}, "linux32": {}, "linux64": {}, "numactl": {value: []string{"-C", "-i", "-m", "-N", "-p"}},
	"prlimit": {}, "cpulimit": {value: []string{"-l"}}, "chpst": {value: []string{"-u", "-e", "-m"}}, "dotenv": {value: []string{"-f", "-e"}},
	"direnv": {verbs: []string{"exec"}, operands: 1}, "op": {verbs: []string{"run"}}, "doppler": {verbs: []string{"run"}}, "mise": aRunner, "asdf": aRunner,
	"poetry": aRunner, "uv": aRunner, "pipenv": aRunner, "pdm": aRunner, "hatch": aRunner, "rye": aRunner, "conda": aRunner, "mamba": aRunner, "pixi": aRunner,
	"bundle": aRunner, "npm": {verbs: []string{"exec"}, value: []string{"-p", "-c", "--package"}}, "pnpm": aRunner, "npx": {value: []string{"-p", "-c", "--package"}},
	"bunx": {}, "pnpx": {}, "uvx": {value: []string{"--from", "--with"}}, "pipx": {verbs: []string{"run"}}, "wsl": {}, "sem": {value: []string{"-j"}}, "ts": {},
}

// takesNext says whether a flag has its value in the next argument: it is one of the
// list, or short flags that end in one.
func takesNext(flags []string, a string) bool {
	if slices.Contains(flags, a) {
		return true
	}
	if len(a) < 3 || a[0] != '-' && a[0] != '+' || a[1] == '-' {
		return false
	}
	for i := 1; i < len(a); i++ {
		if slices.Contains(flags, a[:1]+a[i:i+1]) {
			return i == len(a)-1 // else its value is attached
		}
	}
	return false
}

// attached is the value that a flag of the list has attached to it.
func attached(flags []string, a string) (value string, ok bool) {
	for _, f := range flags {
		rest, found := strings.CutPrefix(a, f)
		if !found || rest == "" {
			continue
		}
		if strings.HasPrefix(f, "--") || len(f) > 2 {
			if rest[0] != '=' {
				continue
			}
			return rest[1:], true
		}
		return strings.TrimPrefix(rest, "="), true
	}
	return "", false
}

// peeled is a wrapper's command: its words, or lines.
type peeled struct {
	words []string
	lines []string
	own   []string // assignments before it
}

// peel takes a program away that only runs another one. ok is false where it is none.
func peel(words []string) (p peeled, ok bool) {
	w, known := wrappers[base(words[0])]
	if !known {
		return p, false
	}
	args, own := words[1:], w.operands
	verb := w.verbs == nil
	for len(args) > 0 {
		a := args[0]
		dash := len(a) > 1 && a[0] == '-'
		line, has := attached(w.line, a)
		switch {
		case a == "": // not literal: a flag, or nothing
			args, own = args[1:], max(0, own-1)
		case slices.Contains(w.verbs, a) && !verb:
			verb = true
			args = args[1:]
		case takesNext(w.line, a):
			if len(args) > 1 {
				p.lines = append(p.lines, args[1])
			}
			args = args[min(2, len(args)):]
		case has:
			p.lines = append(p.lines, line)
			args = args[1:]
		case a == "--":
			args = args[1:]
			if verb {
				return p.rest(w, args[min(own, len(args)):]), true
			}
		case dash && takesNext(w.value, a):
			args = args[min(2, len(args)):]
		case dash:
			args = args[1:]
		case w.assigns && strings.Contains(a, "="):
			p.own = append(p.own, a)
			args = args[1:]
		case !verb:
			return p, false
		case own > 0:
			own, args = own-1, args[1:]
		default:
			return p.rest(w, args), true
		}
	}
	return p, verb
}

// rest is the command that a wrapper's arguments leave. Where they are put together to
// a line, they may be that, or a command whose arguments were quoted.
func (p peeled) rest(w wrapper, args []string) peeled {
	for i, a := range args {
		if w.joined && strings.HasPrefix(a, ":::") {
			args = args[:i]
			break
		}
	}
	if w.joined {
		p.lines = append(p.lines, strings.Join(args, " "))
	}
	if !w.joined || len(args) > 1 {
		p.words = args
	}
	return p
}
