package readstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// paper is a log that can do what real ones do when something goes wrong: lose its
// tail, drop its beginning, hold commits that cannot be read.
type paper struct {
	mu      sync.Mutex
	entries []entry // that of sequence n is at n-1
	first   uint64  // sequence that is still there; 0 means 1
	spans   []span
	reads   int
}

type entry struct {
	stored bus.Stored
	err    error
}

type span struct {
	generation uint32
	first      uint64
}

var _ Source = (*paper)(nil)

func newPaper() *paper { return &paper{spans: []span{{1, 1}}} }

func (p *paper) Append(context.Context, events.Commit, uint64) (bus.Stored, error) {
	return bus.Stored{}, errors.New("nobody appends here")
}

func (p *paper) Load(context.Context, events.TurnKey, uint64) ([]bus.Stored, error) {
	return nil, errors.New("nobody loads here")
}

func (p *paper) Generation() uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spans[len(p.spans)-1].generation
}

func (p *paper) Head(context.Context) (events.Position, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return events.Position{Generation: p.spans[len(p.spans)-1].generation, Seq: uint64(len(p.entries)) + 1}, nil
}

// put appends a commit as the log decodes it.
func (p *paper) put(c events.Commit) {
	body, err := events.Encode(c)
	if err != nil {
		panic(err)
	}
	c, err = events.Decode(body)
	if err != nil {
		panic(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := bus.Stored{Generation: p.spans[len(p.spans)-1].generation, Seq: uint64(len(p.entries)) + 1, Commit: c}
	p.entries = append(p.entries, entry{stored: s})
}

// spoil appends a commit that cannot be read.
func (p *paper) spoil() {
	p.mu.Lock()
	defer p.mu.Unlock()
	seq := uint64(len(p.entries)) + 1
	p.entries = append(p.entries, entry{bus.Stored{Seq: seq}, &bus.Unreadable{Seq: seq, Err: events.ErrFormat}})
}

// lose takes back the last n commits, and begins a generation.
func (p *paper) lose(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.entries = p.entries[:max(len(p.entries)-n, 0)]
	next := uint64(len(p.entries)) + 1
	for i := range p.spans {
		p.spans[i].first = min(p.spans[i].first, next)
	}
	p.spans = append(p.spans, span{p.spans[len(p.spans)-1].generation + 1, next})
}

// forget drops all before a sequence.
func (p *paper) forget(first uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.first = max(p.first, first)
}

func (p *paper) holds(at events.Position) bool {
	end, known := uint64(len(p.entries))+1, false
	for _, s := range p.spans {
		if s.generation > at.Generation {
			end = s.first
			break
		}
		known = known || s.generation == at.Generation
	}
	return known && (at.Seq < end || at.Seq == end && at.Index == 0)
}

func (p *paper) Read(ctx context.Context, from events.Position, f bus.Filter, follow bool, yield func(bus.Stored) error) error {
	p.mu.Lock()
	p.reads++
	if from == (events.Position{}) {
		from = events.Position{Generation: p.spans[0].generation, Seq: 1}
	}
	if follow || !p.holds(from) {
		p.mu.Unlock()
		return bus.ErrRewound
	}
	start := max(from.Seq, p.first, 1)
	entries := slices.Clone(p.entries[min(start-1, uint64(len(p.entries))):])
	p.mu.Unlock()
	for _, e := range entries {
		switch err := ctx.Err(); {
		case err != nil:
			return err
		case e.err != nil: // of whichever turn
			return e.err
		case f.Trace != "" && e.stored.Commit.Turn.Trace != f.Trace, f.Turn != "" && e.stored.Commit.Turn.Turn != f.Turn:
			continue
		}
		if err := yield(e.stored); err != nil {
			return err
		}
	}
	return nil
}

var noon = time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)

// Names that made-up logs are made of.
var (
	toolNames = []string{"Read", "charge", "Bash", "größe", ""}
	people    = []string{"ann", "bob", "agent 7"}
	phrases   = []string{
		"", "the customer was charged twice", `{"order":"A-17","amount":1200}`, "rm -rf build/", "ошибка 界面 failed", "exit status 1",
		"NEAR(a b) OR \"x\" * -y", "no such file: src/a.txt", strings.Repeat("long ", 30),
	}
)

// script is what may happen to a turn, in an order that a node could have written.
func script(t *rapid.T, key events.TurnKey) []events.Record {
	pick := func(name string, list []string) string { return rapid.SampledFrom(list).Draw(t, name) }
	n := rapid.IntRange(1, 3).Draw(t, "calls")
	sub := &events.TurnSubmitted{Principal: events.Principal{ID: pick("who", people)}}
	if rapid.IntRange(0, 9).Draw(t, "imported") == 0 {
		sub.Imported = "file"
	}
	for i := range n {
		sub.Calls = append(sub.Calls, events.RawCall{ProviderID: fmt.Sprint("call_", i), Tool: pick("tool", toolNames), Args: events.Body{Text: pick("args", phrases)}})
	}
	var out []events.Record
	turn := func(e events.Event) { out = append(out, events.Record{Call: events.TurnEvent, Event: e}) }
	if rapid.Bool().Draw(t, "model") {
		turn(&events.ModelCompleted{Model: "m", Input: 3, Output: 4})
	}
	turn(sub)
	turn(&events.TurnClaimed{Owner: events.Owner{Boot: "b", Epoch: 1}, Why: events.ClaimNew})
	for i := range n {
		out = append(out, events.Record{Call: i, Event: &events.Requested{Tool: sub.Calls[i].Tool, Args: sub.Calls[i].Args}})
	}
	for i := range n {
		out = append(out, fate(t, i)...)
	}
	switch rapid.IntRange(0, 3).Draw(t, "end") {
	case 0:
		turn(&events.TurnAbandoned{Reason: pick("reason", phrases)})
	case 1:
		turn(&events.TurnCancelRequested{By: events.Principal{ID: "eve"}, Reason: pick("reason", phrases)})
	default:
		turn(&events.TurnCompleted{Counts: map[events.Kind]int{}})
	}
	if rapid.Bool().Draw(t, "late") {
		out = append(out,
			events.Record{Call: 0, Event: &events.LateResult{Outcome: outcome(t)}},
			events.Record{Call: 0, Event: &events.Resolved{Effects: events.EffectsDone, Note: pick("note", phrases)}})
	}
	return out
}

func outcome(t *rapid.T) events.Outcome {
	o := events.Outcome{
		Attempt: 1, Class: events.ClassOK, Effects: rapid.SampledFrom([]events.Effects{"none", "possible", "done"}).Draw(t, "effects"),
		Output: 12, Stages: events.Stages{Run: 1500}, Result: events.Result{Status: events.Success},
	}
	o.Result.Text.Text = rapid.SampledFrom(phrases).Draw(t, "text")
	if rapid.Bool().Draw(t, "error") {
		o.Result.Error = &events.Error{Code: events.ExecutionError, Message: rapid.SampledFrom(phrases).Draw(t, "message")}
	}
	return o
}

// fate is what becomes of a call.
func fate(t *rapid.T, call int) []events.Record {
	var out []events.Record
	add := func(list ...events.Event) {
		for _, e := range list {
			out = append(out, events.Record{Call: call, Event: e})
		}
	}
	verdict := events.Verdict{Tier: events.Irreversible}
	start := []events.Event{&events.Authorized{Verdict: verdict, Decision: "allow"}, &events.Started{Attempt: 1, Deadline: noon}}
	switch rapid.IntRange(0, 7).Draw(t, "fate") {
	case 0:
		add(&events.Denied{Gate: "authorize", Code: events.PermissionDenied, Reason: rapid.SampledFrom(phrases).Draw(t, "reason")})
	case 1:
		add(&events.ApprovalRequested{Asks: "pay", Why: "tier", Hash: "h", Expires: noon.Add(time.Hour), Verdict: verdict})
	case 2:
		add(&events.ApprovalRequested{Asks: "pay", Why: "tier", Hash: "h", Expires: noon.Add(time.Hour), Verdict: verdict}, &events.Approved{By: events.Principal{ID: "eve"}, Note: "fine"})
		add(start...)
		add(&events.Completed{Outcome: outcome(t)})
	case 3:
		add(start...)
		add(&events.Retrying{Attempt: 1, Class: events.ClassUnavailable, Error: &events.Error{Code: events.MCPNetworkError, Message: "gone"}},
			&events.Started{Attempt: 2}, &events.Failed{Outcome: outcome(t)})
	case 4:
		add(start...)
		add(&events.Recovered{LastStage: events.KindStarted, Attempt: 1, Action: events.RecoverUnknown, Reason: "no probe"}, &events.Unknown{Outcome: outcome(t), Why: events.UnknownOwnerLost})
		if rapid.Bool().Draw(t, "resolved") {
			add(&events.Resolved{By: events.Principal{ID: "eve"}, Effects: events.EffectsDone, Note: rapid.SampledFrom(phrases).Draw(t, "note")})
		}
	case 5:
		add(&events.Deduplicated{Of: "x/y/0", As: events.KindCompleted, Outcome: outcome(t)})
	case 6:
		add(start...) // it is running
	default:
		add(start...)
		add(&events.Completed{Outcome: outcome(t)}, &events.Compensated{By: events.Principal{ID: "eve"}})
	}
	return out
}

// drawCommits is a log of several traces whose turns go on side by side. Some logs
// hold what no release writes.
func drawCommits(t *rapid.T, odd bool) []events.Commit {
	type lane struct {
		key  events.TurnKey
		rest []events.Record
		seqs map[int]uint32
	}
	var lanes []*lane
	for i := range rapid.IntRange(1, 6).Draw(t, "turns") {
		key := events.TurnKey{Trace: fmt.Sprint("trace-", rapid.IntRange(1, 3).Draw(t, "trace")), Turn: fmt.Sprint("t", i)}
		l := &lane{key: key, rest: script(t, key), seqs: map[int]uint32{}}
		if odd {
			l.rest = append(l.rest, oddRecords(t)...)
		}
		lanes = append(lanes, l)
	}
	var out []events.Commit
	for len(lanes) > 0 {
		i := rapid.IntRange(0, len(lanes)-1).Draw(t, "lane")
		l := lanes[i]
		n := rapid.IntRange(1, min(len(l.rest), 5)).Draw(t, "events")
		c := events.Commit{ID: fmt.Sprintf("c-%d", len(out)), Turn: l.key, At: noon.Add(time.Duration(len(out)) * 7 * time.Minute)}
		for _, r := range l.rest[:n] {
			l.seqs[r.Call]++
			r.Seq = l.seqs[r.Call]
			c.Records = append(c.Records, r)
		}
		out = append(out, c)
		if l.rest = l.rest[n:]; len(l.rest) == 0 {
			lanes = slices.Delete(lanes, i, i+1)
		}
	}
	return out
}

func oddRecords(t *rapid.T) []events.Record {
	pool := []events.Record{
		{Call: 7, Event: &events.Completed{}},
		{Call: -5, Event: &events.ApprovalRequested{Asks: "odd"}},
		{Call: 9, Event: &events.ApprovalRequested{Asks: "odd"}},
		{Call: events.TurnEvent, Event: events.Foreign{Name: "turn_dreamt", Version: 1, Body: []byte{0x80}}},
		{Call: 0, Event: events.Foreign{Name: events.KindRetrying, Version: 9, Body: []byte{0x80}}},
		{Call: 0, Event: &events.Failed{}},
		{Call: events.TurnEvent, Event: &events.TurnSubmitted{Calls: make([]events.RawCall, 3)}},
		{Call: events.TurnEvent, Event: &events.TurnAbandoned{Reason: "odd"}},
		{Call: events.TurnEvent, Event: &events.TurnClaimed{}},
	}
	var out []events.Record
	for range rapid.IntRange(0, 4).Draw(t, "odd") {
		out = append(out, rapid.SampledFrom(pool).Draw(t, "record"))
	}
	return out
}
