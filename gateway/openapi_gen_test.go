package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"

	"github.com/sluice-run/sluice/gateway/codec"
)

// object is a JSON object; encoding/json sorts its members.
type object = map[string]any

// described is what the document says of a route, beside what routes() knows: the types that
// the handler itself reads and writes.
type described struct {
	id, about string // the operation's id, and what it does, in a sentence
	body      any    // of the type that is read as its body; nil: it has none
	media     []string
	optional  bool // the body may be left out
	query     map[string]object
	answers   []answered
	problems  string // words, beside those of every such route; with blanks between
	example   string // a body that is taken: see TestOpenAPIExamples
}

// answered is one way of its to answer.
type answered struct {
	status int
	about  string
	of     any            // of the type that is written as JSON; an object is a schema; nil: no body, or not JSON
	media  string         // "" means JSON
	events map[string]any // of an event stream: the types of its events' data
}

// reflected makes schemas of Go types, and gathers those that are named.
type reflected struct {
	t       *testing.T
	r       *jsonschema.Reflector
	schemas object
	refused object            // responses with problems, by name
	known   map[string]string // their names, by what they say
	names   map[string]reflect.Type
}

// typeNames are the types whose name alone would mislead, or be another's.
var typeNames = map[string]string{
	"projections.Page": "Approval", "projections.Decision": "ApprovalEnd", "readstore.Trace": "Trace", "readstore.Status": "ReadStore",
	"bus.Status": "NodeStatus", "bus.Running": "RunningAttempt", "gateway.act": "Act", "gateway.submitted": "Submitted", "gateway.turnView": "Turn",
	"gateway.callView": "Call", "gateway.undoneView": "Compensated", "gateway.messagesView": "Messages", "gateway.Envelope": "Submission",
	"gateway.health": "Health", "gateway.whoami": "Whoami", "gateway.replied": "Replied", "gateway.Crew": "Nodes", "gateway.NodeView": "Node",
	"gateway.TurnStand": "OpenTurn", "gateway.noticed": "Notice", "gateway.preview": "StreamPreview", "readstore.Use": "Usage", "projections.Moment": "Moment",
}

func newReflected(t *testing.T) *reflected {
	t.Helper()
	out := &reflected{t: t, schemas: object{}, refused: object{}, known: map[string]string{}, names: map[string]reflect.Type{}}
	out.r = &jsonschema.Reflector{AllowAdditionalProperties: true, Namer: out.name, Mapper: special, DoNotReference: false}
	for _, dir := range []string{".", "codec", "../events", "../lifecycle", "../bus", "../projections", "../projections/readstore", "../policy/access"} {
		must(t, out.r.AddGoComments("github.com/sluice-run/sluice/gateway", dir, jsonschema.WithFullComment()))
	}
	return out
}

// name is a type's name in the document. Two types with one name are told apart here, and
// nowhere else.
func (x *reflected) name(t reflect.Type) string {
	if t.Name() == "" {
		return ""
	}
	pkg := t.PkgPath()[strings.LastIndexByte(t.PkgPath(), '/')+1:]
	name := typeNames[pkg+"."+t.Name()]
	if name == "" {
		name = strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	}
	if other, taken := x.names[name]; taken && other != t {
		x.t.Errorf("%v and %v are both called %s in the document: give one another name in typeNames", other, t, name)
	}
	x.names[name] = t
	return name
}

// special are the types whose JSON says less, or other things, than their fields do.
func special(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[json.RawMessage]():
		return &jsonschema.Schema{Description: "any JSON"}
	case reflect.TypeFor[codec.Format]():
		s := &jsonschema.Schema{Type: "string", Description: "how messages are written"}
		for _, f := range codec.Formats() {
			s.Enum = append(s.Enum, string(f))
		}
		return s
	case reflect.TypeFor[Who]():
		return &jsonschema.Schema{
			Description: "a principal, or its id alone",
			OneOf:       []*jsonschema.Schema{{Type: "string"}, {Ref: "#/$defs/WhoSaid"}, {Type: "null"}},
		}
	}
	return nil
}

// of is the schema of a type, by reference where it has a name.
func (x *reflected) of(v any) any {
	if s, ready := v.(object); ready {
		return s
	}
	text, err := json.Marshal(x.r.ReflectFromType(reflect.TypeOf(v)))
	must(x.t, err)
	var s object
	must(x.t, json.Unmarshal(bytes.ReplaceAll(text, []byte(`"#/$defs/`), []byte(`"#/components/schemas/`)), &s))
	if defs, ok := s["$defs"].(object); ok {
		maps.Copy(x.schemas, defs)
	}
	for _, own := range []string{"$defs", "$schema", "$id"} {
		delete(s, own)
	}
	return s
}

// strict is a type's schema for a body that is read: what it does not name is refused.
func (x *reflected) strict(v any) any {
	s := x.of(v)
	at, _ := s.(object)["$ref"].(string)
	if own, ok := x.schemas[strings.TrimPrefix(at, "#/components/schemas/")].(object); ok {
		own["additionalProperties"] = false
	}
	return s
}

// openAPI is the document.
func openAPI(t *testing.T) []byte {
	t.Helper()
	x := newReflected(t)
	x.of(Problem{})
	x.strict(whoSaid{}) // which Who refers to
	paths := object{}
	for _, rt := range NewAPI(APIConfig{Desk: NewDesk(DeskConfig{})}).routes() {
		d, ok := operations[rt.pattern]
		if !ok {
			t.Errorf("%s is not described: give it an entry in operations", rt.pattern)
			continue
		}
		method, path, _ := strings.Cut(rt.pattern, " ")
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path].(object)[strings.ToLower(method)] = x.operation(rt, d)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	must(t, enc.Encode(object{
		"openapi": "3.1.1",
		"info": object{
			"title": "Sluice", "version": "1.0.0", "license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
			"summary":     "Runs the tool calls of AI agents.",
			"description": "Everything that changes something is durable before it is answered, and may be repeated with the same ids. Answers may have members that are not named here: they are of a newer release. docs/http.md tells the rest.",
		},
		"servers":    []object{{"url": "http://127.0.0.1:8383", "description": "a node of this machine"}},
		"security":   []object{{}, {"token": []string{}}, {"certificate": []string{}}},
		"paths":      paths,
		"components": object{"schemas": x.schemas, "responses": x.refused, "securitySchemes": securitySchemes},
	}))
	return out.Bytes()
}

var securitySchemes = object{
	"token":       object{"type": "http", "scheme": "bearer", "description": "where the node was started with --http-auth"},
	"certificate": object{"type": "mutualTLS", "description": "where the node was started with --http-client-ca"},
}

// operation is a route's part of the document.
func (x *reflected) operation(rt route, d described) object {
	op := object{
		"operationId": d.id, "summary": d.about, "responses": x.responses(rt, d), "x-sluice-verb": string(rt.verb), "tags": []string{tagged3(rt.pattern)},
	}
	var params []object
	for _, part := range strings.Split(rt.pattern, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			name = strings.TrimSuffix(name, "}")
			params = append(params, object{"name": name, "in": "path", "required": true, "schema": pathParams[name]})
		}
	}
	for _, name := range strings.Fields(rt.query) {
		p := d.query[name]
		if p == nil {
			p = queryParams[name]
		}
		if p == nil {
			x.t.Errorf("%s: the parameter %s is not described", rt.pattern, name)
			continue
		}
		schema := maps.Clone(p)
		param := object{"name": name, "in": "query", "schema": schema}
		if about := schema["description"]; about != nil {
			param["description"] = about
			delete(schema, "description")
		}
		params = append(params, param)
	}
	for name := range d.query {
		if !slices.Contains(strings.Fields(rt.query), name) {
			x.t.Errorf("%s: there is no parameter %s", rt.pattern, name)
		}
	}
	if params != nil {
		op["parameters"] = params
	}
	if d.body != nil {
		op["requestBody"] = x.requestBody(d)
	}
	if rt.pattern == healthRoute {
		op["security"] = []object{{}}
	}
	return op
}

// tagged3 is the group of a route: the word behind the version.
func tagged3(pattern string) string {
	words := strings.FieldsFunc(pattern, func(r rune) bool { return r == '/' || r == ' ' || r == ':' })
	if len(words) > 2 && words[1] == "v1" {
		return words[2]
	}
	return "node"
}

func (x *reflected) requestBody(d described) object {
	content := object{}
	if d.media == nil {
		body := object{"schema": x.strict(d.body)}
		if d.example != "" {
			var v any
			must(x.t, json.Unmarshal([]byte(d.example), &v))
			body["example"] = v
		}
		content["application/json"] = body
	}
	for _, m := range d.media {
		content[m] = object{"schema": x.of(d.body)}
	}
	return object{"required": !d.optional, "content": content}
}

// responses are all ways in which a route is answered.
func (x *reflected) responses(rt route, d described) object {
	out := object{}
	for _, a := range d.answers {
		key := strconv.Itoa(a.status)
		r, _ := out[key].(object)
		if r == nil {
			r = object{"description": a.about}
			out[key] = r
		}
		content, _ := r["content"].(object)
		if content == nil {
			content = object{}
		}
		switch {
		case a.events != nil:
			kinds := object{}
			for kind, v := range a.events {
				kinds[kind] = x.of(v)
			}
			content["text/event-stream"] = object{"schema": object{"type": "string"}, "x-sluice-events": kinds}
		case a.media != "":
			content[a.media] = object{"schema": object{"type": "string"}}
		case a.of != nil:
			content["application/json"] = object{"schema": x.of(a.of)}
		}
		if len(content) > 0 {
			r["content"] = content
		}
	}
	problems := problemsOf(rt, d)
	for _, status := range slices.Sorted(maps.Keys(problems)) {
		words := problems[status]
		if out[strconv.Itoa(status)] != nil {
			x.t.Errorf("%s: %d is an answer and a problem", rt.pattern, status)
		}
		out[strconv.Itoa(status)] = x.problem(status, words)
	}
	return out
}

// problemsOf are the problems that a route may be answered with, by status.
func problemsOf(rt route, d described) map[int][]string {
	words := "bad-request unauthenticated other-host cross-origin role method too-many internal busy-door unavailable too-slow stopping"
	if strings.HasPrefix(rt.pattern, "POST ") {
		words += " too-large media uncertain untold other-name"
	}
	if strings.Contains(rt.pattern, "{trace}") {
		words += " bad-id"
	}
	if strings.Contains(rt.pattern, "{turn}") {
		words += " no-turn"
	}
	if strings.Contains(rt.pattern, "{call}") {
		words += " no-call"
	}
	if d.optional && strings.Contains(rt.pattern, "{turn}") {
		words += " too-long busy newer-release"
	}
	out := make(map[int][]string)
	for _, w := range strings.Fields(words + " " + d.problems) {
		if w == "busy-door" {
			out[http.StatusServiceUnavailable] = append(out[http.StatusServiceUnavailable], "busy")
			continue
		}
		status := problemStatus(w)
		out[status] = append(out[status], w)
	}
	for status := range out {
		slices.Sort(out[status])
		out[status] = slices.Compact(out[status])
	}
	return out
}

// problemStatus is the status of a problem; 0: there is no such word.
func problemStatus(word string) int {
	for _, v := range verdicts {
		if v.word == word {
			return v.status
		}
	}
	for _, h := range halted {
		if h.word == word {
			return http.StatusUnprocessableEntity
		}
	}
	if f := codec.Fault(word); streamVerdicts[f].title != "" {
		return (&codec.StreamError{Fault: f}).Status()
	}
	return madeProblems[word]
}

// problem refers to a response with one of some problems, which many routes share.
func (x *reflected) problem(status int, words []string) object {
	key := fmt.Sprint(status, words)
	if x.known[key] == "" {
		name := fmt.Sprintf("Problem%d", status)
		for n := 2; x.refused[name] != nil; n++ {
			name = fmt.Sprintf("Problem%d-%d", status, n)
		}
		x.known[key], x.refused[name] = name, problemResponse(status, words)
	}
	return object{"$ref": "#/components/responses/" + x.known[key]}
}

func problemResponse(status int, words []string) object {
	types := make([]string, len(words))
	for i, w := range words {
		types[i] = problemPrefix + w
	}
	r := object{
		"description": strings.Join(words, ", "),
		"content": object{"application/problem+json": object{"schema": object{
			"allOf":      []object{{"$ref": "#/components/schemas/Problem"}},
			"properties": object{"type": object{"enum": types}, "status": object{"const": status}},
		}}},
	}
	header := func(name, about string) {
		r["headers"] = object{name: object{"description": about, "schema": object{"type": "string"}}}
	}
	switch status {
	case http.StatusUnauthorized:
		header("WWW-Authenticate", "how to say who one is")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		header("Retry-After", "seconds until it is worth asking again")
	case http.StatusMethodNotAllowed:
		header("Allow", "the methods there are")
	}
	return r
}

// text is a string's schema.
func text(about string) object { return object{"type": "string", "description": about} }

// integer is an integer's schema.
func integer(low, high int64, about string) object {
	return object{"type": "integer", "minimum": low, "maximum": high, "description": about}
}

// oneOf is the schema of one of some words.
func oneOf(about string, words ...string) object {
	return object{"type": "string", "enum": words, "description": about}
}

// severalOf is the schema of a parameter that may stand several times.
func severalOf(about string) object {
	return object{"type": "array", "items": object{"type": "string"}, "description": about}
}

func formats() object {
	var words []string
	for _, f := range codec.Formats() {
		words = append(words, string(f))
	}
	return oneOf("how messages are written; left out: as the turn was submitted, else openai", words...)
}

// madeProblems are the statuses of the problems that are no error's verdict.
var madeProblems = func() map[string]int {
	out := make(map[string]int)
	for _, row := range strings.Split(madeProblemRows, "\n") {
		status, words, _ := strings.Cut(row, " ")
		n, err := strconv.Atoi(status)
		if err != nil {
			panic(fmt.Sprintf("row %q", row))
		}
		for _, w := range strings.Fields(words) {
			out[w] = n
		}
	}
	return out
}()

const madeProblemRows = `401 unauthenticated
403 other-host cross-origin
404 no-route no-tools no-store no-policy no-mcp no-workers
405 method
408 stream-silent
415 media
422 policy-refused
429 too-many
500 internal
503 streams not-ready`
