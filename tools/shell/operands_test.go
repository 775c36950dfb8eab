package shell

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// ran are lines and what they would run: words with a blank between, or a bar.
var ran = map[string]string{
	"sh ./s.sh":                                           "s.sh",
	"./run.sh arg":                                        "run.sh",
	"bash -x -o pipefail s.sh a b":                        "s.sh",
	"sh -c './a.sh && sh b.sh'":                           "a.sh b.sh",
	"bash -ec 'python3 x.py'":                             "x.py",
	"python x.py --flag y":                                "x.py",
	"python3.11 -W ignore x.py":                           "x.py",
	"python -c 'print(1)' x.py":                           "",
	"python -m http.server":                               "http/server.py http/server/__main__.py http/server/__init__.py",
	"node --require ./pre.js app.js":                      "pre.js app.js package.json",
	"ruby a.rb; perl -w b.pl":                             "a.rb b.pl",
	"source env.sh && . ./more.sh":                        "env.sh more.sh",
	"cd sub && sh s.sh":                                   "sub/s.sh",
	"(cd sub; sh a.sh); sh b.sh":                          "sub/a.sh b.sh",
	"cd a; cd ../b; ./c":                                  "b/c",
	"cd $X && sh s.sh":                                    "",
	"cd $X && sh s.sh; cd /w && ./t":                      "/w/t",
	"sh < s.sh":                                           "s.sh",
	"cat s.sh | sh":                                       "s.sh",
	"cat s.sh | sh t.sh":                                  "t.sh",
	"cat s.sh | grep x":                                   "",
	"env -u A B=1 nohup nice -n 5 timeout -k 1 9 sh s.sh": "s.sh",
	"xargs -n 1 sh s.sh":                                  "s.sh",
	"make -C sub":                                         "sub/GNUmakefile sub/makefile sub/Makefile",
	"make -f my.mk all":                                   "my.mk",
	"awk -f p.awk data; awk '{print}' data":               "p.awk",
	"sed -f p.sed data":                                   "p.sed",
	"eval sh s.sh":                                        "s.sh",
	`'./a b.sh'; "./c d.sh"; ./e\ f`:                      "a b.sh|c d.sh|e f",
	"/bin/ls; /usr/bin/env python3":                       "",
	"../out.sh; ~/home.sh":                                "",
	"./a.sh & ./a.sh; ! ./b.sh | ./c.sh":                  "a.sh b.sh c.sh",
	"if ./t; then ./u; fi; for x in 1; do ./v; done; f() { ./w; }; echo $(./x)": "t u v w x",
	"sh *.sh; ./$name; sh \"$x\"": "",
	"sudo sh s.sh":                "s.sh",
	"deno run app.ts":             "app.ts deno.json deno.jsonc",
	"if":                          "if",
	"ls":                          "",

	// The ways of a shell.
	"bash -x y":                           "y",
	"bash -euo pipefail y":                "y",
	"bash -e -u -o pipefail -- y a":       "y",
	"bash -O extglob +x y":                "y",
	"bash --norc --rcfile rc y":           "rc y",
	"bash --rcfile=rc y":                  "rc y",
	"bash -cx './a.sh'":                   "a.sh",
	"bash -c -x './a.sh' b":               "a.sh",
	"bash -lc 'cd sub && ./a.sh'; ./b.sh": "sub/a.sh b.sh",
	"bash -s a < s.sh":                    "s.sh",
	"cat s.sh | bash -s -- a":             "s.sh",
	"bash $OPTS ./x.sh":                   "x.sh",
	". ./env":                             "env",
	"source env/bin/activate && ./x":      "env/bin/activate x",
	"bash <(cat a.sh b.sh)":               "a.sh b.sh",
	"source <(grep -v x a.sh)":            "x a.sh",
	`eval "$(cat a.sh)"`:                  "a.sh",
	`sh -c "$(< a.sh)"`:                   "a.sh",
	`bash -c "$(sed 1d a.sh)"`:            "1d a.sh",
	"sh <<EOF\n./not.sh\nEOF":             "",
	"trap './a.sh' EXIT":                  "a.sh",
	"BASH_ENV=./env bash -c ls":           "env",
	"LD_PRELOAD=./x.so ls":                "x.so",
	"env LD_PRELOAD=./x.so ls":            "x.so",
	"GIT_SSH_COMMAND='./s -v' git push":   "s|.git/config|.git/hooks/pre-push",
	"PATH=.:bin:$PATH tool a":             "tool bin/tool",
	"PATH=$PWD/x:$PATH tool":              "x/tool",
	`PATH="$PWD/bin:$X/y:$PATH" tool`:     "bin/tool",
	"coproc ./a":                          "a",
	"time ./a; { ./b; }; ! ./c":           "a b c",
	"a=$(./b) c=`./d`":                    "b d",
	"case x in x) ./a;; esac; select i in 1; do ./b; done; until ./c; do ./d; done": "a b c d",
	"cat a.sh | tail -n +2 | sh": "a.sh +2",
	"tail -n +2 < a.sh | sh":     "+2 a.sh",
	"sh 0< a.sh":                 "a.sh",
	"cat a.sh |& sh":             "a.sh",
	"cat s.sh | python3 -":       "s.sh",
	"echo 'rm x' | sh":           "",

	// Wrappers.
	"env FOO=1 ./x":                                   "x",
	"env -i -u A FOO=1 BAR=2 bash x":                  "x",
	"env -S 'sh x' y":                                 "x",
	"env --split-string='./x y'":                      "x",
	"timeout 5 ./x":                                   "x",
	"timeout -s KILL --kill-after 1 5 ./x":            "x",
	"timeout --signal=KILL 5 ./x":                     "x",
	"timeout $T ./x":                                  "x",
	"nice -n5 ./x; nice -5 ./y; ionice -c2 -n 7 ./z":  "x y z",
	"find . -name a -exec ./x {} +":                   "x",
	"find . -exec sh s.sh {} ';' -o -execdir ./y ';'": "s.sh y",
	"find . -ok bash -c './x' \\;":                    "x",
	"fd -e go -x ./x":                                 "x",
	"xargs ./x < list":                                "x",
	"xargs -0n 1 -P4 ./x":                             "x",
	"xargs -I{} sh -c './x {}'":                       "x",
	"xargs -I {} bash s.sh {}":                        "s.sh",
	"find . -print0 | xargs -0 ./x":                   "x",
	"parallel -j 4 ./x ::: a b":                       "x",
	"watch -n 1 ./x":                                  "x",
	"flock lock -c './x'":                             "x",
	"flock -w 5 lock ./x":                             "x",
	"flock -c './x' lock":                             "x",
	"script -c './x' out":                             "x",
	"su -c './x' me":                                  "x",
	"sudo -u me A=1 -- ./x":                           "x",
	"chroot . ./x; unshare -r ./y; setsid -w ./z":     "x y z",
	"strace -f -o log ./x":                            "x",
	"exec -a name ./x":                                "x",
	"command ./x; builtin . ./y":                      "x y",
	"busybox sh s.sh":                                 "s.sh",
	"taskset -c 0 ./x; chrt -r 5 ./y":                 "x y",
	"stdbuf -oL ./x | tee log":                        "x",
	"poetry run python x.py":                          "x.py|tox.ini|noxfile.py|hatch.toml|setup.py|pyproject.toml|setup.cfg",
	"npx tsx x.ts":                                    "x.ts package.json .npmrc",
	"bundle exec ruby x.rb":                           "x.rb Gemfile",
	"hyperfine -p ./y './x a'":                        "y x",

	// Interpreters.
	"python -uB x.py; python -Wignore y.py":                    "x.py y.py",
	"python -Ic code x.py":                                     "",
	"python -cprint x.py":                                      "",
	".venv/bin/python x.py":                                    ".venv/bin/python x.py",
	"python < x.py; python - < y.py; python a.py < data":       "x.py y.py a.py",
	"python -m pkg.mod":                                        "pkg/mod.py pkg/mod/__main__.py pkg/mod/__init__.py",
	"python dir":                                               "dir dir/__main__.py",
	"node app":                                                 "app|app.js|app.mjs|app.cjs|app.json|app.ts|app/index.js|app/package.json|package.json",
	"node --import=./a.mjs -r./b.js c.js":                      "a.mjs b.js c.js package.json",
	"ruby -I lib -r./a b.rb":                                   "a b.rb",
	"perl -ne code x.pl; perl -I. y.pl":                        "y.pl",
	"php -d a=b x.php; lua x.lua; Rscript x.R":                 "x.php x.lua x.R",
	"java -jar x.jar":                                          "x.jar",
	"awk -fp.awk d; jq --from-file=f.jq d; sed --file s.sed d": "p.awk f.jq s.sed",
	"psql -f x.sql; sqlite3 a.db < y.sql":                      "x.sql y.sql",
	"crontab jobs; at -f job now":                              "jobs job",
	"ansible-playbook -i hosts play.yml":                       "hosts play.yml ansible.cfg",
	"gdb -x cmds ./prog":                                       "cmds prog",
	"coverage run x.py":                                        "x.py .coveragerc",

	// Builders, package managers, runners of tests.
	"make":                                  "GNUmakefile makefile Makefile",
	"make -Csub -j4 all":                    "sub/GNUmakefile sub/makefile sub/Makefile",
	"make -C sub -f my.mk":                  "sub/my.mk",
	"make --directory=sub --makefile=my.mk": "sub/my.mk",
	"cd sub && make":                        "sub/GNUmakefile sub/makefile sub/Makefile",
	"npm run x":                             "package.json .npmrc",
	"npm --prefix web test; yarn --cwd=ui build":      "web/package.json|web/.npmrc|ui/package.json|ui/.yarnrc.yml|ui/.yarnrc|ui/.npmrc",
	"pip install -r req.txt":                          "install/setup.py|install/pyproject.toml|install/setup.cfg|req.txt|setup.py|pyproject.toml|setup.cfg",
	"pytest -q tests/a_test.py::T":                    "tests/a_test.py|tests/conftest.py|conftest.py|pytest.ini|.pytest.ini|tox.ini|setup.py|pyproject.toml|setup.cfg",
	"cargo test":                                      "Cargo.toml build.rs .cargo/config.toml .cargo/config",
	"go run ./cmd/x; go run x.go":                     "go.mod go.work x.go",
	"go test -exec ./x ./...":                         "x",
	"just; task; rake":                                "justfile Justfile .justfile Taskfile.yml Taskfile.yaml Rakefile rakefile Rakefile.rb",
	"cmake -P x.cmake":                                "x.cmake CMakeLists.txt",
	"ninja -C out":                                    "out/build.ninja",
	"mvn -f x.xml test":                               "x.xml",
	"docker compose -f c.yml up":                      "compose/Dockerfile|compose/Containerfile|c.yml|up/Dockerfile|up/Containerfile|Dockerfile|Containerfile|compose.yaml|compose.yml|docker-compose.yml|docker-compose.yaml",
	"git commit -m x":                                 ".git/config|.git/hooks/pre-commit|.git/hooks/prepare-commit-msg|.git/hooks/commit-msg|.git/hooks/post-commit|.git/hooks/post-rewrite",
	"git bisect run ./x":                              "x",
	"git submodule foreach './x'":                     "x",
	"git rebase -x ./x main":                          "x|.git/config|.git/hooks/pre-rebase|.git/hooks/post-rewrite|.git/hooks/pre-commit|.git/hooks/commit-msg|.git/hooks/post-checkout",
	"git status; git log":                             "",
	"bash -c \"bash -c 'bash -c \\\"./deep.sh\\\"'\"": "deep.sh",
}

func TestOperands(t *testing.T) {
	for line, want := range ran {
		sep := " "
		if strings.Contains(want, "|") {
			sep = "|"
		}
		if got := strings.Join(operands(line), sep); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
	if got := operands(strings.Repeat("./a.sh;", 10) + strings.Repeat("sh -c '", 500)); len(got) > maxOperands {
		t.Errorf("%d operands", len(got))
	}
}

func FuzzOperands(f *testing.F) {
	f.Add("cd a && sh -c 'cat b | sh' < c & (./d)")
	f.Fuzz(func(t *testing.T, line string) {
		for _, p := range operands(line) {
			if p == "" || strings.HasPrefix(p, "../") || filepath.Clean(p) != p {
				t.Errorf("%q: operand %q", line, p)
			}
		}
	})
}

// Ways to run a command. Those of the first list take a simple command, those of the
// second any, and those of the third a line in quotes.
var (
	aroundSimple = []string{
		"env A=1 %", "env -u A -i B=2 %", "timeout 5 %", "timeout -s KILL -k 1 5 %", "nice -n 5 %", "nice %", "nohup %", "setsid -w %", "stdbuf -oL %", "xargs -n 1 %", "xargs -0 -I X %",
		"sudo -u me %", "doas %", "find . -name a -exec % {} +", "find . -ok % ';'", "flock -w 1 l %", "strace -f -o log %", "exec %", "command %", "builtin %", "unshare -r %", "chroot . %",
		"ionice -c3 %", "taskset -c 0 %", "chrt -r 5 %", "time -p %", "busybox %", "parallel %", "watch -n1 %", "git bisect run %", "poetry run %", "npx %", "bundle exec %",
		"\\time -f x %", "caffeinate -i %", "xvfb-run -a %", "systemd-run --user %", "firejail %", "dotenv -f .env %", "valgrind -q %", "gdb --args %", "uv run %",
	}
	aroundAny = []string{
		"( % )", "{ %; }", "! %", "true && %", "% || true", "if true; then %; fi", "if %; then :; fi", "while %; do :; done", "for i in 1 2; do %; done", "case a in a) %;; esac", "ls | %",
		"% | cat", "{ % & wait; }", "f() { %; }; f", "echo \"$( % )\"", "cat <( % )", "a=$( % ; )", "% > out 2>&1", "% < in", "[ -f a ] && %", "time %", "coproc { %; }", "cat <<E\nx\nE\n%", "select i in a; do %; done",
		"until %; do sleep 1; done", "(cd . && % )", "echo ${X:-$( % )}", "[[ -n $( % ) ]]", "cat <<E\n$( % )\nE", "x=(1 $( % ))", "export A=$( % )", "(( $( % ) ))",
	}
	aroundLine = []string{"sh -c %", "bash -lc %", "bash -c -x %", "env sh -ec %", "eval %", "trap % EXIT", "su -c % me", "script -qc % log", "flock l -c %", "env -S %", "git submodule foreach %", "zsh -c % a b", "busybox sh -c %", "hyperfine %", "xargs -I X sh -c %"}
)

// However deep it stands in a line, a program that is named by a path is found.
func TestNothingHidesAProgram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		simple, quotes := true, 0
		line := rapid.SampledFrom([]string{"./evil", "./evil -a b", "sh ./evil", "python3 -u evil x", ". ./evil", "bash -euo pipefail evil"}).Draw(t, "program")
		if line[0] == '.' && line[1] == ' ' {
			simple = false // a word of the shell
		}
		for range rapid.IntRange(0, 4).Draw(t, "depth") {
			kind := rapid.IntRange(0, 2).Draw(t, "kind")
			switch {
			case kind == 0 && simple:
				line = strings.Replace(rapid.SampledFrom(aroundSimple).Draw(t, "around"), "%", line, 1)
			case kind == 2 && quotes < 2:
				quoted := "'" + strings.ReplaceAll(line, "'", `'\''`) + "'"
				line = strings.Replace(rapid.SampledFrom(aroundLine).Draw(t, "around"), "%", quoted, 1)
				simple = !strings.HasPrefix(line, "eval") && !strings.HasPrefix(line, "trap")
				quotes++
			default:
				line = strings.Replace(rapid.SampledFrom(aroundAny).Draw(t, "around"), "%", line, 1)
				simple = false
			}
		}
		if !slices.Contains(operands(line), "evil") {
			t.Fatalf("%s: %q", line, operands(line))
		}
	})
}
