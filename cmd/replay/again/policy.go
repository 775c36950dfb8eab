package again

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
)

// judgement is what the gates that need no state say of a recorded call now.
type judgement struct {
	finding  lifecycle.Finding // of allow or authorize
	policies []string
	version  string
	unjudged string // why it could not be asked; "" it was
	faulted  bool   // the policy broke on it, and so denies
	network  bool   // it holds only where the network is, or is not, allowed
	assumed  bool   // network was not said by anybody
	canAsk   bool   // somebody can be asked, or has agreed before
	lists    bool   // the operator's allowlists are known
	op       events.Operation
	tier     events.Tier
}

// subject is a recorded call, as far as a policy needs to know it.
type subject struct {
	turn    *events.TurnSubmitted
	tool    string
	said    string // how the model spelled it; "": the same way
	args    events.Body
	known   bool            // the tool was registered
	verdict *events.Verdict // what the gates found then; nil where that is not recorded
	key     events.TurnKey
	at      time.Time // when it was judged
	agreed  bool      // the trace held a yes for the session to it
}

// judgedAt is the moment for which an event's verdict was given: where the policy did
// not look at the time, that of the commit.
func judgedAt(e events.Event, commit time.Time) time.Time {
	var at time.Time
	switch v := e.(type) {
	case *events.Authorized:
		at = v.Verdict.Judged
	case *events.ApprovalRequested:
		at = v.Verdict.Judged
	case *events.Denied:
		at = v.Judged
	case *events.Started:
		at = v.Judged
	}
	if at.IsZero() {
		at = commit
	}
	return at.UTC().Truncate(time.Millisecond)
}

// request is the call as a policy is asked about it. why is "" or says what of it is
// not known: then it cannot be judged.
func (s Settings) request(x subject) (r policy.Request, why string) {
	r = policy.Request{
		Principal: x.turn.Principal, Tool: x.tool, Said: x.said, Known: x.known, Mode: cmp.Or(s.Mode, x.turn.Mode, events.ModeWrite),
		CanAsk: x.turn.CanAsk, Agreed: x.agreed, Workspace: cmp.Or(x.turn.Workspace, s.Workspace), Time: x.at,
		Session: policy.Session{Trace: x.key.Trace, Turn: x.key.Turn, Placement: cmp.Or(x.turn.Placement, events.DefaultPlacement)},
	}
	if s.CanAsk != nil {
		r.CanAsk = *s.CanAsk
	}
	if len(x.turn.Allow) > 0 {
		r.Allowlists = append(r.Allowlists, x.turn.Allow)
	}
	if s.Allow != nil {
		for _, id := range append([]string{x.turn.Principal.ID}, x.turn.Principal.Parents...) {
			if list := s.Allow(id); list != nil {
				r.Allowlists = append(r.Allowlists, list)
			}
		}
	}
	text, ok := s.text(x.args)
	if !ok {
		return r, "its arguments are kept outside the log, and are not there"
	}
	redacted := s.Redacted || x.turn.Archived()
	args, err := lifecycle.Parse(text)
	if err != nil {
		if redacted && holdsPlaceholder(text) {
			return r, redactedAway
		}
		return r, "its arguments do not parse"
	}
	r.Args = args.JSON
	if redacted && (holdsPlaceholder(text) || x.verdict != nil && slices.ContainsFunc(namesIn(x.verdict.Operation), holdsPlaceholder)) {
		return r, redactedAway
	}
	switch read := readings[x.tool]; {
	case x.verdict != nil && x.verdict.Tier != "" && !inPart(x.verdict.Operation):
		r.Op, r.Tier = x.verdict.Operation, x.verdict.Tier
	case read != nil:
		r.Op, r.Tier = read(r.Args)
	case x.verdict != nil && x.verdict.Tier != "":
		return r, "what it would do was recorded only in part, since it was too much"
	default:
		tier, ok := s.Tiers[x.tool]
		if !ok {
			tier, ok = s.Tiers["*"]
		}
		if !ok {
			return r, "what it would do was not recorded, and only its tool can say"
		}
		r.Op, r.Tier = plainly(tier)
	}
	if r.Workspace == "" && namesAbsolute(r.Op) {
		return r, "its turn names no workspace, and it names an absolute path: say which workspace the node had that ran it"
	}
	return r, ""
}

// namesAbsolute says whether it depends on the workspace where an operation leads.
func namesAbsolute(op events.Operation) bool {
	parts := func(r rune) bool { return strings.ContainsRune(" \t\n'\"`=:<>|;&(){}", r) }
	for _, s := range slices.Concat(op.Paths, op.Commands) {
		for word := range strings.FieldsFuncSeq(s, parts) {
			if strings.HasPrefix(word, "/") && !strings.HasPrefix(word, "/dev/") {
				return true
			}
		}
	}
	return false
}

// inPart says whether a node has left something out of an operation that it recorded:
// what is long is cut, and of many names the first are kept.
func inPart(op events.Operation) bool {
	return slices.ContainsFunc(namesIn(op), func(s string) bool {
		return strings.Contains(s, "… [") && strings.HasSuffix(s, " bytes more]") || strings.HasPrefix(s, "… and ") && strings.HasSuffix(s, " more")
	})
}

func namesIn(op events.Operation) []string { return slices.Concat(op.Paths, op.Hosts, op.Commands) }

// judge asks the gates that need no state. The allowlists are asked also of a call of
// which why says that nothing else is known.
func judge(p policy.Authorizer, r policy.Request, why string) *judgement {
	v, gate := policy.AllowGate(r), lifecycle.GateAllow
	if v.Decision == policy.Allow {
		if why != "" {
			return &judgement{unjudged: why}
		}
		v, gate = p.Authorize(r), lifecycle.GateAuthorize
	}
	j := &judgement{
		policies: v.Policies, version: cmp.Or(v.Version, p.Version()), network: r.Network, canAsk: r.CanAsk || r.Agreed, op: r.Op, tier: r.Tier,
		finding: lifecycle.Finding{Gate: gate, Code: v.Code, Reason: v.Reason, Path: v.Path, Policies: v.Policies, Policy: v.Version, Judged: v.Judged},
	}
	if f, ok := p.(Faulter); ok && gate == lifecycle.GateAuthorize {
		j.faulted = f.Faulted(v)
	}
	switch v.Decision {
	case policy.Allow:
	case policy.Ask:
		j.finding.Ruling = lifecycle.Ask
	default:
		j.finding.Ruling = lifecycle.Deny
	}
	return j
}

// judgeAll asks with the network as it was set, or both ways where that is not known
// and makes a difference.
func (s Settings) judgeAll(p policy.Authorizer, x subject) []*judgement {
	r, why := s.request(x)
	r.Network = s.Network != nil && *s.Network
	first := judge(p, r, why)
	first.lists = s.Allow != nil
	if s.Network != nil {
		return []*judgement{first}
	}
	r.Network = true
	second := judge(p, r, why)
	second.lists = s.Allow != nil
	if first.finding.Ruling == second.finding.Ruling && first.finding.Reason == second.finding.Reason && slices.Equal(first.policies, second.policies) {
		return []*judgement{first}
	}
	first.assumed, second.assumed = true, true
	return []*judgement{first, second}
}

// ask asks the policy about the call of an event; one nil where there is no policy.
func (w *walker) ask(e entry, c *lifecycle.Call) []*judgement {
	if w.Policy == nil {
		return []*judgement{nil}
	}
	x := subject{
		turn: w.t.Submitted, tool: c.Tool, args: c.Args, known: true, verdict: c.Verdict, key: w.key, at: judgedAt(e.Event, e.at), agreed: lifecycle.AgreedBefore(w.t, c.Tool, c.Hash),
	}
	switch v := e.Event.(type) {
	case *events.Authorized:
		x.verdict = &v.Verdict
	case *events.ApprovalRequested:
		x.verdict = &v.Verdict
	case *events.Denied:
		x.known = v.Gate != string(lifecycle.GateAllow) || v.Code != events.UnknownTool
	}
	return w.judgeAll(w.Policy, x)
}

// over is what the gates find now, and with what verdict: the policy's word instead of
// the recorded one, behind the gates that stand before it. hash is that of the call's
// arguments.
func (j *judgement) over(r ruled, hash string) (lifecycle.Finding, events.Verdict) {
	if j == nil || j.unjudged != "" || r.secret && j.finding.Gate != lifecycle.GateAllow || before(r.finding.Gate, lifecycle.GateAllow) || j.unlisted(r.finding) || j.unreadable(r.finding) {
		return r.finding, r.verdict
	}
	v := r.verdict
	if v.Hash == "" { // it was denied then: what it may do now is what is asked about
		v = events.Verdict{Hash: hash, Operation: j.op, Tier: j.tier}
	}
	v.Policies, v.Policy, v.Judged = j.policies, j.version, j.finding.Judged
	stands := r.finding.Ruling == lifecycle.Deny && r.finding.Gate != lifecycle.GateAuthorize && r.finding.Gate != lifecycle.GateAllow
	if stands && (j.finding.Ruling != lifecycle.Deny || before(r.finding.Gate, j.finding.Gate)) {
		return r.finding, v
	}
	return j.finding, v
}

// unreadable says that a person would have to agree, and could not be shown that much:
// what a tool makes of its arguments for a person to read is not at hand here.
func (j *judgement) unreadable(f lifecycle.Finding) bool {
	return f.Gate == lifecycle.GateAuthorize && f.Ruling == lifecycle.Deny && f.Code == events.TooLarge && j.finding.Ruling != lifecycle.Deny && j.asks()
}

// unlisted says that an allowlist of the operator's had refused the call, and that those
// are not known.
func (j *judgement) unlisted(f lifecycle.Finding) bool {
	return f.Gate == lifecycle.GateAllow && f.Ruling == lifecycle.Deny && !j.lists && !(j.finding.Gate == f.Gate && j.finding.Ruling == lifecycle.Deny)
}

// before says whether a gate stands before another among those of a plan.
func before(a, b lifecycle.Gate) bool {
	i, k := slices.Index(lifecycle.PlanGates, a), slices.Index(lifecycle.PlanGates, b)
	return i >= 0 && k >= 0 && i < k
}

// why is the policy's sentence about an event that it has led to.
func (j *judgement) why(e events.Event) string {
	switch v := e.(type) {
	case *events.Denied:
		return v.Reason
	case *events.ApprovalRequested:
		return lifecycle.ReasonOf(v)
	case *events.Authorized:
		if j != nil {
			return j.finding.Reason
		}
	}
	return ""
}

// compare notes what has changed beside the decision.
func (j *judgement) compare(w *walker, e entry, decided events.Record) {
	if j == nil {
		return
	}
	if j.unjudged != "" {
		w.note(e, NoteUnjudged, "the policy cannot be asked, and its recorded word is taken: %s", j.unjudged)
		return
	}
	if d, ok := e.Event.(*events.Denied); ok && j.unlisted(deniedAs(d)) {
		w.note(e, NoteUnjudged, "an allowlist of the operator's had refused it, and those are not in the log: its recorded word is taken")
		return
	}
	if d, ok := e.Event.(*events.Denied); ok && forSecret(d, w.secrets(e.Call)) {
		w.note(e, NoteUnjudged, "%s: its recorded word is taken", forItsSecret)
		return
	}
	if j.assumed {
		w.note(e, NoteAssumed, "as recorded only if the network was allowed: %t, which the log does not hold", j.network)
	}
	was, version := basis(e.Event)
	now, _ := basis(decided.Event)
	if !slices.Equal(was, now) {
		w.note(e, NotePolicy, "decided the same by other rules: it was %s (version %s), and is %s (version %s)", list(was), version, list(now), j.version)
	} else if a, b := words(e.Event), words(decided.Event); a != b {
		w.note(e, NotePolicy, "decided the same in other words: it was %q, and is %q", cut(a, mostValue), cut(b, mostValue))
	}
}

// secrets are the placeholders in a call's arguments.
func (w *walker) secrets(call int) []events.SecretRef {
	if c := w.t.Call(call); c != nil {
		return c.Secrets
	}
	return nil
}

// basis are the policies behind a decision.
func basis(e events.Event) (ids []string, version string) {
	switch v := e.(type) {
	case *events.Denied:
		return v.Policies, v.Policy
	case *events.ApprovalRequested:
		return v.Policies, v.Policy
	case *events.Authorized:
		return v.Verdict.Policies, v.Verdict.Policy
	}
	return nil, ""
}

// words are what a decision says to a model or a person.
func words(e events.Event) string {
	switch v := e.(type) {
	case *events.Denied:
		return v.Reason
	case *events.ApprovalRequested:
		return lifecycle.ReasonOf(v)
	}
	return ""
}

func list(ids []string) string {
	if len(ids) == 0 {
		return "none"
	}
	return fmt.Sprintf("[%s]", strings.Join(ids, " "))
}
