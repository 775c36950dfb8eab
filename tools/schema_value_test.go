package tools

import (
	"errors"
	"strings"
	"testing"
)

func TestValuesOfAnyTypeAreChecked(t *testing.T) {
	for _, c := range []struct{ schema, value, wrong string }{
		{`{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`, `{"n":9007199254740993}`, ""},
		{`{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`, `{"n":"1"}`, "/n"},
		{`{"type":"object","required":["n"]}`, `{}`, "/n"},
		{`{"type":"array","items":{"type":"string"}}`, `["a","b"]`, ""},
		{`{"type":"array","items":{"type":"string"}}`, `["a",1]`, "/1"},
		{`{"type":"string"}`, `"x"`, ""},
		{`{}`, `null`, ""},
		{`{}`, `{"a":`, "unexpected"},
	} {
		vs := ValidateValue([]byte(c.schema), []byte(c.value))
		said := ""
		for _, v := range vs {
			said += v.Path + " " + v.Message + "\n"
		}
		if (said == "") != (c.wrong == "") || c.wrong != "unexpected" && !strings.Contains(said, c.wrong) {
			t.Errorf("%s by %s: %q", c.value, c.schema, said)
		}
	}
	if err := CheckSchema([]byte(`{"type":"array"}`)); err != nil {
		t.Error(err)
	}
	if err := CheckSchema([]byte(`{"$ref":"http://x/y"}`)); !errors.Is(err, ErrSchema) {
		t.Errorf("%v", err)
	}
	if err := checkTool(Tool{Spec: Spec{Name: "a", Schema: []byte(`{"type":"array"}`)}, Run: emptyRun}); !errors.Is(err, ErrTool) {
		t.Errorf("arguments that are a list: %v", err)
	}
}
