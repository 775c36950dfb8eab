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
	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/projections"
)

// messages is the verb that rebuilds what a model was told.
func (a *app) messages() *cobra.Command {
	var at, format string
	var all bool
	cmd := &cobra.Command{
		Use: "messages TRACE[/TURN] | --all", Short: "Rebuild the messages that answer the calls, as they stand or as they stood at an event",
		Long: "Rebuild the messages that answer the calls, in the order of the turns and of the calls in them. --at shows what the\n" +
			"model would have been told at that event: calls that were open then have a placeholder. A turn has the ids that the\n" +
			"node's own answer to it has; a trace is rendered as one conversation, so that an id that a later turn uses again is\n" +
			"made unique there, where the provider wants that. With --json each trace is a line,\n" +
			"{\"trace\": …, \"messages\": [ … ]}; --all has every trace, in the order in which they ended.",
		Args: command.Args(0, 1, "a trace, a turn as trace/turn, or --all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == all {
				return exit.Misused(errors.New("want either a trace or --all"), "sluice-replay list shows the traces")
			}
			m := &renderer{app: a, format: codec.Format(format), every: all}
			if _, err := codec.RenderCalls(m.format, nil, codec.Options{}); format != "" && err != nil {
				return exit.Misused(err, "see --format")
			}
			var err error
			if m.at, err = parseAt(at); err != nil {
				return err
			}
			var t target
			if !all {
				if t, err = parseTarget(args[0], 2); err != nil {
					return err
				}
			}
			return a.withStore(cmd.Context(), false, func(st *session.Session) error {
				m.store = st
				if all {
					return m.all(cmd.Context())
				}
				return m.one(cmd.Context(), t)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&at, "at", "", "`position` of the last event that counts")
	f.StringVar(&format, "format", "", "openai, anthropic or json; left out: that of the turn, or of the trace's first one, else openai")
	f.BoolVar(&all, "all", false, "every trace of the log")
	return cmd
}

// renderer rebuilds messages.
type renderer struct {
	app     *app
	store   *session.Session
	format  codec.Format // "" means the trace's own
	at      events.Position
	every   bool // traces, not one
	missing bool // something could not be read
}

func (m *renderer) one(ctx context.Context, t target) error {
	h, err := readTrace(ctx, m.store.Bus, t.trace, m.at)
	if err != nil {
		return err
	}
	for _, d := range h.damaged {
		m.lost(errors.New(d.String()))
	}
	if err := h.has(t, 0); err != nil {
		return err
	}
	conv := projections.Answers.Init()
	for _, s := range h.commits {
		conv = foldAnswers(conv, s)
	}
	if err := m.print(ctx, t, conv); err != nil {
		return err
	}
	return m.verdict()
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
	err := scan(ctx, m.store.Bus, bus.Filter{}, func(d damage) { m.lost(errors.New(d.String())) }, within(func(s bus.Stored) error {
		last[s.Commit.Turn.Trace] = s.Seq
		return nil
	}))
	if err != nil {
		return err
	}
	open := make(map[string]projections.Conversation)
	err = scan(ctx, m.store.Bus, bus.Filter{}, func(damage) {}, within(func(s bus.Stored) error {
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

// print prints the messages of a trace, or of one of its turns.
func (m *renderer) print(ctx context.Context, t target, conv projections.Conversation) error {
	list, err := m.render(ctx, t, conv)
	if err != nil {
		return fmt.Errorf("trace %s: %w", t.trace, err)
	}
	if m.app.json {
		return m.app.printJSON(struct {
			Trace    string            `json:"trace"`
			Messages []json.RawMessage `json:"messages"`
		}{t.trace, list})
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

// render is the messages of the turns that are asked for. A provider that wants
// ids unique gets them so within what is shown: a turn alone has the ids that its
// submitter was told, and a trace is one conversation.
func (m *renderer) render(ctx context.Context, t target, conv projections.Conversation) ([]json.RawMessage, error) {
	out := []json.RawMessage{}
	format := m.format
	if format == "" {
		format = formatOf(conv)
	}
	var seen []string
	for _, turn := range conv.Turns {
		if t.turn != "" && turn.Key.Turn != t.turn {
			continue
		}
		if t.turn != "" && m.format == "" {
			format = formatOf(projections.Conversation{Turns: []*projections.Turn{turn}})
		}
		calls := make([]events.RawCall, len(turn.Calls))
		for i, c := range turn.Calls {
			calls[i] = c.Raw // ids need no arguments
		}
		o := codec.Options{Seen: seen, CallBytes: turn.Limits.CallBytes, TurnBytes: turn.Limits.TurnBytes}
		ids, err := codec.IDs(format, calls, o)
		if err != nil {
			return nil, err
		}
		seen = append(seen, ids...)
		answers, err := turn.Answers(blobsOf(ctx, m.store))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				m.lost(errors.New(line))
			}
		}
		list, err := codec.Render(format, answers, o)
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	return out, nil
}

// blobsOf reads what stands outside the log.
func blobsOf(ctx context.Context, st *session.Session) projections.Blobs {
	return func(ref events.BlobRef) ([]byte, error) { return st.Bus.Blobs().Get(ctx, ref) }
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
