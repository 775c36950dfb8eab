package again

import (
	"cmp"
	"encoding/json"
	"net/url"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy/shell"
)

// reading says what a call of a tool would do, by the call's arguments alone, as the
// tool itself parses them. None of them is the tool: what runs is not in this package.
type reading func(args json.RawMessage) (events.Operation, events.Tier)

// readings are the tools whose calls can be read here, by name: those that come with a
// node, and its fixtures. Whether they are registered is not known here.
var readings = map[string]reading{
	"Bash": shellLine, "bash": shellLine,
	"Read": onPath(events.OpRead, events.Readonly, ""),
	"Grep": onPath(events.OpRead, events.Readonly, "."), "Glob": onPath(events.OpRead, events.Readonly, "."),
	"Edit": onPath(events.OpWrite, events.Reversible, ""), "Write": onPath(events.OpWrite, events.Reversible, ""),
	"read": onClean(events.OpRead, events.Readonly), "write": onClean(events.OpWrite, events.Reversible),
	"Fetch": address, "fetch": address,

	"blob": harmless, "deaf_sleep": harmless, "down": harmless, "echo": harmless, "flaky": harmless, "nil": harmless, "reach": harmless,
	"panic": harmless, "sleep": harmless, "unavailable": harmless,
	"json_schema_2020_12_tool": harmless, "test_audio_content": harmless, "test_elicitation": harmless, "test_elicitation_sep1034_defaults": harmless,
	"test_elicitation_sep1330_enums": harmless, "test_embedded_resource": harmless, "test_error_handling": harmless, "test_image_content": harmless,
	"test_multiple_content_types": harmless, "test_sampling": harmless, "test_simple_text": harmless, "test_tool_with_logging": harmless,
	"test_tool_with_progress": harmless,
	"ask":                     asking, "approve_me": acting(events.Approval), "charge": acting(events.Irreversible), "counter": acting(events.Irreversible),
	"reserve": acting(events.Reversible), lifecycle.UndoTool: acting(events.Irreversible),
}

// Readable says whether calls of a tool can be read from their arguments alone.
func Readable(tool string) bool { return readings[tool] != nil }

func shellLine(args json.RawMessage) (events.Operation, events.Tier) {
	a := shell.Classify(member(args, "command"))
	op := events.Operation{Class: events.OpExecute, Commands: a.Commands, Paths: a.Paths, Hosts: a.Hosts, Reads: a.Reads}
	if a.Reads {
		return op, events.Readonly
	}
	return op, events.Irreversible
}

// asking reads the fixture that asks a person, which can be told to have no effect.
func asking(args json.RawMessage) (events.Operation, events.Tier) {
	var in struct{ Readonly bool }
	if json.Unmarshal(args, &in) == nil && in.Readonly {
		return harmless(args)
	}
	return acting(events.Irreversible)(args)
}

// onPath reads a tool that works on the file that its argument path names, or on
// other.
func onPath(class events.OpClass, tier events.Tier, other string) reading {
	return func(args json.RawMessage) (events.Operation, events.Tier) {
		op := events.Operation{Class: class}
		if p := cmp.Or(member(args, "path"), other); p != "" {
			op.Paths = []string{p}
		}
		return op, tier
	}
}

// onClean is onPath of the fixtures, which name a file by its plain path.
func onClean(class events.OpClass, tier events.Tier) reading {
	return func(args json.RawMessage) (events.Operation, events.Tier) {
		return events.Operation{Class: class, Paths: []string{path.Clean(member(args, "path"))}}, tier
	}
}

// address reads a tool that fetches what its argument url names. What is no address is
// its own host, which no rule allows.
func address(args json.RawMessage) (events.Operation, events.Tier) {
	raw := member(args, "url")
	host, ok := hostOf(raw)
	if !ok {
		host = raw
	}
	return events.Operation{Class: events.OpNetwork, Hosts: []string{host}}, events.Readonly
}

// mostURL is the length in bytes of the longest address that is read.
const mostURL = 8 << 10

// hostOf is the host of an address, with its port where that is not the scheme's own.
func hostOf(raw string) (string, bool) {
	if len(raw) > mostURL || strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }) {
		return "", false
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "" || u.Hostname() == "" || u.User != nil || strings.Contains(u.Host, "%") {
		return "", false
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if host == "" {
		return "", false
	}
	port := u.Port()
	if port == "" || port == map[string]string{"http": "80", "https": "443"}[u.Scheme] {
		return host, true
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return host + ":" + port, err == nil && n > 0
}

func harmless(json.RawMessage) (events.Operation, events.Tier) { return plainly(events.Readonly) }

func acting(tier events.Tier) reading {
	return func(json.RawMessage) (events.Operation, events.Tier) { return plainly(tier) }
}

// plainly is a call of a tool that says nothing of its calls but its tier.
func plainly(tier events.Tier) (events.Operation, events.Tier) {
	if tier == events.Readonly {
		return events.Operation{Class: events.OpRead}, tier
	}
	return events.Operation{Class: events.OpExecute}, tier
}

// member is a string among a JSON object's members, "" if there is none of that name.
func member(args json.RawMessage, name string) string {
	var m map[string]json.RawMessage
	var s string
	if json.Unmarshal(args, &m) != nil || json.Unmarshal(m[name], &s) != nil {
		return ""
	}
	return s
}

// cut is a text of at most n bytes, and a mark where it was longer.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
