package again

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
)

// Ruling is what was, or would be, decided of a call, before anything is known of how
// it ends.
type Ruling string

// The rulings.
const (
	Allowed Ruling = "allowed"
	Asked   Ruling = "asked"  // a person is asked
	Denied  Ruling = "denied" // also where a person would have to be asked and nobody can be
	Ran     Ruling = "ran"    // imported: it ran elsewhere, by nobody's decision that is known; to allow it changes nothing
)

// Selection says which calls a survey is about. The zero value is all of them.
type Selection struct {
	Since      time.Time // decided at this time or later; zero means from the beginning
	Until      time.Time // decided before; zero means to the end
	Tools      []string  // of these names; nil means any
	Principals []string  // of turns of these principals, or of their children; nil means any
	To         []Ruling  // only changes to these are changes; nil means any
}

// holds says whether a call is one that is asked about.
func (s Selection) holds(turn *events.TurnSubmitted, tool string, at time.Time) bool {
	switch {
	case at.Before(s.Since), !s.Until.IsZero() && !at.Before(s.Until):
		return false
	case s.Tools != nil && !slices.Contains(s.Tools, tool):
		return false
	case s.Principals == nil || slices.Contains(s.Principals, turn.Principal.ID):
		return true
	}
	return slices.ContainsFunc(turn.Principal.Parents, func(id string) bool { return slices.Contains(s.Principals, id) })
}

// Bounds of a survey, in memory and in its answer.
const (
	MaxGroups   = 2000      // kept apart; what is beyond is counted together
	MaxExamples = 3         // of a group
	mostOpen    = 128 << 20 // bytes of the submissions of turns that have not ended, about
	mostReason  = 500       // bytes of a reason that tell groups apart
)

// Example is a call of a group.
type Example struct {
	Call     events.CallKey
	Position events.Position // of what was recorded of it
}

// Group is calls whose decision changes in one way, for one reason.
type Group struct {
	From, To Ruling
	Tool     string      // "" where several are counted together, see MaxGroups
	Policies []string    // the rules that decide now, sorted
	Code     events.Code // of a deny
	Reason   string      // of the first of them, cut at 500 bytes; "" where several are counted together
	Count    int
	Examples []Example // the first ones
}

// Unjudged is calls of which the policy could not be asked, or need not be.
type Unjudged struct {
	Why      string
	Tool     string
	Count    int
	Examples []Example
}

// Summary is what a survey has found. Calls is the sum of Same, Changed, NotJudged,
// Broken and Early.
type Summary struct {
	Turns, Calls int            // that were looked at, and are selected
	Passed       int            // calls that are not selected
	Same         int            // decided as before
	Changed      int            // decided otherwise, and wanted by Selection.To
	Unwanted     int            // among Same: decided otherwise, in a way that Selection.To leaves out
	Broken       int            // the policy itself broke on them; they would be denied
	NotJudged    int            // the policy could not be asked
	Early        int            // ended, or wait, before a policy was asked: by key, by schema, by a cancel
	Headless     int            // further calls, of turns whose beginning is not in the log: nothing is known of them
	Assumed      int            // judged as if the network had been allowed as the record lets think
	Groups       []Group        // of Changed and Broken, the largest first
	Folded       int            // calls whose groups were too many to be kept apart
	Unjudged     []Unjudged     // of NotJudged and Early, the largest first
	Missing      map[string]int // calls of tools that are not registered now, at most MaxGroups tools
	First, Last  time.Time      // of all calls that were looked at, selected or not
}

// Faulter is an Authorizer that can tell a deny of its own breaking from others.
type Faulter interface{ Faulted(policy.Verdict) bool }

// Survey asks a policy about every recorded call, in one pass over a log. It must be
// used by one goroutine at a time.
type Survey struct {
	conf  Config
	sel   Selection
	open  map[events.TurnKey]*pending
	size  int // of open, in bytes
	limit int
	again []events.TurnKey
	later map[events.TurnKey][]bool // turns to be read again, and which of their calls are counted
	anew  bool                      // those are being read

	groups   map[string]*Group
	unjudged map[string]*Unjudged
	sum      Summary
}

// pending is a turn whose calls have not all been decided.
type pending struct {
	turn  *events.TurnSubmitted // without its calls
	calls []events.RawCall      // those that are done are empty
	done  []bool
	left  int
	size  int
	last  events.Position
	at    time.Time
}

// NewSurvey begins a survey; c.Policy is required.
func NewSurvey(c Config, sel Selection) *Survey {
	return &Survey{
		conf: c, sel: sel, open: make(map[events.TurnKey]*pending), limit: mostOpen, later: make(map[events.TurnKey][]bool),
		groups: make(map[string]*Group), unjudged: make(map[string]*Unjudged), sum: Summary{Missing: make(map[string]int)},
	}
}

// Add takes one commit; those of a turn must come in the log's order.
func (s *Survey) Add(c bus.Stored) {
	key := c.Commit.Turn
	if _, later := s.later[key]; later && !s.anew {
		return
	}
	p := s.open[key]
	for i, r := range c.Commit.Records {
		if sub, ok := r.Event.(*events.TurnSubmitted); ok && p == nil {
			p = s.begin(key, sub, c.Position(i), c.Commit.At)
			continue
		}
		if p == nil { // its calls are all decided, or its beginning is not in the log
			s.headless(c, r)
			continue
		}
		p.last, p.at = c.Position(i), c.Commit.At
		if r.Call >= 0 && r.Call < len(p.done) && !p.done[r.Call] {
			s.event(key, p, c, i)
		}
		if events.EndsTurn(r.Event.Kind()) {
			s.close(key, p, tooEarly)
		}
		if p.left == 0 {
			s.drop(key)
			p = nil
		}
	}
	if s.size > s.limit && !s.anew {
		s.spill()
	}
}

// tooEarly is why no policy was asked about a call that has ended.
const tooEarly = "it ended before a policy was asked about it"

// begin takes up a turn. Of a transcript's nothing was ever decided.
func (s *Survey) begin(key events.TurnKey, sub *events.TurnSubmitted, pos events.Position, at time.Time) *pending {
	turn := *sub
	turn.Calls = nil
	p := &pending{turn: &turn, calls: slices.Clone(sub.Calls), done: make([]bool, len(sub.Calls)), left: len(sub.Calls), last: pos, at: at, size: 512}
	if done, again := s.later[key]; again {
		for i := range p.done {
			if i < len(done) && done[i] {
				p.done[i], p.calls[i] = true, events.RawCall{}
				p.left--
			}
		}
	} else {
		s.sum.Turns++
	}
	for _, c := range p.calls {
		p.size += weight(c)
	}
	s.open[key] = p
	s.size += p.size
	if sub.Verbatim() {
		for i := range p.calls {
			s.judge(key, p, i, decided{from: Ran, known: true, pos: pos, at: at, judged: judgedAt(nil, at)})
		}
	}
	if p.left == 0 {
		s.drop(key)
		return nil
	}
	return p
}

// weight is about how many bytes a call takes.
func weight(c events.RawCall) int { return 128 + len(c.Args.Text) + len(c.Tool) + len(c.ProviderID) }

func (s *Survey) drop(key events.TurnKey) {
	if p := s.open[key]; p != nil {
		s.size -= p.size
		delete(s.open, key)
	}
}

// headless counts a call of a turn whose beginning is not in the log. A transcript's
// calls were counted with its submission.
func (s *Survey) headless(c bus.Stored, r events.Record) {
	if r.Event.Kind() == events.KindRequested && c.Commit.By.Boot != importer {
		s.sum.Headless++
	}
}

// importer is the boot in whose name transcripts are imported.
const importer = "import"

// spill leaves the largest turns for later, until half of the room is free.
func (s *Survey) spill() {
	keys := make([]events.TurnKey, 0, len(s.open))
	for k := range s.open {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b events.TurnKey) int {
		return cmp.Or(cmp.Compare(s.open[b].size, s.open[a].size), strings.Compare(a.String(), b.String()))
	})
	for _, k := range keys {
		if s.size <= s.limit/2 {
			return
		}
		s.again = append(s.again, k)
		s.later[k] = s.open[k].done
		s.drop(k)
	}
}

// Again are the turns that were too many to be held: once the log was read, each is to
// be read by itself, whole, and Added again.
func (s *Survey) Again() []events.TurnKey {
	s.anew = true
	return s.again
}

// decided is what is recorded of the decision about a call.
type decided struct {
	from    Ruling
	known   bool            // the tool was registered
	verdict *events.Verdict // nil where it is not recorded
	unlike  string          // why the policy's word cannot be compared; "" it can
	pos     events.Position
	at      time.Time
	judged  time.Time // the moment that its policy was asked about
	agreed  bool      // a person had said yes before, for the session
}

// event looks at one event of a call that is not decided yet.
func (s *Survey) event(key events.TurnKey, p *pending, c bus.Stored, i int) {
	r := c.Commit.Records[i]
	d := decided{known: true, pos: c.Position(i), at: c.Commit.At, judged: judgedAt(r.Event, c.Commit.At)}
	switch v := r.Event.(type) {
	case *events.Authorized:
		d.from, d.verdict = Allowed, &v.Verdict
		if v.Decision == "approved" {
			d.from, d.agreed = Asked, true
		}
		s.judge(key, p, r.Call, d)
	case *events.ApprovalRequested:
		d.from, d.verdict = Asked, &v.Verdict
		s.judge(key, p, r.Call, d)
	case *events.Denied:
		s.denied(key, p, r.Call, v, d)
	case *events.Deduplicated:
		s.early(key, p, r.Call, "another call's result was its answer", d)
	default:
		if events.IsTerminal(v.Kind()) {
			s.early(key, p, r.Call, tooEarly, d)
		}
	}
}

// denied looks at a call that a gate has refused: only some of them are a policy's.
func (s *Survey) denied(key events.TurnKey, p *pending, call int, v *events.Denied, d decided) {
	gate := lifecycle.Gate(v.Gate)
	switch {
	case p.calls[call].Refused != nil:
		s.early(key, p, call, "its door had refused it", d)
		return
	case gate == lifecycle.GateDedupe:
		s.early(key, p, call, "its idempotency key was taken", d)
		return
	case gate == lifecycle.GateValidate:
		s.early(key, p, call, "its arguments did not fit the tool", d)
		return
	case forSecret(v, p.calls[call].Secrets):
		s.early(key, p, call, forItsSecret, d)
		return
	case gate == lifecycle.GatePeek: // the policy had let it through
		d.from = Allowed
	case gate == lifecycle.GateAuthorize && v.Code == events.TooLarge: // too much for a person to read
		d.from = Asked
	case gate == lifecycle.GateAllow && v.Code == events.UnknownTool:
		d.from, d.known = Denied, false
	case gate == lifecycle.GateAllow && s.conf.Allow == nil && listed(p.turn.Allow, p.calls[call].Tool):
		d.from, d.unlike = Denied, "an allowlist of the operator's had refused it, and those are not in the log: name them with --principals"
	default:
		d.from = Denied
	}
	s.judge(key, p, call, d)
}

// listed says whether a turn's own allowlist lets a tool through.
func listed(allow []string, tool string) bool {
	return len(allow) == 0 || slices.Contains(allow, tool) || slices.Contains(allow, "*")
}

// close counts what a turn leaves that nobody decided.
func (s *Survey) close(key events.TurnKey, p *pending, why string) {
	for i, done := range p.done {
		if !done {
			s.early(key, p, i, why, decided{pos: p.last, at: p.at})
		}
	}
}

// End counts what was still open, and returns what was found.
func (s *Survey) End() Summary {
	keys := make([]events.TurnKey, 0, len(s.open))
	for k := range s.open {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b events.TurnKey) int { return strings.Compare(a.String(), b.String()) })
	for _, k := range keys {
		s.close(k, s.open[k], "it has not come to a policy yet")
		s.drop(k)
	}
	out := s.sum
	for _, g := range s.groups {
		out.Groups = append(out.Groups, *g)
	}
	slices.SortFunc(out.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.key(), b.key()))
	})
	for _, u := range s.unjudged {
		out.Unjudged = append(out.Unjudged, *u)
	}
	slices.SortFunc(out.Unjudged, func(a, b Unjudged) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Why, b.Why), strings.Compare(a.Tool, b.Tool))
	})
	return out
}
