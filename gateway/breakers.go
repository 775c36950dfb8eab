package gateway

import (
	"cmp"
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
	"github.com/sluice-run/sluice/events/near"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy/secrets"
)

// Circuit is a circuit breaker as the cluster has it: a tool's, or that of one of the
// endpoints which a tool reaches. Its JSON form is what GET /v1/breakers and sluice-node
// breaker --json give.
type Circuit struct {
	Tool     string                 `json:"tool"`
	Circuit  string                 `json:"circuit,omitempty"` // the endpoint, as its tool names it; "": the tool as a whole
	State    lifecycle.BreakerState `json:"state"`
	Failures int                    `json:"failures"`             // consecutive ones, of availability
	OpenedAt time.Time              `json:"opened_at,omitzero"`   // zero: it is closed
	Until    time.Time              `json:"until,omitzero"`       // its next probe may pass then
	By       string                 `json:"opened_by,omitempty"`  // the person who has opened it; "" where failures have
	Reason   string                 `json:"reason,omitempty"`     // that person's
	Probe    string                 `json:"probe,omitempty"`      // the call that probes: trace/turn/offset
	Boot     string                 `json:"probe_boot,omitempty"` // on which node
	ProbeEnd time.Time              `json:"probe_until,omitzero"` // its lease
	Note     string                 `json:"note,omitempty"`       // that no node knows the tool, where one circuit was asked for
}

func circuitOf(of lifecycle.Circuit, b lifecycle.Breaker, c lifecycle.BreakerConfig, now time.Time) Circuit {
	out := Circuit{
		Tool: of.Tool, Circuit: of.Of, State: b.State(c, now), Failures: b.Failures, OpenedAt: b.OpenedAt, Until: b.Ends(c), By: b.By, Reason: b.Reason,
	}
	if b.Probe != "" && now.Before(b.ProbeEnd) {
		out.Probe, out.Boot, _ = strings.Cut(b.Probe, " ")
		out.ProbeEnd = b.ProbeEnd
	}
	return out
}

// Circuits are all circuits that are not closed, or have failures, sorted by tool and
// endpoint. c are the nodes' numbers; what is shown of an open one depends on them.
func (d *Desk) Circuits(ctx context.Context, c lifecycle.BreakerConfig) ([]Circuit, error) {
	out, now := []Circuit{}, d.now()
	err := bus.Each(ctx, d.bus.Cells(), bus.BucketBreaker, func(cell bus.Cell) {
		if tool, of, err := bus.ParseCircuitCell(cell.Key); err == nil && breakerOf(cell) != (lifecycle.Breaker{}) {
			out = append(out, circuitOf(lifecycle.Circuit{Tool: tool, Of: of}, breakerOf(cell), c, now))
		}
	})
	slices.SortFunc(out, func(a, b Circuit) int {
		return cmp.Or(strings.Compare(a.Tool, b.Tool), strings.Compare(a.Circuit, b.Circuit))
	})
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

// Circuit is one circuit. What never failed has a closed one.
func (d *Desk) Circuit(ctx context.Context, c lifecycle.BreakerConfig, of lifecycle.Circuit) (Circuit, error) {
	if err := checkCircuit(of); err != nil {
		return Circuit{}, err
	}
	cell, err := d.bus.Cells().Get(ctx, bus.BucketBreaker, bus.CircuitCell(of.Tool, of.Of))
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return Circuit{}, err
	}
	out := circuitOf(of, breakerOf(cell), c, d.now())
	out.Note, err = d.unknownTool(ctx, of)
	return out, err
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)

func checkCircuit(c lifecycle.Circuit) error {
	switch {
	case !toolName.MatchString(c.Tool):
		return BadRequest(fmt.Sprintf("tool %.80q", c.Tool), "name a tool as the tool list does")
	case c.Of != "" && (!bus.ValidCircuit(c.Of) || len(bus.CircuitCell(c.Tool, c.Of)) > bus.MaxCellKey):
		return BadRequest(fmt.Sprintf("circuit %.160q", c.Of), "name it as the list of circuits does, or leave it out for the tool as a whole")
	}
	return nil
}

// ErrNoTool is the error of a tool that no node knows: a misspelt name, or a tool of a node
// that is not there now.
var ErrNoTool = errors.New("no node knows such a tool")

// KnownTool asks the nodes whether one of them knows a tool, and returns ErrNoTool, with the
// name that may be meant, where those that tell do not. It is nil where none tells: nobody
// can say then. A node that does not answer within a second is not waited for.
func (d *Desk) KnownTool(ctx context.Context, tool string) error {
	crew, err := d.Crew(ctx, CrewOptions{Hello: bus.Who{Tools: true}})
	if err != nil {
		return err
	}
	var names []string
	for _, n := range crew.Nodes {
		if n.Says != nil {
			names = append(names, n.Says.Tools...)
		}
	}
	if len(names) == 0 || slices.Contains(names, tool) {
		return nil
	}
	if like := near.Word(tool, names); like != "" {
		return fmt.Errorf("%w: %q: is %s meant?", ErrNoTool, tool, like)
	}
	return fmt.Errorf("%w: %q", ErrNoTool, tool)
}

// unknownTool is what KnownTool says of a circuit's tool, as a note; "" where nothing is
// known against it.
func (d *Desk) unknownTool(ctx context.Context, of lifecycle.Circuit) (string, error) {
	err := d.KnownTool(ctx, of.Tool)
	if errors.Is(err, ErrNoTool) {
		return err.Error(), nil
	}
	return "", err
}

// ResetCircuit closes a circuit, whatever it is, and forgets its failures. With the one
// of a tool as a whole it closes those of the tool's endpoints. It returns what was not
// closed, or had failures, before; the rest stays untouched. Every node hears of it at
// once, and it is durable.
func (d *Desk) ResetCircuit(ctx context.Context, c lifecycle.BreakerConfig, of lifecycle.Circuit, by events.Principal) (Switched, error) {
	closed := func(lifecycle.Breaker, time.Time) lifecycle.Breaker { return lifecycle.Breaker{} }
	was, err := d.turnCircuit(ctx, c, of, closed)
	out := Switched{Tool: of.Tool, Circuit: of.Of, Status: "closed", By: person(by), Was: was}
	var more []lifecycle.Circuit
	if err == nil && of.Of == "" {
		err = bus.EachBelow(ctx, d.bus.Cells(), bus.BucketBreaker, bus.CircuitCell(of.Tool, "")+".", func(cell bus.Cell) {
			if tool, endpoint, err := bus.ParseCircuitCell(cell.Key); err == nil && breakerOf(cell) != (lifecycle.Breaker{}) {
				more = append(more, lifecycle.Circuit{Tool: tool, Of: endpoint})
			}
		})
	}
	for _, one := range more {
		if err == nil {
			_, err = d.turnCircuit(ctx, c, one, closed)
			out.Endpoints++
		}
	}
	if err == nil {
		err = d.durable(ctx)
	}
	if err == nil {
		out.Note, err = d.unknownTool(ctx, of)
	}
	return out.already(), err
}

// Switched answers what was done to a circuit.
type Switched struct {
	Tool      string           `json:"tool"`
	Circuit   string           `json:"circuit,omitempty"`   // as in Circuit
	Status    string           `json:"status"`              // closed, already_closed or open
	Endpoints int              `json:"endpoints,omitempty"` // how many circuits of the tool's endpoints were closed with it
	By        events.Principal `json:"by"`                  // who has done it
	Was       Circuit          `json:"was"`
	Note      string           `json:"note,omitempty"` // that no node knows the tool
}

// already is the answer with its status for a reset that found nothing to do.
func (s Switched) already() Switched {
	if s.Was.OpenedAt.IsZero() && s.Was.Failures == 0 && s.Endpoints == 0 {
		s.Status = "already_closed"
	}
	return s
}

// Bounds of how long a person may switch a tool off.
const (
	MinOff = time.Second
	MaxOff = 30 * 24 * time.Hour
)

// OpenCircuit switches a tool off for a time, from MinOff to MaxOff, in the whole
// cluster, or one of its endpoints: its calls are denied as those of any open circuit.
// The reason is told to models, and stored without what looks like a secret.
func (d *Desk) OpenCircuit(ctx context.Context, c lifecycle.BreakerConfig, of lifecycle.Circuit, off time.Duration, by events.Principal, reason string) (Switched, error) {
	by = person(by)
	switch {
	case off < MinOff || off > MaxOff:
		return Switched{}, BadRequest(fmt.Sprintf("off for %v", off), fmt.Sprintf("say a time from %v to %v", MinOff, MaxOff))
	case len(reason) > lifecycle.MaxWords || len(by.ID) > lifecycle.MaxActor:
		return Switched{}, fmt.Errorf("%w: a reason of %d bytes, at most %d", lifecycle.ErrWords, len(reason), lifecycle.MaxWords)
	}
	was, err := d.turnCircuit(ctx, c, of, func(b lifecycle.Breaker, now time.Time) lifecycle.Breaker {
		return b.Hold(now, now.Add(off), by.ID, secrets.Redact(wholeText(reason)))
	})
	if err == nil {
		err = d.durable(ctx)
	}
	return Switched{Tool: of.Tool, Circuit: of.Of, Status: "open", By: by, Was: was}, err
}

// turnCircuit changes a circuit's cell by compare-and-swap. It is durable past the next barrier.
func (d *Desk) turnCircuit(ctx context.Context, c lifecycle.BreakerConfig, of lifecycle.Circuit, how func(lifecycle.Breaker, time.Time) lifecycle.Breaker) (Circuit, error) {
	if err := checkCircuit(of); err != nil {
		return Circuit{}, err
	}
	cells, key := d.bus.Cells(), bus.CircuitCell(of.Tool, of.Of)
	for range maxTries {
		cell, err := cells.Get(ctx, bus.BucketBreaker, key)
		if err != nil && !errors.Is(err, bus.ErrNotFound) {
			return Circuit{}, err
		}
		now := d.now().UTC().Truncate(time.Microsecond)
		is := breakerOf(cell)
		was, next := circuitOf(of, is, c, now), how(is, now)
		if next == is {
			return was, nil
		}
		value, err := json.Marshal(next)
		if err != nil {
			return was, err
		}
		_, err = cells.Put(ctx, bus.BucketBreaker, key, value, cell.Revision, of.Keeps(next, c, now))
		if errors.Is(err, bus.ErrConflict) {
			continue
		}
		return was, err
	}
	return Circuit{}, fmt.Errorf("circuit of %s: %w: it moved on %d times: try again", of, bus.ErrConflict, maxTries)
}
