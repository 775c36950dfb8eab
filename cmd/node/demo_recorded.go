package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/test/data"
)

// demoRecording is what the demo imports.
const demoRecording = "airline_gpt4o.jsonl"

// said is one tool message of a recording, read without any of our own code.
type said struct {
	Role    string  `json:"role"`
	ID      string  `json:"tool_call_id"`
	Name    *string `json:"name"` // nil where it is not recorded
	Content *string `json:"content"`
}

// demoImport imports the recordings, rebuilds their answers and compares them.
func (a *app) demoImport(ctx context.Context, desk *gateway.Desk) error {
	raw, err := data.Read(demoRecording)
	if err != nil {
		return err
	}
	want, err := recordedSaid(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	report, err := desk.Import(ctx, bytes.NewReader(raw), demoRecording)
	if err != nil {
		return err
	}
	a.heading("Imported %s: %d traces, %d turns, %d calls; %d turns are new.", demoRecording, len(report.Traces), report.Turns, report.Calls, report.New)
	if len(report.Traces) != len(want) {
		return fmt.Errorf("%d traces for %d conversations", len(report.Traces), len(want))
	}
	equal, all := 0, 0
	var first error
	for i, trace := range report.Traces {
		got, err := rebuilt(ctx, desk, trace)
		if err != nil {
			return fmt.Errorf("trace %s: %w", trace, err)
		}
		n, diff := compare(want[i], got)
		equal, all = equal+n, all+len(want[i])
		if diff != nil && first == nil {
			first = fmt.Errorf("trace %s: %w", trace, diff)
		}
	}
	if err := a.verdict(equal, all); err != nil {
		return err
	}
	if first == nil && equal != all {
		first = errors.New("some messages are missing")
	}
	return first
}

func (a *app) verdict(equal, all int) error {
	return a.say(map[string]int{"equal": equal, "recorded": all}, "%d of %d tool messages equal the recording\n", equal, all)
}

// recordedSaid are the tool messages of each conversation.
func recordedSaid(r io.Reader) ([][]said, error) {
	var out [][]said
	for dec := json.NewDecoder(r); ; {
		var conversation struct {
			Messages []json.RawMessage `json:"messages"`
		}
		if err := dec.Decode(&conversation); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		list, err := onlySaid(conversation.Messages)
		if err != nil {
			return nil, err
		}
		out = append(out, list)
	}
}

// onlySaid are the tool messages among messages.
func onlySaid(messages []json.RawMessage) ([]said, error) {
	var out []said
	for _, raw := range messages {
		var role struct {
			Role string `json:"role"`
		}
		if err := json.Unmarshal(raw, &role); err != nil {
			return nil, err
		}
		if role.Role != "tool" {
			continue
		}
		var m said
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// rebuilt are the tool messages of a trace, made from the events in the log.
func rebuilt(ctx context.Context, desk *gateway.Desk, trace string) ([]said, error) {
	conv, err := desk.Trace(ctx, trace)
	if err != nil {
		return nil, err
	}
	var out []said
	for _, t := range conv.Turns {
		m, err := desk.Render(ctx, t, codec.OpenAI)
		if err != nil {
			return nil, err
		}
		list, err := onlySaid(m.Answered)
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	return out, nil
}

// compare counts the messages that are equal, in their order, and describes the
// first that is not.
func compare(want, got []said) (equal int, first error) {
	for i, w := range want {
		if i >= len(got) {
			return equal, fmt.Errorf("message %d is missing", i)
		}
		if diff := differs(w, got[i]); diff == "" {
			equal++
		} else if first == nil {
			first = fmt.Errorf("message %d: %s differs", i, diff)
		}
	}
	if len(got) > len(want) && first == nil {
		first = fmt.Errorf("%d messages more than recorded", len(got)-len(want))
	}
	return equal, first
}

func differs(w, g said) string {
	switch {
	case w.Role != g.Role:
		return "the role"
	case w.ID != g.ID:
		return "the id"
	case w.Name != nil && (g.Name == nil || *w.Name != *g.Name):
		return "the name"
	case (w.Content == nil) != (g.Content == nil) || w.Content != nil && *w.Content != *g.Content:
		return "the content"
	}
	return ""
}

// demoLaws checks the laws of every turn in the log.
func (a *app) demoLaws(ctx context.Context, desk *gateway.Desk) error {
	turns := make(map[events.TurnKey][]events.Commit)
	n := 0
	err := desk.Bus().Read(ctx, events.Position{}, bus.Filter{}, false, func(s bus.Stored) error {
		turns[s.Commit.Turn] = append(turns[s.Commit.Turn], s.Commit)
		n += len(s.Commit.Records)
		return nil
	})
	if err != nil {
		return err
	}
	var errs []error
	for key, commits := range turns {
		for _, v := range lifecycle.Laws(commits) {
			errs = append(errs, fmt.Errorf("turn %s: %s", key, v))
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("%d violations of the laws: %w", len(errs), errors.Join(errs[:min(10, len(errs))]...))
	}
	return a.say(map[string]int{"turns": len(turns), "events": n, "violations": 0}, "All laws hold: %d turns, %d events\n", len(turns), n)
}
