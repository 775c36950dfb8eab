package shell

import (
	"path"
	"slices"
	"strings"
)

// project is a program that runs what files of known names tell it.
type project struct {
	files []string // their names, in the folder where it stands
	dirs  []string // flags behind which that folder stands
	named []string // flags behind which the name of such a file stands
	ends  []string // operands that end so are such files, too
	inDir []string // names of such files in folders that are operands
}

var (
	aMake   = project{files: []string{"GNUmakefile", "makefile", "Makefile"}, dirs: []string{"-C", "--directory"}, named: []string{"-f", "--file", "--makefile", "--eval-file"}}
	aNPM    = project{files: []string{"package.json", ".npmrc"}, dirs: []string{"--prefix", "-C", "--dir", "--cwd"}}
	aYarn   = project{files: []string{"package.json", ".yarnrc.yml", ".yarnrc", ".npmrc"}, dirs: []string{"--cwd"}}
	python  = []string{"setup.py", "pyproject.toml", "setup.cfg"}
	aPip    = project{files: python, named: []string{"-r", "--requirement", "-c", "--constraint"}, inDir: python}
	aPyTool = project{files: append([]string{"tox.ini", "noxfile.py", "hatch.toml"}, python...), named: []string{"-c", "-f", "--noxfile"}, dirs: []string{"-C", "--directory", "--project"}}
	aPytest = project{
		files: append([]string{"conftest.py", "pytest.ini", ".pytest.ini", "tox.ini"}, python...), named: []string{"-c", "--config-file"}, dirs: []string{"--rootdir"},
		ends: []string{".py"}, inDir: []string{"conftest.py"},
	}
	aCargo  = project{files: []string{"Cargo.toml", "build.rs", ".cargo/config.toml", ".cargo/config"}, named: []string{"--manifest-path"}}
	aGo     = project{files: []string{"go.mod", "go.work"}, dirs: []string{"-C"}, named: []string{"-modfile", "-exec", "-toolexec", "-vettool"}, ends: []string{".go"}}
	aGradle = project{
		files: []string{"build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "gradle.properties", "gradle/wrapper/gradle-wrapper.properties", "gradle/wrapper/gradle-wrapper.jar"},
		named: []string{"-b", "--build-file", "-I", "--init-script"}, dirs: []string{"-p", "--project-dir"},
	}
	aMaven   = project{files: []string{"pom.xml", ".mvn/extensions.xml", ".mvn/maven.config", ".mvn/jvm.config", ".mvn/wrapper/maven-wrapper.properties"}, named: []string{"-f", "--file"}}
	aCompose = project{
		files: []string{"Dockerfile", "Containerfile", "compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"}, named: []string{"-f", "--file"}, inDir: []string{"Dockerfile", "Containerfile"},
	}
	aJSTool = project{
		files: []string{
			"package.json", "eslint.config.js", "eslint.config.mjs", ".eslintrc.js", ".eslintrc.cjs", "jest.config.js", "jest.config.ts", "vitest.config.ts", "vite.config.js",
			"vite.config.ts", "webpack.config.js", "rollup.config.js", "gulpfile.js", "Gruntfile.js", ".mocharc.js", "playwright.config.ts", "next.config.js", "prettier.config.js",
		},
		named: []string{"-c", "--config", "-f", "--gulpfile", "-r", "--require"}, ends: []string{".js", ".ts", ".mjs", ".cjs"},
	}
)

func reading(files ...string) project { return project{files: files} }

func (p project) naming(flags ...string) project { p.named = flags; return p }

var projects = map[string]project{
	"make": aMake, "gmake": aMake, "bmake": aMake, "npm": aNPM, "pnpm": aNPM, "npx": aNPM, "pnpx": aNPM, "bun": aNPM, "bunx": aNPM, "yarn": aYarn, "lerna": aNPM, "nx": aNPM, "turbo": aNPM,
	"pip": aPip, "uv": aPyTool, "poetry": aPyTool, "pdm": aPyTool, "hatch": aPyTool, "rye": aPyTool, "tox": aPyTool, "nox": aPyTool, "build": aPyTool, "pipenv": reading("Pipfile"),
	"pytest": aPytest, "py.test": aPytest, "unittest": {ends: []string{".py"}}, "cargo": aCargo, "go": aGo, "gradle": aGradle, "gradlew": aGradle, "mvn": aMaven, "mvnw": aMaven,
	"just": {files: []string{"justfile", "Justfile", ".justfile"}, named: []string{"-f", "--justfile"}, dirs: []string{"-d", "--working-directory"}},
	"task": {files: []string{"Taskfile.yml", "Taskfile.yaml"}, named: []string{"-t", "--taskfile"}, dirs: []string{"-d", "--dir"}},
	"rake": reading("Rakefile", "rakefile", "Rakefile.rb").naming("-f", "--rakefile"), "bundle": reading("Gemfile"), "composer": reading("composer.json"),
	"ant": reading("build.xml").naming("-f", "-file", "-buildfile"), "sbt": reading("build.sbt", "project/plugins.sbt", "project/build.properties"), "lein": reading("project.clj"),
	"cmake": {files: []string{"CMakeLists.txt"}, named: []string{"-P", "-C"}, dirs: []string{"-S", "--build"}, inDir: []string{"CMakeLists.txt"}}, "ctest": reading("CTestTestfile.cmake"),
	"ninja": {files: []string{"build.ninja"}, named: []string{"-f"}, dirs: []string{"-C"}}, "meson": reading("meson.build"), "scons": reading("SConstruct").naming("-f"),
	"bazel": reading("WORKSPACE", "MODULE.bazel", "BUILD", "BUILD.bazel", ".bazelrc"), "waf": reading("wscript"), "mix": reading("mix.exs"), "rebar": reading("rebar.config"),
	"stack": reading("stack.yaml", "package.yaml"), "cabal": reading("cabal.project"), "zig": reading("build.zig"), "swift": reading("Package.swift"), "dune": reading("dune", "dune-project"),
	"docker": aCompose, "podman": aCompose, "docker-compose": aCompose, "buildah": aCompose, "vagrant": reading("Vagrantfile"), "pre-commit": reading(".pre-commit-config.yaml"),
	"eslint": aJSTool, "jest": aJSTool, "vitest": aJSTool, "vite": aJSTool, "webpack": aJSTool, "rollup": aJSTool, "gulp": aJSTool, "grunt": aJSTool, "mocha": aJSTool, "next": aJSTool,
	"prettier": aJSTool, "playwright": aJSTool, "tsc": {}, "deno": reading("deno.json", "deno.jsonc"), "rspec": reading(".rspec", "spec/spec_helper.rb"), "phpunit": reading("phpunit.xml"),
	"black": {}, "mypy": reading("mypy.ini", "setup.cfg", "pyproject.toml"), "pylint": reading(".pylintrc", "pylintrc", "pyproject.toml"), "sphinx-build": reading("conf.py"),
	"flask": reading("app.py", "wsgi.py"), "fab": reading("fabfile.py"), "invoke": reading("tasks.py"), "django-admin": reading("manage.py"), "procmail": {}, "foreman": reading("Procfile"),
}

// project adds what a program reads that runs what files tell it.
func (f *finder) project(p project, args []string) {
	dir, named := "", false
	var files []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		if v, ok := valueOf(p.dirs, args, &i); ok {
			dir = path.Join(dir, v)
			if path.IsAbs(v) {
				dir = v
			}
			continue
		}
		if v, ok := valueOf(p.named, args, &i); ok {
			files, named = append(files, v), true
			continue
		}
		a, _, _ = strings.Cut(a, "::") // the name of a test
		if a == "" || a[0] == '-' {
			continue
		}
		if slices.ContainsFunc(p.ends, func(end string) bool { return strings.HasSuffix(a, end) }) {
			files = append(files, a)
			for _, name := range p.inDir {
				files = append(files, path.Join(path.Dir(a), name))
			}
			continue
		}
		for _, name := range p.inDir {
			files = append(files, path.Join(a, name))
		}
	}
	if !named || p.inDir != nil {
		files = append(files, p.files...)
	}
	for _, name := range files {
		if dir != "" && !path.IsAbs(name) {
			name = path.Join(dir, name)
		}
		f.perhaps(name)
	}
}

// valueOf is the value of the flag at i, if it is one of the list; i moves behind it.
func valueOf(flags, args []string, i *int) (string, bool) {
	if v, ok := attached(flags, args[*i]); ok {
		return v, true
	}
	if *i+1 < len(args) && takesNext(flags, args[*i]) {
		*i++
		return args[*i], true
	}
	return "", false
}

// hooks are the programs that git runs from a repository, by subcommand.
var hooks = map[string][]string{
	"commit": {"pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-rewrite"}, "push": {"pre-push"}, "merge": {"pre-merge-commit", "post-merge", "commit-msg"},
	"pull": {"post-merge", "pre-merge-commit"}, "rebase": {"pre-rebase", "post-rewrite", "pre-commit", "commit-msg", "post-checkout"}, "am": {"applypatch-msg", "pre-applypatch", "post-applypatch"},
	"checkout": {"post-checkout"}, "switch": {"post-checkout"}, "worktree": {"post-checkout"}, "clone": {"post-checkout"}, "cherry-pick": {"commit-msg", "post-commit", "prepare-commit-msg"},
	"revert": {"commit-msg", "post-commit", "prepare-commit-msg"},
}

// git adds what git runs: hooks, what its configuration names, and commands on its line.
func (f *finder) git(args []string) {
	folder, i := "", 0
	for ; i < len(args) && (args[i] == "" || args[i][0] == '-'); i++ {
		if args[i] == "-C" && i+1 < len(args) {
			folder = path.Join(folder, args[i+1])
		}
		if slices.Contains([]string{"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"}, args[i]) {
			i++
		}
	}
	if i >= len(args) {
		return
	}
	sub, rest := args[i], args[i+1:]
	if at := slices.Index(rest, "run"); sub == "bisect" && at >= 0 {
		f.command(rest[at+1:])
	}
	if at := slices.Index(rest, "foreach"); sub == "submodule" && at >= 0 {
		f.nested(strings.Join(rest[at+1:], " "), false)
	}
	for j := 0; j < len(rest); j++ {
		if line, ok := valueOf([]string{"-x", "--exec", "--tree-filter", "--index-filter", "--msg-filter", "--env-filter"}, rest, &j); ok {
			f.nested(line, false)
		}
	}
	if hooks[sub] != nil {
		f.perhaps(path.Join(folder, ".git/config"))
	}
	for _, h := range hooks[sub] {
		f.perhaps(path.Join(folder, ".git/hooks", h))
	}
}
