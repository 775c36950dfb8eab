package picture

import (
	"fmt"
	"strings"
	"time"
)

// zero is when the samples begin.
var zero = time.Date(2026, 11, 30, 8, 15, 4, 217_000_000, time.UTC)

func at(d time.Duration) time.Time { return zero.Add(d) }

// stretchOf is a segment between two moments since zero.
func stretchOf(k Kind, from, to time.Duration, label string) Segment {
	return Segment{Kind: k, Start: at(from), End: at(to), Label: label}
}

const (
	us = time.Microsecond
	ms = time.Millisecond
	s  = time.Second
	hr = time.Hour
)

// incident is a charge whose owner was killed while it ran.
func incident() Trace {
	return Trace{
		Title: "shop-4711", Subtitle: "2 turns, 4 calls, 27 events",
		Turns: []Turn{
			{
				Name: "01M8N643R9QF0T1", State: Completed, Status: "completed", Start: at(0), End: at(41 * ms),
				Segments: []Segment{stretchOf(Queue, 0, 4*ms, "")},
				Marks:    []Mark{{Note, at(4 * ms), "claimed by vm-2950, epoch 1"}},
				Batches: []Batch{{Calls: []Call{
					read(0, "Read", `{"path":"orders/4711.json"}`, 4*ms, 12*ms, 38*ms),
					read(1, "Grep", `{"pattern":"4711","path":"invoices"}`, 4*ms, 13*ms, 30*ms),
				}}},
			},
			{
				Name: "01M8N64G7Z2M8QX", State: Completed, Status: "completed", Start: at(6 * s), End: at(11200 * ms),
				Segments: []Segment{stretchOf(Queue, 6*s, 6004*ms, ""), stretchOf(Lost, 7400*ms, 10660*ms, "")},
				Marks:    []Mark{{Note, at(6004 * ms), "claimed by vm-2950, epoch 1"}, {TakenOver, at(10660 * ms), "taken over by vm-2951, epoch 2"}},
				Batches: []Batch{
					{Calls: []Call{{
						Number: 0, Tool: "charge", Hint: `{"order":"4711","amount":120}`, State: Unknown, Status: "unknown", Effects: "possible, resolved: done",
						Segments: []Segment{
							stretchOf(Gates, 6004*ms, 6010*ms, ""), stretchOf(Holding, 6010*ms, 6012*ms, ""),
							stretchOf(Attempt, 6012*ms, 7400*ms, "attempt 1"), stretchOf(Lost, 7400*ms, 10660*ms, "owner lost"),
							stretchOf(Recovery, 10660*ms, 10900*ms, "probe"),
						},
						Marks: []Mark{{TakenOver, at(10660 * ms), "recovered: last durable event started"}, {Late, at(11100 * ms), "late result: ok, effects done"}, {Settled, at(11101 * ms), "effects done by late_result"}},
						Facts: []Fact{
							{"id", "call_9f2"},
							{"arguments", `{"order":"4711","amount":120}`},
							{"policy", "allow: irreversible, execute [execute.permit; version rules-d2bb231c2a69]"},
							{"answer", "UNKNOWN_OUTCOME: its owner was lost while it ran, and nobody can tell whether the effect happened"},
						},
						Events: []Event{
							{Position: "1.8.1", At: at(6004 * ms), Kind: "requested"},
							{Position: "1.9.0", At: at(6010 * ms), After: "+6ms", Kind: "authorized", Text: "allow"},
							{Position: "1.9.1", At: at(6012 * ms), After: "+2ms", Kind: "started", Text: "attempt 1 on 01M8N8CACPW340CEGQNTK1HKW0, until 08:17:10"},
							{Position: "2.10.1", At: at(10660 * ms), After: "+4.648s", Kind: "recovered", Text: "last durable event started; the tool may have started (attempt 1); its result is not complete; so probe: its owner was lost while it ran: the tool is asked"},
							{Position: "2.11.0", At: at(10900 * ms), After: "+240ms", Kind: "unknown", Text: "attempt 1, lost, effects possible, owner_lost"},
							{Position: "2.12.0", At: at(11100 * ms), After: "+200ms", Kind: "late_result", Text: "attempt 1, ok, effects done"},
							{Position: "2.12.1", At: at(11101 * ms), After: "+1ms", Kind: "resolved", Text: "effects done by late_result"},
						},
					}}},
					{Calls: []Call{{
						Number: 1, Tool: "notify_customer_by_mail_and_text", Hint: `{"order":"4711","template":"payment failed"}`, State: Denied, Status: "denied", Effects: "none",
						Segments: []Segment{stretchOf(Gates, 10900*ms, 10901*ms, "")},
						Events:   []Event{{Position: "2.13.0", At: at(10901 * ms), Kind: "denied", Text: "gate authorize, PERMISSION_DENIED"}},
					}}},
				},
				About: []string{"by shop-agent (agent) of desk, mode write, format openai"},
				Events: []Event{
					{Position: "1.7.0", At: at(6 * s), Kind: "turn_submitted", Text: "2 calls"},
					{Position: "1.8.0", At: at(6004 * ms), After: "+4ms", Kind: "turn_claimed", Text: "new vm-2950, epoch 1"},
					{Position: "1.8.2", At: at(6004 * ms), After: "+0s", Kind: "turn_planned", Text: "batches (0)(1)"},
					{Position: "2.10.0", At: at(10660 * ms), After: "+4.656s", Kind: "turn_claimed", Text: "taken_over vm-2951, epoch 2"},
					{Position: "2.13.1", At: at(11200 * ms), After: "+540ms", Kind: "turn_completed", Text: "1 denied, 1 unknown"},
				},
			},
		},
	}
}

func read(n int, tool, args string, asked, started, ended time.Duration) Call {
	return Call{
		Number: n, Tool: tool, Hint: args, State: Completed, Status: "completed", Effects: "none",
		Segments: []Segment{stretchOf(Gates, asked, started-2*ms, ""), stretchOf(Holding, started-2*ms, started, ""), stretchOf(Attempt, started, ended, "attempt 1")},
		Facts:    []Fact{{"arguments", args}, {"answer", "ok"}},
		Events:   []Event{{Position: "1.2.1", At: at(asked), Kind: "requested"}, {Position: "1.3.0", At: at(started), After: "+8ms", Kind: "started", Text: "attempt 1"}, {Position: "1.4.0", At: at(ended), After: "+26ms", Kind: "completed", Text: "attempt 1, ok, effects none"}},
	}
}

// approval is a call that a person let through after three days, one that was
// tried again, one that was cancelled, and one that still runs.
func approval() Trace {
	day := 72 * hr
	return Trace{
		Title: "deploy", Subtitle: "1 turn, 5 calls, 31 events", Warnings: []string{"the commit 1.44 cannot be read: it is passed over"},
		Turns: []Turn{{
			Name: "deploy-1", State: Waiting, Status: "parked", Start: at(0), End: at(day + 9500*ms),
			Segments: []Segment{stretchOf(Queue, 0, 30*ms, ""), stretchOf(Parked, 400*ms, day+1*s, "")},
			Batches: []Batch{
				{Calls: []Call{{
					Number: 0, Tool: "Bash", Hint: `{"command":"make deploy"}`, State: Completed, Status: "completed", Effects: "done",
					Segments: []Segment{stretchOf(Gates, 30*ms, 300*ms, ""), stretchOf(Asking, 300*ms, day+1*s, "waits for a person"), stretchOf(Gates, day+1*s, day+1050*ms, ""), stretchOf(Attempt, day+1050*ms, day+5*s, "attempt 1")},
					Marks:    []Mark{{Yes, at(day + 1*s), "approved by anna, this call"}},
				}}},
				{Calls: []Call{
					{
						Number: 1, Tool: "flaky", Hint: `{"fail_n":2}`, State: Completed, Status: "completed", Effects: "none",
						Segments: []Segment{
							stretchOf(Gates, day+5*s, day+5100*ms, ""), stretchOf(Attempt, day+5100*ms, day+5600*ms, "attempt 1"), stretchOf(Delay, day+5600*ms, day+6100*ms, ""),
							stretchOf(Attempt, day+6100*ms, day+6400*ms, "attempt 2"), stretchOf(Delay, day+6400*ms, day+7400*ms, ""), stretchOf(Attempt, day+7400*ms, day+7900*ms, "attempt 3"),
						},
					},
					{
						Number: 2, Tool: "sleep", Hint: `{"ms":60000}`, State: Cancelled, Status: "cancelled", Effects: "none",
						Segments: []Segment{stretchOf(Gates, day+5*s, day+5100*ms, ""), stretchOf(Attempt, day+5100*ms, day+6500*ms, "attempt 1"), stretchOf(Ending, day+6500*ms, day+7100*ms, "")},
						Marks:    []Mark{{Note, at(day + 5500*ms), "progress"}, {Note, at(day + 6*s), "progress"}, {Cancel, at(day + 6500*ms), "cancel asked for by anna"}},
					},
				}},
				{Calls: []Call{{
					Number: 3, Tool: "deaf_sleep", Hint: `{"ms":60000}`, State: Open, Status: "open: started",
					Segments: []Segment{stretchOf(Gates, day+8*s, day+8050*ms, ""), {Kind: Holding, Start: at(day + 8050*ms), End: at(day + 8500*ms)}, {Kind: Attempt, Start: at(day + 8500*ms), Label: "attempt 1"}},
				}}},
				{Loose: true, Calls: []Call{{Number: 4, Tool: "mcp:inventory/reserve", Hint: "", State: Open, Status: "not yet requested"}}},
			},
		}},
	}
}

// single is an imported trace: one call, that took no time.
func single() Trace {
	return Trace{Title: "imp_e7c59326b6e62fc29c291ce2117d0ec973c3df8b", Subtitle: "1 turn, 1 call, 4 events", Turns: []Turn{{
		Name: "t000", State: Completed, Start: at(0), End: at(0),
		Batches: []Batch{{Calls: []Call{{Number: 0, Tool: "get_user_details", Hint: `{"user_id":"mia_li_3668"}`, State: Completed, Effects: "none", Segments: []Segment{stretchOf(Attempt, 0, 0, "attempt 1")}}}}},
	}}}
}

// wide is a turn of n calls in batches of four.
func wide(n int) Trace {
	t := Trace{Title: "wide", Subtitle: fmt.Sprintf("1 turn, %d calls", n)}
	turn := Turn{Name: "w", State: Completed, Start: at(0)}
	for i := range n {
		from := time.Duration(i/4) * 25 * ms
		c := read(i, "Read", fmt.Sprintf(`{"path":"src/file_%03d.go"}`, i), from, from+time.Duration(2+i%3)*ms, from+time.Duration(10+i*7%13)*ms)
		switch {
		case i%37 == 11:
			c.State, c.Status = Failed, "failed"
		case i%41 == 23:
			c.State, c.Status = TimedOut, "timed out"
		case i%53 == 5:
			c.State, c.Status = Deduplicated, "deduplicated"
		}
		if i%4 == 0 {
			turn.Batches = append(turn.Batches, Batch{})
		}
		b := &turn.Batches[len(turn.Batches)-1]
		b.Calls = append(b.Calls, c)
	}
	t.Turns = []Turn{turn}
	return t
}

// long is a conversation of n turns, 10 s apart, each with one to three calls.
func long(n int) Trace {
	t := Trace{Title: "long", Subtitle: fmt.Sprintf("%d turns", n)}
	for i := range n {
		from := time.Duration(i) * 10 * s
		turn := Turn{Name: fmt.Sprintf("t%05d", i), State: Completed, Start: at(from), End: at(from + 60*ms), Segments: []Segment{stretchOf(Queue, from, from+2*ms, "")}}
		for j := range 1 + i%3 {
			c := read(j, "Grep", fmt.Sprintf(`{"pattern":"needle %d"}`, i), from+3*ms, from+6*ms, from+time.Duration(20+(i+j)%40)*ms)
			if i%97 == 13 && j == 0 {
				c.State, c.Status, c.Effects = Unknown, "unknown", "possible"
			}
			turn.Batches = append(turn.Batches, Batch{Calls: []Call{c}})
		}
		t.Turns = append(t.Turns, turn)
	}
	return t
}

// evil is text that a stranger wrote.
var evil = "</text></title></style><script>alert(1)</script>\x1b[2J\u202egnp.exe \"'&<>\x00\xff\ufffe\ufeff" + strings.Repeat("界\u0301", 20) + "\n]]>"

// hostile is a trace in which every text is evil and no time makes sense.
func hostile() Trace {
	mark := Mark{Broken, at(-hr), evil}
	call := Call{
		Number: -7, Tool: evil, Hint: evil, State: 99, Status: evil, Effects: evil,
		Segments: []Segment{{Kind: 99, Start: at(5 * s), End: at(2 * s), Label: evil, Title: evil}, {Kind: -1}, {Kind: Attempt, Start: time.Unix(1<<40, 0), End: time.Unix(-1<<40, 0), Label: evil}},
		Marks:    []Mark{mark, {Sign: 77, Title: evil}, {Sign: -1, At: time.Unix(1<<50, 0)}},
		Facts:    []Fact{{evil, evil}}, Events: []Event{{evil, time.Time{}, evil, evil, evil, true}},
	}
	return Trace{
		Title: evil, Subtitle: evil, Warnings: []string{evil, evil},
		Turns: []Turn{
			{Name: evil, State: -3, Status: evil, About: []string{evil}, Segments: call.Segments, Marks: call.Marks, Batches: []Batch{{Calls: []Call{call, call}}, {Loose: true}}, Events: call.Events},
			{Name: "empty"},
			{Name: "backwards", Start: at(hr), End: at(0), Batches: []Batch{{Calls: []Call{{}}}}},
		},
	}
}

func document(t Trace) Document {
	return Document{
		Trace: t, Format: "openai", Footer: "made by sluice-replay show --html of release 0.2.0; sluice-replay show " + t.Title + " has all of it",
		Summary: []Fact{{"began", stamp(zero)}, {"by", "shop-agent of desk"}, {"positions", "1.7.0 to 2.13.1"}},
		Messages: []Message{
			{"tool", "call_9f2", "{\"status\":\"unknown\",\"error\":{\"code\":\"UNKNOWN_OUTCOME\",\"message\":\"its owner was lost while it ran, and nobody can tell whether the effect happened. Do not repeat it: check first\"}}", Unknown},
			{"tool", "call_9f3", "{\"status\":\"denied\",\n \"error\":{\"code\":\"PERMISSION_DENIED\"}}", Denied},
		},
	}
}

// faults is the matrix of one trace, each cell one run.
func faults() Matrix {
	m := matrixOf(func(i, j int) Counts {
		switch {
		case (i+2*j)%5 == 4:
			return Counts{NotApplicable: 1}
		case i == 4 && j%3 == 0:
			return Counts{Differs: 1}
		}
		return Counts{Same: 1}
	})
	m.Title, m.Subtitle = "Faults in trace shop-4711", "call 0, charge: 240 cells in 0.8 s"
	return m
}

// manyFaults is the matrix of many traces, with two cells that failed.
func manyFaults() Matrix {
	m := matrixOf(func(i, j int) Counts {
		n := 577 - 31*i
		switch {
		case (i+2*j)%5 == 4:
			return Counts{NotApplicable: n}
		case i == 3 && j == 9:
			return Counts{Same: n - 3, Broken: 3}
		case i == 5 && j == 14:
			return Counts{Same: n - 1, Unanswered: 1}
		case i == 4 && j%3 == 0:
			return Counts{Differs: n}
		case i == 4:
			return Counts{Same: n - 77, Differs: 77}
		case j == 6 && i == 0:
			return Counts{}
		}
		return Counts{Same: n * (1 + i*40)}
	})
	m.Title, m.Subtitle = "Faults at every boundary", "101 traces, 1 154 calls, 83 412 runs in 41.2 s on two cores"
	m.Notes = []string{"crash-kept between authorized and started broke L6 in 3 of 484 runs: the first is shop-4711/t1/0", "4720 × unknown (UNKNOWN_OUTCOME) instead of success: it is irreversible and had started when its owner was lost, and nobody can tell whether its effect happened: the model is told that it is not known", "seed 7"}
	return m
}

func matrixOf(cell func(i, j int) Counts) Matrix {
	m := Matrix{
		Rows:    []string{"turn: start → submitted", "turn: submitted → claimed", "turn: planned → completed", "call: requested → authorized", "call: authorized → started", "call: started → completed", "call: approval_requested → approved", "call: completed → end"},
		Columns: []string{"crash-lost", "crash-kept", "node-death", "zombie", "redelivery", "uncertain", "hang", "error-unavailable", "error-timeout", "error-tool", "error-invalid", "error-conflict", "error-panic", "cancel", "late-result", "lease-loss", "breaker-open", "approval-expiry", "power-loss"},
	}
	for i := range m.Rows {
		var row []Cell
		for j := range m.Columns {
			row = append(row, Cell{Counts: cell(i, j)})
		}
		m.Cells = append(m.Cells, row)
	}
	return m
}
