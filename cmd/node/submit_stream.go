package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/gateway/codec"
)

// fromStream is what submit is told about an input that is a model's stream, and what it
// found there.
type fromStream struct {
	stream bool
	noDone bool
	stop   string // why the model stopped
	calls  int
	left   []codec.Unanswered // that the agent answers itself
}

func (s *fromStream) streamFlags(f *pflag.FlagSet) {
	f.BoolVar(&s.stream, "stream", false, "the input is a model's stream of events as its provider sent it: nothing is submitted unless it ended well")
	f.BoolVar(&s.noDone, "no-done", false, "with --stream: take a stream of Chat Completions without [DONE], of a server that never sends it")
}

// message reads the input: a model's message, or its stream.
func (a *app) message(sub *submission, from string) (codec.Format, codec.Message, error) {
	format, body, err := a.body(sub, from)
	if err != nil {
		return "", codec.Message{}, err
	}
	m, err := codec.Decode(format, body)
	if err != nil {
		return "", m, exit.Misused(fmt.Errorf("%s: %w", from, err), "give a provider's message as it came; --input says whose")
	}
	a.tellUnanswered(m.Unanswered)
	return format, m, gateway.HaltProblem(m)
}

// tellUnanswered says which calls of a message are the agent's own to run.
func (a *app) tellUnanswered(left []codec.Unanswered) {
	for _, u := range left {
		a.note("%s: the message has a %s (%s), which is neither run nor answered here: the agent answers it", name, show.Short(u.Type, 64), show.Short(u.ID, 64))
	}
}

// body is the model's message, and its format. That of a stream is made of its events, as
// it would have come without streaming.
func (a *app) body(sub *submission, from string) (codec.Format, json.RawMessage, error) {
	if sub.stream {
		return a.streamBody(sub, from)
	}
	if sub.noDone {
		return "", nil, exit.Misused(errors.New("--no-done without --stream"), "say --stream, or leave it out")
	}
	body, err := a.read(from)
	if err != nil {
		return "", nil, err
	}
	if !json.Valid(body) {
		return "", nil, exit.Misused(fmt.Errorf("%s is not JSON: %w", from, jsonError(body)), "give a provider's message as it came; a stream of events with --stream")
	}
	format := codec.Format(sub.input)
	if format == "" {
		format = gateway.Sniff(body)
	}
	return format, body, nil
}

// inFlags says in this program's words what the door says in those of HTTP.
var inFlags = strings.NewReplacer("done=optional", "--no-done", "say format=", "say --input ", "POST /v1/turns", "submit without --stream")

// streamBody reads a stream as it comes.
func (a *app) streamBody(sub *submission, from string) (codec.Format, json.RawMessage, error) {
	refused := func(err error) error {
		var p *gateway.Problem
		if errors.As(gateway.StreamProblem(err), &p) {
			return exit.Misused(fmt.Errorf("%s: %s", from, inFlags.Replace(err.Error())), inFlags.Replace(p.Next))
		}
		return err
	}
	s, err := codec.NewStream(codec.Format(sub.input), codec.StreamOptions{NoDone: sub.noDone})
	if err != nil {
		return "", nil, refused(err)
	}
	in := a.in
	if from != "-" {
		f, err := os.Open(from)
		if err != nil {
			return "", nil, exit.Misused(err, "name a file, or - for standard input")
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	}
	if _, err := io.Copy(s, in); err != nil {
		return "", nil, refused(err)
	}
	m, err := s.End()
	if err != nil {
		return "", nil, refused(err)
	}
	if err := gateway.HaltProblem(m); err != nil {
		return "", nil, err
	}
	sub.stop, sub.calls, sub.left = m.Reason, len(m.Calls), m.Unanswered
	body, err := s.Whole()
	return s.Format(), body, err
}

// saidNothing ends a submission of a stream that ended well and asks for no call.
func (a *app) saidNothing(sub *submission) error {
	if a.json {
		return a.printJSON(map[string]string{"state": "nothing", "stop": sub.stop})
	}
	a.note("%s: the model asked for no call (%s): nothing was submitted", name, show.Short(sub.stop, 64))
	return a.out.failed()
}
