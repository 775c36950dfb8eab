package mcp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// anyObject is the schema of a tool of which nothing is known.
var anyObject = json.RawMessage(`{"type":"object"}`)

// named are the tools that the operator's file names.
func (s Server) named() []string {
	names := map[string]bool{}
	for tool := range s.Tiers {
		names[tool] = tool != "*"
	}
	for _, tool := range s.Allow {
		names[tool] = true
	}
	for _, tool := range s.HonoursKey {
		names[tool] = true
	}
	maps.DeleteFunc(names, func(tool string, is bool) bool { return !is || tool == "" || !s.allows(tool) })
	return slices.Sorted(maps.Keys(names))
}

// missing are the tools that the operator's file names and the server does not have: one
// that is misspelt is not denied.
func (s Server) missing(l listing) []error {
	there := map[string]bool{"*": true}
	for _, d := range l.tools {
		there[d.Name] = true
	}
	for _, b := range l.bad {
		there[b.name] = true
	}
	names := slices.Concat(s.Allow, s.Deny, s.HonoursKey, slices.Collect(maps.Keys(s.Tiers)))
	slices.Sort(names)
	var out []error
	for _, name := range slices.Compact(names) {
		if !there[name] {
			out = append(out, fmt.Errorf("%s: the file names it, and the server has no such tool", shown(name)))
		}
	}
	return out
}

// allows says whether the operator lets a tool be offered.
func (s Server) allows(tool string) bool {
	return (s.Allow == nil || slices.Contains(s.Allow, tool)) && !slices.Contains(s.Deny, tool)
}

// made are the tools of a list, sorted by the server's own names, with what cannot be one.
func (s *server) made(l listing) (list []tools.Tool, offers []Offer, bad []error) {
	for _, b := range l.bad {
		if b.name == "" || s.spec.allows(b.name) { // what is denied may be as it likes
			bad = append(bad, b.why)
		}
	}
	bad = append(bad, s.spec.missing(l)...)
	sorted := slices.SortedFunc(slices.Values(l.tools), func(a, b definition) int { return strings.Compare(a.Name, b.Name) })
	taken := map[string]string{}
	for _, d := range sorted {
		if !s.spec.allows(d.Name) {
			continue
		}
		d = d.tidy()
		t := s.tool(d)
		if own, is := taken[t.Name]; is {
			bad = append(bad, fmt.Errorf("%s: its name here would be %s, which is that of %s", shown(d.Name), t.Name, shown(own)))
			continue
		}
		taken[t.Name] = d.Name
		_, why := s.spec.tierOf(d.Name, d.Annotations)
		if d.loose != nil {
			why += "; its output schema does not count: " + clip(events.Visible(d.loose.Error()), 300)
		}
		list = append(list, t)
		offers = append(offers, Offer{Name: t.Name, Own: events.Visible(d.Name), Tier: t.Tier, Why: why, Version: t.Version})
	}
	return list, offers, bad
}

// tidy is a definition whose schemas can be used as far as they can be mended. An output
// schema that cannot takes away no tool: what it answers is then not held to it.
func (d definition) tidy() definition {
	d.InputSchema = mended(d.InputSchema)
	var top map[string]json.RawMessage
	if json.Unmarshal(d.InputSchema, &top) == nil && top != nil && top["type"] == nil {
		// Arguments are an object in any case: some servers do not say so.
		d.InputSchema = append([]byte(`{"type":"object"`+comma(len(top) > 0)), bytes.TrimSpace(d.InputSchema)[1:]...)
	}
	if noSchema(bytes.TrimSpace(d.OutputSchema)) {
		d.OutputSchema = nil
		return d
	}
	d.OutputSchema = mended(d.OutputSchema)
	if err := tools.CheckSchema(d.OutputSchema); err != nil {
		d.OutputSchema, d.loose = nil, err
	}
	return d
}

func comma(is bool) string {
	if is {
		return ","
	}
	return ""
}

// version is the digest of all that a definition says of what the tool does: an approval
// of another one is void.
func (d definition) version() string {
	dec := json.NewDecoder(bytes.NewReader(d.raw))
	dec.UseNumber()
	var all map[string]any
	if dec.Decode(&all) != nil {
		all = map[string]any{"name": d.Name}
	}
	delete(all, "_meta")
	delete(all, "icons")
	plain, err := json.Marshal(all) // members in order
	if err != nil {
		plain = d.raw
	}
	sum := sha256.Sum256(plain)
	return "sha256-" + hex.EncodeToString(sum[:6])
}

// tool is a definition as a tool of the house.
func (s *server) tool(d definition) tools.Tool {
	tier, _ := s.spec.tierOf(d.Name, d.Annotations)
	t := tools.Tool{Spec: tools.Spec{
		Name: ToolName(s.spec.Name, d.Name), Description: describe(d), Version: d.version(), Schema: visibleSchema(d.InputSchema),
		Tier: tier, Limits: s.spec.Limits, HonoursKey: slices.Contains(s.spec.HonoursKey, d.Name),
	}}
	t.Containment = func(tools.Invocation) string { return s.words() }
	t.Run = func(ctx context.Context, in tools.Invocation) (events.Result, error) { return s.call(ctx, in, d, tier) }
	return t
}

// words are what contains the server.
func (s *server) words() string {
	switch {
	case s.spec.URL != "":
		return "mcp,remote"
	case s.spec.Open || !s.cfg.Sandbox.Use.Any():
		return "mcp,process-tree"
	}
	p := s.cfg.Sandbox
	p.Network = s.spec.Network
	return strings.Join(append([]string{"mcp", "process-tree"}, p.Words()...), ",")
}

// describe is a tool's description for a model: bounded, with what is hidden made visible.
func describe(d definition) string {
	return clip(visibleLines(cmp.Or(d.Description, d.Title)), maxDescription)
}

// visibleLines is events.Visible, but for ends of lines and tabs.
func visibleLines(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	for i, line := range lines {
		parts := strings.Split(line, "\t")
		for j, p := range parts {
			if hides(p) {
				parts[j] = events.Visible(p)
			}
		}
		lines[i] = strings.Join(parts, "\t")
	}
	return strings.Join(lines, "\n")
}

// hides says that a text has more in it than is seen. A backslash alone is no reason to
// write a text differently.
func hides(s string) bool {
	plain := strings.ReplaceAll(s, `\`, "")
	return events.Visible(plain) != plain
}

// visibleSchema is a schema whose descriptions and titles have nothing hidden in them. It
// is the same text where there is nothing to do.
func visibleSchema(schema json.RawMessage) json.RawMessage {
	dec := json.NewDecoder(bytes.NewReader(schema))
	dec.UseNumber()
	var doc any
	if dec.Decode(&doc) != nil || !unhide(doc, 0) {
		return schema
	}
	out, err := json.Marshal(doc)
	if err != nil {
		return schema
	}
	return out
}

// maxSchemaWalk is how deep descriptions are looked for; the registry takes no deeper
// schema.
const maxSchemaWalk = 200

func unhide(v any, depth int) (changed bool) {
	if depth > maxSchemaWalk {
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		for name, child := range v {
			if text, ok := child.(string); ok && (name == "description" || name == "title") {
				if plain := visibleLines(text); plain != text {
					v[name], changed = plain, true
				}
				continue
			}
			changed = unhide(child, depth+1) || changed
		}
	case []any:
		for _, child := range v {
			changed = unhide(child, depth+1) || changed
		}
	}
	return changed
}
