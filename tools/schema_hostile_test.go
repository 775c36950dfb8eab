package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// object is a schema of an object with these members.
func object(members string) string { return `{"type":"object",` + members + `}` }

func property(schema string) string { return object(`"properties":{"v":` + schema + `}`) }

func repeated(n int, format string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		if strings.Contains(format, "%") {
			fmt.Fprintf(&b, format, i)
		} else {
			b.WriteString(format)
		}
	}
	return b.String()
}

// A schema that is too much work to compile, or that leads elsewhere, is refused before
// any of that work is done.
func TestHostileSchemasAreRefused(t *testing.T) {
	long := strings.Repeat("n", 4000)
	nested := func(n int, open, middle, end string) string {
		return strings.Repeat(open, n) + middle + strings.Repeat(end, n)
	}
	for name, c := range map[string][2]string{
		"too long":                    {object(`"title":"` + strings.Repeat("x", maxSchemaBytes) + `"`), "bytes"},
		"too deep":                    {property(nested(200, `{"properties":{"v":`, "true", "}}")), "deeper"},
		"allOf too deep":              {property(nested(100, `{"allOf":[`, "true", "]}")), "deeper"},
		"many parts":                  {object(`"properties":{` + repeated(5000, `"p%d":{}`) + `}`), "parts"},
		"many true":                   {object(`"allOf":[` + repeated(5000, `true`) + `]`), "parts"},
		"long names, many below":      {property(nested(20, `{"properties":{"`+long+`":`, `{"properties":{`+repeated(300, `"p%d":{}`)+`}}`, "}}")), "too long"},
		"no pattern":                  {property(`{"pattern":"(a"}`), "not valid regex"},
		"a repetition":                {property(`{"pattern":"(abcdefgh){1000}"}`), "pattern"},
		"an optional repetition":      {property(`{"pattern":"^(a?){1000}(a){1000}$"}`), "pattern"},
		"a repetition of a class":     {property(`{"pattern":"[\\p{L}\\p{N}]{500}"}`), "pattern"},
		"alternatives":                {property(`{"pattern":"` + strings.Repeat("a|", 3000) + `"}`), "pattern"},
		"a long pattern":              {property(`{"pattern":"` + strings.Repeat("ab", 1500) + `"}`), "pattern"},
		"a remote reference":          {property(`{"$ref":"https://example.com/s.json"}`), "outside"},
		"a file":                      {property(`{"$ref":"file:///etc/passwd"}`), "outside"},
		"a relative reference":        {property(`{"$ref":"../other.json"}`), "outside"},
		"a remote dialect":            {object(`"$schema":"https://example.com/dialect"`), "outside"},
		"the schema of schemas":       {property(`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`), "outside"},
		"that of an old draft":        {property(`{"$ref":"http://json-schema.org/draft-04/schema#"}`), "outside"},
		"a dynamic reference":         {property(`{"$dynamicRef":"#a"}`), "$dynamicRef"},
		"a recursive one":             {object(`"$schema":"https://json-schema.org/draft/2019-09/schema","properties":{"v":{"$recursiveRef":"#"}}`), "$recursiveRef"},
		"a name twice":                {object(`"properties":{"v":{},"v":{}}`), "twice"},
		"an exponent":                 {property(`{"multipleOf":1e1000000000}`), "exponent"},
		"a negative exponent":         {property(`{"multipleOf":1e-1000000000}`), "exponent"},
		"many digits":                 {property(`{"maximum":` + strings.Repeat("9", 5000) + `}`), "digits"},
		"a length with an exponent":   {property(`{"minLength":1e999999999}`), "exponent"},
		"an enum of lists, old draft": {object(`"$schema":"http://json-schema.org/draft-04/schema#","properties":{"v":{"enum":[` + repeated(1500, `[[],[%d]]`) + `]}}`), "enum"},
		"no object":                   {`[]`, "object"},
		"true":                        {`true`, "object"},
		"something behind it":         {`{"type":"object"} x`, "behind"},
	} {
		_, err := compiledSchema(json.RawMessage(c[0]))
		if !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), c[1]) || len(err.Error()) > 2000 {
			t.Errorf("%s: %.300v, want a refusal with %q", name, err, c[1])
		}
	}
}

// A regular expression that only ECMAScript has is left to the tool: it is not looked at,
// whatever it would cost, and what else the schema says counts.
func TestForeignPatternsAreLeftToTheTool(t *testing.T) {
	for _, expr := range []string{
		`^(?!\\.)(?!.*\\.\\.)[a-z]+@[a-z]+$`, `^(?=.*a)(?!b).+$`, `\\u0041`, `(a)\\1`, `(?<!x)y`, `^.{1,5000}$`, `((a{100}){100}){100}`, `(x{900}){900}`,
	} {
		tool := withSchema(property(`{"type":"string","minLength":2,"pattern":"` + expr + `"}`))
		if vs := Validate(tool, json.RawMessage(`{"v":"??"}`)); len(vs) != 0 {
			t.Errorf("%s: %v", expr, vs)
		}
		if vs := Validate(tool, json.RawMessage(`{"v":"?"}`)); len(vs) != 1 || vs[0].Path != "/v" {
			t.Errorf("%s: %v", expr, vs)
		}
		named := withSchema(object(`"patternProperties":{"` + expr + `":{"type":"integer"},"^q$":{"type":"integer"}},"additionalProperties":false`))
		if vs := Validate(named, json.RawMessage(`{"v":"any"}`)); len(vs) != 0 {
			t.Errorf("%s: %v", expr, vs)
		}
		if vs := Validate(named, json.RawMessage(`{"q":"any"}`)); len(vs) != 1 || vs[0].Path != "/q" {
			t.Errorf("%s: %v", expr, vs)
		}
	}
	value := withSchema(property(`{"const":{"pattern":"(?=a)"}}`)) // no expression
	if vs := Validate(value, json.RawMessage(`{"v":{"pattern":"(?=a)"}}`)); len(vs) != 0 {
		t.Error(vs)
	}
}

// hostile are schemas that may be used, and arguments that make their validation long.
// The work is counted BEFORE it is done; what would be too much is not begun.
func hostile() map[string][2]string {
	trees := func(n int) string { // different lists that the library's hash takes for the same one
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			shut := 0
			for j := range 14 { // [ and a leaf each, closed early or late as the bits of i say
				if j > 0 {
					b.WriteByte(',')
				}
				b.WriteString("[null")
				if i>>j&1 == 1 {
					b.WriteByte(']')
				} else {
					shut++
				}
			}
			b.WriteString(strings.Repeat("]", shut))
		}
		return b.String()
	}
	chained := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"d%d":{"$ref":"#/$defs/d%d"},`, i, i+1)
		}
		return object(`"properties":{"v":{"items":{"$ref":"#/$defs/d0"}}},"$defs":{` + b.String() + fmt.Sprintf(`"d%d":{"$ref":"#/$defs/d0"}}`, n))
	}
	doubled := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
		}
		return object(`"properties":{"v":{"$ref":"#/$defs/d0"}},"$defs":{` + b.String() + fmt.Sprintf(`"d%d":{"type":"string"}}`, n))
	}
	list := func(s string) string { return `{"v":[` + s + `]}` }
	return map[string][2]string{
		"doubled references":         {doubled(60), `{"v":1}`},
		"a circle":                   {chained(200), list(repeated(20000, "0"))},
		"a long chain":               {chained(1000), list(repeated(10, "0"))},
		"unique lists of one hash":   {property(`{"uniqueItems":true}`), list(trees(8000))},
		"unique numbers of one hash": {property(`{"uniqueItems":true}`), list(repeated(4000, `%de-900`))},
		"unique and large":           {property(`{"uniqueItems":true}`), list(repeated(20, `[`+repeated(8000, "0")+`,%d]`))},
		"a large enum, many values":  {property(`{"items":{"enum":[` + repeated(3000, `"e%d"`) + `]}}`), list(repeated(20000, `"x"`))},
		"an enum of heavy numbers":   {property(`{"items":{"enum":[` + repeated(3000, `%de999`) + `]}}`), list(repeated(2000, "1e-999"))},
		"many required":              {property(`{"items":{"required":[` + repeated(20000, `"r%d"`) + `]}}`), list(repeated(20000, "{}"))},
		"many dependent":             {property(`{"items":{"dependentRequired":{"a":[` + repeated(20000, `"r%d"`) + `]}}}`), list(repeated(20000, `{"a":1}`))},
		"names and patterns":         {property(`{"patternProperties":{` + repeated(100, `"(a|b|c|d|e|%d)*z$":true`) + `}}`), `{"v":{` + repeated(3000, `"abcdeabcde%d":0`) + `}}`},
		"a slow pattern, long text":  {property(`{"pattern":"^(a?){200}a{200}$"}`), `{"v":"` + strings.Repeat("a", 900_000) + `"}`},
		"many members, many parts":   {property(`{"allOf":[` + repeated(2000, "{}") + `],"unevaluatedProperties":false}`), `{"v":{` + repeated(20000, `"m%d":0`) + `}}`},
		"a pattern as an argument":   {object(`"$schema":"http://json-schema.org/draft-07/schema#","properties":{"v":{"items":{"format":"regex"}}}`), list(repeated(1000, `"((a{100}){100}){100}"`))},
		"heavy multiples":            {property(`{"items":{"multipleOf":1e-1000,"minimum":1e1000,"maximum":1e-1000}}`), list(repeated(20_000, "1e1000"))},
		"deep and wide":              {object(`"properties":{"v":{"$ref":"#/$defs/d"}},"$defs":{"d":{"items":{"$ref":"#/$defs/d"},"type":"array"}}`), `{"v":` + strings.Repeat("[", 50) + repeated(100_000, "0") + strings.Repeat("]", 50) + `}`},
		"a long name, many errors":   {object(`"additionalProperties":{"items":{"type":"string"}}`), `{"` + strings.Repeat("n", 500_000) + `":[` + repeated(50_000, "0") + `]}`},
		"names that are not allowed": {object(`"additionalProperties":false`), `{` + repeated(20_000, `"m%d":0`) + `}`},
		"one long name":              {object(`"additionalProperties":false`), `{"` + strings.Repeat("n", 1_000_000) + `":0}`},
		"forms in forms":             {object(`"properties":{"v":{"$ref":"#/$defs/d"}},"$defs":{"d":{"anyOf":[{"items":{"$ref":"#/$defs/d"},"type":"array"},{"type":"string"},{"minimum":5}]}}`), `{"v":` + strings.Repeat("[0,", 60) + "0" + strings.Repeat("]", 60) + `}`},
		"a huge length":              {property(`{"minLength":1e30,"maxLength":1e300}`), `{"v":"` + strings.Repeat("a", 900_000) + `"}`},
	}
}

func TestHostileArgumentsAreBounded(t *testing.T) {
	refused := 0
	for name, c := range hostile() {
		s, err := compiledSchema(json.RawMessage(c[0]))
		if err != nil {
			t.Errorf("%s: %.300v", name, err)
			continue
		}
		args, bad := parseJSON([]byte(c[1]), maxArgsDepth)
		if bad != nil {
			t.Errorf("%s: %+v", name, bad)
			continue
		}
		n := steps(s, args)
		if n > maxSteps { // what has been counted is all the work there is
			refused++
			continue
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		vs := Validate(withSchema(c[0]), json.RawMessage(c[1]))
		runtime.ReadMemStats(&after)
		// What a validation takes is at most so much a step, beside reading the arguments.
		if took, most := after.TotalAlloc-before.TotalAlloc, uint64(1000*min(n, maxSteps)+200*len(c[1])+1<<20); took > most {
			t.Errorf("%s: %d bytes in %d steps, want at most %d", name, took, n, most)
		}
		told := 0
		for _, v := range vs {
			if told += len(v.Path) + len(v.Message); len(v.Path) > 2*maxPointer || len(v.Message) > 1000 {
				t.Errorf("%s: %.200s %.200s", name, v.Path, v.Message)
			}
		}
		if len(vs) > maxViolations+1 || told > 200<<10 {
			t.Errorf("%s: %d violations, %d bytes", name, len(vs), told)
		}
	}
	if refused < 10 {
		t.Errorf("%d of the cases are too much work: the others prove nothing of the bound", refused)
	}
	c := hostile()["doubled references"]
	if vs := Validate(withSchema(c[0]), json.RawMessage(c[1])); len(vs) != 1 || !strings.Contains(vs[0].Message, "too long to check") {
		t.Errorf("%v", vs)
	}
}

// What people send is far from the bounds.
func TestOrdinaryArgumentsAreAffordable(t *testing.T) {
	for name, c := range map[string][2]string{
		"a long text":             {property(`{"type":"string","minLength":1}`), `{"v":"` + strings.Repeat("word ", 200_000) + `"}`},
		"a long text, a pattern":  {property(`{"pattern":"^[a-z ]+$"}`), `{"v":"` + strings.Repeat("word ", 200_000) + `"}`},
		"many unique names":       {property(`{"uniqueItems":true,"items":{"type":"string"}}`), `{"v":[` + repeated(20_000, `"name %d"`) + `]}`},
		"many unique numbers":     {property(`{"uniqueItems":true,"items":{"type":"integer"}}`), `{"v":[` + repeated(20_000, `%d`) + `]}`},
		"a table":                 {property(`{"items":{"type":"object","required":["a","b"],"additionalProperties":false,"properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{"type":"boolean"}}}}`), `{"v":[` + repeated(8_000, `{"a":%d,"b":"x","c":true}`) + `]}`},
		"a choice of many values": {property(`{"items":{"enum":[` + repeated(200, `"value-%d"`) + `]}}`), `{"v":[` + repeated(1000, `"value-199"`) + `]}`},
	} {
		if vs := Validate(withSchema(c[0]), json.RawMessage(c[1])); vs != nil {
			t.Errorf("%s: %v", name, vs)
		}
	}
}

// Numbers that are short to write and long to write out are left as they are.
func TestHeavyNumbersAreNotWrittenOut(t *testing.T) {
	for _, n := range []string{"1e1000", "9e-1000", "0e1000", "1.5e999", "0.1e-999", "-1E+1000"} {
		raw := []byte("[" + repeated(100_000, n) + "]")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		plainIntegers(raw)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 32<<20 {
			t.Errorf("%s: %d bytes", n, took)
		}
	}
	for n, want := range map[string]string{
		"1e3": "1000", "1.0": "1", "-2.50e1": "-25", "0.001e3": "1", "0e-1000": "0", "-0.0": "0", "18446744073709551615.0": "18446744073709551615",
		"1e19": "10000000000000000000", "1e20": "", "1.5": "", "1e-1": "", "100e-2": "1", "1e21": "", "5": "", "000.1e1": "1",
	} {
		if got, ok := plainInteger(n); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v", n, got, ok)
		}
	}
}
