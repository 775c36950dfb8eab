package again

import (
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// seen counts a call that was looked at, and says whether it is selected. It is not
// held any longer.
func (s *Survey) seen(p *pending, call int, at time.Time) (raw events.RawCall, selected bool) {
	raw = p.calls[call]
	n := weight(raw)
	p.calls[call], p.done[call] = events.RawCall{}, true
	p.left--
	p.size -= n
	s.size -= n
	if s.sum.First.IsZero() || at.Before(s.sum.First) {
		s.sum.First = at
	}
	if at.After(s.sum.Last) {
		s.sum.Last = at
	}
	if !s.sel.holds(p.turn, raw.Tool, at) {
		s.sum.Passed++
		return raw, false
	}
	s.sum.Calls++
	return raw, true
}

// early counts a call that no policy was asked about.
func (s *Survey) early(key events.TurnKey, p *pending, call int, why string, d decided) {
	if raw, ok := s.seen(p, call, d.at); ok {
		s.sum.Early++
		s.leave(why, raw.Tool, Example{key.Call(call), d.pos})
	}
}

// judge asks the policy about a call, and counts what changes.
func (s *Survey) judge(key events.TurnKey, p *pending, call int, d decided) {
	raw, ok := s.seen(p, call, d.at)
	if !ok {
		return
	}
	ex, x := Example{key.Call(call), d.pos}, subject{turn: p.turn, tool: raw.Tool, said: raw.Said, args: raw.Args, known: d.known, verdict: d.verdict, key: key, at: d.judged, agreed: d.agreed}
	if s.conf.Registered != nil {
		x.known = s.conf.Registered(raw.Tool)
		if !x.known && d.known && (len(s.sum.Missing) < MaxGroups || s.sum.Missing[raw.Tool] > 0) {
			s.sum.Missing[strings.Clone(raw.Tool)]++
		}
		x.known = x.known || d.known // what is not registered any more is judged as if it were
	}
	why := d.unlike
	if why == "" {
		j := s.choose(x, d.from)
		if why = j.unjudged; why == "" {
			s.changed(d.from, j, raw.Tool, ex)
			return
		}
	}
	s.sum.NotJudged++
	s.leave(why, raw.Tool, ex)
}

// changed counts a judged call.
func (s *Survey) changed(from Ruling, j *judgement, tool string, ex Example) {
	to := j.ruling()
	switch {
	case j.faulted:
		s.sum.Broken++
	case from == to, from == Ran && to == Allowed:
		s.sum.Same++
		return
	case s.sel.To != nil && !slices.Contains(s.sel.To, to):
		s.sum.Same++
		s.sum.Unwanted++
		return
	default:
		s.sum.Changed++
	}
	g := Group{
		From: from, To: to, Tool: tool, Policies: j.policies, Reason: cut(j.reason(), mostReason),
	}
	if to == Denied {
		g.Code = j.finding.Code
	}
	s.put(g, ex)
}

// choose asks the policy. Where nobody has said whether the network is allowed, and it
// matters, it was as leaves the call what it was.
func (s *Survey) choose(x subject, from Ruling) *judgement {
	all := s.conf.judgeAll(s.conf.Policy, x)
	best := all[len(all)-1]
	for _, j := range all {
		if j.unjudged == "" && (j.ruling() == from || from == Ran && j.ruling() == Allowed) {
			best = j
			break
		}
	}
	if best.assumed {
		s.sum.Assumed++
	}
	return best
}

// ruling is what a judgement comes to.
func (j *judgement) ruling() Ruling {
	switch {
	case j.finding.Ruling == lifecycle.Deny, j.asks() && !j.canAsk:
		return Denied
	case j.asks():
		return Asked
	}
	return Allowed
}

// asks says whether a person must agree: the policy says so, or the tool's tier does.
func (j *judgement) asks() bool {
	return j.finding.Ruling == lifecycle.Ask || j.tier == events.Approval
}

// reason is the sentence behind the ruling.
func (j *judgement) reason() string {
	why := j.finding.Reason
	if j.finding.Ruling == lifecycle.Pass && j.asks() {
		why = "A call of this tool always needs a person's approval."
	}
	if j.finding.Ruling != lifecycle.Deny && j.asks() && !j.canAsk {
		why = strings.TrimSuffix(why, ".") + " (and nobody can be asked)."
	}
	return why
}

// put counts a call in its group. Where there are too many, the reason and then the
// tool are not told apart any more.
func (s *Survey) put(g Group, ex Example) {
	have := s.groups[g.key()]
	if have == nil && len(s.groups) >= MaxGroups {
		s.sum.Folded++
		g.Reason = ""
		if have = s.groups[g.key()]; have == nil && len(s.groups) >= MaxGroups+MaxGroups/4 {
			g.Tool, g.Policies, g.Code = "", nil, ""
			have = s.groups[g.key()]
		}
	}
	if have == nil {
		have = &g
		have.Reason, have.Tool = strings.Clone(g.Reason), strings.Clone(g.Tool)
		s.groups[g.key()] = have
	}
	have.Count++
	if len(have.Examples) < MaxExamples {
		have.Examples = append(have.Examples, ex)
	}
}

func (g Group) key() string {
	return strings.Join(append([]string{string(g.From), string(g.To), g.Tool, string(g.Code), g.Reason}, g.Policies...), "\x00")
}

// leave counts a call that was not judged.
func (s *Survey) leave(why, tool string, ex Example) {
	key := why + "\x00" + tool
	u := s.unjudged[key]
	if u == nil && len(s.unjudged) >= MaxGroups {
		tool, key = "", why+"\x00"
		u = s.unjudged[key]
	}
	if u == nil {
		u = &Unjudged{Why: why, Tool: strings.Clone(tool)}
		s.unjudged[key] = u
	}
	u.Count++
	if len(u.Examples) < MaxExamples {
		u.Examples = append(u.Examples, ex)
	}
}
