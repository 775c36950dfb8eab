package fault

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/projections"
)

// Trace is a recorded trace, as far as it could be read.
type Trace struct {
	Name    string
	Commits []bus.Stored // in the log's order
	// Blob reads what stands outside the log. nil: nothing can be read.
	Blob func(events.BlobRef) ([]byte, error)
	// Turn reads a turn of any trace, one of whose calls holds a key that this trace
	// uses. nil: no other trace can be read.
	Turn func(events.TurnKey) ([]events.Commit, error)
}

// Options say what a recording does not.
type Options struct {
	// Tiers are those of tools whose tier is not recorded, as in imported
	// conversations, by name. A tool that is not in it is irreversible.
	Tiers map[string]events.Tier
}

// Unplayable is a turn that cannot be played, and why.
type Unplayable struct {
	Turn events.TurnKey `json:"turn"`
	Why  string         `json:"why"`
}

// Build makes the scripts of a trace's turns, in their order. What cannot be played
// at all is told beside them.
func Build(t Trace, o Options) (scripts []*Script, not []Unplayable) {
	b := builder{trace: t, options: o, commits: make(map[events.TurnKey][]bus.Stored)}
	for _, s := range t.Commits {
		b.commits[s.Commit.Turn] = append(b.commits[s.Commit.Turn], asStored(s))
	}
	for _, key := range turnsOf(t.Commits) {
		s, err := b.turn(key)
		if err != nil {
			not = append(not, Unplayable{key, err.Error()})
			continue
		}
		scripts = append(scripts, s)
	}
	return scripts, not
}

// turnsOf are the turns of a trace, in the order in which they began.
func turnsOf(commits []bus.Stored) []events.TurnKey {
	seen := make(map[events.TurnKey]bool)
	var out []events.TurnKey
	for _, s := range commits {
		if k := s.Commit.Turn; !seen[k] {
			seen[k] = true
			out = append(out, k)
		}
	}
	return out
}

// builder makes scripts of one trace.
type builder struct {
	trace   Trace
	options Options
	commits map[events.TurnKey][]bus.Stored
	legacy  []events.Commit // of earlier turns, that leave something to later ones
}

// legible is how much of a turn, of which all is recorded, this release can build upon, and why it is not more.
func legible(key events.TurnKey, all []bus.Stored) (records []bus.Stored, turn lifecycle.Turn, why string) {
	turn = lifecycle.Turn{Key: key}
	for _, s := range all {
		whole := s.Commit.Records
		for i, r := range whole {
			next := lifecycle.Evolve(turn, lifecycle.Meta{At: s.Commit.At, By: s.Commit.By}, r)
			if next.Foreign || next.Broken != "" {
				why = next.Broken
				if next.Foreign {
					why = fmt.Sprintf("%s at %s is of a newer release", r.Event.Kind(), s.Position(i))
				}
				if s.Commit.Records = whole[:i]; i > 0 {
					records = append(records, s)
				}
				return records, turn, why
			}
			turn = next
		}
		records = append(records, s)
	}
	return records, turn, ""
}

var errHeadless = errors.New("its submission is missing: nothing says what was asked")

// turn makes the script of one turn, and takes up what it leaves to later ones.
func (b *builder) turn(key events.TurnKey) (*Script, error) {
	commits, t, why := legible(key, b.commits[key])
	if t.Submitted == nil {
		if why != "" {
			return nil, fmt.Errorf("%w (%s)", errHeadless, why)
		}
		return nil, errHeadless
	}
	s := &Script{Key: key, was: t, recorded: told(key, commits), legacy: slices.Clip(b.legacy), blobs: make(map[string][]byte)}
	s.Imported = t.Submitted.Imported != ""
	if why != "" {
		s.note("it is played up to what this release can read: %s", why)
	}
	if t.Ended == nil {
		s.note("it had not ended when it was recorded: it is played as far as it goes, and from there on with answers that are made up")
	}
	for _, c := range commits {
		for _, r := range c.Commit.Records {
			s.record(c.Commit, r)
		}
	}
	s.finish(b.options)
	b.blobs(s)
	b.holders(s)
	if leaves(commits) {
		for _, c := range commits {
			b.legacy = append(b.legacy, unbound(c.Commit))
		}
	}
	return s, s.equip()
}

// leaves says whether a turn leaves something to later ones of its trace that a
// replay can see: approvals for the session, and shared context. Digests of files are
// none: scripted tools write no files.
func leaves(commits []bus.Stored) bool {
	for _, c := range commits {
		for _, r := range c.Commit.Records {
			switch e := r.Event.(type) {
			case *events.Approved:
				if e.Scope == events.ScopeSession {
					return true
				}
			case *events.TurnCompleted:
				if len(e.Context) > 0 {
					return true
				}
			}
		}
	}
	return false
}

// unbound is a commit whose approvals hold for no files: scripted tools run none, and
// change none.
func unbound(c events.Commit) events.Commit {
	c.Records = slices.Clone(c.Records)
	for i, r := range c.Records {
		if e, ok := r.Event.(*events.ApprovalRequested); ok {
			plain := *e
			plain.Operands, plain.Preview = nil, nil
			c.Records[i].Event = &plain
		}
	}
	return c
}

// blobs reads what the turn's arguments refer to.
func (b *builder) blobs(s *Script) {
	for i, raw := range s.sub.Calls {
		if raw.Args.Ref == nil {
			continue
		}
		var data []byte
		err := errors.New("there is no store to read it from")
		if b.trace.Blob != nil {
			data, err = b.trace.Blob(*raw.Args.Ref)
		}
		if err != nil {
			s.note("the arguments of call %d cannot be read: %v", i, err)
			continue
		}
		s.blobs[raw.Args.Ref.Digest] = data
	}
}

// holders finds the turns whose calls hold the keys of this one's.
func (b *builder) holders(s *Script) {
	for _, c := range s.calls {
		if c.reuses == nil {
			continue
		}
		of, err := events.ParseCallKey(c.reuses.Of)
		if err != nil || of.TurnKey() == s.Key {
			continue
		}
		commits := b.find(of.TurnKey())
		if len(commits) == 0 {
			s.note("call %d has the answer of call %s, which cannot be read: it is played as a call of its own", c.offset, of)
			c.alone()
			continue
		}
		s.holders = append(s.holders, holder{key: c.reuses.Key, of: c.reuses.Of, hash: c.hash, commits: commits})
	}
}

func (b *builder) find(key events.TurnKey) []events.Commit {
	if here := b.commits[key]; len(here) > 0 || b.trace.Turn == nil {
		return plain(here)
	}
	found, err := b.trace.Turn(key)
	if err != nil {
		return nil
	}
	out := make([]events.Commit, len(found))
	for i, c := range found {
		out[i] = asRecorded(c)
	}
	return out
}

// told is what the model was told of each call, by what is recorded of a turn.
func told(key events.TurnKey, commits []bus.Stored) []events.Answer {
	conv := projections.Answers.Init()
	for _, s := range commits {
		for e := range projections.Events(s.Generation, s.Seq, s.Commit) {
			conv = projections.Answers.Apply(conv, e)
		}
	}
	return answersOf(conv.Turn(key))
}

// answersOf are a turn's answers. What stands outside the log stays a reference:
// the same reference is the same text.
func answersOf(t *projections.Turn) []events.Answer {
	if t == nil {
		return nil
	}
	out, _ := t.Answers(nil)
	return out
}
