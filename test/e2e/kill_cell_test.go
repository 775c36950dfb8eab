package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// story is what happened in a cell.
type story struct {
	cell  cell
	trace string
	tiers []string

	deaths []death
	heir   *victim // who brought the turn to its end

	missed   bool // the turn did not come by the last point
	state    string
	calls    []callView
	events   []event
	answers  []answer
	effects  []effect // of the trace's own calls
	rival    *callView
	rivalSay answer
	passed   []passage     // by the heir
	took     time.Duration // from the last SIGKILL to the turn's end; 0 where nobody died, or it had ended
}

// death is one SIGKILL.
type death struct {
	boot, point string
	passed      []passage // what the dead had done
	at          time.Time
	effects     []effect // that had happened
}

// effect is something that a trial tool has done.
type effect struct {
	Tool, Call, Key, Name string
	Attempt               int
}

// done are the effects of a trace and of its rival; "" means all.
func (l *lane) done(trace string) ([]effect, error) {
	text, err := os.ReadFile(l.effects)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var out []effect
	for line := range strings.Lines(string(text)) {
		var e effect
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", l.effects, line, err)
		}
		if trace == "" || strings.HasPrefix(e.Call, trace+"/") || strings.HasPrefix(e.Call, trace+"-b/") {
			out = append(out, e)
		}
	}
	return out, nil
}

// agent is a client that repeats what was not answered, at whatever door is open.
type agent struct {
	l    *lane
	door atomic.Value // string: where HTTP is
	stop chan struct{}
}

// try sends a request to the door once.
func (a *agent) try(method, path string, body any) (int, []byte, error) {
	return (&api{base: a.door.Load().(string)}).try(method, path, body)
}

// until repeats a request until it is answered as fit says.
func (a *agent) until(method, path string, body any, fit func(status int, answer []byte) (bool, error)) error {
	last := ""
	err := a.l.await(method+" "+path, func() (bool, error) {
		select {
		case <-a.stop:
			return false, errors.New("nobody waits any more")
		default:
		}
		status, text, err := a.try(method, path, body)
		if err != nil {
			last = err.Error()
			return false, nil
		}
		last = fmt.Sprintf("%d %s", status, text)
		return fit(status, text)
	})
	if err != nil {
		return fmt.Errorf("%w; the last answer: %s", err, tail(last, 600))
	}
	return nil
}

// get reads what has to be there.
func (a *agent) get(path string, v any) error {
	return a.until(http.MethodGet, path, nil, func(status int, text []byte) (bool, error) {
		if status != http.StatusOK {
			return false, nil
		}
		return true, json.Unmarshal(text, v)
	})
}

// submit repeats a submission until it is taken.
func (a *agent) submit(tu placed) error {
	return a.until(http.MethodPost, "/v1/turns", tu, func(status int, text []byte) (bool, error) {
		if status >= 400 && status < 500 && !strings.Contains(string(text), "problem:busy") {
			return false, fmt.Errorf("the submission is refused: %d %s", status, text)
		}
		return status < 300, nil
	})
}

// play is the client's part of a scene.
func (a *agent) play(s scene, trace string) error {
	if err := a.submit(s.turn(trace, a.l.name)); err != nil {
		return err
	}
	for _, do := range s.acts {
		if err := a.when(do.when, trace); err != nil {
			return err
		}
		err := a.until(http.MethodPost, "/v1/turns/"+trace+"/t"+do.path, nil, func(status int, text []byte) (bool, error) {
			settled := status == http.StatusConflict && !strings.Contains(string(text), "problem:busy") // decided, or ended
			return status < 300 || settled, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// when waits until it is time for an act, or too late for it.
func (a *agent) when(fact, trace string) error {
	return a.until(http.MethodGet, "/v1/turns/"+trace+"/t/events", nil, func(status int, text []byte) (bool, error) {
		var out struct{ Events []event }
		if status != http.StatusOK || json.Unmarshal(text, &out) != nil {
			return false, nil
		}
		for _, e := range out.Events {
			if e.kind() == fact || strings.HasSuffix(e.Subject, "/t/0") && terminals[e.kind()] {
				return true, nil
			}
		}
		if fact != "effect" {
			return false, nil
		}
		done, err := a.l.done(trace)
		return len(done) > 0, err
	})
}

// run plays a cell. next is the fault of the node that is there at its end, "" for none.
func (l *lane) run(c cell, trace, next string) (*story, error) {
	st := &story{cell: c, trace: trace, tiers: c.scene.tiers()}
	faults := append(l.faults(c, trace), next)
	if err := l.armed(faults[0]); err != nil {
		return st, err
	}
	a := &agent{l: l, stop: make(chan struct{})}
	a.door.Store(l.cur.HTTP)
	played := make(chan error, 1)
	go func() { played <- a.play(c.scene, trace) }()
	err := l.deaths(st, a, faults)
	if err != nil {
		close(a.stop)
		return st, errors.Join(err, <-played)
	}
	if err := <-played; err != nil {
		return st, err
	}
	if c.scene.rival != "" && len(c.points) > 0 {
		if err := l.compete(st, a); err != nil {
			return st, err
		}
	}
	return st, l.outcome(st, a)
}

// faults are those of a cell's nodes, but for the last one.
func (l *lane) faults(c cell, trace string) []string {
	var out []string
	for _, p := range c.points {
		out = append(out, trace+" "+p)
	}
	return out
}

// deaths kills each node at its point, and has the next one take over.
func (l *lane) deaths(st *story, a *agent, faults []string) error {
	for i, p := range st.cell.points {
		err := l.stopped(st.trace+"/t", certain(p))
		if errors.Is(err, errPassedBy) && !certain(p) {
			st.missed = true
			return nil
		}
		if err != nil {
			return err
		}
		dead, err := l.succeed(faults[i+1], st.early(l))
		if err != nil {
			return err
		}
		a.door.Store(l.cur.HTTP)
		d := death{boot: dead.Boot, point: p, at: dead.killed}
		if d.passed, err = dead.passed(st.trace + "/t"); err != nil {
			return err
		}
		if d.effects, err = l.done(st.trace); err != nil {
			return err
		}
		st.deaths = append(st.deaths, d)
	}
	return nil
}

// certain says whether every turn of a scene comes by a point. How often a turn waits
// for a barrier or is pulled, and what a node does once more because it has read too
// early, depends on what happens at the same moment.
func certain(point string) bool {
	op, _, _ := strings.Cut(point, ":")
	if strings.Contains(point, "#") {
		return false
	}
	return op == "append" || op == "tool" || op == "probe" || point == "ack:before:queue" || point == "ack:after:queue"
}

// succeed kills who runs, and has another node there: before that where they share a
// log, after it where the log is in the process. meanwhile, if it is not nil, is done
// at a door that is open when the one who runs has stopped and not been killed.
func (l *lane) succeed(fault string, meanwhile func(door string) error) (dead *victim, err error) {
	dead = l.cur
	if l.k.nats != "" {
		_, err = l.start(fault)
	}
	if err == nil && meanwhile != nil {
		err = meanwhile(l.cur.HTTP)
	}
	dead.killed = time.Now()
	dead.kill()
	if err == nil && l.k.nats == "" {
		_, err = l.start(fault)
	}
	return dead, err
}

// early is the rival's submission while the first call's node still lives; nil where
// there is none.
func (st *story) early(l *lane) func(door string) error {
	if st.cell.scene.rival != "early" {
		return nil
	}
	return func(door string) error {
		a := &agent{l: l, stop: make(chan struct{})}
		a.door.Store(door)
		tu := st.cell.scene.again(st.trace, l.name)
		if err := a.submit(tu); err != nil {
			return err
		}
		return a.when("requested", tu.Trace)
	}
}

// compete asks for the first call's key again.
func (l *lane) compete(st *story, a *agent) error {
	tu := st.cell.scene.again(st.trace, l.name)
	if err := a.submit(tu); err != nil {
		return err
	}
	v, err := a.end(tu.Trace)
	if err != nil {
		return err
	}
	said, err := a.said(tu.Trace)
	if err != nil || len(v.Calls) != 1 || len(said) != 1 {
		return fmt.Errorf("the rival has %d calls, %d messages, %v", len(v.Calls), len(said), err)
	}
	st.rival, st.rivalSay = &v.Calls[0], said[0]
	return nil
}

// end waits for a turn's end.
func (a *agent) end(trace string) (v view, err error) {
	return v, a.until(http.MethodGet, "/v1/turns/"+trace+"/t", nil, func(status int, text []byte) (bool, error) {
		v = view{}
		return status == http.StatusOK && json.Unmarshal(text, &v) == nil && (v.State == "completed" || v.State == "abandoned"), nil
	})
}

// said is what the model is told of a turn.
func (a *agent) said(trace string) ([]answer, error) {
	var m view
	if err := a.get("/v1/turns/"+trace+"/t/messages?format=json", &m); err != nil {
		return nil, err
	}
	out := make([]answer, len(m.Messages))
	for i, text := range m.Messages {
		if err := json.Unmarshal(text, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// outcome waits for the turn's end, and reads how it came about.
func (l *lane) outcome(st *story, a *agent) error {
	v, err := a.end(st.trace)
	if err != nil {
		return err
	}
	st.state, st.calls, st.heir = v.State, v.Calls, l.cur
	if st.answers, err = a.said(st.trace); err != nil {
		return err
	}
	var list struct{ Events []event }
	if err := a.get("/v1/turns/"+st.trace+"/t/events", &list); err != nil {
		return err
	}
	st.events = list.Events
	if st.effects, err = l.done(st.trace); err != nil {
		return err
	}
	if at, err := time.Parse(time.RFC3339Nano, st.events[len(st.events)-1].Time); err == nil && len(st.deaths) > 0 {
		st.took = max(0, at.Sub(st.deaths[len(st.deaths)-1].at))
	}
	st.passed, err = l.cur.passed(st.trace + "/t")
	return err
}
