package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/projections"
)

// messages is the verb that rebuilds what a model was told.
func (a *app) messages() *cobra.Command {
	var at, from, format string
	var all, calls bool
	cmd := &cobra.Command{
		Use: "messages TRACE[/TURN] | --all", Short: "Rebuild the messages that answer the calls, as they stand or as they stood at an event",
		Long: "Rebuild the messages that answer the calls, in the order of the turns and of the calls in them. --at shows what the\n" +
			"model would have been told at that event: calls that were open then have a placeholder. --from leaves out what had\n" +
			"its answers before that event; a window begins between two turns, so that no call is parted from its answer. --calls\n" +
			"also has the messages that asked for the calls. A turn has the ids that the node's own answer to it has; a trace is\n" +
			"rendered as one conversation, so that an id that a later turn uses again is made unique there, where the provider\n" +
			"wants that. Rendered again, the bytes are the same. With --json each trace is a line,\n" +
			"{\"trace\": …, \"messages\": [ … ]}; --all has every trace, in the order in which they ended.",
		Args: command.Args(0, 1, "a trace, a turn as trace/turn, or --all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == all {
				return exit.Misused(errors.New("want either a trace or --all"), "sluice-replay list shows the traces")
			}
			m := &renderer{app: a, format: codec.Format(format), every: all, calls: calls}
			if _, err := codec.RenderCalls(m.format, nil, codec.Options{}); format != "" && err != nil {
				return exit.Misused(err, "see --format")
			}
			var err error
			if m.at, err = parseAt(at); err != nil {
				return err
			}
			if m.from, err = parseFrom(from); err != nil {
				return err
			}
			var t target
			if !all {
				if t, err = parseTarget(args[0], 2); err != nil {
					return err
				}
			}
			return a.withReading(cmd.Context(), func(r *reading) error {
				m.log = r
				if all {
					return m.all(cmd.Context())
				}
				return m.one(cmd.Context(), t)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&at, "at", "", "`position` of the last event that counts")
	f.StringVar(&from, "from", "", "`position` from which on a message counts: turns whose answers stood before are left out")
	f.StringVar(&format, "format", "", formatNames()+"; left out: that of the turn, or of the trace's first one, else "+string(codec.OpenAI))
	f.BoolVar(&all, "all", false, "every trace of the log")
	f.BoolVar(&calls, "calls", false, "also the messages that asked for the calls: a whole conversation")
	return cmd
}

// formatNames are all formats, in a sentence.
func formatNames() string {
	var names []string
	for _, f := range codec.Formats() {
		names = append(names, string(f))
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// renderer rebuilds messages.
type renderer struct {
	app     *app
	log     *reading
	format  codec.Format // "" means the trace's own
	from    events.Position
	at      events.Position
	every   bool // traces, not one
	calls   bool // what asked for the answers, too
	missing bool // something could not be read
}

func (m *renderer) one(ctx context.Context, t target) error {
	conv := projections.Answers.Init()
	var first *events.Position
	var turns []string
	seen := make(map[string]bool)
	err := scan(ctx, m.log, bus.Filter{Trace: t.trace}, func(d damage) { m.lost(errors.New(d.String())) }, func(s bus.Stored) error {
		if first == nil {
			p := s.Position(0)
			first = &p
		}
		kept, some := upTo(s, m.at)
		if !some {
			return errEnough
		}
		if id := s.Commit.Turn.Turn; !seen[id] {
			seen[id] = true
			turns = append(turns, id)
		}
		conv = foldAnswers(conv, kept)
		return nil
	})
	switch {
	case err != nil && len(turns) == 0:
		return err
	case err != nil:
		m.lost(err)
	case first == nil && !m.missing:
		return unknownTrace(ctx, m.log, t.trace)
	case first != nil && len(turns) == 0:
		return beginsBehind(t.trace, *first)
	}
	if t.turn != "" && !seen[t.turn] {
		return &exit.Failure{Err: fmt.Errorf("trace %s has no turn %s", t.trace, t.turn), Hint: nearly(t.turn, turns, "its turns are: "), Code: exit.Failed}
	}
	m.headless(conv, t, turns)
	if err := m.print(ctx, t, conv); err != nil {
		return err
	}
	return m.verdict()
}

// headless complains of turns whose beginning is missing: their calls are not known.
func (m *renderer) headless(conv projections.Conversation, t target, turns []string) {
	for _, id := range turns {
		key := events.TurnKey{Trace: t.trace, Turn: id}
		if (t.turn == "" || t.turn == id) && conv.Turn(key) == nil {
			m.lost(fmt.Errorf("turn %s: its beginning is missing, so its calls are not known", key))
		}
	}
}

func foldAnswers(conv projections.Conversation, s bus.Stored) projections.Conversation {
	for e := range projections.Events(s.Generation, s.Seq, s.Commit) {
		conv = projections.Answers.Apply(conv, e)
	}
	return conv
}

// all reads the log twice: once to learn where each trace ends, and once to fold
// it, so that only traces that have begun and not ended are in memory.
func (m *renderer) all(ctx context.Context) error {
	last := make(map[string]uint64)
	within := func(yield func(bus.Stored) error) func(bus.Stored) error {
		return func(s bus.Stored) error {
			s, some := upTo(s, m.at)
			if !some {
				return errEnough
			}
			return yield(s)
		}
	}
	err := scan(ctx, m.log, bus.Filter{}, func(d damage) { m.lost(errors.New(d.String())) }, within(func(s bus.Stored) error {
		last[s.Commit.Turn.Trace] = s.Seq
		return nil
	}))
	if err != nil {
		return err
	}
	open := make(map[string]projections.Conversation)
	err = scan(ctx, m.log, bus.Filter{}, func(damage) {}, within(func(s bus.Stored) error {
		trace := s.Commit.Turn.Trace
		conv := foldAnswers(open[trace], s)
		switch ends, known := last[trace]; {
		case !known || s.Seq > ends: // it came while we read: it is for the next time
		case s.Seq == ends:
			delete(open, trace)
			return m.print(ctx, target{trace: trace, call: noCall}, conv)
		default:
			open[trace] = conv
		}
		return nil
	}))
	if err != nil {
		return err
	}
	return m.verdict()
}

// lost tells of something that could not be read.
func (m *renderer) lost(err error) {
	m.missing = true
	m.app.complain(err)
}

func (m *renderer) verdict() error {
	if m.missing {
		return errSaid
	}
	return nil
}

// messagesLine are the messages of a trace in JSON. Scripts read it.
type messagesLine struct {
	Trace    string            `json:"trace"`
	Messages []json.RawMessage `json:"messages"`
	Before   int               `json:"turns_before,omitempty"` // turns that --from leaves out
}

// print prints the messages of a trace, or of one of its turns.
func (m *renderer) print(ctx context.Context, t target, conv projections.Conversation) error {
	list, before, err := m.render(ctx, t, conv)
	if err != nil {
		return fmt.Errorf("trace %s: %w", t.trace, err)
	}
	if m.app.json {
		return m.app.printJSON(messagesLine{t.trace, list, before})
	}
	if m.every {
		m.app.print("trace %s\n", t.trace)
	}
	for _, raw := range list {
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, raw, "", "  "); err != nil {
			return err
		}
		m.app.print("%s\n", show.JSON(pretty.String()))
	}
	return nil
}

// render is the messages of the turns that are asked for, and how many turns the
// window leaves out. A provider that wants ids unique gets them so within what is
// shown: a turn alone has the ids that its submitter was told, and a trace is one
// conversation, whose ids a window does not change.
func (m *renderer) render(ctx context.Context, t target, conv projections.Conversation) ([]json.RawMessage, int, error) {
	out := []json.RawMessage{}
	format := m.format
	if format == "" {
		format = formatOf(conv)
	}
	before := 0
	if m.from != (events.Position{}) {
		before = conv.Since(m.from)
	}
	var seen []string
	items := make(map[string]bool)
	for i, turn := range conv.Turns {
		if t.turn != "" && turn.Key.Turn != t.turn {
			continue
		}
		if t.turn != "" && m.format == "" {
			format = formatOf(projections.Conversation{Turns: []*projections.Turn{turn}})
		}
		o := codec.Options{Seen: seen, Items: items, CallBytes: turn.Limits.CallBytes, TurnBytes: turn.Limits.TurnBytes}
		list, ids, err := m.turn(ctx, format, turn, o, i < before)
		if err != nil {
			return nil, before, err
		}
		out, seen = append(out, list...), append(seen, ids...)
	}
	return out, before, nil
}

// turn is the messages of one turn, none if it is skipped, and its ids.
func (m *renderer) turn(ctx context.Context, f codec.Format, turn *projections.Turn, o codec.Options, skip bool) (list []json.RawMessage, ids []string, err error) {
	calls := make([]events.RawCall, len(turn.Calls))
	for i, c := range turn.Calls {
		calls[i] = c.Raw // ids need no arguments
	}
	if ids, err = codec.IDs(f, calls, o); err != nil || skip {
		if err == nil && m.calls {
			_, err = codec.Asked(f, calls, o) // the ids of its items are taken
		}
		return nil, ids, err
	}
	blobs := blobsOf(ctx, m.log)
	if m.calls {
		calls, err = turn.Requests(blobs)
		m.unresolved(err)
		if list, err = codec.Asked(f, calls, o); err != nil {
			return nil, ids, err
		}
	}
	answers, err := turn.Answers(blobs)
	if ctx.Err() != nil {
		return nil, ids, ctx.Err()
	}
	m.unresolved(err)
	told, err := codec.Render(f, answers, o)
	return append(list, told...), ids, err
}

// unresolved complains of each body that could not be read.
func (m *renderer) unresolved(err error) {
	if err == nil {
		return
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		m.lost(errors.New(line))
	}
}

// blobsOf reads what stands outside the log.
func blobsOf(ctx context.Context, r *reading) projections.Blobs {
	return func(ref events.BlobRef) ([]byte, error) { return r.blobs.Get(ctx, ref) }
}

// formatOf is the format of a trace's first turn that has one that is known.
func formatOf(conv projections.Conversation) codec.Format {
	for _, t := range conv.Turns {
		for _, f := range codec.Formats() {
			if string(f) == t.Format {
				return f
			}
		}
	}
	return codec.OpenAI
}
