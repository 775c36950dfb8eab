package lifecycle

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/sluice-run/sluice/events"
)

// Heritage is the fold of what the turns of one trace leave to its next one: approvals for
// the session, files as last seen, and the shared context. It is folded on, commit by
// commit, in the log's order, and what it holds does not grow with the turns but with the
// things that they speak of, on each of which the last word counts.
//
// A turn whose beginning is not there any more leaves nothing. Nor does one that came out
// of an archive leave anything to one that did not: who wrote the archive has no say in
// what runs here.
//
// The zero Heritage is that of a trace without turns. It must not be used by several
// goroutines at once.
type Heritage struct {
	except   string // this turn leaves nothing
	archived bool   // turns out of an archive leave what others do

	open    map[string]*testator
	session map[string][]word[events.SessionYes] // by SessionApproval
	seen    map[string]word[events.Seen]         // by path
	context map[string]word[json.RawMessage]     // by name; nil: the name was removed
	said    int                                  // words so far
	size    int
}

// testator is a turn that has begun and not ended.
type testator struct {
	began uint64               // sequence of its submission
	is    events.TurnSubmitted // whose calls they are, and where they run
	asked map[int]*events.SessionYes
	spoke bool // it has left something
	size  int
}

// word is what a turn has said of one thing.
type word[T any] struct {
	began uint64 // sequence of the turn's submission
	at    uint64 // sequence of the commit that says it
	nth   int    // of all words
	is    T
}

// judge says whether a word counts in a log of which everything before a sequence is gone.
// sure is false where another turn's earlier word may count in its place: the turn began
// before that sequence, and has spoken since.
func (w word[T]) judge(first uint64) (counts, sure bool) {
	return w.began >= first, w.began >= first || w.at < first
}

// held is the size in bytes, about, of what the fold keeps of one thing beside its texts.
const held = 192

// Size is the memory in bytes that the fold takes, about.
func (h *Heritage) Size() int { return h.size }

// Add takes up the next commit of the trace, at its sequence.
func (h *Heritage) Add(seq uint64, c events.Commit) {
	for _, r := range c.Records {
		if s, ok := r.Event.(*events.TurnSubmitted); ok {
			h.begin(seq, c.Turn, s)
		} else if t := h.open[c.Turn.Turn]; t != nil {
			h.add(seq, c.Turn, t, r)
		}
	}
}

func (h *Heritage) begin(seq uint64, turn events.TurnKey, s *events.TurnSubmitted) {
	if turn.Turn == h.except || s.Archived() && !h.archived {
		return
	}
	if h.open == nil {
		*h = Heritage{
			except: h.except, archived: h.archived, open: make(map[string]*testator), session: make(map[string][]word[events.SessionYes]),
			seen: make(map[string]word[events.Seen]), context: make(map[string]word[json.RawMessage]),
		}
	}
	h.end(turn.Turn)
	t := &testator{began: seq, is: events.TurnSubmitted{Principal: s.Principal, Workspace: s.Workspace, Placement: s.Placement}}
	h.open[turn.Turn] = t
	h.grow(t, held+len(turn.Turn)+len(s.Workspace)+len(s.Placement)+principalSize(s.Principal))
}

func (h *Heritage) grow(t *testator, by int) { t.size, h.size = t.size+by, h.size+by }

func (h *Heritage) end(turn string) {
	if t := h.open[turn]; t != nil {
		h.size -= t.size
		delete(h.open, turn)
	}
}

func (h *Heritage) add(seq uint64, turn events.TurnKey, t *testator, r events.Record) {
	switch e := r.Event.(type) {
	case *events.Requested:
		h.ask(t, r.Call, events.SessionYes{Tool: e.Tool})
	case *events.ApprovalRequested:
		y := events.SessionYes{ToolVersion: e.ToolVersion, Policy: e.Policy, Policies: e.Policies, Operands: e.Operands, Base: e.Base(), From: turn.Call(r.Call).String()}
		if was := t.asked[r.Call]; was != nil {
			y.Tool = was.Tool
		}
		h.ask(t, r.Call, y)
	case *events.Approved:
		if y := t.asked[r.Call]; e.Scope == events.ScopeSession && y != nil && y.From != "" {
			h.yes(seq, t, *y, e)
		}
	case *events.Completed:
		for _, s := range e.Result.Seen {
			put(h, h.seen, s.Path, say(h, t, seq, s), seenSize)
		}
	case *events.TurnCompleted:
		h.change(seq, t, e.Context)
		h.end(turn.Turn)
	case *events.TurnAbandoned:
		h.end(turn.Turn)
	}
}

// ask keeps what a call would ask a person about, in the form of the approval that may come.
func (h *Heritage) ask(t *testator, call int, y events.SessionYes) {
	if t.asked == nil {
		t.asked = make(map[int]*events.SessionYes)
	}
	t.asked[call] = &y
	h.grow(t, yesSize(y))
}

// yes keeps an approval for the session, with what it was asked for. The last one of the
// same call counts.
func (h *Heritage) yes(seq uint64, t *testator, y events.SessionYes, e *events.Approved) {
	y.Hash, y.By, y.Principal, y.Workspace, y.Placement = e.Hash, e.By, t.is.Principal, t.is.Workspace, t.is.Placement
	name := SessionApproval(y.Tool, y.Hash)
	h.session[name] = slices.DeleteFunc(h.session[name], func(w word[events.SessionYes]) bool {
		o := &w.is
		same := o.ToolVersion == y.ToolVersion && o.Policy == y.Policy && slices.Equal(o.Policies, y.Policies) && sameAsker(o, &t.is)
		if same {
			h.size -= yesSize(*o)
		}
		return same
	})
	h.session[name] = append(h.session[name], say(h, t, seq, y))
	h.size += yesSize(y)
}

// change takes up what a turn changes in the shared context. What is no object changes nothing.
func (h *Heritage) change(seq uint64, t *testator, context json.RawMessage) {
	var changes map[string]json.RawMessage
	if json.Unmarshal(context, &changes) != nil {
		return
	}
	for name, v := range changes {
		if string(v) == "null" {
			v = nil
		}
		put(h, h.context, name, say(h, t, seq, v), func(v json.RawMessage) int { return len(v) })
	}
}

func say[T any](h *Heritage, t *testator, seq uint64, is T) word[T] {
	t.spoke = true
	h.said++
	return word[T]{t.began, seq, h.said, is}
}

// put has the last word on a thing.
func put[T any](h *Heritage, of map[string]word[T], name string, w word[T], size func(T) int) {
	if was, there := of[name]; there {
		h.size -= size(was.is)
	} else {
		h.size += held + len(name)
	}
	of[name] = w
	h.size += size(w.is)
}

func seenSize(s events.Seen) int { return len(s.Path) + len(s.Digest) }

func principalSize(p events.Principal) int {
	n := len(p.ID) + len(p.Kind)
	for _, parent := range p.Parents {
		n += 16 + len(parent)
	}
	return n
}

func yesSize(y events.SessionYes) int {
	n := 2*held + len(y.Tool) + len(y.Hash) + len(y.ToolVersion) + len(y.Policy) + len(y.Workspace) + len(y.Placement) + len(y.From) +
		principalSize(y.Principal) + principalSize(y.By)
	for _, id := range y.Policies {
		n += 16 + len(id)
	}
	for _, s := range slices.Concat(y.Operands, y.Base) {
		n += 64 + seenSize(s)
	}
	return n
}

// Leaves is what the trace leaves to a turn of it, as far as the turn can need it: of the
// files, those at paths; of the approvals, those that SessionApproval names so, the oldest
// first; the whole shared context, nil if it is empty. The rest stays where it is: a long
// trace must not make its turns large. The log has nothing before the sequence first any more.
//
// ok is false where only a fold of what the log holds now, passing over the turn, can say
// it: the turn has left something itself, has not begun or has ended; or it depends on a
// turn of which the log has lost the beginning and kept the rest.
func (h *Heritage) Leaves(turn string, first uint64, paths, approvals []string) (in events.Inherited, context json.RawMessage, ok bool) {
	if t := h.open[turn]; turn != h.except && (t == nil || t.spoke) {
		return in, nil, false
	}
	return h.leaves(first, paths, approvals)
}

func (h *Heritage) leaves(first uint64, paths, approvals []string) (in events.Inherited, context json.RawMessage, ok bool) {
	ok = true
	counts := func(yes, sure bool) bool {
		ok = ok && sure
		return yes
	}
	for _, path := range sorted(paths) {
		if w, there := h.seen[path]; there && counts(w.judge(first)) {
			in.Seen = append(in.Seen, w.is)
		}
	}
	var said []word[events.SessionYes]
	for _, name := range sorted(approvals) {
		for _, w := range h.session[name] {
			if counts(w.judge(first)) {
				said = append(said, w)
			}
		}
	}
	slices.SortFunc(said, func(a, b word[events.SessionYes]) int { return cmp.Compare(a.nth, b.nth) })
	for _, w := range said {
		in.Session = append(in.Session, w.is)
	}
	now := make(map[string]json.RawMessage)
	for name, w := range h.context {
		if counts(w.judge(first)) && w.is != nil {
			now[name] = w.is
		}
	}
	return in, encodeContext(now), ok
}

// sorted are the names, each once.
func sorted(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

// HeritageWithout is an empty fold that passes over a turn of the trace, and is to be asked
// for that turn alone: of it Leaves knows everything. archived says that the turn came out
// of an archive.
func HeritageWithout(turn string, archived bool) *Heritage {
	return &Heritage{except: turn, archived: archived}
}

// everything is all that was left to the turn that the fold passes over.
func (h *Heritage) everything() (events.Inherited, json.RawMessage) {
	in, context, _ := h.leaves(0, slices.Collect(maps.Keys(h.seen)), slices.Collect(maps.Keys(h.session)))
	return in, context
}
