package readstore_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/projections/readstore"
)

// A store is filled from a log, and asked what was charged.
func ExampleStore() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "readstore")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	log := memlog.New(memlog.Config{}).View("node")
	_, err = log.Append(ctx, events.Commit{
		ID: "1", Turn: events.TurnKey{Trace: "shop", Turn: "t1"}, At: time.Unix(0, 0),
		Records: []events.Record{{Call: events.TurnEvent, Seq: 1, Event: &events.TurnSubmitted{
			Principal: events.Principal{ID: "agent"},
			Calls:     []events.RawCall{{Tool: "charge", Args: events.Body{Text: `{"order": "A-17", "amount": 12}`}}},
		}}},
	}, 0)
	if err != nil {
		panic(err)
	}
	store, err := readstore.Open(ctx, readstore.Config{Dir: dir, Log: log})
	if err != nil {
		panic(err)
	}
	if err := store.Fill(ctx, false); err != nil { // a node calls Start instead
		panic(err)
	}
	page, err := store.Traces(ctx, readstore.Query{Tools: []string{"charge"}, Statuses: []string{readstore.StatusOpen}, Text: "order a-17"})
	if err != nil {
		panic(err)
	}
	for _, t := range page.Traces {
		fmt.Println(t.Trace, t.Statuses, t.From)
	}
	if err := store.Stop(); err != nil {
		panic(err)
	}
	// Output: shop map[open:1] 1.1.0
}
