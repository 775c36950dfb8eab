package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/vmihailenco/msgpack/v5"
)

// Nothing in this file uses a package of Sluice: it is what a stranger writes who
// has a NATS client, a msgpack decoder and the published schemas.

// schemas knows the published files.
type schemas struct {
	t *testing.T
	c *jsonschema.Compiler
}

const schemaBase = "https://github.com/sluice-run/sluice/schemas/"

func published(t *testing.T) schemas {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	names, err := filepath.Glob("../../schemas/*.json")
	if err != nil || len(names) < 10 {
		t.Fatalf("the published schemas: %q, %v", names, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := c.AddResource(schemaBase+filepath.Base(name), doc); err != nil {
			t.Fatal(err)
		}
	}
	return schemas{t, c}
}

// check holds JSON against a schema.
func (s schemas) check(name string, text []byte) {
	s.t.Helper()
	schema, err := s.c.Compile(schemaBase + name + ".json")
	if err != nil {
		s.t.Errorf("there is no schema for %s: %v", name, err)
		return
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		s.t.Errorf("%s: %v: %s", name, err, text)
		return
	}
	if err := schema.Validate(doc); err != nil {
		s.t.Errorf("%s: %v\n%s", name, err, text)
	}
}

// plain is a decoded msgpack value as JSON has it: a date-time is text, and what
// is JSON itself is held as bytes.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = plain(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = plain(e)
		}
		return out
	case []byte:
		return json.RawMessage(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	}
	return v
}

// asJSON is a decoded msgpack value as a JSON text.
func asJSON(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(plain(v))
	if err != nil {
		t.Fatalf("%v: %v", v, err)
	}
	return text
}

// connect is a plain NATS client of a node.
func connect(t *testing.T, n *node) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(n.NATS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// listen gathers live events.
func listen(t *testing.T, nc *nats.Conn, subject string) chan *nats.Msg {
	t.Helper()
	heard := make(chan *nats.Msg, 1024)
	if _, err := nc.ChanSubscribe(subject, heard); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return heard
}

// next is the next message.
func next(t *testing.T, heard chan *nats.Msg) *nats.Msg {
	t.Helper()
	select {
	case m := <-heard:
		return m
	case <-time.After(patience):
		t.Fatal("no live event came")
		return nil
	}
}

// mixed is a turn in which calls end in several ways.
var mixed = turn{Calls: []call{
	{ID: "a", Tool: "echo", Args: args{"v": "one"}},
	{ID: "b", Tool: "charge", Args: args{"order": "o1", "amount": 9007199254740993}},
	{ID: "c", Tool: "charge", Args: args{"order": "o1", "amount": 9007199254740993}},
	{ID: "d", Tool: "Read", Args: args{"path": "../escape.txt"}},
	{ID: "e", Tool: "no.such_tool"},
	{ID: "f", Tool: "panic"},
	{ID: "g", Tool: "blob", Args: args{"bytes": 60_000, "kind": "text"}},
	{ID: "h", Tool: "write", Args: args{"path": "new.txt", "text": "hi"}},
}}

func TestAPlainNATSClientSeesCompletionsAsCloudEvents(t *testing.T) {
	p := newPlace(t)
	n := p.serve()
	nc := connect(t, n)
	heard := listen(t, nc, "sluice.live.completed.>")
	all := listen(t, nc, "sluice.live.>")
	tu := mixed
	tu.Trace, tu.Turn = "wire", "live"
	n.run(tu)
	s := published(t)
	for _, want := range []string{"echo.wire.live.0", "charge.wire.live.1", "blob.wire.live.6", "write.wire.live.7"} {
		m := next(t, heard)
		if m.Subject != "sluice.live.completed."+want {
			t.Errorf("heard %s, want …%s", m.Subject, want)
		}
		s.check("cloudevent", m.Data)
		s.check("completed", cloudData(t, m.Data))
	}
	seen := map[string]bool{}
	for !seen["sluice.live.turn_completed._.wire.live._"] {
		m := next(t, all)
		s.check("cloudevent", m.Data)
		seen[m.Subject] = true
	}
	for _, want := range []string{
		"sluice.live.turn_submitted._.wire.live._", "sluice.live.denied.Read.wire.live.3", "sluice.live.denied._unknown.wire.live.4",
		"sluice.live.deduplicated.charge.wire.live.2", "sluice.live.failed.panic.wire.live.5", "sluice.live.started.echo.wire.live.0",
	} {
		if !seen[want] {
			t.Errorf("not heard: %s", want)
		}
	}
	if len(heard) != 0 {
		t.Errorf("%d completions too many", len(heard))
	}
}

func cloudData(t *testing.T, text []byte) []byte {
	t.Helper()
	var ce struct {
		SpecVersion, Type string
		Data              json.RawMessage
	}
	if err := json.Unmarshal(text, &ce); err != nil || ce.SpecVersion != "1.0" {
		t.Errorf("no CloudEvent 1.0: %s, %v", text, err)
	}
	return ce.Data
}

// inLog is an event that a stranger read from the stream.
type inLog struct {
	position, kind, subject string
	number                  any
	data                    []byte // as JSON
}

// readLog reads the stream itself, from sequence 1 to its end, by the schemas.
func readLog(t *testing.T, nc *nats.Conn, s schemas) []inLog {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "SLUICE")
	if err != nil {
		t.Fatal(err)
	}
	last := stream.CachedInfo().State.LastSeq
	c, err := stream.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: 1})
	if err != nil {
		t.Fatal(err)
	}
	var out []inLog
	for seq := uint64(1); seq <= last; seq++ {
		m, err := c.Next(jetstream.FetchMaxWait(patience))
		if err != nil {
			t.Fatalf("sequence %d of %d: %v", seq, last, err)
		}
		meta, err := m.Metadata()
		if err != nil || meta.Sequence.Stream != seq {
			t.Fatalf("sequence %d: %+v, %v", seq, meta, err)
		}
		out = append(out, decode(t, s, seq, m)...)
	}
	return out
}

// decode reads one commit into generic maps.
func decode(t *testing.T, s schemas, seq uint64, m jetstream.Msg) []inLog {
	t.Helper()
	var commit map[string]any
	if err := msgpack.Unmarshal(m.Data(), &commit); err != nil {
		t.Fatalf("sequence %d: %v", seq, err)
	}
	s.check("commit", asJSON(t, commit))
	if got, want := m.Subject(), fmt.Sprintf("sluice.ev.%v.%v", commit["tr"], commit["tu"]); got != want {
		t.Errorf("sequence %d stands on %s, and its commit says %s", seq, got, want)
	}
	if id := m.Headers().Get("Nats-Msg-Id"); id == "" || id != commit["id"] {
		t.Errorf("sequence %d: message id %q, commit id %v", seq, id, commit["id"])
	}
	var out []inLog
	for i, r := range commit["ev"].([]any) {
		e := r.(map[string]any)
		kind := e["k"].(string)
		body := asJSON(t, e["d"])
		s.check(kind, body)
		subject := fmt.Sprintf("%v/%v", commit["tr"], commit["tu"])
		if c := fmt.Sprint(e["c"]); c != "-1" {
			subject += "/" + c
		}
		out = append(out, inLog{fmt.Sprintf("%d.%d", seq, i), kind, subject, e["s"], body})
	}
	return out
}

func TestTheLogItselfIsReadByTheSchemas(t *testing.T) {
	p := newPlace(t)
	n := p.serve()
	nc := connect(t, n)
	all := listen(t, nc, "sluice.live.>")
	tu := mixed
	tu.Trace, tu.Turn = "wire", "log"
	n.run(tu)
	n.submit(turn{Trace: "wire", Turn: "ask", CanAsk: true, Calls: []call{{Tool: "approve_me", Args: args{"v": 1.5}}, {Tool: "sleep", Args: args{"ms": forever}}}})
	n.until("wire", "ask", "approval_requested", "0")
	n.post("/v1/turns/wire/ask/calls/0/approve", nil)
	n.until("wire", "ask", "completed", "0")
	n.until("wire", "ask", "started", "1")
	n.post("/v1/turns/wire/ask/cancel", nil)
	n.end("wire", "ask")

	log := readLog(t, nc, published(t))
	numbers := map[string]int{}
	for _, e := range log {
		numbers[e.subject]++
		if fmt.Sprint(e.number) != fmt.Sprint(numbers[e.subject]) {
			t.Errorf("%s at %s has number %v, want %d", e.kind, e.position, e.number, numbers[e.subject])
		}
	}
	live := map[string]*nats.Msg{}
	missing := func(e inLog) bool { return live[e.position] == nil }
	for slices.ContainsFunc(log, missing) { // a cancel, told by its door, may come behind the end that it led to
		m := next(t, all)
		var ce event
		if err := json.Unmarshal(m.Data, &ce); err != nil {
			t.Fatal(err)
		}
		_, place, _ := strings.Cut(ce.Position, ".") // without the generation
		live[place] = m
	}
	sameAsLive(t, log, live)
}

// sameAsLive holds each event of the log against what was told of it live.
func sameAsLive(t *testing.T, log []inLog, live map[string]*nats.Msg) {
	t.Helper()
	for _, e := range log {
		m := live[e.position]
		if m == nil {
			t.Errorf("%s at %s was not told live", e.kind, e.position)
			continue
		}
		delete(live, e.position)
		var told, stored any
		if err := errors.Join(json.Unmarshal(cloudData(t, m.Data), &told), json.Unmarshal(e.data, &stored)); err != nil {
			t.Fatal(err)
		}
		a, b := asJSON(t, told), asJSON(t, stored)
		if !bytes.Equal(a, b) {
			t.Errorf("%s at %s: live\n%s\nand in the log\n%s", e.kind, e.position, a, b)
		}
	}
	for place, m := range live {
		t.Errorf("told live, and not in the log: %s at %s", m.Subject, place)
	}
}
