package main

import (
	"context"
	"errors"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/replay/fault"
	"github.com/sluice-run/sluice/events"
)

// mostScripts is how many turns are in memory at once.
const mostScripts = 1024

// scripts makes the scripts of what was asked for, and hands them on, some at a time.
func (f *faulting) scripts(ctx context.Context, r *reading, play func([]*fault.Script) error) error {
	if f.target.trace != "" {
		h, err := readTrace(ctx, r, f.target.trace, end)
		if err != nil {
			return err
		}
		for _, d := range h.damaged {
			f.miss(errors.New(d.String()))
		}
		if f.turn != "" {
			if err := h.has(target{trace: f.target.trace, turn: f.turn, call: noCall}, 0); err != nil {
				return err
			}
		}
		list := f.build(ctx, r, h.trace, h.commits)
		if len(list) == 0 {
			return nil
		}
		return play(list)
	}
	if f.seeded { // a round may be of any turn
		var all []*fault.Script
		err := f.whole(ctx, r, func(list []*fault.Script) error { all = append(all, list...); return nil })
		if err != nil || len(all) == 0 {
			return err
		}
		return play(all)
	}
	return f.whole(ctx, r, play)
}

// whole reads the log twice: once to learn where each trace ends, and once to make the
// scripts, so that only traces that have begun and not ended are in memory.
func (f *faulting) whole(ctx context.Context, r *reading, play func([]*fault.Script) error) error {
	last := make(map[string]uint64)
	wanted := make(map[string]bool)
	err := scan(ctx, r, bus.Filter{}, func(d damage) { f.miss(errors.New(d.String())) }, func(s bus.Stored) error {
		trace := s.Commit.Turn.Trace
		last[trace] = s.Seq
		wanted[trace] = wanted[trace] || !s.Commit.At.Before(f.after)
		return nil
	})
	if err != nil {
		return err
	}
	open := make(map[string][]bus.Stored)
	var ready []*fault.Script
	err = scan(ctx, r, bus.Filter{}, func(damage) {}, func(s bus.Stored) error {
		trace := s.Commit.Turn.Trace
		if !wanted[trace] || s.Seq > last[trace] {
			return nil
		}
		if open[trace] = append(open[trace], s); s.Seq < last[trace] {
			return nil
		}
		ready = append(ready, f.build(ctx, r, trace, open[trace])...)
		if delete(open, trace); len(ready) < mostScripts {
			return nil
		}
		list := ready
		ready = nil
		return play(list)
	})
	if err != nil || len(ready) == 0 {
		return err
	}
	return play(ready)
}

// build makes the scripts of a trace.
func (f *faulting) build(ctx context.Context, r *reading, trace string, commits []bus.Stored) []*fault.Script {
	f.traces++
	list, not := fault.Build(fault.Trace{
		Name: trace, Commits: commits,
		Blob: func(ref events.BlobRef) ([]byte, error) { return r.blobs.Get(ctx, ref) },
		Turn: func(key events.TurnKey) ([]events.Commit, error) {
			var out []events.Commit
			err := scan(ctx, r, bus.Filter{Trace: key.Trace, Turn: key.Turn}, func(damage) {}, func(s bus.Stored) error {
				out = append(out, s.Commit)
				return nil
			})
			return out, err
		},
	}, f.options)
	for _, n := range not {
		if f.turn == "" || n.Turn.Turn == f.turn {
			f.miss(errors.New("turn " + n.Turn.String() + " cannot be played: " + n.Why))
		}
	}
	if f.turn == "" {
		return list
	}
	for _, s := range list {
		if s.Key.Turn == f.turn {
			return []*fault.Script{s}
		}
	}
	return nil
}

// miss tells of something that could not be read or played.
func (f *faulting) miss(err error) {
	f.gone++
	f.app.complain(err)
}
