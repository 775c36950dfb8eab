package gateway

import (
	"bytes"
	"slices"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/codec"
)

// A tool of a server is one tool, however the model spells it, and what the caller gave
// stays the caller's.
func TestBothSpellingsAreSubmittedAsOne(t *testing.T) {
	d, _ := newDesk(t)
	s := echo(`{}`, `{}`, `{}`, `{}`)
	for i, tool := range []string{"files:read", "files.read", "files__read", "a:b:c"} {
		s.Calls[i].Tool = tool
	}
	s.Allow = []string{"files:read", "echo"}
	given := events.TurnSubmitted{Calls: slices.Clone(s.Calls), Allow: slices.Clone(s.Allow)}
	first, err := d.Submit(within(t), key1, s)
	must(t, err)
	if s.Calls[0].Tool != given.Calls[0].Tool || s.Allow[0] != given.Allow[0] {
		t.Error("the caller's own was changed")
	}
	v, err := d.Get(within(t), key1)
	must(t, err)
	var names []string
	for _, c := range v.Turn.Submitted.Calls {
		names = append(names, c.Tool)
	}
	var said []string
	for _, c := range v.Turn.Submitted.Calls {
		said = append(said, c.Said)
	}
	if !slices.Equal(said, []string{"files:read", "files.read", "", ""}) {
		t.Errorf("said %q", said)
	}
	if !slices.Equal(names, []string{"files__read", "files__read", "files__read", "a:b:c"}) || v.Turn.Submitted.Allow[0] != "files__read" {
		t.Errorf("%v, %v", names, v.Turn.Submitted.Allow)
	}
	s.Calls[0].Tool = "files__read" // the same submission
	again, err := d.Submit(within(t), key1, s)
	must(t, err)
	if !again.Attached || again.Seq != first.Seq {
		t.Errorf("%+v", again)
	}
}

// An answer has the name that the model's message has, where the provider pairs the two by it.
func TestAnswersNameTheToolAsTheModelDid(t *testing.T) {
	d, _ := newDesk(t)
	body := []byte(`{"role":"model","parts":[{"functionCall":{"name":"default_api.echo","args":{"v":1}}},{"functionCall":{"name":"files:read","args":{}}}]}`)
	m, err := codec.Decode(codec.Gemini, body)
	must(t, err)
	s := echo(`{}`)
	s.Calls, s.Format = m.Calls, string(codec.Gemini)
	_, err = d.Submit(within(t), key1, s)
	must(t, err)
	v, err := d.Get(within(t), key1)
	must(t, err)
	for _, f := range []codec.Format{codec.Gemini, codec.AISDK} {
		got, err := d.Messages(within(t), v, f)
		must(t, err)
		for _, name := range []string{`"default_api.echo"`, `"files:read"`} {
			if !bytes.Contains(got.Asked, []byte(name)) || !bytes.Contains(slices.Concat(got.Answered...), []byte(name)) {
				t.Errorf("%s: %s is not in %s and %s", f, name, got.Asked, got.Answered)
			}
		}
	}
	if got := v.Turn.Submitted.Calls[0].Tool; got != "default_api__echo" {
		t.Errorf("the log has %s", got)
	}
	for i := range s.Calls { // who got the answers in another format may send its names back
		s.Calls[i].Tool, s.Calls[i].Said = events.ToolName(s.Calls[i].Tool), "x"
	}
	again, err := d.Submit(within(t), key1, s)
	must(t, err)
	if !again.Attached {
		t.Error("another spelling is another submission")
	}
}
