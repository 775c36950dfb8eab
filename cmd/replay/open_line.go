package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/projections"
)

// pageLine is a page in JSON. Scripts read it.
type pageLine struct {
	Ask    string            `json:"ask"`
	From   string            `json:"from,omitempty"` // positions of the first and last event
	To     string            `json:"to,omitempty"`
	Before int               `json:"before"` // events of the target that stand before the page
	After  int               `json:"after"`
	Turns  int               `json:"turns"` // of the trace, up to the position that was asked for
	Calls  int               `json:"calls"`
	Total  int               `json:"total"` // events
	Events []json.RawMessage `json:"events"`
}

func (o *opener) line(ask string, p *page) error {
	out := pageLine{Ask: ask, Before: p.before, After: p.after, Turns: p.turns, Calls: p.calls, Total: p.events, Events: []json.RawMessage{}}
	var list []told
	tools := make(map[events.TurnKey]*story)
	for _, st := range p.stories {
		tools[st.key] = st
		list = append(list, st.events...)
		for n, t := range st.calls {
			if p.choice.call == noCall || p.choice.call == n {
				list = append(list, t.events...)
			}
		}
	}
	if p.choice.call != noCall {
		list = slices.DeleteFunc(list, func(e told) bool { return e.ev.Call != p.choice.call })
	}
	slices.SortFunc(list, func(a, b told) int { return a.ev.Pos.Compare(b.ev.Pos) })
	for _, e := range list {
		tool := ""
		if c := tools[e.ev.Turn].turn.Call(e.ev.Call); c != nil {
			tool = c.Tool
		}
		ce, err := cloudEvent(e.ev, tool)
		if err != nil {
			return err
		}
		out.Events = append(out.Events, ce)
	}
	if len(list) > 0 {
		out.From, out.To = list[0].ev.Pos.String(), list[len(list)-1].ev.Pos.String()
	}
	return o.app.printJSON(out)
}

// cloudEvent is one event as a CloudEvent.
func cloudEvent(e projections.Event, tool string) ([]byte, error) {
	records := make([]events.Record, e.Pos.Index+1) // its place in its commit is a part of it
	records[e.Pos.Index] = e.Record
	return bus.CloudEvent(bus.Stored{Generation: e.Pos.Generation, Seq: e.Pos.Seq, Commit: events.Commit{
		ID: e.Commit, Turn: e.Turn, At: e.At, By: e.By, Records: records,
	}}, e.Pos.Index, tool)
}

// errNoMemory says that this system does not tell how much memory was needed.
var errNoMemory = errors.New("the system does not tell")

// peakMemory is the most memory that this process has had, in KiB.
func peakMemory() (int, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, errNoMemory
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			return strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
		}
	}
	return 0, errNoMemory
}
