package client

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
)

func TestAnEventInOneLine(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 5e6, time.UTC)
	turn := events.TurnKey{Trace: "tr", Turn: "tu"}
	for want, e := range map[string]Event{
		"1.7.0 2026-11-30T12:00:00.005Z tr/tu/2 started Bash (9 bytes)": {
			Position: events.Position{Generation: 1, Seq: 7}, Kind: "started", Turn: turn, Call: 2, Tool: "Bash", At: at, Data: json.RawMessage(`{"a":"b"}`),
		},
		"1.8.1 2026-11-30T12:00:00.005Z tr/tu turn_settled (0 bytes)": {
			Position: events.Position{Generation: 1, Seq: 8, Index: 1}, Kind: "turn_settled", Turn: turn, Call: events.TurnEvent, At: at,
		},
		"1.9.0 gap from 1.3.0": {Position: events.Position{Generation: 1, Seq: 9}, Notice: NoticeGap, From: events.Position{Generation: 1, Seq: 3}},
	} {
		if got := fmt.Sprintf("%v", e); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if got := fmt.Sprintf("%v", &e); got != want {
			t.Errorf("by pointer: %s, want %s", got, want)
		}
	}
}
