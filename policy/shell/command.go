package shell

import (
	"strings"
)

// simple judges a command by its name and arguments. piped says that its
// standard input is another command's output.
func (c *classifier) simple(args []word, piped bool) {
	if !c.step() {
		return
	}
	if c.inside++; c.inside == 1 { // a command behind a wrapper has no words but the wrapper's
		c.collectHosts(args[1:])
	}
	before := len(c.found)
	defer func() {
		if c.inside--; c.inside == 0 && len(c.found) > before { // what its words are is not known for sure
			c.namesOf(args[1:])
		}
	}()
	name := args[0]
	if !name.plain() || name.text == "" {
		c.add(ruleIndirect, name.text)
		c.hidden(args[1:], piped)
		return
	}
	base := baseName(name.text)
	switch {
	case c.never(base, args, piped):
	case wrappers[base] != nil:
		c.wrapped(base, args, piped)
	case c.asked(base, args):
	case version(args):
	default:
		if _, known := readers[name.text]; known {
			c.reads(name.text, args[1:])
			return
		}
		c.add(ruleUnknown, name.text)
		c.operandsOf(args[1:])
	}
}

// step counts what is judged: wrappers inside wrappers could go on for long.
func (c *classifier) step() bool {
	if c.steps++; c.steps > maxSteps {
		c.add(ruleLimit, "")
		return false
	}
	return true
}

// versions are programs that only print a line when asked for their version. It
// is none of those that managers of versions stand in for (python, node, ruby, go
// and such): what these start is named by a file in the folder they stand in.
var versions = names("gcc make")

func version(args []word) bool {
	if len(args) != 2 {
		return false
	}
	return versions[args[0].text] && args[1].is("--version")
}

// hidden looks at the arguments of a command whose name is not known: what may
// never run may not run behind it either.
func (c *classifier) hidden(args []word, piped bool) {
	for i, w := range args {
		if w.plain() && w.text != "" {
			c.never(baseName(w.text), args[i:], piped)
			return
		}
	}
}

// baseName is a command's name without its folder, in lower case: some file
// systems do not tell SUDO from sudo.
func baseName(name string) string {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = name[i+1:]
	}
	return strings.ToLower(name)
}

// family is a name without a version: python3.11 is python, mkfs.ext4 is mkfs.
func family(base string) string {
	if strings.HasPrefix(base, "mkfs.") {
		return "mkfs"
	}
	base = strings.TrimSuffix(base, ".exe")
	return strings.TrimRight(base, "0123456789.-")
}

// operandsOf records what may be files among the arguments of a command that a
// person will be asked about.
func (c *classifier) operandsOf(args []word) {
	for _, w := range args {
		if w.plain() && !w.flag() && w.text != "" && !strings.Contains(w.text, "://") && len(w.text) <= 256 &&
			strings.IndexFunc(w.text, special) < 0 {
			c.paths = append(c.paths, w.text)
		}
	}
}

// namesOf records what may be files among the arguments of a command that is not
// understood as reading, also inside its flags and on either side of a colon, as in
// git archive HEAD:path, docker -v path:place.
func (c *classifier) namesOf(args []word) {
	for _, w := range args {
		if !w.plain() || len(w.text) > maxName || strings.Contains(w.text, "://") {
			continue
		}
		if !w.flag() && w.text != "" {
			c.names = append(c.names, w.text)
		}
		if _, value, ok := strings.Cut(w.text, "="); ok && value != "" {
			c.names = append(c.names, value)
		}
		if left, _, ok := strings.Cut(w.text, ":"); ok {
			c.names = append(append(c.names, present(left)...), c.namesInside(w.text)...)
		}
	}
}

// maxName is the length in bytes of the longest word that may be a file's name.
const maxName = 4096

// collectHosts records the URLs among the arguments of any command.
func (c *classifier) collectHosts(args []word) {
	for _, w := range args {
		if !w.plain() || !strings.Contains(w.text, "://") {
			continue
		}
		u := w.text
		if flag, value, ok := strings.Cut(u, "="); ok && strings.HasPrefix(flag, "-") {
			u = value
		}
		if len(u) <= 2048 && strings.IndexFunc(u, forbidden) < 0 && !strings.ContainsAny(u, " \n\t") {
			c.hosts = append(c.hosts, u)
		}
	}
}

// askedBy are the names of commands that a person is asked about, by rule.
var askedBy = func() map[string]*rule {
	m := map[string]*rule{}
	for r, list := range map[*rule]string{
		ruleMove:  "mv cp rename mmv rsync install ln",
		ruleOwner: "chmod chown chgrp setfacl chattr setcap umask",
		ruleWrite: "tee touch mkdir rmdir mkfifo mknod truncate split csplit sponge patch ed-script tar unzip zip gzip gunzip " +
			"bzip2 xz zstd cpio crontab at batch logrotate fallocate",
		ruleEnvironment: "env printenv set export declare typeset readonly id whoami who w users groups logname uname hostname " +
			"hostnamectl ps lsof pgrep pstree last lastlog getent history compgen",
		ruleInstall: "npm npx pnpm pnpx yarn bun bunx corepack pip pipx uv uvx poetry conda mamba apt apt-get dpkg yum dnf rpm apk pacman zypper brew " +
			"port snap flatpak gem bundle composer cpan cpanm cabal stack opam luarocks nix nix-env easy_install",
		ruleScript: "make gmake cmake ninja meson just task rake gradle gradlew mvn ant bazel buck tox nox pytest node-gyp",
	} {
		for n := range names(list) {
			m[n] = r
		}
	}
	return m
}()

// What package managers are asked for that is no installing, by the first word: to start
// a program of the project's, or to tell of what is installed, for which they may still
// load code that the project names.
var (
	startsScript = names("run run-script test start stop restart")
	tellsPackage = names("ls list view info show outdated freeze search why explain depends")
)

// packaging is the rule for a package manager's line.
func packaging(args []word) *rule {
	switch {
	case len(args) > 1 && args[1].plain() && startsScript[args[1].text]:
		return ruleScript
	case len(args) > 1 && args[1].plain() && tellsPackage[args[1].text]:
		return ruleUnknown
	}
	return ruleInstall
}

// asked judges commands that are known not to be mere reading.
func (c *classifier) asked(base string, args []word) bool {
	r := askedBy[base]
	if r == nil {
		r = askedBy[family(base)]
	}
	if r == nil || version(args) {
		return false
	}
	if r == ruleInstall {
		r = packaging(args)
	}
	c.add(r, args[0].text)
	if r != ruleInstall {
		c.operandsOf(args[1:])
	}
	return true
}
