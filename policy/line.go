package policy

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy/shell"
)

// shellLine judges the shell line of a call that has one.
func (hr hostRule) shellLine(r Request) Finding {
	lines, ok := shellText(r)
	if !ok {
		return Finding{}
	}
	scope := shell.Scope{Workspace: cleanWorkspace(r.Workspace), Network: r.Network}
	var worst Finding
	for _, l := range lines {
		a := scope.Classify(l.text)
		f := Finding{Decision: Decision(a.Decision), Reason: a.Reason, Path: l.path, Policies: a.Policies}
		if f.Decision == Deny {
			f.Code = shellCode(a.Policies)
		}
		if g := hr.shell(r, a); rank(g.Decision) > rank(f.Decision) {
			f = g
			f.Path = l.path
		}
		if rank(f.Decision) > rank(worst.Decision) {
			worst = f
		}
	}
	return worst
}

// shellCode tells what is wrong with the line itself from what it would do.
func shellCode(policies []string) events.Code {
	for _, p := range policies {
		switch p {
		case "shell.encoding", "shell.limit", "shell.empty", "shell.syntax", "shell.ambiguous":
		default:
			return events.PermissionDenied
		}
	}
	return events.InvalidParam
}

// shell looks at the addresses in a line that may use the network.
func (hr hostRule) shell(r Request, a shell.Analysis) Finding {
	if !r.Network {
		return Finding{}
	}
	for _, h := range a.Hosts {
		if hr.trusts(h) {
			continue
		}
		if err := checkAny(h); err != nil {
			return Finding{Decision: Deny, Code: events.AccessDenied, Reason: sentence(err), Policies: []string{"network.host"}}
		}
	}
	return Finding{}
}

// shellLineOf is a line, the argument that holds it, and where another one says it runs.
type shellLineOf struct{ text, path, folder string }

// shellText finds the shell lines of a call that executes: in its arguments, whatever
// the case of their names and however deep they stand, or else in its parsed operation.
func shellText(r Request) (lines []shellLineOf, ok bool) {
	if r.Op.Class != events.OpExecute || r.lineless {
		return nil, false
	}
	if namesLine(r.Args, executing) {
		walkLines(r.Args, "", 0, executing, &lines)
	}
	if len(lines) == 0 {
		for _, c := range r.Op.Commands {
			lines = append(lines, shellLineOf{text: c})
		}
	}
	for i, l := range lines {
		if l.folder != "" && !slices.Contains(r.Op.Paths, l.folder) { // a path of the operation is judged as one
			lines[i].text = "cd " + quoteAll([]string{l.folder}) + " && " + l.text
		}
	}
	return lines, len(lines) > 0
}

// holdsLine says whether arguments have a shell line, of a tool that does not say that
// it executes.
func holdsLine(args json.RawMessage) bool {
	if !namesLine(args, plainly) {
		return false
	}
	var lines []shellLineOf
	walkLines(args, "", 0, plainly, &lines)
	return len(lines) > 0
}

// vocabulary says of an argument's name, in lower case and without - and _, whether it
// holds a shell line. always: whatever its value is; a value that is no line is denied.
type vocabulary map[string]struct{ always bool }

// plainly are the names that only who runs lines gives an argument. executing are those
// of a tool that says that it executes: there a code or a program is one, too.
var (
	plainly = vocabulary{
		"command": {always: true}, "cmd": {always: true}, "script": {always: true},
		"commands": {}, "cmds": {}, "cmdline": {}, "commandline": {}, "shell": {}, "shellcommand": {}, "shellscript": {}, "bash": {}, "bashcommand": {},
		"sh": {}, "exec": {}, "argv": {},
	}
	executing = func() vocabulary {
		v := vocabulary{"code": {}, "program": {}, "executable": {}, "binary": {}, "run": {}, "execute": {}, "scripts": {}, "powershell": {}, "python": {}, "input": {}}
		for name, is := range plainly {
			v[name] = is
		}
		return v
	}()
)

// of looks a name up.
func (v vocabulary) of(name string) (always, ok bool) {
	is, ok := v[plainName(name)]
	return is.always, ok
}

// plainName is an argument's name without what spellings of it differ in; "" of one that
// is too long to be any that is looked for.
func plainName(name string) string {
	if len(name) > 32 {
		return ""
	}
	return strings.ToLower(strings.NewReplacer("-", "", "_", "", ".", "", " ", "").Replace(name))
}

// namesLine says whether some member of a JSON value may have a name of v. It is cheap,
// and may be wrong only by saying yes.
func namesLine(raw json.RawMessage, v vocabulary) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '"' {
			continue
		}
		n := quotedLength(raw[i:])
		name, end := raw[i:i+n], i+n
		for end < len(raw) && strings.IndexByte(" \t\r\n", raw[end]) >= 0 {
			end++
		}
		if end < len(raw) && raw[end] == ':' && n >= 2 {
			if _, ok := v.of(string(name[1 : n-1])); ok || strings.IndexByte(string(name), '\\') >= 0 {
				return true
			}
		}
		i += n - 1
	}
	return false
}

// quotedLength is the length of the JSON string that begins here, with its quotes.
func quotedLength(raw []byte) int {
	for i := 1; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}

// walkLines collects the shell lines of a JSON value. Deeper than maxArgDepth nothing is
// looked for: what stands there is a line that cannot be judged.
func walkLines(raw json.RawMessage, path string, depth int, v vocabulary, out *[]shellLineOf) {
	if depth > maxArgDepth {
		if namesLine(raw, v) {
			*out = append(*out, shellLineOf{path: path})
		}
		return
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		for i, e := range list {
			walkLines(e, path+"/"+strconv.Itoa(i), depth+1, v, out)
		}
		return
	}
	all := members(raw)
	for _, m := range all {
		at := path + "/" + escapePointer(m.name)
		always, named := v.of(m.name)
		if strings.EqualFold(m.name, "input") && (depth > 0 || len(all) > 1) {
			named = false // it is a line only where it is all that there is
		}
		if !named {
			walkLines(m.value, at, depth+1, v, out)
			continue
		}
		lines := linesOf(m)
		switch {
		case onlyNamesShell(m, lines, all, v):
		case len(lines) > 0:
			with := besideIt(m.name, all)
			for _, l := range lines {
				for _, whole := range with.lines(l) {
					*out = append(*out, shellLineOf{whole, at, with.folder})
				}
			}
		case always && depth == 0:
			*out = append(*out, shellLineOf{path: at})
		default:
			walkLines(m.value, at, depth+1, v, out)
		}
	}
}

// onlyNamesShell says whether a member says which shell runs the line of another one:
// what that may be is known, and the line is judged as what it runs.
func onlyNamesShell(m member, lines []string, all []member, v vocabulary) bool {
	if !strings.EqualFold(m.name, "shell") || len(lines) != 1 {
		return false
	}
	switch lines[0] {
	case "bash", "sh", "/bin/bash", "/bin/sh", "/usr/bin/bash", "/usr/bin/sh":
		return slices.ContainsFunc(all, func(o member) bool {
			_, named := v.of(o.name)
			return named && o.name != m.name && len(linesOf(o)) > 0
		})
	}
	return false
}

// linesOf are the shell lines that a member stands for: a text, a list of words, or
// where its name or its first word says so a list of texts. It is nil for anything else.
func linesOf(m member) []string {
	var line string
	if json.Unmarshal(m.value, &line) == nil && string(m.value) != "null" {
		return []string{line}
	}
	var words []string
	if json.Unmarshal(m.value, &words) != nil || len(words) == 0 {
		return nil
	}
	switch {
	case strings.HasSuffix(strings.ToLower(m.name), "s"):
		return words
	case strings.ContainsAny(words[0], " \t\r\n;|&"):
		return append([]string{quoteAll(words)}, words...)
	}
	return []string{quoteAll(words)}
}

func quoteAll(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(out, " ")
}
