package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/cmd/replay/picture"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/projections"
)

// drawnEvents is how many events a page of HTML has where nobody says how many. A
// picture alone has all.
const drawnEvents = 5000

// draw writes the picture of the target, or the page with it, to a file.
func (s *shower) draw(ctx context.Context, r *reading) error {
	want := s.want
	switch {
	case s.limited:
	case s.html == "":
		want.limit = 0
	default:
		want.limit = drawnEvents
	}
	b, err := openBook(ctx, r, want.trace, want.at)
	if err != nil {
		return err
	}
	p, err := b.page(ctx, want)
	if err != nil {
		return err
	}
	t := drawing(p, r, s.html != "")
	if s.svg != "" {
		if err := s.app.put(s.svg, t.Waterfall()); err != nil {
			return err
		}
	}
	if s.html != "" {
		doc, err := s.document(ctx, r, p, t)
		if err != nil {
			return err
		}
		if err := s.app.put(s.html, doc.Page()); err != nil {
			return err
		}
	}
	return s.app.faults(b, want.target)
}

// put writes a file whole or not at all; - is standard output.
func (a *app) put(path string, data []byte) error {
	if path == "-" {
		_, err := a.out.Write(data)
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return exit.Misused(err, "name a file in a directory that can be written")
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// drawing is a page of a trace as a picture's values. details are what only a page
// of HTML shows.
func drawing(p *page, r *reading, details bool) picture.Trace {
	out := picture.Trace{
		Title:    p.choice.trace,
		Subtitle: fmt.Sprintf("%s, %s, %s", count(p.turns, "turn"), count(p.calls, "call"), count(p.events, "event")),
	}
	if r.redacted {
		out.Warnings = append(out.Warnings, "Redacted: bodies are placeholders, and digests do not fit what was there.")
	}
	if p.book.cut || p.choice.at.Compare(p.book.last) < 0 {
		out.Warnings = append(out.Warnings, "As it stood at "+p.to.String()+": there is more behind it.")
	}
	for _, d := range p.book.damaged {
		out.Warnings = append(out.Warnings, d.String())
	}
	if p.book.torn != nil {
		out.Warnings = append(out.Warnings, p.book.torn.Error())
	}
	if p.before > 0 || p.after > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("Only a part of it: %s before, and %s behind.", count(p.before, "event"), count(p.after, "event")))
	}
	for _, st := range p.stories {
		if st.fault != "" {
			out.Warnings = append(out.Warnings, fmt.Sprintf("Turn %s, at %s: %s", st.key.Turn, st.faultAt, st.fault))
		}
		out.Turns = append(out.Turns, st.drawing(p.choice, details))
	}
	return out
}

// document is the page of HTML.
func (s *shower) document(ctx context.Context, r *reading, p *page, t picture.Trace) (picture.Document, error) {
	out := picture.Document{
		Trace:  t,
		Footer: fmt.Sprintf("Made by %s %s. Positions are places in the log: %s show %s --at POSITION shows what stood there.", name, command.Version(), name, p.choice.target),
	}
	add := func(name, text string) { out.Summary = append(out.Summary, picture.Fact{Name: name, Text: text}) }
	add("of", p.choice.target.String())
	if p.from.Seq > 0 {
		add("from", p.from.String())
		add("to", p.to.String())
	}
	for i, st := range p.stories {
		if i == 0 {
			add("began", stamp(st.first))
		}
		if i == len(p.stories)-1 {
			add("last event", stamp(st.last))
		}
	}
	if who := principals(p.stories); who != "" {
		add("by", who)
	}
	add("calls", standings(p.stories))
	conv := projections.Answers.Init()
	err := p.book.answers(ctx, p, &conv)
	if err != nil {
		return out, err
	}
	format := formatOf(conv)
	out.Format = string(format)
	for _, turn := range conv.Turns {
		out.Messages = append(out.Messages, s.told(ctx, r, format, turn)...)
	}
	return out, nil
}

// answers folds what the model is told of the turns of a page, in one reading.
func (b *book) answers(ctx context.Context, p *page, conv *projections.Conversation) error {
	if len(p.stories) == 0 {
		return nil
	}
	on := make(map[string]bool)
	from, to := end, events.Position{}
	for _, st := range p.stories {
		c := b.of[st.key.Turn]
		on[st.key.Turn] = true
		from = earlierOf(from, c.from)
		if c.to.Compare(to) > 0 {
			to = c.to
		}
	}
	to = earlierOf(to, p.choice.at)
	f := bus.Filter{Trace: b.trace}
	if len(p.stories) == 1 {
		f.Turn = p.stories[0].key.Turn
	}
	return b.walk(ctx, from, f, func(e projections.Event) error {
		if e.Pos.Compare(to) > 0 {
			return errEnough
		}
		if on[e.Turn.Turn] {
			*conv = projections.Answers.Apply(*conv, e)
		}
		return nil
	})
}

// told are the messages that answer the calls of a turn.
func (s *shower) told(ctx context.Context, r *reading, f codec.Format, turn *projections.Turn) []picture.Message {
	answers, err := turn.Answers(blobsOf(ctx, r))
	var out []picture.Message
	if err != nil {
		out = append(out, picture.Message{Role: "!", Of: turn.Key.Turn, Text: err.Error()})
	}
	list, err := codec.Render(f, answers, codec.Options{CallBytes: turn.Limits.CallBytes, TurnBytes: turn.Limits.TurnBytes})
	if err != nil {
		out = append(out, picture.Message{Role: "!", Of: turn.Key.Turn, Text: err.Error()})
	}
	for i, raw := range list {
		m := picture.Message{Role: cmp.Or(roleOf(raw), string(f)), Of: turn.Key.Turn, Text: indented(raw)}
		if len(list) == len(answers) {
			m.Of, m.State = fmt.Sprintf("%s/%d %s", turn.Key.Turn, i, turn.Calls[i].Raw.Tool), stateOf(answers[i].Terminal)
			if s.want.call != noCall && i != s.want.call {
				continue
			}
		}
		out = append(out, m)
	}
	return out
}

// indented is a message as it is shown.
func indented(raw json.RawMessage) string {
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, raw, "", "  "); err != nil {
		return string(raw)
	}
	return pretty.String()
}

// roleOf is a message's role; "" where its format has none.
func roleOf(raw json.RawMessage) string {
	var m struct {
		Role string `json:"role"`
	}
	_ = json.Unmarshal(raw, &m) // what has no such member has no role
	return m.Role
}

// principals are who submitted the turns, each once.
func principals(list []*story) string {
	var out []string
	seen := make(map[string]bool)
	for _, st := range list {
		if sub := st.turn.Submitted; sub != nil && !seen[sub.Principal.ID] {
			seen[sub.Principal.ID] = true
			out = append(out, sub.Principal.ID)
		}
	}
	return strings.Join(out, ", ")
}

// standings are the ends of all calls, counted.
func standings(list []*story) string {
	ends, open := make(map[events.Kind]int), 0
	for _, st := range list {
		for _, c := range st.turn.Calls {
			if c.Terminal != nil {
				ends[c.Terminal.Kind()]++
			} else {
				open++
			}
		}
	}
	out := show.Counts(ends)
	if open > 0 {
		out = strings.TrimPrefix(fmt.Sprintf("%s, %d open", out, open), ", ")
	}
	return out
}
