package shell

import (
	"slices"
	"strings"
)

// simple judges a command by its name and arguments. piped says that its
// standard input is another command's output.
func (c *classifier) simple(args []word, piped bool) {
	if !c.step() {
		return
	}
	c.inside++
	before := len(c.found)
	defer func() {
		if c.inside--; c.inside == 0 && len(c.found) > before { // what its words are is not known for sure
			c.namesOf(args[1:])
		}
	}()
	name := args[0]
	c.addresses(name, args[1:])
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

// addresses records those among the arguments of a command, but for one that knows which
// of its words they are: a wrapper, and a program of the network. Those of a reading
// command are texts, and what it looks for: they count where the line holds another
// command that may be handed them.
func (c *classifier) addresses(name word, args []word) {
	base := baseName(name.text)
	if _, reads := readers[name.text]; reads && name.plain() {
		before := len(c.hosts)
		c.collectHosts(slices.DeleteFunc(slices.Clone(args), func(w word) bool { return !w.plain() }))
		c.texts, c.hosts = append(c.texts, c.hosts[before:]...), c.hosts[:before]
		return
	}
	w := wrappers[base]
	if r := askedBy[base]; (w == nil || !w.same) && (r != ruleMove && r != ruleWrite && r != ruleOwner || networks(base)) {
		c.handed = true
	}
	if w == nil && !networks(base) {
		c.collectHosts(args)
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
// a program of the project's, or to tell of what is installed, or to give something away,
// for which they may still load code that the project names.
var (
	startsScript = names("run run-script test start stop restart")
	tellsPackage = names("ls list view info show outdated freeze search why explain depends " +
		"publish unpublish deprecate pack login logout whoami owner access token dist-tag")
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
	what := args[0].text
	if r == ruleUnknown {
		what += " " + args[1].text
	}
	c.add(r, what)
	if networks(base) {
		c.connects(base, args[1:])
	}
	if r != ruleInstall {
		c.operandsOf(args[1:])
	}
	return true
}
