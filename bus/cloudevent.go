package bus

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/sluice-run/sluice/events"
)

// CloudEventsVersion is the version of the CloudEvents format that is written.
const CloudEventsVersion = "1.0"

// CloudEventSource is the source attribute of a turn's events: a URI reference.
func CloudEventSource(turn events.TurnKey) string { return "sluice/" + turn.Trace }

// cloudEvent is the structured JSON form. Names below subject, time and data
// are extension attributes, which must be lower case letters and digits.
type cloudEvent struct {
	SpecVersion string          `json:"specversion"`
	ID          string          `json:"id"` // the position; unique in the log
	Source      string          `json:"source"`
	Type        string          `json:"type"`
	Subject     string          `json:"subject"`
	Time        string          `json:"time"`
	ContentType string          `json:"datacontenttype"`
	Position    string          `json:"position"`
	Number      string          `json:"number"` // the call's or the turn's own: 1, 2, 3 …
	Commit      string          `json:"commit"`
	Tool        string          `json:"tool,omitempty"`
	Boot        string          `json:"boot,omitempty"`
	Epoch       string          `json:"epoch,omitempty"`
	Data        json.RawMessage `json:"data"`
}

// CloudEvent is the event at index of a commit as a CloudEvent 1.0 in structured
// JSON form. The subject is trace/turn/call, or trace/turn for an event of the
// turn itself; tool is the name of the call's tool, "" if it is not known. It
// returns an error for an index outside the commit and for an event that has no
// JSON form.
func CloudEvent(s Stored, index int, tool string) ([]byte, error) {
	if index < 0 || index >= len(s.Commit.Records) {
		return nil, fmt.Errorf("commit %s has no event %d", s.Commit.ID, index)
	}
	r := s.Commit.Records[index]
	data, version, err := eventJSON(r.Event)
	if err != nil {
		return nil, fmt.Errorf("event %s of commit %s: %w", s.Position(index), s.Commit.ID, err)
	}
	position := s.Position(index).String()
	ce := cloudEvent{
		SpecVersion: CloudEventsVersion, ID: position, Source: CloudEventSource(s.Commit.Turn),
		Type:    fmt.Sprintf("run.sluice.%s.v%d", r.Event.Kind(), version),
		Subject: s.Commit.Turn.String(), Time: s.Commit.At.UTC().Format(time.RFC3339Nano),
		ContentType: "application/json", Position: position,
		Number: strconv.FormatUint(uint64(r.Seq), 10), Commit: s.Commit.ID, Boot: s.Commit.By.Boot, Data: data,
	}
	if r.Call != events.TurnEvent {
		ce.Subject, ce.Tool = s.Commit.Turn.Call(r.Call).String(), tool
	}
	if ce.Boot != "" {
		ce.Epoch = strconv.FormatUint(uint64(s.Commit.By.Epoch), 10)
	}
	return json.Marshal(ce)
}

// eventJSON is an event's JSON and version. A foreign one is translated from
// its stored form.
func eventJSON(e events.Event) (data []byte, version int, err error) {
	f, foreign := e.(events.Foreign)
	if !foreign {
		row, _ := events.KindRow(e.Kind())
		data, err = json.Marshal(e)
		return data, row.Version, err
	}
	var body any
	if err := msgpack.Unmarshal(f.Body, &body); err != nil {
		return nil, 0, err
	}
	data, err = json.Marshal(body)
	return data, f.Version, err
}
