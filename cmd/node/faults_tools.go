//go:build faults

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"sync"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// around puts points before and after a tool's run and its probe. After the run is
// between the effect and the answer.
func (h *hook) around(t tools.Tool) tools.Tool {
	run, probe := t.Run, t.Probe
	t.Run = func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		turn, call := in.Call.TurnKey().String(), strconv.Itoa(in.Call.Offset)
		h.pass(turn, "tool", sideNear, 0, call)
		r, err := run(ctx, in)
		h.pass(turn, "tool", sideFar, 0, call)
		return r, err
	}
	if probe == nil {
		return t
	}
	t.Probe = func(ctx context.Context, in tools.Invocation) (tools.Finding, error) {
		turn, call := in.Call.TurnKey().String(), strconv.Itoa(in.Call.Offset)
		h.pass(turn, "probe", sideNear, 0, call)
		f, err := probe(ctx, in)
		h.pass(turn, "probe", sideFar, 0, call)
		return f, err
	}
	return t
}

type trialIn struct {
	Name string `json:"name" jsonschema:"what the effect is called"`
	Mode string `json:"mode,omitempty" jsonschema:"description=what goes wrong: it fails without an effect; is not there at its first attempt; does not answer; does not even end; tells of its progress first,enum=fail,enum=flaky,enum=hang,enum=deaf,enum=progress"`
}

// effect is a line of the trial tools: something that has been done.
type effect struct {
	Tool    string `json:"tool"`
	Call    string `json:"call"`
	Attempt int    `json:"attempt"`
	Key     string `json:"key,omitempty"`
	Name    string `json:"name"`
}

// trial is where the trial tools leave their effects.
type trial struct {
	h    *hook
	path string
	mu   sync.Mutex
}

// trials are tools of every tier, with every way to be asked about an effect.
func (h *hook) trials(path string) ([]tools.Tool, error) {
	t := &trial{h: h, path: path}
	cannotTell := func(context.Context, tools.Invocation) (tools.Finding, error) {
		return tools.Finding{}, errors.New("the other side does not answer")
	}
	var out []tools.Tool
	for _, s := range []tools.Spec{
		{Name: "t_read", Tier: events.Readonly},
		{Name: "t_undo", Tier: events.Reversible},
		{Name: "t_undo_key", Tier: events.Reversible, HonoursKey: true},
		{Name: "t_undo_probe", Tier: events.Reversible, Probe: t.probe},
		{Name: "t_once", Tier: events.Irreversible},
		{Name: "t_once_probe", Tier: events.Irreversible, Probe: t.probe},
		{Name: "t_once_vague", Tier: events.Irreversible, Probe: cannotTell},
		{Name: "t_once_key", Tier: events.Irreversible, HonoursKey: true, Probe: t.probe},
		{Name: "t_ask", Tier: events.Approval},
		{Name: "t_ask_probe", Tier: events.Approval, Probe: t.probe},
	} {
		s.Description = "writes down that it ran"
		tool, err := tools.Typed(s, t.run(s.HonoursKey))
		if err != nil {
			return nil, err
		}
		out = append(out, tool)
	}
	return out, nil
}

// run is what a trial tool does.
func (t *trial) run(honours bool) func(context.Context, tools.Invocation, trialIn) (events.Result, error) {
	return func(ctx context.Context, in tools.Invocation, args trialIn) (events.Result, error) {
		switch {
		case args.Mode == "fail":
			return events.Result{}, &tools.Error{Code: events.ExecutionError, Class: events.ClassTool, Effects: events.EffectsNone, Message: "it was told to fail"}
		case args.Mode == "flaky" && in.Attempt == 1:
			return events.Result{}, &tools.Error{Code: events.ExecutionError, Class: events.ClassUnavailable, Effects: events.EffectsNone, Message: "the first attempt finds nobody"}
		case args.Mode == "progress":
			if err := t.progress(ctx, in); err != nil {
				return events.Result{}, err
			}
		}
		if err := t.write(effect{Tool: in.Tool, Call: in.Call.String(), Attempt: in.Attempt, Key: in.Key, Name: args.Name}, honours); err != nil {
			return events.Result{}, err
		}
		switch args.Mode {
		case "hang":
			<-ctx.Done()
			return events.Result{}, ctx.Err()
		case "deaf":
			select {}
		}
		return done(args.Name), nil
	}
}

func done(name string) events.Result {
	return events.Result{Status: events.Success, Text: events.Body{Text: "did " + name}}
}

// progress tells of progress, and waits until it is in the log.
func (t *trial) progress(ctx context.Context, in tools.Invocation) error {
	t.h.mu.Lock()
	heard := t.h.progress(in.Call)
	t.h.mu.Unlock()
	in.Progress(events.Progress{Text: "half of it", Done: 1, Total: 2})
	select {
	case <-heard:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write adds an effect. A tool that honours keys does nothing where the key was used.
func (t *trial) write(e effect, honours bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	all, err := t.effects()
	if err != nil {
		return err
	}
	for _, was := range all {
		if honours && e.Key != "" && was.Key == e.Key {
			return nil
		}
	}
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(t.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n')) // in one write: others append, too
	return errors.Join(err, f.Close())
}

func (t *trial) effects() ([]effect, error) {
	b, err := os.ReadFile(t.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var out []effect
	for in := bufio.NewScanner(bytes.NewReader(b)); in.Scan(); {
		var e effect
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// probe finds the effect of the call, if it is there.
func (t *trial) probe(_ context.Context, in tools.Invocation) (tools.Finding, error) {
	all, err := t.effects()
	for _, e := range all {
		if e.Call == in.Call.String() {
			return tools.Finding{Found: true, Result: done(e.Name)}, nil
		}
	}
	return tools.Finding{}, err
}
