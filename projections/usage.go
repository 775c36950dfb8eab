package projections

import "github.com/sluice-run/sluice/events"

// Usage counts what was asked for and how it ended.
var Usage = Projection[Counts]{
	Name: "usage", Version: 2,
	Init:  func() Counts { return Counts{Tools: map[string]*ToolUse{}, Open: map[string][]string{}} },
	Apply: count,
}

// Counts is the state of Usage, for any number of traces.
type Counts struct {
	Turns     int                 `json:"turns"` // submitted
	Completed int                 `json:"completed"`
	Abandoned int                 `json:"abandoned"`
	Resolved  int                 `json:"resolved"`      // unknown ends that were settled later
	Late      int                 `json:"late"`          // answers after their attempt had ended
	Undone    int                 `json:"undone"`        // compensated calls
	Input     int64               `json:"input_tokens"`  // as callers noted
	Output    int64               `json:"output_tokens"` // as callers noted
	Tools     map[string]*ToolUse `json:"tools"`         // by name as the model gave it
	Open      map[string][]string `json:"open"`          // tools of the calls of each open turn
}

// ToolUse is the use of one tool.
type ToolUse struct {
	Calls    int                    `json:"calls"`
	Attempts int                    `json:"attempts"`
	Retries  int                    `json:"retries"`
	Asked    int                    `json:"asked"`            // approvals asked for
	Inputs   int                    `json:"inputs,omitempty"` // times that its calls asked a person before they could go on
	Ends     map[events.Kind]int    `json:"ends"`
	Effects  map[events.Effects]int `json:"effects"` // of the ends; a denied or deduplicated call had none
	RunUS    int64                  `json:"run_us"`  // of last attempts, microseconds
	Bytes    int64                  `json:"output_bytes"`
}

func count(c Counts, e Event) Counts {
	if e.Call == events.TurnEvent {
		return countTurn(c, e)
	}
	switch e.Event.(type) {
	case *events.Resolved:
		c.Resolved++
	case *events.LateResult:
		c.Late++
	case *events.Compensated:
		c.Undone++
	}
	tools := c.Open[e.Turn.String()]
	if e.Call < 0 || e.Call >= len(tools) {
		return c // behind the turn's end: its tools are not kept
	}
	c.tool(tools[e.Call]).count(e.Event)
	return c
}

func countTurn(c Counts, e Event) Counts {
	key := e.Turn.String()
	switch v := e.Event.(type) {
	case *events.TurnSubmitted:
		c.Turns++
		tools := make([]string, len(v.Calls))
		for i, call := range v.Calls {
			tools[i] = call.Tool
			c.tool(call.Tool).Calls++
		}
		c.Open[key] = tools
	case *events.TurnCompleted:
		c.Completed++
		delete(c.Open, key)
	case *events.TurnAbandoned:
		c.Abandoned++
		delete(c.Open, key)
	case *events.ModelCompleted:
		c.Input += v.Input
		c.Output += v.Output
	}
	return c
}

func (c Counts) tool(name string) *ToolUse {
	u := c.Tools[name]
	if u == nil {
		u = &ToolUse{Ends: map[events.Kind]int{}, Effects: map[events.Effects]int{}}
		c.Tools[name] = u
	}
	return u
}

func (u *ToolUse) count(e events.Event) {
	switch e.(type) {
	case *events.Started:
		u.Attempts++
	case *events.Retrying:
		u.Retries++
	case *events.ApprovalRequested:
		u.Asked++
	case *events.InputRequested:
		u.Inputs++
	}
	if !events.IsTerminal(e.Kind()) {
		return
	}
	u.Ends[e.Kind()]++
	effects := events.EffectsNone
	if o := events.OutcomeOf(e); o != nil {
		effects = o.Effects
		u.RunUS += o.Stages.Run
		u.Bytes += o.Output
	}
	u.Effects[effects]++
}
