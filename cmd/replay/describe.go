package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

func sortedKeys[V any](m map[int]V) []int { return slices.Sorted(maps.Keys(m)) }

// call hangs one call below a node: how it stands, what is known of it, its events.
func (st *story) call(parent *node, offset int) {
	list := st.told(offset)
	c := st.turn.Call(offset)
	if c == nil {
		n := parent.add(fmt.Sprintf("call %d  is not in the submission", offset))
		for _, e := range list {
			line(n, e)
		}
		return
	}
	n := parent.add(fmt.Sprintf("call %d  %s  %s", offset, show.Short(c.Tool, 64), standing(c)))
	for _, f := range st.facts(c) {
		n.more = append(n.more, fmt.Sprintf("%-9s %s", f.name, f.text))
	}
	for _, e := range list {
		line(n, e)
	}
}

// standing is how a call stands, and what is known of its effects.
func standing(c *lifecycle.Call) string {
	if e := effects(c); e != "" {
		return status(c) + ", effects " + e
	}
	return status(c)
}

// status is how a call stands, in a word or two.
func status(c *lifecycle.Call) string {
	switch {
	case c.Phase == lifecycle.PhaseNone && c.Seq > 0:
		return "its beginning is missing"
	case c.Phase == lifecycle.PhaseNone:
		return "not yet requested"
	case c.Open():
		return "open: " + string(c.Phase)
	case c.Terminal != nil:
		return string(c.Terminal.Kind())
	}
	return string(c.Last)
}

// effects is what is known of a call's effects; "" before its end, and of one that
// was denied.
func effects(c *lifecycle.Call) string {
	if c.Open() || c.Outcome == nil || c.Outcome.Effects == "" {
		return ""
	}
	out := string(c.Outcome.Effects)
	if c.Resolved != nil {
		out += ", resolved: effects " + string(c.Resolved.Effects)
	}
	if c.Undone {
		out += ", undone"
	}
	return out
}

// fact is a line below a call.
type fact struct{ name, text string }

// facts are the lines below a call: its arguments, where its time went, why it
// was let through or not, and what came of it.
func (st *story) facts(c *lifecycle.Call) []fact {
	var out []fact
	add := func(name, text string) {
		if text != "" {
			out = append(out, fact{name, text})
		}
	}
	raw := st.turn.Submitted.Calls[c.Offset]
	add("id", show.Short(raw.ProviderID, 100))
	add("arguments", body(raw.Args))
	if c.Approved != nil && c.Approved.Args != nil {
		add("changed to", body(*c.Approved.Args))
	}
	add("key", show.Short(raw.Key, 100))
	t := st.tale(c.Offset)
	add("stages", t.stages(measured(c)))
	for _, p := range t.policies() {
		add("policy", p)
	}
	add("answer", answer(c))
	return out
}

// measured is how long the last attempt ran by the node's own word; 0 if it gave none.
func measured(c *lifecycle.Call) time.Duration {
	if c.Outcome == nil || c.Last == events.KindDeduplicated {
		return 0
	}
	return time.Duration(c.Outcome.Stages.Run) * time.Microsecond
}

// policies are why the call was let through, asked about or denied: each decision
// with the policies behind it, once.
func (t *tale) policies() []string {
	var out []string
	for _, e := range t.decided {
		if text := decision(e); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

func decision(e events.Event) string {
	switch v := e.(type) {
	case *events.ApprovalRequested:
		return "ask: " + show.Short(v.Why, 300) + basis(v.Policies, v.Policy)
	case *events.Authorized:
		return fmt.Sprintf("%s: %s, %s%s", show.Short(v.Decision, 32), show.Short(string(v.Verdict.Tier), 32), operation(v.Verdict.Operation), basis(v.Verdict.Policies, v.Verdict.Policy))
	case *events.Denied:
		path := ""
		if v.Path != "" {
			path = " at " + show.Short(v.Path, 120)
		}
		return fmt.Sprintf("deny: gate %s, %s%s: %s%s", show.Short(v.Gate, 32), show.Short(string(v.Code), 40), path, show.Short(v.Reason, 300), basis(v.Policies, v.Policy))
	}
	return ""
}

// operation is what the call would do, as it was parsed.
func operation(o events.Operation) string {
	out := show.Short(string(o.Class), 32)
	for _, list := range [][]string{o.Paths, o.Hosts, o.Commands} {
		if len(list) > 0 {
			out += " " + show.Short(strings.Join(list, " "), 160)
		}
	}
	if o.Reads {
		out += ", understood as reading"
	}
	return out
}

// basis names the policies of a decision and their version.
func basis(policies []string, version string) string {
	var parts []string
	if len(policies) > 0 {
		parts = append(parts, show.Short(strings.Join(policies, ", "), 200))
	}
	if version != "" {
		parts = append(parts, "version "+show.Short(version, 64))
	}
	if len(parts) == 0 {
		return ""
	}
	return " [" + strings.Join(parts, "; ") + "]"
}

// recovery is a new owner's finding as three answers and what follows from them.
func recovery(r *events.Recovered) string {
	started := "the tool had not started"
	if r.ToolStarted {
		started = fmt.Sprintf("the tool may have started (attempt %d)", r.Attempt)
	}
	complete := "its result is not complete"
	if r.Complete {
		complete = "its result is complete"
	}
	return fmt.Sprintf("last durable event %s; %s; %s; so %s: %s", r.LastStage, started, complete, show.Short(r.Action, 32), show.Short(r.Reason, 300))
}

// probed says whether the tool's probe is asked once an attempt gives no answer.
func probed(v *events.Verdict) bool { return v != nil && v.Probe && v.Tier != events.Readonly }

// answer is what came of the call.
func answer(c *lifecycle.Call) string {
	if c.Outcome == nil {
		return ""
	}
	r := c.Outcome.Result
	var parts []string
	if r.Error != nil {
		parts = append(parts, show.Short(string(r.Error.Code), 40)+": "+show.Short(r.Error.Message, maxShown))
	}
	if u, ok := c.Terminal.(*events.Unknown); ok && u.Why == events.UnknownUnconfirmed && probed(c.Verdict) {
		parts = append(parts, "its probe was asked, and nobody answered or the effect was not found")
	}
	if r.Text.Text != "" || r.Text.Ref != nil {
		parts = append(parts, body(r.Text))
	}
	if len(r.Data) > 0 {
		parts = append(parts, "data "+body(events.Body{Text: string(r.Data)}))
	}
	if r.Cut != nil {
		parts = append(parts, fmt.Sprintf("%d bytes cut, the whole is %s", r.Cut.Bytes, show.Short(r.Cut.Whole.Digest, 80)))
	}
	for _, b := range r.Blobs {
		parts = append(parts, fmt.Sprintf("blob %s, %d bytes, %s", show.Short(b.Media, 64), b.Size, show.Short(b.Digest, 80)))
	}
	if len(parts) == 0 {
		return "(empty)"
	}
	return strings.Join(parts, "; ")
}

// describe is an event in a line, without what stands beside its call already.
func describe(e told) string {
	switch v := e.ev.Event.(type) {
	case *events.Requested, *events.Denied, *events.ApprovalRequested:
		return "" // the call's lines have it
	case *events.Recovered:
		return recovery(v)
	case *events.Authorized:
		return show.Short(v.Decision, 32)
	case *events.Started:
		return start(v)
	case *events.Retrying:
		return fmt.Sprintf("attempt %d: %s, not before %s", v.Attempt, show.Short(e.detail, 200), stamp(v.Until))
	case *events.Deduplicated:
		return show.Short(e.detail, 300)
	case *events.Cancelled:
		return ending(v.Outcome, v.Reason)
	case *events.Unknown:
		return ending(v.Outcome, v.Why)
	case *events.Approved:
		return person("by "+v.By.ID+", for this "+v.Scope, v.Note)
	case *events.InputRequested:
		return fmt.Sprintf("attempt %d, asking %d, until %s: %s", v.Attempt, v.Round, stamp(v.Expires), show.Short(e.detail, 300))
	case *events.InputGiven:
		return inputGiven(v)
	case *events.Resolved:
		return person("effects "+string(v.Effects)+" by "+v.By.ID, v.Note)
	case *events.CancelRequested:
		return person("by "+v.By.ID, v.Reason)
	case *events.TurnCancelRequested:
		return person("by "+v.By.ID, v.Reason)
	case *events.TurnSubmitted:
		return count(len(v.Calls), "call")
	case *events.TurnPlanned:
		out := "batches " + batchesOf(v.Batches)
		if v.Policy != "" {
			out += ", policy version " + show.Short(v.Policy, 64)
		}
		return out
	case *events.TurnCompleted:
		return show.Counts(v.Counts)
	case events.Foreign:
		return fmt.Sprintf("version %d, of a newer release: %d bytes, %s", v.Version, len(v.Body), lifecycle.Digest(v.Body))
	}
	if o := events.OutcomeOf(e.ev.Event); o != nil {
		return ending(*o, "")
	}
	return show.Short(e.detail, 300)
}

// start is what an attempt began with.
func start(v *events.Started) string {
	out := fmt.Sprintf("attempt %d on %s, until %s", v.Attempt, show.Short(v.Owner.Boot, 64), stamp(v.Deadline))
	if v.Key != "" {
		out += ", key " + show.Short(v.Key, 100)
	}
	for _, l := range v.Locks {
		out += fmt.Sprintf(", lock %s at %s.%d", show.Short(l.Resource, 100), show.Short(l.Boot, 64), l.Revision)
	}
	for _, l := range v.Limits {
		out += ", limit " + show.Short(l.Rule, 64)
		if l.Principal != "" {
			out += " of " + show.Short(l.Principal, 100)
		}
	}
	if v.LimitWaitMS > 0 {
		out += fmt.Sprintf(", after %v for limits", time.Duration(v.LimitWaitMS)*time.Millisecond)
	}
	if v.Breaker.Probe {
		out += ", the breaker's probe"
	}
	if v.Breaker.Circuit != "" {
		out += ", circuit " + show.Short(v.Breaker.Circuit, 160)
	}
	if v.Containment != "" {
		out += ", contained by " + show.Short(v.Containment, 200)
	}
	return out
}

// inputGiven is what a tool gets for its asking: who answered, and what.
func inputGiven(v *events.InputGiven) string {
	if v.By == nil {
		return "nobody had answered in time: cancel to each request"
	}
	var parts []string
	for _, a := range v.Answers {
		parts = append(parts, strings.TrimSuffix(a.ID+" "+a.Action+" "+string(a.Content), " "))
	}
	return person("by "+v.By.ID+": "+strings.Join(parts, ", "), v.Note)
}

// person is what somebody did, and what they said of it.
func person(did, note string) string {
	if note == "" {
		return show.Short(did, 200)
	}
	return show.Short(did, 200) + ": " + show.Short(note, 300)
}

// ending is how an attempt ended, without its answer.
func ending(o events.Outcome, why string) string {
	parts := []string{show.Short(string(o.Class), 32), "effects " + show.Short(string(o.Effects), 32)}
	if o.Attempt > 0 {
		parts = append([]string{fmt.Sprintf("attempt %d", o.Attempt)}, parts...)
	}
	if o.Exit != nil {
		parts = append(parts, fmt.Sprintf("exit status %d", *o.Exit))
	}
	if o.Signal != "" {
		parts = append(parts, "signal "+show.Short(o.Signal, 32))
	}
	if o.Output > 0 {
		parts = append(parts, fmt.Sprintf("%d bytes of output", o.Output))
	}
	if why != "" {
		parts = append(parts, show.Short(why, 200))
	}
	return strings.Join(parts, ", ")
}

// batchesOf is for example (0 1)(2): the calls of each batch.
func batchesOf(list [][]int) string {
	var b strings.Builder
	for _, one := range list {
		b.WriteByte('(')
		for i, n := range one {
			if i > 0 {
				b.WriteByte(' ')
			}
			fmt.Fprint(&b, n)
		}
		b.WriteByte(')')
	}
	return b.String()
}
