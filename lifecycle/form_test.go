package lifecycle_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/lifecycle"
)

const wholeForm = `{"type":"object","properties":{
  "name":{"type":"string","title":"Your name","minLength":2,"maxLength":4},
  "mail":{"type":"string","format":"email"},
  "site":{"type":"string","format":"uri"},
  "day":{"type":"string","format":"date"},
  "at":{"type":"string","format":"date-time"},
  "code":{"type":"string","pattern":"^[A-Z]{3}$"},
  "age":{"type":"integer","minimum":0,"maximum":150},
  "ratio":{"type":"number","minimum":0.5,"maximum":1e1},
  "sure":{"type":"boolean","default":false},
  "size":{"type":"string","enum":["s","l"],"enumNames":["small","large"]},
  "kind":{"type":"string","oneOf":[{"const":"a","title":"first"},{"const":"b"}]},
  "tags":{"type":"array","minItems":1,"maxItems":2,"items":{"type":"string","enum":["x","y","z"]}},
  "more":{"type":"array","items":{"anyOf":[{"const":"p","title":"P"},{"const":"q","title":"Q"}]}},
  "pin":{"type":"string","format":"password"},
  "odd":{"type":"string","pattern":"(?=x)"}
},"required":["name"]}`

func TestReadForm(t *testing.T) {
	f, err := lifecycle.ReadForm(json.RawMessage(wholeForm))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range f.Fields {
		got = append(got, fmt.Sprintf("%s:%s:%d", x.Name, x.Type, len(x.Choices)))
	}
	want := "name:string:0 mail:string:0 site:string:0 day:string:0 at:string:0 code:string:0 age:integer:0 ratio:number:0 sure:boolean:0 size:string:2 kind:string:2 tags:choices:3 more:choices:2 pin:string:0 odd:string:0"
	if strings.Join(got, " ") != want {
		t.Errorf("got %s", strings.Join(got, " "))
	}
	if !f.Fields[0].Required || f.Fields[1].Required || !f.Fields[13].Secret || f.Fields[9].Choices[1].Title != "large" {
		t.Errorf("%+v", f.Fields)
	}
	for _, empty := range []string{`{}`, `{"type":"object"}`, `{"type":"object","properties":{}}`, `{"properties":null}`} {
		if f, err := lifecycle.ReadForm(json.RawMessage(empty)); err != nil || len(f.Fields) != 0 {
			t.Errorf("%s: %+v, %v", empty, f, err)
		}
	}
}

// TestReadFormRefuses has schemas of what nobody can fill in on one page.
func TestReadFormRefuses(t *testing.T) {
	long := strings.Repeat("n", 200)
	many, choices := "", ""
	for i := range 300 {
		many += fmt.Sprintf(`,"f%d":{"type":"string"}`, i)
		choices += fmt.Sprintf(`,"c%d"`, i)
	}
	for _, s := range []string{
		``, `1`, `[]`, `"x"`, `{"type":"array"}`, `{"properties":[]}`, `{"properties":{"a":1}}`,
		`{"properties":{"a":{"type":"object"}}}`, `{"properties":{"a":{"type":"null"}}}`, `{"properties":{"a":{"type":["string","null"]}}}`,
		`{"properties":{"a":{"type":"array"}}}`, `{"properties":{"a":{"type":"array","items":{"type":"string"}}}}`,
		`{"properties":{"a":{"type":"array","items":{"type":"object"}}}}`, `{"properties":{"a":{"type":"array","items":{"type":"number","enum":["1"]}}}}`,
		`{"properties":{"a":{"type":"string","enum":[1,2]}}}`, `{"properties":{"":{"type":"string"}}}`, `{"properties":{"` + long + `":{"type":"string"}}}`,
		`{"properties":{"a":{"type":"string"},"a":{"type":"string"}}}`, `{"properties":{"a":{"type":"string"}},"required":["b"]}`,
		`{"properties":{"x":{"type":"string"}` + many + `}}`, `{"properties":{"x":{"type":"string","enum":["c"` + choices + `]}}}`,
		`{"properties":{"a":{"type":"string","minLength":1.5}}}`,
	} {
		if f, err := lifecycle.ReadForm(json.RawMessage(s)); !errors.Is(err, lifecycle.ErrForm) {
			t.Errorf("%.80s: %+v, %v", s, f, err)
		}
	}
}

// TestFormCheck: each field by itself, good and bad.
func TestFormCheck(t *testing.T) {
	f, err := lifecycle.ReadForm(json.RawMessage(wholeForm))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ field, value, wrong string }{
		{"name", `"ann"`, ""},
		{"name", `"äöüß"`, ""},
		{"name", `"a"`, "at least 2"},
		{"name", `"abcde"`, "at most 4"},
		{"name", `1`, "must be a text"},
		{"name", `null`, "must be a text"},
		{"mail", `"a@b.example"`, ""},
		{"mail", `"a@b@c"`, "no e-mail"},
		{"mail", `"Ann <a@b.example>"`, "no e-mail"},
		{"site", `"https://a.example/x"`, ""},
		{"site", `"/x"`, "no absolute URI"},
		{"day", `"2026-02-28"`, ""},
		{"day", `"2026-02-30"`, "no date"},
		{"at", `"2026-02-28T10:00:00+01:00"`, ""},
		{"at", `"2026-02-28"`, "no time"},
		{"code", `"ABC"`, ""},
		{"code", `"ABCD"`, "pattern"},
		{"odd", `"anything"`, ""},
		{"age", `7`, ""},
		{"age", `7.0`, ""},
		{"age", `1e2`, ""},
		{"age", `7.5`, "whole number"},
		{"age", `-1`, "at least 0"},
		{"age", `9007199254740993`, "at most 150"},
		{"age", `"7"`, "must be a number"},
		{"age", `1e999999999`, "too large"},
		{"ratio", `0.5`, ""},
		{"ratio", `0.4999999999999999999`, "at least 0.5"},
		{"ratio", `10.0000000000000000001`, "at most 1e1"},
		{"sure", `true`, ""},
		{"sure", `"true"`, "true or false"},
		{"size", `"l"`, ""},
		{"size", `"m"`, `one of "s", "l"`},
		{"kind", `"b"`, ""},
		{"kind", `"first"`, `one of "a", "b"`},
		{"tags", `["x","z"]`, ""},
		{"tags", `[]`, "at least 1"},
		{"tags", `["x","y","z"]`, "at most 2"},
		{"tags", `["x","x"]`, "twice"},
		{"tags", `["w"]`, "not offered"},
		{"tags", `"x"`, "list of texts"},
		{"tags", `[1]`, "list of texts"},
		{"more", `["p","q"]`, ""},
		{"none", `1`, "no such field"},
	} {
		content := `{"name":"ann","` + c.field + `":` + c.value + `}`
		if c.field == "name" {
			content = `{"name":` + c.value + `}`
		}
		got := f.Check(json.RawMessage(content))
		switch {
		case c.wrong == "" && len(got) > 0:
			t.Errorf("%s: %v", content, got)
		case c.wrong != "" && (len(got) != 1 || got[0].Field != c.field || !strings.Contains(got[0].Why, c.wrong)):
			t.Errorf("%s: %v, want %q", content, got, c.wrong)
		}
	}
	if got := f.Check(json.RawMessage(`{"age":"x","tags":[]}`)); fmt.Sprint(got) != "[name: it is required age: it must be a number tags: 0 are chosen, at least 1 are wanted]" {
		t.Errorf("%v", got)
	}
	if got := f.Check(json.RawMessage(`[1]`)); len(got) != 1 || got[0].Field != "" {
		t.Errorf("%v", got)
	}
}

// TestASecretIsNotRepeated: what a field says about a secret has nothing of it.
func TestASecretIsNotRepeated(t *testing.T) {
	f, err := lifecycle.ReadForm(json.RawMessage(`{"properties":{"pin":{"type":"array","writeOnly":true,"items":{"enum":["a"]}}}}`))
	if err != nil || !f.Fields[0].Secret {
		t.Fatal(f, err)
	}
	if got := f.Check(json.RawMessage(`{"pin":["hunter2"]}`)); len(got) != 1 || strings.Contains(got[0].Why, "hunter2") {
		t.Errorf("%v", got)
	}
}
