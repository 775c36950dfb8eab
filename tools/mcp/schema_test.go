package mcp

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/mcp/mcptest"
)

func TestSchemasAreMended(t *testing.T) {
	for schema, want := range map[string]string{
		``: `{"type":"object"}`, `null`: `{"type":"object"}`, `[]`: `{"type":"object"}`, ` true `: `{"type":"object"}`,
		`{"type":"object","z":1.50,"a":1}`:  `{"type":"object","z":1.50,"a":1}`, // nothing to mend: as it is
		`{"type":"object","properties":[]}`: `{"properties":{},"type":"object"}`,
		`{"type":["object"]}`:               `{"type":"object"}`,
		`{"type":["object","null"]}`:        `{"type":["object","null"]}`,
		`{"type":"object","required":null}`: `{"type":"object"}`,
		`{"type":"object","properties":{"x":{"enum":null,"default":null,"maximum":1.50}}}`:                                `{"properties":{"x":{"default":null,"maximum":1.50}},"type":"object"}`,
		`{"type":"object","properties":{"x":{"required":true}}}`:                                                          `{"properties":{"x":{}},"type":"object"}`,
		`{"type":"object","properties":{"x":{"items":[{"type":"string"}],"additionalItems":false}}}`:                      `{"properties":{"x":{"items":false,"prefixItems":[{"type":"string"}]}},"type":"object"}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","x":{"items":[{}]}}`:                        `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","x":{"items":[{}]}}`,
		`{"$schema":"https://example.com/s","type":"object"}`:                                                             `{"type":"object"}`,
		`{"type":"object","properties":{"x":{"const":{"properties":[],"required":null}}}}`:                                `{"type":"object","properties":{"x":{"const":{"properties":[],"required":null}}}}`,
		`{"type":"object","properties":{"properties":{"properties":[]},"required":{"anyOf":[{"not":[]}]}}}`:               `{"properties":{"properties":{"properties":{}},"required":{"anyOf":[{}]}},"type":"object"}`,
		`{"type":"object","properties":{"x":{"minimum":0,"exclusiveMinimum":true,"maximum":9,"exclusiveMaximum":false}}}`: `{"properties":{"x":{"exclusiveMinimum":0,"maximum":9}},"type":"object"}`,
		`{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"x":{"minimum":0,"exclusiveMinimum":true}}}`:  `{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"x":{"minimum":0,"exclusiveMinimum":true}}}`,
		`{"type":"object","properties":{"x":{"type":"any"},"y":null}}`:                                                    `{"properties":{"x":{},"y":{}},"type":"object"}`,
		`7`: `7`, `{"type"`: `{"type"`,
	} {
		if got := string(mended(json.RawMessage(schema))); got != want {
			t.Errorf("%s: %s, want %s", schema, got, want)
		}
		if got := string(mended(mended(json.RawMessage(schema)))); got != want {
			t.Errorf("%s twice: %s", schema, got)
		}
	}
}

// What libraries of servers write, and every client takes, takes away no tool.
func TestToolsOfServersThatAreNotStrict(t *testing.T) {
	w := begin(t, mcptest.Options{Tools: []string{"echo"}, Extra: []string{
		`{"name":"email","inputSchema":{"type":"object","properties":{"to":{"type":"string","minLength":3,"pattern":"^(?!\\.)(?!.*\\.\\.)([a-z.]+)@[a-z.]+$"}},"required":["to"]}}`,
		`{"name":"escape","inputSchema":{"type":"object","properties":{"x":{"pattern":"\\u0041"}}}}`,
		`{"name":"php","inputSchema":{"type":"object","properties":[]},"outputSchema":{"type":"object","properties":[]},"annotations":[],"execution":[ ]}`,
		`{"name":"tuple","inputSchema":{"type":"object","properties":{"x":{"type":"array","items":[{"type":"string"}]}}}}`,
		`{"name":"dialect","inputSchema":{"$schema":"https://example.com/s","type":["object"],"required":null}}`,
		`{"name":"none"}`, `{"name":"null","inputSchema":null,"outputSchema":null,"annotations":null}`,
		`{"name":"bad","inputSchema":{"type":"object","properties":{"x":{"pattern":"[a"}}}}`,
	}})
	st := w.state()
	var names []string
	for _, o := range st.Tools {
		names = append(names, o.Own)
	}
	if want := []string{"dialect", "echo", "email", "escape", "none", "null", "php", "tuple"}; !slices.Equal(names, want) || len(w.names()) != len(want) {
		t.Errorf("%v, %v: %v", names, w.names(), st.Refused)
	}
	if len(st.Refused) != 1 || !strings.Contains(st.Refused[0], "srv__bad") {
		t.Errorf("%v", st.Refused)
	}
	email := w.tool("email")
	if !strings.Contains(string(email.Schema), `(?!\\.)`) {
		t.Errorf("a model does not see the pattern: %s", email.Schema)
	}
	if vs := tools.Validate(email, json.RawMessage(`{"to":"a..b@c"}`)); len(vs) != 0 {
		t.Errorf("the pattern is the tool's to judge: %v", vs)
	}
	if vs := tools.Validate(email, json.RawMessage(`{"to":"a"}`)); len(vs) != 1 || vs[0].Path != "/to" {
		t.Errorf("%v", vs)
	}
	if vs := tools.Validate(w.tool("tuple"), json.RawMessage(`{"x":[1]}`)); len(vs) != 1 || vs[0].Path != "/x/0" {
		t.Errorf("%v", vs)
	}
}

// What the file denies may be as it likes; what it asks for has to be there.
func TestAToolThatCannotBeAndIsDenied(t *testing.T) {
	task := mcptest.Options{Tools: []string{"echo"}, Extra: []string{`{"name":"task","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`}}
	w := begin(t, task, func(_ *world, s *Server, _ *Config) { s.Deny = []string{"task"} })
	if st := w.state(); len(st.Refused) != 0 || len(st.Tools) != 1 {
		t.Errorf("%+v", st)
	}
	w = begin(t, task, func(_ *world, s *Server, _ *Config) { s.Tiers = map[string]events.Tier{"task": events.Readonly} })
	if st := w.state(); len(st.Refused) != 1 || !strings.HasPrefix(st.Refused[0], "task: it can only be called as a task") {
		t.Errorf("%+v", st)
	}
	w = begin(t, task, func(_ *world, s *Server, _ *Config) { s.Deny = []string{"task", "tusk"} })
	if st := w.state(); len(st.Refused) != 1 || !strings.HasPrefix(st.Refused[0], "tusk: the file names it") {
		t.Errorf("%+v", st)
	}
}

func TestAServerSaysOfItselfWhatPHPSays(t *testing.T) {
	for said, want := range map[string]string{
		`{"protocolVersion":"2025-11-25","capabilities":{"tools":[]},"serverInfo":{"name":"s"}}`:         `{"capabilities":{"tools":{}},"protocolVersion":"2025-11-25","serverInfo":{"name":"s"}}`,
		`{"capabilities":[],"serverInfo":{"name":"s"},"_meta":[]}`:                                       `{"_meta":{},"capabilities":{},"serverInfo":{"name":"s"}}`,
		`{"supportedVersions":["2026-07-28"],"capabilities":{"resources":[ ],"tools":{}}}`:               `{"capabilities":{"resources":{},"tools":{}},"supportedVersions":["2026-07-28"]}`,
		`{"serverInfo":{"name":"s"},"capabilities":{"tools":{"listChanged":true}}}`:                      `{"serverInfo":{"name":"s"},"capabilities":{"tools":{"listChanged":true}}}`,
		`{"content":[],"structuredContent":{"capabilities":[]}}`:                                         `{"content":[],"structuredContent":{"capabilities":[]}}`,
		`{"capabilities":{"tools":[]}}`:                                                                  `{"capabilities":{"tools":[]}}`, // a tool's result, for all that is known
		`{"content":[{"type":"text","text":"\"capabilities\""}],"structuredContent":{"tools":[],"a":0}}`: `{"content":[{"type":"text","text":"\"capabilities\""}],"structuredContent":{"tools":[],"a":0}}`,
	} {
		if got := string(able(json.RawMessage(said))); got != want {
			t.Errorf("%s: %s, want %s", said, got, want)
		}
	}
	w := begin(t, mcptest.Options{Revision: mcptest.Old, Caps: `{"tools":[]}`})
	if st := w.state(); st.State != Up {
		t.Fatalf("%+v", st)
	}
	if r := w.call("echo", `{"v":1}`); r.Class != events.ClassOK {
		t.Errorf("%+v", r)
	}
}

// A server that says what is of no use is not one that has ended.
func TestTheFirstErrorIsTold(t *testing.T) {
	w := begin(t, mcptest.Options{Revision: mcptest.Old, Caps: `"all"`})
	until(t, "it is down", func() bool { return w.state().State == Down })
	if why := w.state().Why; !strings.Contains(why, "initialize") || strings.Contains(why, "its process ended") {
		t.Errorf("%q", why)
	}
}
