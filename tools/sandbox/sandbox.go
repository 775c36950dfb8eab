// Package sandbox contains a command: what it may read, write, reach and use. On
// Linux it is built from what the kernel gives to a process without rights:
// namespaces, Landlock, a filter of system calls, limits. Look finds out what a
// machine has; Policy says what one command may do; the keeper in package family
// carries it out, and a command whose containment cannot be had is not started.
package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Policy is what one command may do. What it does not grant is not there. It is a
// value that a keeper is sent as JSON.
type Policy struct {
	Workspace string   // absolute; where the command runs
	Write     bool     // the workspace may be changed
	Network   bool     // the command has the network of the machine, loopback included
	Read      []string // absolute; readable beside what every command may read; what does not exist, or may not be read, is left out
	Writable  []string // absolute; readable and writable, also where Write is not set, for caches; likewise
	Path      string   // the command's PATH: its absolute directories are readable
	Hide      []string // absolute; never there, whatever holds them; only with namespaces
	Limits    Limits
	Use       Use // what the machine has; the zero value contains nothing
}

// Limits bound a command. Zero fields mean the defaults beside them.
type Limits struct {
	CPU       time.Duration // processor time of one process; 0 means 30 min
	Memory    int64         // bytes of data of one process; 0 means 4 GiB; at least 256 MiB
	File      int64         // bytes of one file that is written; 0 means 4 GiB
	Temp      int64         // bytes in /tmp and in /dev/shm, each; 0 means 512 MiB
	Processes int           // and threads, at once; 0 means 1 024; at least 64
	Open      int           // descriptors of one process; 0 means 4 096; at least 64
}

const (
	minMemory    = 256 << 20
	minProcesses = 64
	minOpen      = 64
)

func (l Limits) withDefaults() Limits {
	l.CPU = max(cmp.Or(l.CPU, 30*time.Minute), time.Second)
	l.Memory = max(cmp.Or(l.Memory, 4<<30), minMemory)
	l.File = max(cmp.Or(l.File, 4<<30), 0)
	l.Temp = max(cmp.Or(l.Temp, 512<<20), 1<<16)
	l.Processes = max(cmp.Or(l.Processes, 1024), minProcesses)
	l.Open = max(cmp.Or(l.Open, 4096), minOpen)
	return l
}

// Use is what a machine has of that which contains. The zero value is nothing at all:
// a command is started as it was before there was a sandbox.
type Use struct {
	Namespaces bool // user, mount, pid, ipc, uts and, without Policy.Network, net
	Landlock   int  // version of the kernel's interface; 0: there is none that is of use
	Seccomp    bool // the filter of system calls
	Limits     bool // limits, no new privileges, no capabilities
}

// Any says whether anything is contained.
func (u Use) Any() bool { return u != Use{} }

// OwnHome in an environment asks for a HOME of the command's own: an empty folder, which
// goes with it. Only where Use.Own says that there is one.
const OwnHome = "HOME="

// Own says that a command has a folder for temporary files of its own, which goes with it.
func (u Use) Own() bool { return u.files() }

// files says that paths are held.
func (u Use) files() bool { return u.Namespaces || u.Landlock > 0 }

// Words are what contains a command beside its process tree, in short words that
// never change their meaning: userns, mountns, pidns, ipcns, utsns, netns, landlock
// with the version of the kernel's interface, nnp (no new privileges, no
// capabilities), rlimits, seccomp.
func (p Policy) Words() []string {
	var w []string
	if p.Use.Namespaces {
		w = append(w, "userns", "mountns", "pidns", "ipcns", "utsns")
		if !p.Network {
			w = append(w, "netns")
		}
	}
	if p.Use.Landlock > 0 {
		w = append(w, fmt.Sprintf("landlock%d", p.Use.Landlock))
	}
	if p.Use.Limits {
		w = append(w, "nnp", "rlimits")
	}
	if p.Use.Seccomp {
		w = append(w, "seccomp")
	}
	return w
}

// ErrWorkspace says that a command cannot run in the workspace that it was given: it is
// for whoever named that to mend, and no fault of the machine's.
var ErrWorkspace = errors.New("no command can run in this workspace")

// check refuses a policy whose paths cannot be meant.
func (p Policy) check() error {
	switch w := p.Workspace; {
	case !plain(w):
		return fmt.Errorf("%w: %q is no absolute path", ErrWorkspace, w)
	case filepath.Clean(w) == "/":
		return fmt.Errorf("%w: it is the whole file system; name a directory", ErrWorkspace)
	case slices.Contains(system, filepath.Clean(w)), slices.ContainsFunc(kernels, func(dir string) bool { return Within(w, dir) }):
		return fmt.Errorf("%w: %s belongs to the system; name a directory of its own", ErrWorkspace, w)
	}
	for _, path := range slices.Concat(p.Read, p.Writable, p.Hide) {
		if !plain(path) {
			return fmt.Errorf("%q is no absolute path", path)
		}
	}
	return nil
}

// plain says that a path is absolute, and one at all.
func plain(path string) bool { return filepath.IsAbs(path) && !strings.ContainsRune(path, 0) }

// searched are the directories of PATH that may be read: those that hold neither
// what is hidden nor a home.
func (p Policy) searched() []string {
	var out []string
	for _, dir := range filepath.SplitList(p.Path) {
		dir = filepath.Clean(dir)
		if !filepath.IsAbs(dir) || dir == "/" || dir == "/root" || dir == "/home" || filepath.Dir(dir) == "/home" {
			continue
		}
		if !slices.ContainsFunc(p.Hide, func(h string) bool { return Within(h, dir) }) {
			out = append(out, dir)
		}
	}
	return out
}

// Within says whether path is dir or below it. Both are absolute; links are not
// looked at.
func Within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// Shows says whether a command is shown what is at an absolute path, by its name and behind
// its links; what is not there is not shown. Where paths are not held everything is.
func (p Policy) Shows(path string) bool {
	whole, err := filepath.EvalSymlinks(path)
	if err != nil || !p.Use.files() {
		return err == nil
	}
	granted := slices.Concat([]string{p.Workspace}, p.Read, p.Writable, p.searched(), system, kernels)
	for _, name := range settings {
		granted = append(granted, "/etc/"+name)
	}
	named := func(dir string) bool { return Within(path, dir) }
	behind := func(dir string) bool {
		at, err := filepath.EvalSymlinks(dir)
		return err == nil && Within(whole, at)
	}
	hidden := func(dir string) bool { return named(dir) || behind(dir) }
	return slices.ContainsFunc(granted, named) && slices.ContainsFunc(granted, behind) && !slices.ContainsFunc(p.Hide, hidden)
}

// system are the directories that hold programs and what they need.
var system = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store", "/run/current-system/sw",
	"/sys/devices/system/cpu",
}

// kernels are file systems of the kernel's own: a command has other ones in their place.
var kernels = []string{"/proc", "/sys", "/dev"}

// settings are the parts of /etc that programs need and that hold no secret. Keys of
// servers, the table of passwords and what belongs to services are not among them.
var settings = []string{
	"alternatives", "bash.bashrc", "bash_completion.d", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version", "default/locale",
	"fonts", "gai.conf", "gitconfig", "group", "host.conf", "hosts", "inputrc", "java", "java-17-openjdk", "java-21-openjdk", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",
	"locale.alias", "localtime", "lsb-release", "magic", "mailcap", "manpath.config", "mime.types", "networks", "nsswitch.conf", "os-release",
	"passwd", "perl", "pki/ca-trust", "pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf", "profile", "profile.d", "protocols", "python3", "resolv.conf",
	"rpc", "services", "shells", "skel", "ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf", "static", "terminfo", "timezone", "vimrc", "xattr.conf",
}

// Exposed are the hidden paths that a command could read all the same, since the
// machine has no namespaces and something holds them that may be read.
func (p Policy) Exposed() []string {
	if p.Use.Namespaces {
		return nil
	}
	var out []string
	for _, h := range p.Hide {
		if !p.Use.files() || slices.ContainsFunc(slices.Concat([]string{p.Workspace}, p.Read, p.Writable), func(dir string) bool { return dir != "" && Within(h, dir) }) {
			out = append(out, h)
		}
	}
	return out
}
