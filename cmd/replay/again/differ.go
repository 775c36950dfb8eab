package again

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// same says whether a recorded event is the one that is decided, as they are stored.
// How long a call spent where is not compared: its clock stood elsewhere in the moment
// of the decision. Where a policy is asked anew, what it is called is no difference.
func (w *walker) same(a, b events.Record) bool {
	if a.Call != b.Call || a.Seq != b.Seq || a.Event.Kind() != b.Event.Kind() {
		return false
	}
	if w.Redacted {
		path, _, _ := w.field(a, b)
		return path == ""
	}
	x, errX := encode(w.bare(a.Event))
	y, errY := encode(w.bare(asOlder(a.Event, b.Event)))
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// asOlder is a decided event without what the release that wrote the recorded one did
// not say yet.
func asOlder(recorded, decided events.Event) events.Event {
	was, ok := recorded.(*events.Retrying)
	if now, both := decided.(*events.Retrying); ok && both && was.Effects == "" {
		out := *now
		out.Effects = "" // it means that they are not known
		return &out
	}
	asked, ok := recorded.(*events.ApprovalRequested)
	if now, both := decided.(*events.ApprovalRequested); ok && both {
		out := *now
		if asked.Asking == 0 {
			out.Asking = 0 // they were not counted
		}
		if asked.Why == lifecycle.ReasonOf(now) {
			out.Why = asked.Why // what had changed since the yes was not told
		}
		return &out
	}
	return decided
}

func encode(e events.Event) ([]byte, error) {
	return events.Encode(events.Commit{Records: []events.Record{{Event: e}}})
}

// bare is an event without what is not compared.
func (w *walker) bare(e events.Event) events.Event {
	switch e := e.(type) {
	case *events.Completed:
		return &events.Completed{Outcome: timeless(e.Outcome)}
	case *events.Failed:
		return &events.Failed{Outcome: timeless(e.Outcome)}
	case *events.TimedOut:
		return &events.TimedOut{Outcome: timeless(e.Outcome)}
	case *events.Cancelled:
		out := *e
		out.Outcome = timeless(e.Outcome)
		return &out
	case *events.Unknown:
		out := *e
		out.Outcome = timeless(e.Outcome)
		return &out
	case *events.TurnCompleted:
		if w.Redacted { // what was too large is not any more
			out := *e
			out.Cuts = nil
			return &out
		}
	}
	if w.Policy != nil && !w.Strict {
		return nameless(e)
	}
	return e
}

func timeless(o events.Outcome) events.Outcome {
	o.Stages = events.Stages{Run: o.Stages.Run}
	return o
}

// nameless is an event without the names of the policies behind it, and without their
// sentences.
func nameless(e events.Event) events.Event {
	switch e := e.(type) {
	case *events.Denied:
		out := *e
		out.Policies, out.Policy, out.Judged = nil, "", time.Time{}
		if e.Gate == string(lifecycle.GateAllow) || e.Gate == string(lifecycle.GateAuthorize) {
			out.Reason, out.Path = "", ""
		}
		return &out
	case *events.ApprovalRequested:
		out := *e
		out.Why, out.Policies, out.Policy, out.Verdict.Policies, out.Verdict.Policy = "", nil, "", nil, ""
		out.Verdict.Judged = time.Time{}
		return &out
	case *events.Authorized:
		out := *e
		out.Verdict.Policies, out.Verdict.Policy, out.Verdict.Judged = nil, "", time.Time{}
		return &out
	}
	return e
}

// timeApart is how much later the recorded event's own time is than that of the
// decided one; ok is false for events that have none.
func timeApart(recorded, decided events.Event) (time.Duration, bool) {
	switch r := recorded.(type) {
	case *events.Retrying:
		if d, ok := decided.(*events.Retrying); ok {
			return r.Until.Sub(d.Until), true
		}
	case *events.ApprovalRequested:
		if d, ok := decided.(*events.ApprovalRequested); ok {
			return r.Expires.Sub(d.Expires), true
		}
	case *events.InputRequested:
		if d, ok := decided.(*events.InputRequested); ok {
			return r.Expires.Sub(d.Expires), true
		}
	case *events.Started:
		if d, ok := decided.(*events.Started); ok {
			return r.Deadline.Sub(d.Deadline), true
		}
	}
	return 0, false
}

// describe is an event in a few words.
func describe(e events.Event) string {
	kind := string(e.Kind())
	switch e := e.(type) {
	case *events.Denied:
		return fmt.Sprintf("denied %s by %s", e.Code, e.Gate)
	case *events.Authorized:
		return "authorized (" + e.Decision + ")"
	case *events.Started:
		return fmt.Sprintf("started attempt %d", e.Attempt)
	case *events.InputRequested:
		return fmt.Sprintf("input_requested by attempt %d, asking %d", e.Attempt, e.Round)
	case *events.Retrying:
		return fmt.Sprintf("retrying after attempt %d", e.Attempt)
	case *events.Recovered:
		return "recovered (" + e.Action + ")"
	case *events.Deduplicated:
		return "deduplicated of " + e.Of
	case *events.Unknown:
		return fmt.Sprintf("unknown (%s), effects %s", e.Why, e.Effects)
	case *events.TurnClaimed:
		return fmt.Sprintf("turn_claimed by %s, epoch %d (%s)", e.Owner.Boot, e.Owner.Epoch, e.Why)
	case *events.Resolved:
		return "resolved, effects " + string(e.Effects)
	}
	if o := events.OutcomeOf(e); o != nil {
		return fmt.Sprintf("%s, effects %s", kind, o.Effects)
	}
	return kind
}

// field is the first member in which two events of one kind differ; "" where they are
// of different kinds.
func (w *walker) field(recorded, decided events.Record) (path, was, would string) {
	if recorded.Event.Kind() != decided.Event.Kind() {
		return "", "", ""
	}
	if recorded.Call != decided.Call {
		return "call", whose(recorded.Call), whose(decided.Call)
	}
	if recorded.Seq != decided.Seq {
		return "sequence", strconv.Itoa(int(recorded.Seq)), strconv.Itoa(int(decided.Seq))
	}
	a, errA := tree(w.bare(recorded.Event))
	b, errB := tree(w.bare(asOlder(recorded.Event, decided.Event)))
	if errA != nil || errB != nil {
		return "/", "?", "?"
	}
	return w.apart("", a, b)
}

// tree is an event as JSON, with exact numbers.
func tree(e events.Event) (any, error) {
	b, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// apart finds the first place where two JSON values differ, members in the order of
// their names. What was redacted differs from nothing.
func (w *walker) apart(path string, a, b any) (at, was, would string) {
	m, isMap := a.(map[string]any)
	n, both := b.(map[string]any)
	if isMap && both {
		for _, name := range names(m, n) {
			if at, was, would = w.apart(path+"/"+name, m[name], n[name]); at != "" {
				return at, was, would
			}
		}
		return "", "", ""
	}
	l, isList := a.([]any)
	k, both := b.([]any)
	if isList && both && len(l) == len(k) {
		for i := range l {
			if at, was, would = w.apart(path+"/"+strconv.Itoa(i), l[i], k[i]); at != "" {
				return at, was, would
			}
		}
		return "", "", ""
	}
	if text, ok := a.(string); ok && w.Redacted && holdsPlaceholder(text) {
		return "", "", ""
	}
	x, y := compact(a), compact(b)
	if x == y {
		return "", "", ""
	}
	return path, x, y
}

func names(m, n map[string]any) []string {
	var out []string
	for name := range m {
		out = append(out, name)
	}
	for name := range n {
		if _, have := m[name]; !have {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// mostValue bounds in bytes what is told of a value.
const mostValue = 300

// compact is a value as JSON, cut where it is long; "nothing" for one that is absent.
func compact(v any) string {
	if v == nil {
		return "nothing"
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return "?"
	}
	return cut(string(bytes.TrimRight(b.Bytes(), "\n")), mostValue)
}
