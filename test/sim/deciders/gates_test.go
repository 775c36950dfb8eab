package deciders

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// breakers are short, so that they open and close within a run.
var breakers = lifecycle.BreakerConfig{Failures: 3, Window: 8 * time.Second, Lease: 5 * time.Second}

// facts are what planning needs to know.
func (sh *shell) facts() []lifecycle.CallFacts {
	out := make([]lifecycle.CallFacts, len(sh.state.Calls))
	for i, c := range sh.state.Calls {
		a, _ := lifecycle.Parse(c.Args.Text)
		t, known := tools[c.Tool]
		out[i] = lifecycle.CallFacts{Hash: a.Hash, Known: known, Safe: t.safe, Resources: resources(c)}
	}
	return out
}

func resources(c *lifecycle.Call) []events.ResourceUse {
	_, rest, ok := strings.Cut(c.Args.Text, `"on":"`)
	if !ok {
		return nil
	}
	return []events.ResourceUse{{Name: "file:" + rest[:1], Exclusive: tools[c.Tool].exclusive || tools[c.Tool].tier.Rank() > 1}}
}

func (sh *shell) verdict(c *lifecycle.Call) events.Verdict {
	t := tools[c.Tool]
	a, _ := lifecycle.Parse(c.Args.Text)
	return events.Verdict{
		Operation: events.Operation{Class: events.OpExecute}, Tier: t.tier, Hash: a.Hash, ToolVersion: "1", Policy: "p1",
		Key: sh.state.Submitted.Calls[c.Offset].Key, Resources: resources(c), HonoursKey: t.honours, Probe: t.probe, Retries: t.retries,
	}
}

func (sh *shell) plan() bool {
	_, _, log := sh.n.s.load(sh.key)
	inherited, context := lifecycle.Inherit(sh.key, commits(log))
	sh.command(lifecycle.Plan{Facts: sh.facts(), Inherited: inherited, Context: context, Policy: "p1"}, nobody)
	return true
}

// findings go through gates in order until one ends the way.
func findings(order []lifecycle.Gate, ask func(lifecycle.Gate) lifecycle.Finding) []lifecycle.Finding {
	var out []lifecycle.Finding
	for _, g := range order {
		f := ask(g)
		f.Gate = g
		out = append(out, f)
		if f.Ruling != lifecycle.Pass && f.Ruling != lifecycle.Ask {
			break
		}
	}
	return out
}

// judge asks the plan gates. Keys are taken in request order, one after another: no
// call may wait for one that stands behind it, here or in a ring of turns.
func (sh *shell) judge(e lifecycle.Effect, due []lifecycle.Effect) bool {
	keyed := func(i int) bool { return sh.state.Submitted.Calls[i].Key != "" }
	for _, o := range due {
		if o.Do == lifecycle.DoJudge && o.Call < e.Call && keyed(o.Call) && keyed(e.Call) {
			return false
		}
	}
	c := sh.state.Calls[e.Call]
	t, known := tools[c.Tool]
	v := sh.verdict(c)
	later := false
	fs := findings(lifecycle.PlanGates, func(g lifecycle.Gate) (f lifecycle.Finding) {
		switch {
		case g == lifecycle.GateDedupe && v.Key != "" && v.Hash != "" && known:
			f, later = sh.dedupe(c, v)
		case g == lifecycle.GateAllow && !known:
			f = lifecycle.Finding{Ruling: lifecycle.Deny, Code: events.UnknownTool, Reason: "there is no such tool"}
		case g == lifecycle.GateValidate && v.Hash == "":
			f = lifecycle.Finding{Ruling: lifecycle.Deny, Code: events.InvalidParam, Reason: "no JSON"}
		case g == lifecycle.GateAuthorize && t.asks:
			f = lifecycle.Finding{Ruling: lifecycle.Ask, Reason: "the policy asks"}
		case g == lifecycle.GatePeek && !sh.n.s.breaker(circuitOf(c.Tool, c.Args.Text)).Peek(breakers, sh.n.s.now):
			f = lifecycle.Finding{Ruling: lifecycle.Deny, Code: events.CircuitOpen, Reason: "its tool is down"}
		}
		return f
	})
	if later || fs[len(fs)-1].Ruling == lifecycle.Wait {
		return sh.later(e.Call, !later)
	}
	sh.done(e.Call)
	sh.command(lifecycle.Judge{Call: e.Call, Findings: fs, Verdict: v, Asks: "run " + c.Tool, Expire: time.Minute}, nobody)
	return true
}

// dedupe asks the key's entry, and takes the key if it is free. later says that it
// must be asked again.
func (sh *shell) dedupe(c *lifecycle.Call, v events.Verdict) (f lifecycle.Finding, later bool) {
	me, name := sh.key.Call(c.Offset), c.Tool+" "+v.Key
	cell, entry := readCell[lifecycle.KeyEntry](sh.n, bus.BucketKeys, name)
	var held lifecycle.Turn
	if entry != nil {
		key, err := events.ParseCallKey(entry.Holder)
		if err != nil {
			sh.n.s.fail("an entry points to %q", entry.Holder)
		}
		log, err := sh.n.view.Load(ctx, key.TurnKey(), entry.Seq)
		if err != nil {
			return f, true
		}
		held = lifecycle.Fold(key.TurnKey(), commits(log)...)
	}
	ruling, d := lifecycle.Dedupe(me, v.Hash, entry, held)
	sh.n.s.counts.mark("key %s", ruling)
	switch {
	case ruling == lifecycle.KeyTake:
		if !writeCell(sh.n, bus.BucketKeys, name, cell, lifecycle.KeyEntry{Holder: me.String(), Hash: v.Hash, Seq: sh.at}) {
			return f, true
		}
	case ruling == lifecycle.KeyWait && !slices.Contains(entry.Waiting, sh.key.String()):
		entry.Waiting = append(entry.Waiting, sh.key.String())
		writeCell(sh.n, bus.BucketKeys, name, cell, *entry)
		return f, true // the holder is read again once this is registered
	}
	return lifecycle.DedupeFinding(ruling, v.Key, entry, d), false
}

// start asks the start gates.
func (sh *shell) start(e lifecycle.Effect) bool {
	s, c := sh.n.s, sh.state.Calls[e.Call]
	v := sh.verdict(c)
	b := lifecycle.Begin{Call: e.Call, Verdict: v, Wall: 5 * time.Second, Asks: "run " + c.Tool}
	if s.unlucky(0.02) {
		b.Verdict.ToolVersion = "2" // another release of the tool
	}
	b.Findings = findings(lifecycle.StartGates, func(g lifecycle.Gate) (f lifecycle.Finding) {
		switch g {
		case lifecycle.GateAuthorize:
			if tools[c.Tool].asks {
				f.Ruling, f.Reason = lifecycle.Ask, "the policy asks"
			}
		case lifecycle.GateLock:
			if !sh.lock(c.Offset, v.Resources) {
				f.Ruling, f.Reason = lifecycle.Wait, "another call has it"
			}
		case lifecycle.GateAdmit:
			f, b.Breaker = sh.admit(c)
		}
		return f
	})
	if b.Findings[len(b.Findings)-1].Ruling == lifecycle.Wait {
		s.counts.mark("wait for a lock")
		return sh.later(e.Call, false)
	}
	sh.command(b, nobody)
	return true
}

// circuitOf is the cell of the circuit that a call belongs to: of fetch, that of the host.
func circuitOf(tool, args string) string {
	if _, host, ok := strings.Cut(args, `"on":"`); ok && tool == "fetch" {
		return bus.CircuitCell(tool, host[:1])
	}
	return bus.CircuitCell(tool, "")
}

// breaker is a circuit's, as any node sees it.
func (s *sim) breaker(of string) lifecycle.Breaker {
	n := &node{s: s, view: s.door}
	_, b := readCell[lifecycle.Breaker](n, bus.BucketBreaker, of)
	if b == nil {
		return lifecycle.Breaker{}
	}
	return *b
}

// probe is a call that was admitted to a tool that was down.
type probe struct {
	who   string
	until time.Time
}

// admit asks the breaker, and checks that it never lets two probe at once.
func (sh *shell) admit(c *lifecycle.Call) (lifecycle.Finding, events.BreakerView) {
	s, who := sh.n.s, sh.key.Call(c.Offset).String()+" "+sh.n.boot
	of := circuitOf(c.Tool, c.Args.Text)
	cell, have := readCell[lifecycle.Breaker](sh.n, bus.BucketBreaker, of)
	b := lifecycle.Breaker{}
	if have != nil {
		b = *have
	}
	was := b.State(breakers, s.now)
	next, ok := b.Admit(breakers, s.now, who)
	s.counts.mark("breaker %s, admitted %t", was, ok)
	if ok && next != b && !writeCell(sh.n, bus.BucketBreaker, of, cell, next) {
		return lifecycle.Finding{Ruling: lifecycle.Wait, Reason: "again"}, events.BreakerView{}
	}
	if !ok {
		return lifecycle.Finding{Ruling: lifecycle.Deny, Code: events.CircuitOpen, Reason: "its tool is down"}, events.BreakerView{}
	}
	if was == lifecycle.BreakerOpen {
		s.fail("breaker: %s was admitted while %s is open", who, of)
	}
	if was == lifecycle.BreakerHalfOpen {
		call := strings.Fields(who)[0] // whose next owner goes on as the probe
		if p := s.probes[of]; p.who != "" && strings.Fields(p.who)[0] != call && s.now.Before(p.until) {
			s.fail("breaker: %s and %s probe %s at once", p.who, who, of)
		}
		s.probes[of] = probe{who, s.now.Add(breakers.Lease)}
	}
	return lifecycle.Finding{}, events.BreakerView{State: string(was), Probe: was == lifecycle.BreakerHalfOpen}
}

// reportBreaker tells how an attempt ended.
func (n *node) reportBreaker(r *run, class events.Class) {
	t := cellOf(n.s, r.call)
	cell, b := readCell[lifecycle.Breaker](n, bus.BucketBreaker, t)
	if b == nil {
		b = &lifecycle.Breaker{}
	}
	who := r.call.String() + " " + n.boot
	if writeCell(n, bus.BucketBreaker, t, cell, b.Report(breakers, n.s.now, who, class)) && n.s.probes[t].who == who {
		delete(n.s.probes, t)
	}
}

// cellOf is the cell of a call's circuit.
func cellOf(s *sim, key events.CallKey) string {
	for _, c := range s.clients {
		if c.key == key.TurnKey() {
			return circuitOf(toolOf(s, key), c.sub.Calls[key.Offset].Args.Text)
		}
	}
	return ""
}

func toolOf(s *sim, key events.CallKey) string {
	for _, c := range s.clients {
		if c.key == key.TurnKey() {
			return c.sub.Calls[key.Offset].Tool
		}
	}
	return ""
}

// lock takes leases on what a call needs, or none.
func (sh *shell) lock(call int, uses []events.ResourceUse) bool {
	s := sh.n.s
	for _, u := range uses {
		cell, l := readCell[lifecycle.LockState](sh.n, bus.BucketLock, u.Name)
		if l == nil {
			l = &lifecycle.LockState{}
		}
		next, ok := l.Take(s.now, lifecycle.Hold{
			Call: sh.key.Call(call).String(), Boot: sh.n.boot, Exclusive: u.Exclusive, Until: s.now.Add(lifecycle.LockTTL),
		})
		if !writeCell(sh.n, bus.BucketLock, u.Name, cell, next) || !ok {
			return false
		}
		s.ledger.locked(s, u, next)
	}
	return true
}

// release gives back what ended calls hold.
func (sh *shell) release() {
	for _, c := range sh.state.Calls {
		if c.Open() || c.Verdict == nil {
			continue
		}
		if c.Verdict.Key != "" && c.Last != events.KindDeduplicated {
			sh.wakeWaiting(c)
		}
		for _, u := range c.Verdict.Resources {
			cell, l := readCell[lifecycle.LockState](sh.n, bus.BucketLock, u.Name)
			if l != nil && !l.Empty(sh.n.s.now) {
				writeCell(sh.n, bus.BucketLock, u.Name, cell, l.Free(sh.n.s.now, sh.key.Call(c.Offset).String()))
			}
		}
	}
}

// renewLocks carries the leases of what runs.
func (n *node) renewLocks() {
	for _, r := range n.s.runs {
		if r.n != n || r.unwanted {
			continue
		}
		if sh := n.shell(r.call.TurnKey()); sh != nil {
			sh.lock(r.call.Offset, sh.state.Calls[r.call.Offset].Verdict.Resources)
		}
	}
}

// wakeWaiting tells the turns that wait for an ended call's key.
func (sh *shell) wakeWaiting(c *lifecycle.Call) {
	_, entry := readCell[lifecycle.KeyEntry](sh.n, bus.BucketKeys, c.Tool+" "+c.Verdict.Key)
	if entry == nil || entry.Holder != sh.key.Call(c.Offset).String() {
		return
	}
	for _, w := range entry.Waiting {
		key, err := events.ParseTurnKey(w)
		if err == nil && key != sh.key {
			_ = sh.n.view.Wake(ctx, bus.Item{ID: "free." + entry.Holder, Turn: key}) // lost: their timers are the backstop
		}
	}
}

// parkForKeys parks a turn that waits only for keys, and for people.
func (sh *shell) parkForKeys(due []lifecycle.Effect) bool {
	s := sh.n.s
	p := lifecycle.Park{Until: s.now.Add(4 * time.Second)}
	waits := false
	for _, e := range due {
		switch {
		case e.Do == lifecycle.DoJudge:
			p.Keys = append(p.Keys, e.Call)
		case e.Do != lifecycle.DoExpire || !s.now.Before(e.At):
			return false
		}
	}
	for _, w := range sh.waits {
		waits = waits || w.key && slices.Contains(p.Keys, w.call)
	}
	if !waits || sh.n.view.Set(ctx, bus.Token(sh.key.String()), p.Until, bus.Item{ID: s.id("timer."), Turn: sh.key}) != nil {
		return false
	}
	s.counts.mark("parked for a key")
	sh.command(p, nobody)
	return true
}

// park writes the timer that wakes the turn, and parks it.
func (sh *shell) park(e lifecycle.Effect) bool {
	for _, o := range lifecycle.Due(sh.state) {
		if o.Do == lifecycle.DoExpire && !sh.n.s.now.Before(o.At) {
			return false // that first
		}
	}
	if !e.At.IsZero() {
		it := bus.Item{ID: sh.n.s.id("timer."), Turn: sh.key}
		if err := sh.n.view.Set(ctx, bus.Token(sh.key.String()), e.At, it); err != nil {
			return false
		}
	}
	sh.command(lifecycle.Park{}, nobody)
	return true
}

// readCell is a cell's value, nil where there is none or it cannot be read.
func readCell[T any](n *node, bucket, name string) (bus.Cell, *T) {
	cell, err := n.view.Cells().Get(ctx, bucket, hex.EncodeToString([]byte(name)))
	if err != nil {
		return bus.Cell{}, nil
	}
	v := new(T)
	if err := json.Unmarshal(cell.Value, v); err != nil {
		n.s.fail("cell %s: %v", name, err)
	}
	return cell, v
}

// writeCell writes where nothing has changed, and says whether that was kept.
func writeCell(n *node, bucket, name string, was bus.Cell, v any) bool {
	b, err := json.Marshal(v)
	if err != nil {
		n.s.fail("cell %s: %v", name, err)
		return false
	}
	_, err = n.view.Cells().Put(ctx, bucket, hex.EncodeToString([]byte(name)), b, was.Revision, 0)
	if err != nil && !errors.Is(err, bus.ErrConflict) {
		n.s.note("cell %s: %v", name, err)
	}
	return err == nil
}
