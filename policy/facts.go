package policy

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy/shell"
)

// Facts are what the judges find of a call's operation, without deciding: what a
// policy language gets to see. A call is all of it at once: who permits a part permits
// nothing until every part is permitted.
type Facts struct {
	Line  bool // the call runs a shell line
	Paths []PathFact
	Hosts []HostFact
	Deeds []Deed  // of the shell line, in its order; nil where the call has none
	Worst Finding // the first of the strictest deeds; zero where there is no line
	Named bool    // the operation names a path that is not empty
	// Excess is not zero where the call names more than can be looked at: it must be
	// denied, since Paths or Hosts do not hold everything.
	Excess Finding
}

// PathFact is one path of an operation, as its text has it: links are not followed.
type PathFact struct {
	Text   string // as given
	Path   string // JSON Pointer to the argument; "" must be looked up with Pointer
	Clean  string // relative to the workspace, without . and //; "." is the workspace; the text as given where Inside is false
	Inside bool   // the text does not leave the workspace
	Git    bool   // a file that decides which programs git runs
	Starts bool   // configuration that names programs which agents or editors run
	Why    string // one sentence, where Inside is false
}

// HostFact is one address of an operation.
type HostFact struct {
	Text   string // as given
	Path   string // JSON Pointer to the argument; "" must be looked up with Pointer
	Name   string // in lower case, without port and dot at the end; the text as given where nothing was understood
	Port   string // "" where none was given
	Scheme string // "" where none was given
	Public bool   // by what is written; who dials must look again
	Why    string // one sentence, where Public is false
}

// Deed is one thing that a shell line does.
type Deed struct {
	Rule    string // the id of the shell's rule, with the prefix shell.
	Finding        // Policies is nil
}

// Bounds of what is looked at in one call. More is in Facts.Excess.
const (
	MaxPaths = maxPaths
	MaxHosts = 1000
)

// Look finds what the operation of a call is. It never panics, and says the same
// every time. Nothing in Facts says that the call may run.
func Look(r Request) Facts {
	var f Facts
	lines, line := shellText(r)
	f.Line = line
	f.Named = slices.ContainsFunc(r.Op.Paths, func(p string) bool { return p != "" })
	if line {
		f.lookAtLines(r, lines)
	}
	f.addPaths(r.Workspace, "", r.Op.Paths)
	if r.Op.Class == events.OpNetwork {
		walkStrings(r.Args, func(name string, at func() string, text string) bool {
			if urlName(name) && text != "" {
				f.addHosts(at(), urlOnly, text)
			}
			return f.Excess.Decision == ""
		})
	}
	f.addHosts("", checkAny, r.Op.Hosts...)
	return f
}

func (f *Facts) addPaths(workspace, at string, paths []string) {
	tooMany := Finding{Decision: Deny, Code: events.TooLarge, Reason: tooManyPaths, Policies: []string{"path.workspace"}}
	if len(paths) > MaxPaths {
		f.Excess = tooMany
		return
	}
	seen := make(map[string]bool, len(f.Paths)+len(paths))
	for _, o := range f.Paths {
		seen[o.Text] = true
	}
	for _, p := range paths {
		if seen[p] {
			continue
		}
		seen[p] = true
		if len(f.Paths) == MaxPaths {
			f.Excess = tooMany
			return
		}
		fact := lookAtPath(workspace, p)
		fact.Path = at
		f.Paths = append(f.Paths, fact)
	}
}

// tooManyPaths is also what the rule path.workspace says of more than maxPaths.
const tooManyPaths = "The call names more than 1000 paths; split it into several calls."

func lookAtPath(workspace, p string) PathFact {
	f := PathFact{Text: p, Clean: p, Git: DecidesGit(p), Starts: NamesPrograms(p)}
	if p == "" { // tools take the workspace
		f.Clean, f.Inside = ".", true
		return f
	}
	rel := inside(workspace, p)
	if err := CheckPath(rel); err != nil {
		f.Why = sentence(err)
		return f
	}
	f.Clean, f.Inside = path.Clean(rel), true
	return f
}

// urlOnly judges an argument that holds a URL: there a bare host is none.
func urlOnly(u string) error {
	_, err := CheckURL(u)
	return err
}

func (f *Facts) addHosts(at string, check func(string) error, hosts ...string) {
	for _, h := range hosts {
		fact := lookAtHost(h, check)
		fact.Path = at
		if slices.ContainsFunc(f.Hosts, func(o HostFact) bool { return o.Text == h && o.Why == fact.Why }) {
			continue
		}
		if len(f.Hosts) == MaxHosts {
			f.Excess = Finding{
				Decision: Deny, Code: events.TooLarge, Policies: []string{"network.host"},
				Reason: "The call names more than 1000 addresses; split it into several calls.",
			}
			return
		}
		f.Hosts = append(f.Hosts, fact)
	}
}

func lookAtHost(h string, check func(string) error) HostFact {
	f := HostFact{Text: h, Name: h}
	err := check(h)
	if err != nil {
		f.Why = sentence(err)
	}
	f.Public = err == nil
	rest := h
	if strings.Contains(h, "://") {
		u, perr := parseURL(h)
		if perr != nil {
			return f
		}
		f.Scheme, rest = u.Scheme, u.Host
	}
	rest, _, _ = strings.Cut(rest, "/")
	name, port := splitPort(rest)
	f.Name, f.Port = plainHost(name), port
	return f
}

// lookAtLines adds what the shell lines of a call do and name.
func (f *Facts) lookAtLines(r Request, lines []shellLineOf) {
	scope := shell.Scope{Workspace: cleanWorkspace(r.Workspace), Network: r.Network}
	for _, l := range lines {
		a := scope.Classify(l.text)
		f.addPaths(r.Workspace, l.path, a.Paths)
		f.addPaths(r.Workspace, l.path, a.Names)
		f.addHosts(l.path, checkAny, a.Hosts...)
		w := Finding{Decision: Decision(a.Decision), Reason: a.Reason, Path: l.path}
		if w.Decision == Deny {
			w.Code = shellCode(a.Policies)
		}
		if rank(w.Decision) > rank(f.Worst.Decision) {
			f.Worst = w
		}
		for _, found := range a.Findings {
			d := Deed{found.Rule, Finding{Decision: Decision(found.Decision), Reason: found.Reason, Path: l.path}}
			if d.Decision == Deny {
				d.Code = w.Code
			}
			if !slices.ContainsFunc(f.Deeds, func(o Deed) bool { return o.Rule == d.Rule }) {
				f.Deeds = append(f.Deeds, d)
			}
		}
	}
}

// Unjudged reports whether a deed says that the line was not understood at all: no
// policy may permit it, since nothing is known of what it does.
func (d Deed) Unjudged() bool {
	return d.Decision == Deny && shellCode([]string{d.Rule}) == events.InvalidParam
}

// Pointer is the JSON Pointer to the first string in args that is text, "" if there
// is none.
func Pointer(args json.RawMessage, text string) string { return pointer(args, text) }

// Leaf is a value in a call's arguments that holds no others.
type Leaf struct {
	Path string          // JSON Pointer
	Raw  json.RawMessage // a string, number, boolean or null
}

// Leaves are the values of arguments in their order. ok is false where there are more
// than most, or deeper ones than are looked at, or the arguments are no JSON: then not
// everything is there.
func Leaves(args json.RawMessage, most int) (leaves []Leaf, ok bool) {
	paths := 0
	ok = leavesOf(args, "", 0, func(l Leaf) bool {
		leaves = append(leaves, l)
		paths += len(l.Path)
		return len(leaves) <= most && paths <= maxLeafPaths
	})
	return leaves, ok
}

// HostName is the name of a host as HostFact has it, of a URL, a host, or host:port.
func HostName(h string) string { return lookAtHost(h, checkAny).Name }
