package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// Circuit is one tool's circuit breaker as the cluster has it. Its JSON form is
// what GET /v1/breakers and sluice-node breaker --json give.
type Circuit struct {
	Tool     string                 `json:"tool"`
	State    lifecycle.BreakerState `json:"state"`
	Failures int                    `json:"failures"`             // consecutive ones, of availability
	OpenedAt time.Time              `json:"opened_at,omitzero"`   // zero: it is closed
	Until    time.Time              `json:"until,omitzero"`       // its next probe may pass then
	By       string                 `json:"opened_by,omitempty"`  // the person who has opened it; "" where failures have
	Reason   string                 `json:"reason,omitempty"`     // that person's
	Probe    string                 `json:"probe,omitempty"`      // the call that probes: trace/turn/offset
	Boot     string                 `json:"probe_boot,omitempty"` // on which node
	ProbeEnd time.Time              `json:"probe_until,omitzero"` // its lease
}

func circuitOf(tool string, b lifecycle.Breaker, c lifecycle.BreakerConfig, now time.Time) Circuit {
	out := Circuit{
		Tool: tool, State: b.State(c, now), Failures: b.Failures, OpenedAt: b.OpenedAt, Until: b.Ends(c), By: b.By, Reason: b.Reason,
	}
	if b.Probe != "" && now.Before(b.ProbeEnd) {
		out.Probe, out.Boot, _ = strings.Cut(b.Probe, " ")
		out.ProbeEnd = b.ProbeEnd
	}
	return out
}

// Circuits are all circuits that the cluster has a cell of, sorted by tool: those
// that are not closed, and those that have been open or have failures. c are the
// nodes' numbers; what is shown of an open one depends on them.
func (d *Desk) Circuits(ctx context.Context, c lifecycle.BreakerConfig) ([]Circuit, error) {
	out, now := []Circuit{}, d.now()
	err := bus.Each(ctx, d.bus.Cells(), bus.BucketBreaker, func(cell bus.Cell) {
		if tool, err := bus.ParseToken(cell.Key); err == nil {
			out = append(out, circuitOf(tool, breakerOf(cell), c, now))
		}
	})
	slices.SortFunc(out, func(a, b Circuit) int { return strings.Compare(a.Tool, b.Tool) })
	return out, err
}

// breakerOf is what a cell says; one that cannot be read counts as closed, as it
// does for nodes.
func breakerOf(c bus.Cell) lifecycle.Breaker {
	var b lifecycle.Breaker
	if len(c.Value) > 0 && json.Unmarshal(c.Value, &b) != nil {
		return lifecycle.Breaker{}
	}
	return b
}

// Circuit is one tool's circuit. A tool that never failed has a closed one.
func (d *Desk) Circuit(ctx context.Context, c lifecycle.BreakerConfig, tool string) (Circuit, error) {
	if err := checkTool(tool); err != nil {
		return Circuit{}, err
	}
	cell, err := d.bus.Cells().Get(ctx, bus.BucketBreaker, bus.Token(tool))
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return Circuit{}, err
	}
	return circuitOf(tool, breakerOf(cell), c, d.now()), nil
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)

func checkTool(name string) error {
	if !toolName.MatchString(name) {
		return BadRequest(fmt.Sprintf("tool %.80q", name), "name a tool as the tool list does")
	}
	return nil
}

// ResetCircuit closes a tool's circuit, whatever it is, and forgets its failures.
// It returns what it was before; a closed one without failures stays untouched.
// Every node hears of it at once, and it is durable.
func (d *Desk) ResetCircuit(ctx context.Context, c lifecycle.BreakerConfig, tool string) (was Circuit, err error) {
	return d.turnCircuit(ctx, c, tool, func(lifecycle.Breaker, time.Time) lifecycle.Breaker { return lifecycle.Breaker{} })
}

// Bounds of how long a person may switch a tool off.
const (
	MinOff = time.Second
	MaxOff = 30 * 24 * time.Hour
)

// OpenCircuit switches a tool off for a time, from MinOff to MaxOff, in the whole
// cluster: its calls are denied as those of any open circuit. It returns what the
// circuit was before.
func (d *Desk) OpenCircuit(ctx context.Context, c lifecycle.BreakerConfig, tool string, off time.Duration, by events.Principal, reason string) (was Circuit, err error) {
	by = person(by)
	switch {
	case off < MinOff || off > MaxOff:
		return Circuit{}, BadRequest(fmt.Sprintf("off for %v", off), fmt.Sprintf("say a time from %v to %v", MinOff, MaxOff))
	case len(reason) > lifecycle.MaxWords || len(by.ID) > lifecycle.MaxActor:
		return Circuit{}, fmt.Errorf("%w: a reason of %d bytes, at most %d", lifecycle.ErrWords, len(reason), lifecycle.MaxWords)
	}
	return d.turnCircuit(ctx, c, tool, func(b lifecycle.Breaker, now time.Time) lifecycle.Breaker {
		return b.Hold(now, now.Add(off), by.ID, wholeText(reason))
	})
}

// turnCircuit changes a tool's cell by compare-and-swap.
func (d *Desk) turnCircuit(ctx context.Context, c lifecycle.BreakerConfig, tool string, how func(lifecycle.Breaker, time.Time) lifecycle.Breaker) (Circuit, error) {
	if err := checkTool(tool); err != nil {
		return Circuit{}, err
	}
	cells, key := d.bus.Cells(), bus.Token(tool)
	for range maxTries {
		cell, err := cells.Get(ctx, bus.BucketBreaker, key)
		if err != nil && !errors.Is(err, bus.ErrNotFound) {
			return Circuit{}, err
		}
		now := d.now().UTC().Truncate(time.Microsecond)
		is := breakerOf(cell)
		was, next := circuitOf(tool, is, c, now), how(is, now)
		if next == is {
			return was, nil
		}
		value, err := json.Marshal(next)
		if err != nil {
			return was, err
		}
		_, err = cells.Put(ctx, bus.BucketBreaker, key, value, cell.Revision, 0)
		if errors.Is(err, bus.ErrConflict) {
			continue
		}
		if err == nil {
			err = d.durable(ctx)
		}
		return was, err
	}
	return Circuit{}, fmt.Errorf("circuit of %s: %w: it moved on %d times: try again", tool, bus.ErrConflict, maxTries)
}
