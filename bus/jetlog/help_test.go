package jetlog_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/bus/jetlog/jettest"
	"github.com/sluice-run/sluice/events"
)

// one opens a bus on a server of its own.
func one(t testing.TB, c jetlog.Config) *jetlog.Bus {
	t.Helper()
	return jettest.Start(t).Open(c)
}

func turn(trace, turn string) events.TurnKey { return events.TurnKey{Trace: trace, Turn: turn} }

// note is a small commit: the turn's event number seq.
func note(k events.TurnKey, id string, seq uint32) events.Commit {
	return events.Commit{
		ID: id, Turn: k, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), By: events.Owner{Boot: "boot1", Epoch: 1},
		Records: []events.Record{{Call: events.TurnEvent, Seq: seq, Event: &events.ModelStarted{Model: "m" + id}}},
	}
}

// submitted is a commit of about 1.5 kB.
func submitted(k events.TurnKey, id string) events.Commit {
	calls := make([]events.RawCall, 4)
	for i := range calls {
		calls[i] = events.RawCall{ProviderID: fmt.Sprintf("call_%d", i), Tool: "echo", Args: events.Body{Text: strings.Repeat("x", 200)}}
	}
	return events.Commit{
		ID: id, Turn: k, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Records: []events.Record{{Call: events.TurnEvent, Seq: 1, Event: &events.TurnSubmitted{
			Calls: calls, Principal: events.Principal{ID: "agent"},
			Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		}}},
	}
}

type connector = func(name string) (*nats.Conn, error)

func asConflict(err error, c **bus.Conflict) bool { return errors.As(err, c) }
