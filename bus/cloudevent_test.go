package bus_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

func stored(records ...events.Record) bus.Stored {
	return bus.Stored{Generation: 2, Seq: 42, Commit: events.Commit{
		ID: "c1", Turn: events.TurnKey{Trace: "t", Turn: "u"}, At: time.Date(2026, 5, 4, 3, 2, 1, 987_000_000, time.UTC),
		By: events.Owner{Boot: "b1", Epoch: 3}, Records: records,
	}}
}

func TestCloudEvent(t *testing.T) {
	s := stored(
		events.Record{Call: 1, Seq: 4, Event: &events.Denied{Gate: "allow", Code: events.UnknownTool, Reason: "no <such> tool"}},
		events.Record{Call: events.TurnEvent, Seq: 2, Event: &events.TurnParked{Waiting: []int{1}}},
		events.Record{Call: 0, Seq: 9, Event: events.Foreign{Name: "later", Version: 7, Body: []byte{0x81, 0xa1, 'x', 0x01}}},
	)
	common := `"specversion":"1.0","source":"sluice/t","time":"2026-05-04T03:02:01.987Z","datacontenttype":"application/json",` +
		`"commit":"c1","boot":"b1","epoch":"3",`
	for i, want := range []string{
		`{` + common + `"id":"2.42.0","position":"2.42.0","number":"4","type":"run.sluice.denied.v1","subject":"t/u/1","tool":"web.fetch",` +
			`"data":{"gate":"allow","code":"UNKNOWN_TOOL","reason":"no <such> tool"}}`,
		`{` + common + `"id":"2.42.1","position":"2.42.1","number":"2","type":"run.sluice.turn_parked.v1","subject":"t/u","data":{"waiting":[1]}}`,
		`{` + common + `"id":"2.42.2","position":"2.42.2","number":"9","type":"run.sluice.later.v7","subject":"t/u/0","tool":"web.fetch","data":{"x":1}}`,
	} {
		body, err := bus.CloudEvent(s, i, "web.fetch")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(decoded(t, want), decoded(t, string(body))); diff != "" {
			t.Errorf("event %d:\n%s", i, diff)
		}
		for name := range decoded(t, string(body)) {
			if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
				t.Errorf("attribute name %q is not lower case letters and digits", name)
			}
		}
	}
}

func decoded(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

func TestCloudEventRefuses(t *testing.T) {
	s := stored(events.Record{Event: events.Foreign{Name: "x", Version: 1, Body: []byte{0xc1}}})
	for _, i := range []int{-1, 0, 1} { // no event, no JSON form, no event
		if body, err := bus.CloudEvent(s, i, ""); err == nil {
			t.Errorf("event %d: %s", i, body)
		}
	}
}
