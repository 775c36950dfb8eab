package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// withSchema is a tool of which only the schema matters.
func withSchema(schema string) Tool {
	return Tool{Spec: Spec{Name: "t", Schema: json.RawMessage(schema)}}
}

func said(vs []Violation) []string {
	var out []string
	for _, v := range vs {
		out = append(out, v.Path+" "+v.Message)
	}
	return out
}

func TestValidateTellsEveryErrorWithItsPlace(t *testing.T) {
	const schema = `{"type":"object","additionalProperties":false,"required":["v","w"],"properties":{
		"v":{"type":"integer"},"w":{"type":"string","maxLength":3},
		"list":{"type":"array","items":{"type":"object","required":["a/b"],"properties":{"a/b":{"type":"boolean"}}}},
		"either":{"anyOf":[{"type":"string"},{"type":"null"}]},
		"form":{"oneOf":[{"type":"object","required":["x"]},{"type":"object","required":["y"]}]},
		"big":{"maximum":9007199254740992,"minimum":-0.25},"small":{"exclusiveMinimum":0,"exclusiveMaximum":1,"multipleOf":0.01},"pair":{"minItems":2,"maxItems":2},
		"kind":{"enum":["a","b"]}}}`
	for _, c := range []struct {
		args string
		want []string
	}{
		{`{"v":1,"w":"a"}`, nil},
		{``, []string{`/v "v" is required and missing`, `/w "w" is required and missing`}},
		{`  `, []string{`/v "v" is required and missing`, `/w "w" is required and missing`}},
		{`null`, []string{`/v "v" is required and missing`, `/w "w" is required and missing`}},
		{`[]`, []string{` arguments must be one JSON object`}},
		{`"x"`, []string{` arguments must be one JSON object`}},
		{`{"v":"1","w":7,"x~y":0}`, []string{
			`/v must be integer, not string`, `/w must be string, not number`, `/x~0y "x~y" is no argument here: leave it out`,
		}},
		{`{"v":1,"w":"a","big":9007199254740993}`, []string{"/big must be at most 9007199254740992, not 9007199254740993"}},
		{`{"v":1,"w":"a","big":-0.250000000000000001}`, []string{"/big must be at least -0.25, not -0.250000000000000001"}},
		{`{"v":1,"w":"a","small":0.0}`, []string{"/small must be more than 0, not 0"}},
		{`{"v":1,"w":"a","small":0.015}`, []string{"/small must be a multiple of 0.01, not 0.015"}},
		{`{"v":1,"w":"a","small":1,"pair":[1]}`, []string{"/pair must have at least 2 entries, and has 1", "/small must be less than 1, not 1"}},
		{`{"v":1,"w":"a","pair":[1,2,3]}`, []string{"/pair must have at most 2 entries, and has 3"}},
		{`{"v":1,"w":"abcd"}`, []string{`/w must have at most 3 characters, and has 4`}},
		{`{"v":1,"w":"a","list":[{"a/b":true},{},{"a/b":1}]}`, []string{
			`/list/1/a~1b "a/b" is required and missing`, `/list/2/a~1b must be boolean, not number`,
		}},
		{`{"v":1,"w":"a","either":1}`, []string{`/either must be string or null, not number`}},
		{`{"v":1,"w":"a","form":{}}`, []string{
			`/form none of the forms that are allowed here fits: (1) /x: "x" is required and missing; (2) /y: "y" is required and missing`,
		}},
		{`{"v":1,"w":"a","form":{"x":1,"y":1}}`, []string{
			`/form fits forms 1 and 2 of those that exclude each other: leave out what belongs to one of them`,
		}},
		{`{"v":1,"w":"a","kind":"c"}`, []string{`/kind value must be one of 'a', 'b'`}},
		{`{"v":1,"v":2,"w":"a"}`, []string{`/v the name stands twice in one object: say it once`}},
		{`{"v":1,"w":"a"} {}`, []string{` there is more behind the JSON value, at byte 17`}},
		{`{"v":1e1000000000,"w":"a"}`, []string{`/v an exponent is at most 1000: send the number as a string`}},
		{`{"v":1e-99999999999999999999,"w":"a"}`, []string{`/v an exponent is at most 1000: send the number as a string`}},
		{`{"v":` + strings.Repeat("9", 2000) + `,"w":"a"}`, []string{`/v a number has at most 1024 digits: send it as a string`}},
	} {
		if diff := cmp.Diff(c.want, said(Validate(withSchema(schema), json.RawMessage(c.args)))); diff != "" {
			t.Errorf("%.80s (-want +got):\n%s", c.args, diff)
		}
	}
}

func TestIntegersAreJudgedByTheirDigits(t *testing.T) {
	for _, c := range []struct {
		schema, value string
		ok            bool
	}{
		{`{"type":"integer"}`, "9007199254740993", true},
		{`{"type":"integer"}`, "10000000000000001", true},
		{`{"type":"integer"}`, "1234567890123456789012345678901234567890", true},
		{`{"type":"integer"}`, "1e3", true},
		{`{"type":"integer"}`, "1.0", true},
		{`{"type":"integer"}`, "-0.0", true},
		{`{"type":"integer"}`, "1e-1", false},
		{`{"type":"integer"}`, "1.5", false},
		{`{"type":"integer"}`, `"1234567890123456789"`, false},
		{`{"const":9007199254740993}`, "9007199254740993", true},
		{`{"const":9007199254740993}`, "9007199254740992", false},
		{`{"const":1000}`, "1e3", true},
		{`{"maximum":9007199254740992}`, "9007199254740993", false},
		{`{"multipleOf":0.1}`, "0.3", true},
	} {
		tool := withSchema(`{"type":"object","properties":{"id":` + c.schema + `}}`)
		vs := Validate(tool, json.RawMessage(`{"id":`+c.value+`}`))
		if (len(vs) == 0) != c.ok {
			t.Errorf("%s of %s: got %v, want ok %t", c.value, c.schema, vs, c.ok)
		}
	}
}

func TestArgumentsHaveADepth(t *testing.T) {
	tool := withSchema(`{"type":"object"}`)
	nested := func(n int) json.RawMessage {
		return json.RawMessage(`{"a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`)
	}
	if vs := Validate(tool, nested(maxArgsDepth-1)); vs != nil {
		t.Errorf("at the bound: %v", vs)
	}
	if vs := Validate(tool, nested(maxArgsDepth)); len(vs) != 1 || !strings.Contains(vs[0].Message, "deeper than 64") {
		t.Errorf("past the bound: %v", vs)
	}
	if vs := Validate(tool, nested(400_000)); len(vs) != 1 {
		t.Errorf("far past the bound: %v", vs)
	}
	if vs := Validate(tool, json.RawMessage(`{"a":"`+strings.Repeat("x", 2<<20)+`"}`)); len(vs) != 1 || !strings.Contains(vs[0].Message, "send less") {
		t.Errorf("too many bytes: %v", vs)
	}
}

func TestViolationsAreSortedAndBounded(t *testing.T) {
	tool := withSchema(`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}}}}`)
	vs := Validate(tool, json.RawMessage(`{"a":[`+strings.TrimSuffix(strings.Repeat("1,", 5000), ",")+`]}`))
	if len(vs) != maxViolations+1 || vs[maxViolations].Message != "and 4900 more" {
		t.Fatalf("got %d, last %v", len(vs), vs[len(vs)-1])
	}
	if !slices.IsSortedFunc(vs[:maxViolations], func(a, b Violation) int { return strings.Compare(a.Path, b.Path) }) {
		t.Error("not sorted by path")
	}
}

// A schema of a few lines can cost 2^n visits; neither it nor wide ones may stop a node.
func TestExpensiveSchemasAreRefusedInTime(t *testing.T) {
	var doubling strings.Builder
	for i := range 60 {
		fmt.Fprintf(&doubling, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	deep := strings.Repeat(`{"a":`, 60) + "1" + strings.Repeat("}", 60)
	wide := `{"a":[` + strings.TrimSuffix(strings.Repeat("1,", 400_000), ",") + `]}`
	for name, c := range map[string][2]string{
		"in place": {`{"type":"object","$ref":"#/$defs/d0","$defs":{` + doubling.String() + `"d60":{}}}`, `{}`},
		"downwards": {`{"type":"object","properties":{"a":{"allOf":[{"$ref":"#/$defs/n"},{"$ref":"#/$defs/n"}]}},
			"$defs":{"n":{"properties":{"a":{"allOf":[{"$ref":"#/$defs/n"},{"$ref":"#/$defs/n"}]}}}}}`, deep},
		"wide": {`{"type":"object","properties":{"a":{"items":{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"type":"string"},`, 2000), ",") + `]}}}}`, wide},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			vs := Validate(withSchema(c[0]), json.RawMessage(c[1]))
			if len(vs) != 1 || !strings.Contains(vs[0].Message, "too long to check") {
				t.Errorf("got %v", vs)
			}
			if d := time.Since(begin); d > 20*time.Second {
				t.Errorf("took %v", d)
			}
		})
	}
	recursive := `{"type":"object","$ref":"#/$defs/e","$defs":{"e":{"oneOf":[
		{"required":["not"],"additionalProperties":false,"properties":{"not":{"$ref":"#/$defs/e"}}},
		{"required":["lit"],"additionalProperties":false,"properties":{"lit":{"type":"integer"}}}]}}}`
	honest := strings.Repeat(`{"not":`, 40) + `{"lit":1}` + strings.Repeat("}", 40)
	if vs := Validate(withSchema(recursive), json.RawMessage(honest)); vs != nil {
		t.Errorf("an honest recursive schema: %v", vs)
	}
}

func TestSchemasThatCannotBeUsed(t *testing.T) {
	for schema, want := range map[string]string{
		``:                     "not JSON",
		`{`:                    "cut short",
		`[]`:                   "must be a JSON object",
		`true`:                 "must be a JSON object",
		`{}`:                   `"type": "object"`,
		`{"type":"string"}`:    `"type": "object"`,
		`{"type":"object"} {}`: "more behind",
		`{"type":"object","properties":{"a":{"type":"strin"}}}`:                                                 "not valid",
		`{"type":"object","properties":{"a":{"$ref":"https://example.com/s.json"}}}`:                            "outside of the schema",
		`{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`:                                    "outside of the schema",
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/none"}}}`:                                          "none",
		`{"type":"object","$schema":"https://example.com/meta"}`:                                                "outside of the schema",
		`{"type":"object","properties":{"a":{"$dynamicRef":"#x"}}}`:                                             "not supported",
		`{"type":"object","properties":{"a":{"pattern":"("}}}`:                                                  "regex",
		`{"type":"object","properties":{"a":{"maximum":1e1000000000}}}`:                                         "exponent",
		`{"type":"object","properties":` + strings.Repeat(`{"a":`, 200) + `{}` + strings.Repeat("}", 200) + `}`: "deeper",
		`{"type":"object","description":"` + strings.Repeat("x", 300_000) + `"}`:                                "bytes",
	} {
		_, err := compiledSchema(json.RawMessage(schema))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: got %v, want it to say %q", schema, err, want)
		}
		if vs := Validate(withSchema(schema), nil); len(vs) != 1 {
			t.Errorf("%.80s: Validate says %v", schema, vs)
		}
	}
	draft7 := `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","definitions":{"p":{"type":"integer"}},"properties":{"a":{"$ref":"#/definitions/p"}}}`
	if vs := Validate(withSchema(draft7), json.RawMessage(`{"a":"x"}`)); len(vs) != 1 || vs[0].Path != "/a" {
		t.Errorf("draft 7: %v", vs)
	}
}

func TestPlainIntegers(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1e3}`:                         `{"a":1000}`,
		`{"a":[1.0,-2.50e1,"1e3","\"2.0"]}`: `{"a":[1,-25,"1e3","\"2.0"]}`,
		`{"a":1.5,"b":9007199254740993}`:    `{"a":1.5,"b":9007199254740993}`,
		`{"a":18446744073709551615.0}`:      `{"a":18446744073709551615}`,
		`{"a":1e20,"b":1e99999999}`:         `{"a":1e20,"b":1e99999999}`,
	} {
		if got := string(plainIntegers([]byte(in))); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestPlainIntegersChangeNoValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.OneOf(rapid.StringMatching(`-?[1-9][0-9]{0,3}(\.[0-9]{1,3})?([eE][+-]?[0-9])?`), rapid.Map(rapid.String(), func(s string) string {
			b, _ := json.Marshal(s)
			return string(b)
		})), 0, 8).Draw(t, "values")
		in := "[" + strings.Join(v, ",") + "]"
		var a, b []any
		if err := json.Unmarshal([]byte(in), &a); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(plainIntegers([]byte(in)), &b); err != nil {
			t.Fatalf("%s became %s: %v", in, plainIntegers([]byte(in)), err)
		}
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzValidate(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"type":"object","properties":{"v":{"type":"integer"}}}`, `{"v":1e1000000000}`},
		{`{"type":"object","$ref":"#"}`, `{"a":[1,2,{"b":null}]}`},
		{`{"type":"object","properties":{"a":{"$ref":"#"}},"anyOf":[{"$ref":"#/properties/a"}]}`, `{"a":{"a":{}}}`},
		{`{"type":"object","patternProperties":{"^x":{"uniqueItems":true}}}`, `{"x":[1,1.0,"1"]}`},
		{`{"type":"object","required":["a"],"dependentRequired":{"a":["b"]},"unevaluatedProperties":false}`, `{"a":"\ud800"}`},
		{`{"type":"object","properties":{"v":{"prefixItems":[{"const":1}],"items":{"enum":[1,"a",[null]]},"contains":{"type":"string"},"minContains":2,"unevaluatedItems":false}}}`, `{"v":[1,"a",[null],"b"]}`},
		{`{"type":"object","propertyNames":{"pattern":"^(a|b){2}$"},"dependentSchemas":{"ab":{"required":["ba"]}},"additionalProperties":{"multipleOf":0.5}}`, `{"ab":1.25,"xx":1}`},
		{`{"type":"object","if":{"required":["a"]},"then":{"not":{"$ref":"#/$defs/x"}},"else":{"oneOf":[{"$ref":"#/$defs/x"},true]},"$defs":{"x":{"$anchor":"y","maxProperties":1}}}`, `{"a":1}`},
		{`{"$schema":"http://json-schema.org/draft-04/schema#","id":"http://x/y","type":"object","properties":{"v":{"items":[{"$ref":"#/definitions/d"}],"additionalItems":false}},"definitions":{"d":{"format":"ipv6","uniqueItems":true}}}`, `{"v":["::1",2]}`},
		{`{"type":"object","$id":"http://x/y","properties":{"v":{"$ref":"z"}},"$defs":{"z":{"$id":"http://x/z","allOf":[{"$ref":"#"}]}}}`, `{"v":0}`},
		{`{"$schema":"https://json-schema.org/draft/2019-09/schema","type":"object","unevaluatedProperties":{"type":"null"},"anyOf":[{"properties":{"a":true}},{"properties":{"b":false}}]}`, `{"a":1,"b":2,"c":null}`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, schema, args string) {
		vs := Validate(withSchema(schema), json.RawMessage(args))
		if len(vs) > maxViolations+1 {
			t.Errorf("%d violations", len(vs))
		}
		for _, v := range vs {
			if v.Message == "" || v.Path != "" && v.Path[0] != '/' {
				t.Errorf("bad violation %+v", v)
			}
		}
		if again := Validate(withSchema(schema), json.RawMessage(args)); !slices.Equal(vs, again) {
			t.Errorf("told twice, differently: %v and %v", vs, again)
		}
	})
}

func BenchmarkValidate(b *testing.B) {
	tool, err := Quick("q", "does", func(_ context.Context, in string) (string, error) { return in, nil })
	if err != nil {
		b.Fatal(err)
	}
	args := json.RawMessage(`{"input":"some words of an ordinary length"}`)
	for b.Loop() {
		if vs := Validate(tool, args); vs != nil {
			b.Fatal(vs)
		}
	}
}
