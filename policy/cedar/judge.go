package cedar

import (
	"cmp"
	"iter"
	"slices"
	"strconv"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
)

// Authorize judges the operation of a call, in each of its Readings. It never panics. A
// policy that cannot be evaluated denies.
func (s *Set) Authorize(r policy.Request) policy.Verdict {
	v := policy.Strictest(policy.Readings(r), s.authorize)
	if s.wants.time {
		v.Judged = r.Time
	}
	return v
}

func (s *Set) authorize(r policy.Request) policy.Verdict {
	t := tally{set: s, req: r, verdict: policy.Verdict{Gate: policy.GateAuthorize, Version: s.Version()}}
	t.rows(s.floor, -1)
	t.ask()
	t.rows(s.last, len(s.rules))
	return t.settle()
}

// tally collects what is said of one call.
type tally struct {
	set     *Set
	req     policy.Request
	facts   policy.Facts
	things  []resource
	verdict policy.Verdict
	said    []saying
	lacking []lack  // questions that nothing permits
	lists   []*list // room for one question's
}

// saying is one policy's answer to one question.
type saying struct {
	decision policy.Decision
	place    int // of the policy
	nth      int // of the resource
	rule     *rule
	finding  policy.Finding // where there is no rule
	id       string
	message  string // of an evaluation that failed; "" none did
}

// order is where the policy stands among all: those of shell lines share a place.
func (s *saying) order() int {
	if s.rule == nil {
		return s.place
	}
	return s.rule.order
}

// lack is a question that nothing permits.
type lack struct {
	who types.EntityUID
	nth int
}

// rows asks rules beside the texts. What they allow counts for nothing.
func (t *tally) rows(rows policy.Rules, place int) {
	for _, row := range rows {
		f := row.Judge(t.req)
		if f.Decision == policy.Ask || f.Decision == policy.Deny {
			t.add(f, row.ID, place)
		}
	}
}

func (t *tally) add(f policy.Finding, id string, place int) {
	if f.Policies == nil {
		f.Policies = []string{id}
	}
	for _, id := range f.Policies {
		t.said = append(t.said, saying{decision: f.Decision, place: place, finding: f, id: id})
	}
}

// ask puts every question that the call is.
func (t *tally) ask() {
	s := t.set
	t.facts = policy.Look(t.req)
	t.things = s.resources(t.req, t.facts)
	w := world{set: s, facts: &t.facts}
	var all bool
	if w.chain, all = s.chainOf(t.req.Principal); !all {
		t.add(tooMany, "", -1)
	}
	if s.wants.args || s.wants.numbers {
		var whole bool
		if w.args, whole = argumentsOf(t.req.Args); !whole {
			t.add(unseen, "args.limit", -1)
		}
	}
	f := facetsOf(t.req, t.facts)
	context, ok := s.plain[f]
	if s.wants.own() || !ok {
		context = f.record(ownOf(t.req, &t.facts))
	}
	if s.wants.time && t.req.Time.IsZero() {
		t.add(timeless, "default.time", -1)
	}
	who := w.chain
	if !t.affordable(w.chain) {
		t.add(tooMuch, "", -1)
		who = nil
	}
	for n := range who {
		for i := range t.things {
			w.thing = &t.things[i]
			t.question(&w, context, n, i)
		}
	}
	last := len(s.rules)
	for i, d := range t.facts.Deeds {
		if d.Unjudged() {
			t.add(d.Finding, d.Rule, last+i)
		}
	}
	if t.facts.Excess.Decision != "" {
		t.add(t.facts.Excess, "", last)
	}
}

// unseen denies a call whose arguments policies look at, and cannot see.
var unseen = policy.Finding{
	Decision: policy.Deny, Code: events.TooLarge,
	Reason: "The arguments have more values or deeper ones than the policy can look at; split the call into several.",
}

// tooMany denies a call of somebody who acts for more than are looked at.
var tooMany = policy.Finding{
	Decision: policy.Deny, Code: events.InvalidParam, Policies: []string{"default.limit"},
	Reason: "The agent acts for more others than the policy can look at; submit the turn for fewer.",
}

// timeless denies a call of which nobody has said when it is judged, where that counts.
var timeless = policy.Finding{
	Decision: policy.Deny,
	Reason:   "The policy looks at the time, and it is not known when this call is judged; tell the operator.",
}

// question puts one of them: what the n-th of the chain may do to the nth resource. What
// the policies say that look at nobody is heard once.
func (t *tally) question(w *world, context types.Record, n, nth int) {
	a, thing := actionOf(t.req.Op.Class), &t.things[nth]
	q := cedar.Request{Principal: w.chain[n], Action: actions[a], Resource: thing.uid, Context: context}
	if n == 0 {
		thing.free = t.heard(w, q, nth, t.set.anybody[a].fit(thing, nil, t.lists))
	}
	own := t.heard(w, q, nth, t.set.somebody[a].fit(thing, w.chain[n:], t.lists))
	if !thing.free && !own {
		t.lacking = append(t.lacking, lack{q.Principal, nth})
	}
}

// heard asks some policies, and notes what they say. It is false where none says anything.
func (t *tally) heard(w *world, q cedar.Request, nth int, lists []*list) bool {
	t.lists = lists[:0]
	if len(lists) == 0 {
		return false
	}
	which := chosen{t.set, lists}
	decision, why := cedar.Authorize(which, w, q)
	for _, e := range why.Errors {
		r := t.set.of(e.PolicyID)
		t.said = append(t.said, saying{policy.Deny, r.place, nth, r, policy.Finding{}, r.ID, e.Message})
	}
	if decision == cedar.Deny && len(why.Reasons) == 0 {
		return false
	}
	for _, reason := range why.Reasons {
		r := t.set.of(reason.PolicyID)
		d := policy.Allow
		switch {
		case r.Forbid:
			d = policy.Deny
		case r.ask:
			d = policy.Ask
		}
		t.said = append(t.said, saying{decision: d, place: r.place, nth: nth, rule: r, id: r.ID})
	}
	return true
}

// fit are the policies that may fit a resource and a principal, with those it acts for
// behind it; of nobody where there is none. They are appended to into.
func (s *shelf) fit(thing *resource, chain []types.EntityUID, into []*list) []*list {
	if l := &s.kinds[thing.kind]; len(l.rules) > 0 {
		into = append(into, l)
	}
	if s.keyed == nil {
		return into
	}
	add := func(uid types.EntityUID) {
		if l := s.keyed[uid]; l != nil {
			into = append(into, l)
		}
	}
	add(thing.uid)
	for _, uid := range thing.above {
		add(uid)
	}
	for _, uid := range chain {
		add(uid)
	}
	return into
}

func (s *Set) of(id cedar.PolicyID) *rule {
	i, err := strconv.Atoi(string(id))
	if err != nil {
		panic("cedar: a policy that was not asked has answered: " + string(id))
	}
	return &s.rules[i]
}

// chosen are the policies that may fit a question.
type chosen struct {
	set   *Set
	lists []*list
}

// All is cedar.PolicyIterator's.
func (c chosen) All() iter.Seq2[cedar.PolicyID, *cedar.Policy] {
	return func(yield func(cedar.PolicyID, *cedar.Policy) bool) {
		for _, l := range c.lists {
			for _, i := range l.rules {
				if r := &c.set.rules[i]; !yield(r.name, r.policy) {
					return
				}
			}
		}
	}
}

// settle makes the verdict: the strictest answer, with the reason of the first policy
// that gives it.
func (t *tally) settle() policy.Verdict {
	v := t.verdict
	for _, s := range t.said {
		if rank(s.decision) > rank(v.Decision) {
			v.Decision = s.decision
		}
	}
	if v.Decision != policy.Deny && len(t.lacking) > 0 {
		v.Decision = policy.Deny
		v.Policies, v.Reason, v.Path = []string{DefaultDeny}, t.without(t.lacking[0]), t.pointer(t.lacking[0].nth)
		return policy.Settle(v, t.req)
	}
	var first *saying
	for i := range t.said {
		s := &t.said[i]
		if s.decision != v.Decision {
			continue
		}
		v.Policies = append(v.Policies, s.id)
		if first == nil || cmp.Or(cmp.Compare(s.place, first.place), cmp.Compare(s.nth, first.nth), cmp.Compare(s.order(), first.order())) < 0 {
			first = s
		}
	}
	if first != nil {
		t.word(&v, first)
	}
	return policy.Settle(v, t.req)
}

// DefaultDeny is the id behind a deny that no policy gave.
const DefaultDeny = "default.deny"

// without is the reason of a deny that no policy gave.
func (t *tally) without(l lack) string {
	thing := t.things[l.nth]
	chain, _ := t.set.chainOf(t.req.Principal)
	own := l.who == chain[0]
	switch {
	case !own:
		return "No policy permits this to " + shown(string(l.who.ID)) + ", for whom the agent acts; go on without it."
	case thing.kind == kindTool:
		return "No rule permits this operation; use one of the tools that read or write files."
	case thing.kind == kindShell:
		return "No rule permits what the line does (" + plain(thing.text, 64) + "); use one of the tools that read or write files."
	}
	return "No rule permits this for " + shown(thing.text) + "; go on without it."
}

// word gives a verdict its sentence, code and place.
func (t *tally) word(v *policy.Verdict, s *saying) {
	switch {
	case s.rule == nil:
		v.Reason, v.Code, v.Path = s.finding.Reason, s.finding.Code, s.finding.Path
		return
	case s.message != "":
		v.Reason = "The policy " + shown(s.rule.ID) + " cannot be evaluated for this call (" + plain(s.message, 200) + "), so it is denied: its author must mend it."
		return
	}
	thing := &t.things[s.nth]
	why := s.rule.say.uses("why") && thing.why != ""
	v.Reason = s.rule.say.fill(func(slot string) string {
		switch slot {
		case "why":
			return cmp.Or(thing.why, t.plainWhy(thing))
		case "tool":
			return shown(t.req.Tool)
		case "principal":
			return shown(t.req.Principal.ID)
		}
		return shown(thing.text)
	})
	v.Code = events.Code(s.rule.code)
	if why {
		v.Code = cmp.Or(v.Code, thing.code)
	}
	v.Path = s.rule.pointer
	if v.Path == "" && !s.rule.whole && (why || thing.kind != kindTool) {
		v.Path = t.pointer(s.nth)
	}
}

// plainWhy is what is said of a resource of which nothing was found.
func (t *tally) plainWhy(thing *resource) string { return "It touches " + shown(thing.text) + "." }

// pointer is where the arguments name a resource.
func (t *tally) pointer(nth int) string {
	thing := &t.things[nth]
	if thing.at != "" || thing.kind == kindTool || thing.kind == kindShell {
		return thing.at
	}
	return policy.Pointer(t.req.Args, thing.text)
}

func rank(d policy.Decision) int {
	return slices.Index([]policy.Decision{"", policy.Allow, policy.Ask, policy.Deny}, d)
}

// world is what policies see of a call: the entities that a question may reach.
type world struct {
	set   *Set
	facts *policy.Facts
	chain []types.EntityUID
	thing *resource
	args  arguments
}

// Get is types.EntityGetter's.
func (w *world) Get(uid types.EntityUID) (types.Entity, bool) {
	switch uid.Type {
	case typeTool, typePath, typeHost, typeShell:
		if uid != w.thing.uid {
			return types.Entity{}, false
		}
		if !w.thing.made {
			w.thing.made, w.thing.entity = true, w.set.build(w.thing, w.facts)
		}
		return w.thing.entity, true
	case typeAgent, typePerson, typeService:
		if i := slices.Index(w.chain, uid); i >= 0 {
			// One name of which policies speak as of an agent and as of a person is not its own parent.
			above := slices.DeleteFunc(slices.Clone(w.chain[i+1:]), func(x types.EntityUID) bool { return x.ID == uid.ID })
			return types.Entity{
				UID: uid, Attributes: types.NewRecord(types.RecordMap{"id": uid.ID}), Parents: types.NewEntityUIDSet(above...),
			}, true
		}
	case typeText:
		return w.args.text, true
	case typeNumbers:
		return w.args.numbers, true
	}
	return types.Entity{}, false
}

var _ policy.Authorizer = (*Set)(nil)
