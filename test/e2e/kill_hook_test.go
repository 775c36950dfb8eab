package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// faultsBuilt builds the node that can be told to stop at a point, once.
var faultsBuilt = sync.OnceValue(func() error {
	cmd := exec.Command("go", "build", "-tags", "faults", "-o", faultsPath(), "../../cmd/node")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build -tags faults ../../cmd/node: %w\n%s", err, out)
	}
	return nil
})

func faultsPath() string { return filepath.Join(bin, "sluice-node-faults") }

// point is a place on a turn's way, as the node's hook tells it.
type point struct {
	Turn, Op, Side, What string
	Nth                  int
}

// name is how a fault names the point.
func (p point) name() string {
	out := p.Op + ":" + p.Side
	if p.What != "" {
		out += ":" + p.What
	}
	if p.Nth > 1 {
		out += fmt.Sprint("#", p.Nth)
	}
	return out
}

// passage is an operation that came by: one point, or one for each event of a commit.
type passage struct {
	Points []point
	Seq    uint64
}

func (p passage) is(op, side string) bool { return p.Points[0].Op == op && p.Points[0].Side == side }

// at says whether a fault of that name stops here.
func (p passage) at(fault string) bool {
	for _, x := range p.Points {
		if x.name() == fault {
			return true
		}
	}
	return false
}

// victim is a node that may have been told to stop somewhere.
type victim struct {
	*process
	greeting
	fault  string // a trace and a point; "" for none
	halt   string // the file that says that it stands there
	record string
	killed time.Time
}

// passed are the passages of a turn, in order.
func (v *victim) passed(turn string) ([]passage, error) {
	text, err := os.ReadFile(v.record)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var out []passage
	for in := bufio.NewScanner(bytes.NewReader(text)); in.Scan(); {
		var p passage
		if err := json.Unmarshal(in.Bytes(), &p); err != nil {
			if bytes.HasSuffix(text, in.Bytes()) {
				break // the process was killed while it wrote this one down
			}
			return nil, fmt.Errorf("%s: %q: %w", v.record, in.Bytes(), err)
		}
		if p.Points[0].Turn == turn {
			out = append(out, p)
		}
	}
	return out, nil
}

// keeper is where the log of some lanes is.
type keeper struct {
	name string // embedded, R1 or R3
	nats string // "" for the log in the node's own process
	more []string
}

// lane is a line of nodes, each of which takes over what the one before left.
type lane struct {
	t       *testing.T // for processes: they live longer than a cell
	k       keeper
	p       *place
	name    string
	effects string // what the trial tools did
	cells   int
	born    int // processes so far

	cur *victim // who runs; nil for nobody
}

func newLane(t *testing.T, k keeper, name string) *lane {
	p := newPlace(t)
	return &lane{t: t, k: k, p: p, name: name, effects: filepath.Join(filepath.Dir(p.work), "effects.jsonl")}
}

// start starts a node with a fault, "" for none, and returns once it is ready.
func (l *lane) start(fault string) (*victim, error) {
	l.born++
	dir := filepath.Dir(l.p.work)
	v := &victim{
		fault: fault, halt: filepath.Join(dir, fmt.Sprint("halt-", l.born)), record: filepath.Join(dir, fmt.Sprint("record-", l.born)),
	}
	args := []string{
		"SLUICE_TEST_FAULT=" + fault, "SLUICE_TEST_HALT=" + v.halt, "SLUICE_TEST_RECORD=" + v.record, "SLUICE_TEST_EFFECTS=" + l.effects,
		faultsPath(), "serve", "--json", "--workspace", l.p.work, "--placements", l.name,
		"--http", "127.0.0.1:0", "--breaker-failures", "1000000", "--log-level", "warn", "--presence", "1s",
	}
	if l.k.nats == "" {
		args = append(args, "--data", l.p.data, "--listen-nats", "127.0.0.1:0")
	} else {
		args = append(args, "--nats", l.k.nats)
	}
	v.process = launch(l.t, nil, true, "/usr/bin/env", append(args, l.k.more...)...)
	line, err := bufio.NewReader(v.out).ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &v.greeting) != nil || v.Event != "ready" {
		v.kill()
		return nil, fmt.Errorf("the node does not get ready: %q, %v, exit %d: %s", line, err, v.code, tail(v.log.String(), 3000))
	}
	l.cur = v
	return v, nil
}

// armed has a node run that stops at the fault.
func (l *lane) armed(fault string) error {
	if l.cur != nil && l.cur.fault == fault {
		return nil
	}
	if l.cur != nil {
		l.cur.kill()
	}
	_, err := l.start(fault)
	return err
}

// stopped waits until the node stands at its fault. It gives up where the turn has
// ended without it: soon, if that may be.
func (l *lane) stopped(turn string, certain bool) error {
	v, ended, wait := l.cur, time.Time{}, 10*time.Second
	if certain {
		wait = patience
	}
	return l.await("the node stands at "+v.fault, func() (bool, error) {
		if _, err := os.Stat(v.halt); err == nil {
			return true, nil
		}
		select {
		case <-v.ended:
			return false, fmt.Errorf("the node ended by itself: exit %d: %s", v.code, tail(v.log.String(), 3000))
		default:
		}
		list, err := v.passed(turn)
		if err == nil && ended.IsZero() && slices.ContainsFunc(list, over) {
			ended = time.Now()
		}
		if !ended.IsZero() && time.Since(ended) > wait {
			return false, fmt.Errorf("%w: %s", errPassedBy, v.fault)
		}
		return false, err
	})
}

// over says that a passage is the end of its turn.
func over(p passage) bool {
	return p.is("append", "after") && slices.ContainsFunc(p.Points, func(x point) bool { return x.What == "turn_completed" })
}

// errPassedBy says that a turn ended, and never came to the point.
var errPassedBy = errors.New("the turn did not come by")

// await waits until the fact is there.
func (l *lane) await(what string, fact func() (bool, error)) error {
	late := time.NewTimer(2 * patience)
	defer late.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		is, err := fact()
		if is || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-late.C:
			return fmt.Errorf("waited %v in vain: %s", 2*patience, what)
		case <-l.t.Context().Done():
			return fmt.Errorf("the test ended: %s", what)
		}
	}
}
