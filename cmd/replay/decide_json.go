package main

import (
	"github.com/sluice-run/sluice/cmd/replay/again"
	"github.com/sluice-run/sluice/events"
)

// turnDecided is what came of one turn, in JSON. Scripts read it.
type turnDecided struct {
	Turn       string        `json:"turn"` // trace/turn
	Events     int           `json:"events"`
	Decided    int           `json:"decided"`
	Given      int           `json:"given"`
	Difference *differenceAt `json:"difference"` // null: none
	Stopped    *stoppedAt    `json:"stopped"`    // null: it was decided to its end
	Notes      []noteAt      `json:"notes"`
	MoreNotes  int           `json:"more_notes,omitempty"`
	Missing    []string      `json:"missing_at_replay,omitempty"`
}

type differenceAt struct {
	Position string `json:"position"`
	Event    int    `json:"event"`
	Call     *int   `json:"call"` // null: the turn
	Recorded string `json:"recorded"`
	Decided  string `json:"decided"`
	Field    string `json:"field,omitempty"`
	Was      string `json:"was,omitempty"`
	Would    string `json:"would,omitempty"`
	Why      string `json:"why,omitempty"`
	Text     string `json:"text"`
}

type stoppedAt struct {
	Position string `json:"position"`
	Kind     string `json:"kind"`
	Why      string `json:"why"`
}

type noteAt struct {
	Position string `json:"position"`
	Call     *int   `json:"call"` // null: the turn
	Kind     string `json:"kind"`
	Text     string `json:"text"`
}

func decidedLine(r again.Report) turnDecided {
	out := turnDecided{
		Turn: r.Turn.String(), Events: r.Events, Decided: r.Decided, Given: r.Given, Notes: []noteAt{}, MoreNotes: r.MoreNotes, Missing: r.Missing,
	}
	if d := r.Difference; d != nil {
		out.Difference = &differenceAt{
			Position: d.Position.String(), Event: d.Event, Call: callOrTurn(d.Call), Recorded: d.Recorded, Decided: d.Decided,
			Field: d.Field, Was: d.Was, Would: d.Would, Why: d.Why, Text: d.String(),
		}
	}
	if s := r.Stopped; s != nil {
		out.Stopped = &stoppedAt{Position: s.Position.String(), Kind: s.Kind, Why: s.Why}
	}
	for _, n := range r.Notes {
		out.Notes = append(out.Notes, noteAt{Position: n.Position.String(), Call: callOrTurn(n.Call), Kind: n.Kind, Text: n.Text})
	}
	return out
}

// callOrTurn is a call's offset, or nil for the turn itself.
func callOrTurn(call int) *int {
	if call == events.TurnEvent {
		return nil
	}
	return &call
}
