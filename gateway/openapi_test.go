package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sluice-run/sluice/events"
)

const openAPIFile = "../schemas/openapi.json"

// TestOpenAPIIsGenerated: the document is what the routes and the handlers' types say.
func TestOpenAPIIsGenerated(t *testing.T) {
	want := openAPI(t)
	if *rewriteAccess {
		must(t, os.WriteFile(openAPIFile, want, 0o644))
	}
	if got, err := os.ReadFile(openAPIFile); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the handlers' types say (%v): run go test ./gateway -run TestOpenAPIIsGenerated -rewrite", openAPIFile, err)
	}
	for pattern := range operations {
		if !slices.ContainsFunc(NewAPI(APIConfig{Desk: NewDesk(DeskConfig{})}).routes(), func(rt route) bool { return rt.pattern == pattern }) {
			t.Errorf("operations describes %s, and there is no such route", pattern)
		}
	}
}

// TestOpenAPINamesEveryProblem: each problem that the door's code makes is one that some
// route's answers have.
func TestOpenAPINamesEveryProblem(t *testing.T) {
	named := make(map[string]bool)
	for _, rt := range NewAPI(APIConfig{Desk: NewDesk(DeskConfig{})}).routes() {
		for status, words := range problemsOf(rt, operations[rt.pattern]) {
			if status == 0 {
				t.Errorf("%s: %q are no problems", rt.pattern, words)
			}
			for _, w := range words {
				named[fmt.Sprint(status, " ", w)] = true
			}
		}
	}
	status := make(map[string]int)
	for code := 400; code < 600; code++ {
		status[strings.NewReplacer(" ", "", "-", "").Replace(http.StatusText(code))] = code
	}
	for name, source := range sources(t, "*.go") {
		for _, m := range problemMade.FindAllStringSubmatch(source, -1) {
			if key := fmt.Sprint(status[m[1]], " ", m[2]); !strings.HasPrefix(name, "natsdoor") && !named[key] {
				t.Errorf("%s: the problem %s is no route's: put it into operations", name, key)
			}
		}
	}
	for _, h := range halted {
		if !named["422 "+h.word] {
			t.Errorf("the problem 422 %s is no route's: put it into operations", h.word)
		}
	}
	for _, v := range verdicts {
		if key := fmt.Sprint(v.status, " ", v.word); !named[key] {
			t.Errorf("the verdict %s is no route's: put it into operations", key)
		}
	}
}

// contract holds what the door answers to the document.
type contract struct {
	doc    object
	mux    *http.ServeMux // finds a request's operation
	loose  *jsonschema.Compiler
	strict *jsonschema.Compiler // members that are not named are none
	mu     sync.Mutex
	made   map[string]*jsonschema.Schema
	seen   map[string]map[int]int // statuses by operation
}

// theContract is made once for all tests of the package.
var theContract = sync.OnceValues(func() (*contract, error) {
	text, err := os.ReadFile(openAPIFile)
	if err != nil {
		return nil, err
	}
	c := &contract{mux: http.NewServeMux(), made: map[string]*jsonschema.Schema{}, seen: map[string]map[int]int{}}
	if err := json.Unmarshal(text, &c.doc); err != nil {
		return nil, err
	}
	for path, methods := range c.doc["paths"].(object) {
		for method := range methods.(object) {
			c.mux.HandleFunc(strings.ToUpper(method)+" "+path, func(http.ResponseWriter, *http.Request) {})
		}
	}
	if c.loose, err = compilerOf(text); err != nil {
		return nil, err
	}
	var doc object
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	closeSchemas(doc["components"].(object)["schemas"])
	if text, err = json.Marshal(doc); err != nil {
		return nil, err
	}
	c.strict, err = compilerOf(text)
	return c, err
})

const openAPIBase = "https://sluice.invalid/openapi.json"

func compilerOf(text []byte) (*jsonschema.Compiler, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	return c, c.AddResource(openAPIBase, doc)
}

// closeSchemas has every object with named members refuse others.
func closeSchemas(v any) {
	switch v := v.(type) {
	case object:
		if _, named := v["properties"].(object); named && v["additionalProperties"] == nil && v["$ref"] == nil {
			v["additionalProperties"] = false
		}
		for _, e := range v {
			closeSchemas(e)
		}
	case []any:
		for _, e := range v {
			closeSchemas(e)
		}
	}
}

// schema is the compiled schema at a pointer into the document.
func (c *contract) schema(strict bool, pointer ...string) (*jsonschema.Schema, error) {
	for i, p := range pointer {
		pointer[i] = strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(p)
	}
	at := openAPIBase + "#/" + strings.Join(pointer, "/")
	c.mu.Lock()
	defer c.mu.Unlock()
	key := fmt.Sprint(strict, at)
	if s := c.made[key]; s != nil {
		return s, nil
	}
	from := c.loose
	if strict {
		from = c.strict
	}
	s, err := from.Compile(at)
	c.made[key] = s
	return s, err
}

func (c *contract) check(strict bool, text []byte, pointer ...string) error {
	s, err := c.schema(strict, pointer...)
	if err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(doc)
}

// held is a handler whose answers are held to the document.
func held(t *testing.T, next http.Handler) http.Handler {
	t.Helper()
	c, err := theContract()
	must(t, err)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		asked := r.Clone(r.Context())
		asked.Method = method
		_, pattern := c.mux.Handler(asked)
		var body []byte
		if r.ContentLength > 0 && r.ContentLength < 1<<20 && r.Method == http.MethodPost && pattern != streamRoute {
			if body, err = io.ReadAll(r.Body); err == nil {
				r.Body = io.NopCloser(bytes.NewReader(body))
			}
		}
		h := &heard{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(h, r)
		if t.Context().Err() == nil { // the test has not ended meanwhile
			if err := c.hold(pattern, r, body, h); err != nil {
				t.Errorf("%s %s is answered otherwise than schemas/openapi.json says: %d %v\n%.1000s", r.Method, r.URL, h.status, err, h.body.String())
			}
		}
	})
}

// heard remembers an answer.
type heard struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
	gone   bool // the client is: what was written is not all
}

// WriteHeader is http.ResponseWriter's.
func (h *heard) WriteHeader(status int) {
	h.status = status
	h.ResponseWriter.WriteHeader(status)
}

// Write is http.ResponseWriter's.
func (h *heard) Write(b []byte) (int, error) {
	h.body.Write(b)
	n, err := h.ResponseWriter.Write(b)
	h.gone = h.gone || err != nil
	return n, err
}

// Unwrap lets http.ResponseController find the writer beneath.
func (h *heard) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// hold is what is wrong with an answer.
func (c *contract) hold(pattern string, r *http.Request, sent []byte, h *heard) error {
	media, _, _ := mime.ParseMediaType(h.Header().Get("Content-Type"))
	if pattern == "" || strings.Contains(pattern, "/mcp") { // no operation's, or another protocol's
		if h.status >= 400 && pattern == "" && r.Method != http.MethodHead {
			return c.check(true, h.body.Bytes(), "components", "schemas", "Problem")
		}
		return nil
	}
	method, path, _ := strings.Cut(pattern, " ")
	method = strings.ToLower(method)
	op := c.doc["paths"].(object)[path].(object)[method].(object)
	c.mu.Lock()
	if c.seen[pattern] == nil {
		c.seen[pattern] = map[int]int{}
	}
	c.seen[pattern][h.status]++
	c.mu.Unlock()
	answer, ok := op["responses"].(object)[strconv.Itoa(h.status)].(object)
	if !ok {
		return fmt.Errorf("it has no such status")
	}
	at := []string{"paths", path, method, "responses", strconv.Itoa(h.status)}
	if ref, shared := answer["$ref"].(string); shared {
		name := strings.TrimPrefix(ref, "#/components/responses/")
		answer, at = c.doc["components"].(object)["responses"].(object)[name].(object), []string{"components", "responses", name}
	}
	content, _ := answer["content"].(object)
	switch {
	case content == nil && h.body.Len() == 0, r.Method == http.MethodHead:
		return nil
	case content[media] == nil:
		return fmt.Errorf("it is %q there", media)
	case h.gone || media == "application/octet-stream" || media == "text/plain":
		return nil
	case media == "text/event-stream":
		return c.holdStream(h.body.String(), path)
	}
	if err := c.check(true, h.body.Bytes(), append(at, "content", media, "schema")...); err != nil {
		return err
	}
	if own, _ := op["requestBody"].(object); own != nil && h.status < 300 && len(bytes.TrimSpace(sent)) > 0 {
		if own["content"].(object)["application/json"] == nil {
			return nil
		}
		if err := c.check(false, sent, "paths", path, method, "requestBody", "content", "application/json", "schema"); err != nil {
			return fmt.Errorf("what was sent, and taken, is not what the document says: %w", err)
		}
	}
	return nil
}

// holdStream is what is wrong with a stream's events, but the last, which may be cut.
func (c *contract) holdStream(stream, path string) error {
	all := strings.Split(stream, "\n\n")
	for _, e := range all[:len(all)-1] {
		kind, data := "", ""
		for line := range strings.Lines(e) {
			if v, ok := strings.CutPrefix(line, "event: "); ok {
				kind = strings.TrimSpace(v)
			}
			if v, ok := strings.CutPrefix(line, "data: "); ok {
				data = v
			}
		}
		if data == "" {
			continue
		}
		method := "get"
		if _, posts := c.doc["paths"].(object)[path].(object)["post"]; posts {
			method = "post"
		}
		at := []string{"paths", path, method, "responses", "200", "content", "text/event-stream", "x-sluice-events", kind}
		if _, err := c.schema(true, slices.Clone(at)...); err != nil {
			at[len(at)-1] = "*"
		}
		if err := c.check(true, []byte(data), at...); err != nil {
			return fmt.Errorf("event %s: %w", kind, err)
		}
	}
	return nil
}

// TestOpenAPIExamples: what the document shows as an example is taken.
func TestOpenAPIExamples(t *testing.T) {
	n := 0
	for _, rt := range NewAPI(APIConfig{Desk: NewDesk(DeskConfig{})}).routes() {
		ex := operations[rt.pattern].example
		if ex == "" {
			continue
		}
		n++
		t.Run(rt.pattern, func(t *testing.T) {
			d := newDoor(t, func(c *APIConfig) {
				c.Policy = &policyTrial{}
				c.Explain = (&trial{}).explain
				c.Store = newStore(t, c.Desk, c.Desk.bus)
			})
			d.want(202, "", "POST", "/v1/turns", `{"trace":"tr","turn":"sub","can_ask":true,"calls":[{"tool":"echo"}]}`)
			o := newOwner(t, d.log.View("node"))
			key := o.take()
			o.judge(0, events.Approval)
			o.load(key)
			method, path := plainRoute(rt, "sub")
			status, body := d.do(method, path, ex)
			want := map[string]string{ // of a call that waits there is nothing to resolve, undo or tell
				"resolve": "nothing-to-resolve", "compensate": "nothing-to-undo", "answerInput": "no-input",
			}[operations[rt.pattern].id]
			if status >= 300 && (want == "" || !strings.Contains(body, want)) {
				t.Errorf("%s\n%d %s", ex, status, body)
			}
		})
	}
	if n < 10 {
		t.Errorf("only %d examples", n)
	}
}

// TestOpenAPIIsServed: the door gives the document that is committed.
func TestOpenAPIIsServed(t *testing.T) {
	d := newDoor(t, nil)
	want, err := os.ReadFile(openAPIFile)
	must(t, err)
	resp, err := http.Get(d.url + "/openapi.json")
	must(t, err)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	must(t, err)
	if resp.StatusCode != 200 || !bytes.Equal(got, want) {
		t.Errorf("%d, %d bytes of %d: build anew, the document is embedded", resp.StatusCode, len(got), len(want))
	}
	d.want(304, "", "GET", "/openapi.json", "", "If-None-Match", resp.Header.Get("ETag"))
	if names, err := filepath.Glob("../schemas/openapi*"); err != nil || len(names) != 1 {
		t.Errorf("%v %v", names, err)
	}
}
