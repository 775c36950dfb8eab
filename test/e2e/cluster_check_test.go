package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tally is what became of many calls.
type tally struct {
	turns, calls, completed, reused, unknown, denied int
	takeovers, drains, recovered, abandoned          int
	duplicates, unanswered, wrong                    int
}

func (s tally) String() string {
	return fmt.Sprintf("%d turns, %d calls: %d completed, %d reused, %d unknown, %d denied; %d take-overs, %d drained, %d calls recovered, %d turns abandoned; duplicates %d, unanswered %d, wrong %d",
		s.turns, s.calls, s.completed, s.reused, s.unknown, s.denied, s.takeovers, s.drains, s.recovered, s.abandoned, s.duplicates, s.unanswered, s.wrong)
}

// audit compares what turns say with what was done.
type audit struct {
	*three
	door  *member
	lines map[string][]entry // the ledger, by call
	paid  map[string]int     // charges, by order
	noted map[string]int     // what commands have noted, by name
	tally
}

// audit waits for the end of every turn and looks at each call: it has one terminal
// and one answer, which says what the ledger says.
func (c *three) audit(door *member, sent []turn) tally {
	c.t.Helper()
	a := &audit{three: c, door: door}
	views := make([]view, len(sent))
	for i, tu := range sent {
		views[i] = a.await(tu)
	}
	a.lines, a.paid = map[string][]entry{}, map[string]int{}
	for _, e := range c.place.effects() {
		a.lines[e.Call] = append(a.lines[e.Call], e)
		if e.Tool == "charge" {
			a.paid[e.Order]++
		}
	}
	a.noted = map[string]int{}
	for name := range strings.FieldsSeq(a.content("noted.txt")) {
		a.noted[name]++
	}
	for i, tu := range sent {
		a.turn(tu, views[i])
	}
	return a.tally
}

// await is the turn once it has ended, as its door says; its state is "" where it does not end.
func (a *audit) await(tu turn) (v view) {
	a.t.Helper()
	at := "/v1/turns/" + tu.Trace + "/" + tu.Turn
	poll(a.t, "turn "+tu.Trace+"/"+tu.Turn+" ends", func() bool {
		return a.read(at, &v) && (v.State == "completed" || v.State == "abandoned")
	})
	poll(a.t, "messages of "+tu.Trace+"/"+tu.Turn, func() bool {
		var m view
		ok := a.read(at+"/messages?format=json", &m)
		v.Messages = m.Messages
		return ok
	})
	return v
}

// read reads what the door says, which may be that it has no log just now.
func (a *audit) read(path string, v any) bool {
	status, body, err := soon(a.t.Context(), a.door.base, http.MethodGet, path, nil)
	return err == nil && status == http.StatusOK && json.Unmarshal(body, v) == nil
}

func (a *audit) turn(tu turn, v view) {
	a.t.Helper()
	var out struct{ Events []event }
	poll(a.t, "events of "+tu.Trace+"/"+tu.Turn, func() bool { return a.read("/v1/turns/"+tu.Trace+"/"+tu.Turn+"/events", &out) })
	a.turns++
	for _, e := range of(out.Events, "turn_claimed", "") {
		switch e.field("why") {
		case "taken_over":
			a.takeovers++
		case "drained":
			a.drains++
		}
	}
	a.recovered += len(of(out.Events, "recovered", ""))
	if v.State == "abandoned" {
		a.abandoned++
	}
	if len(v.Calls) != len(tu.Calls) || len(v.Messages) != len(tu.Calls) {
		a.unanswered += len(tu.Calls) - min(len(v.Calls), len(v.Messages))
		a.t.Errorf("%s/%s: %d calls, %d messages, want %d", tu.Trace, tu.Turn, len(v.Calls), len(v.Messages), len(tu.Calls))
		return
	}
	said := answers(a.t, v.Messages)
	for i, c := range tu.Calls {
		a.call(tu, i, c, v.Calls[i], said[i], out.Events)
	}
}

func (a *audit) call(tu turn, i int, asked call, c callView, said answer, list []event) {
	a.t.Helper()
	key := fmt.Sprintf("%s/%s/%d", tu.Trace, tu.Turn, i)
	a.calls++
	ends := 0
	for _, e := range list {
		if terminals[e.kind()] && e.Subject == key {
			ends++
		}
	}
	if ends != 1 || said.Call != i {
		a.unanswered++
		a.t.Errorf("%s has %d terminals, its answer is for call %d: %s", key, ends, said.Call, chain(list, fmt.Sprint(i)))
	}
	switch c.State {
	case "completed":
		a.completed++
	case "deduplicated":
		a.reused++
	case "denied":
		a.denied++
	}
	if said.Answer == "unknown" {
		a.unknown++
	}
	if n := a.times(key, asked); n > 1 {
		a.duplicates++
		a.t.Errorf("%s (%s) happened %d times: %s", key, c.Tool, n, chain(list, fmt.Sprint(i)))
	}
	if order := argument(asked, "order"); order != "" && a.paid[order] > 1 {
		a.duplicates++
		a.t.Errorf("%s: order %s was charged %d times", key, order, a.paid[order])
	}
	if why := a.lies(key, asked, c, said); why != "" {
		a.wrong++
		a.t.Errorf("%s (%s) is %s, effects %q, and the model is told %s %q %+v: %s; %s", key, c.Tool, c.State, c.Effects, said.Answer, said.Content.Text, said.Content.Error, why, chain(list, fmt.Sprint(i)))
	}
}

// lies says what is wrong with an answer, "" if nothing is: one of success comes
// with the effect, one of failure or denial without, and only a call that may have
// an effect can be unknown.
func (a *audit) lies(key string, asked call, c callView, said answer) string {
	books := map[string]bool{"charge": true, "counter": true, "reserve": true, "approve_me": true, "bash": true}
	done := a.times(key, asked)
	if order := argument(asked, "order"); order != "" && c.State == "deduplicated" {
		done = a.paid[order]
	}
	switch said.Answer {
	case "success":
		if want := expected(asked); want != "" && said.Content.Text != want {
			return "the answer should be " + want
		}
		if books[c.Tool] && done != 1 {
			return fmt.Sprintf("the ledger has it %d times", done)
		}
		if c.Tool == "write" && a.content(argument(asked, "path")) != argument(asked, "text") {
			return "the file holds something else"
		}
	case "unknown":
		if !books[c.Tool] && c.Tool != "write" {
			return "it has no effect that could be unknown"
		}
	case "denied":
		if c.Code == "UNKNOWN_OUTCOME" && argument(asked, "order") != "" && done == 0 {
			return "" // the holder of its key is unknown: nobody may repeat it
		}
		return "nothing forbids it"
	default:
		return "nothing is wrong with it"
	}
	return ""
}

// times is how often the call's own effect is in the books.
func (a *audit) times(key string, asked call) int {
	if name := noteOf(asked); name != "" {
		return a.noted[name]
	}
	return len(a.lines[key])
}

// expected is the text of a call's success; "" where any will do.
func expected(c call) string {
	switch c.Tool {
	case "echo":
		return argument(c, "v")
	case "charge":
		return fmt.Sprintf("charged %s for order %s", argument(c, "amount"), argument(c, "order"))
	case "counter":
		return argument(c, "name") + " is 1"
	case "reserve":
		return "reserved " + argument(c, "item")
	case "approve_me":
		return "done, as agreed"
	case "write":
		return fmt.Sprintf("wrote %d bytes to %s", len(argument(c, "text")), argument(c, "path"))
	}
	return ""
}

// argument is one of a call's arguments, as it would be printed; "" if it is not there.
func argument(c call, name string) string {
	m, _ := c.Args.(args)
	if m[name] == nil {
		return ""
	}
	return fmt.Sprint(m[name])
}

// content is what a file of the workspace holds; "" where there is none.
func (a *audit) content(path string) string {
	b, err := os.ReadFile(filepath.Join(a.place.work, path))
	if err != nil && !os.IsNotExist(err) {
		a.t.Fatal(err)
	}
	return string(b)
}

// flawless holds turns that nothing should have become of but success.
func flawless(t *testing.T, s tally) {
	t.Helper()
	t.Log(s)
	if s.completed != s.calls || s.unknown != 0 || s.abandoned != 0 {
		t.Errorf("%d of %d calls completed", s.completed, s.calls)
	}
}

// eachTier is a turn of each tier, whose calls have an effect of their own each.
func eachTier(name string, i int) turn {
	id := fmt.Sprintf("%s-%d", name, i)
	return turn{Trace: fmt.Sprintf("%s-%d", name, i%5), Turn: fmt.Sprintf("t%d", i), Disjoint: i%2 == 0, Calls: []call{
		{Tool: "echo", Args: args{"v": id}},
		{Tool: "sleep", Args: args{"ms": 40 * (i % 6)}},
		charge(id, 1, "stall_ms", 30*(i%5)),
		{Tool: "counter", Args: args{"name": id}, Key: "key-" + id},
		{Tool: "write", Args: args{"path": id + ".txt", "text": strings.Repeat(id, 3)}},
	}}
}
