package actors

import (
	"fmt"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/sluice-run/sluice/events"
)

// keyOp is something that happened at an idempotency key. call is who it happened to,
// args what it was to do; of is the call whose answer it got.
type keyOp struct {
	do         keyVerb
	key        string
	call, args string
	of         string
	effects    events.Effects // of an end or a resolution, or those that a reused answer tells of
}

type keyVerb string

const (
	keyBegin    keyVerb = "begin"    // its tool begins to run
	keyEnd      keyVerb = "end"      // it has ended
	keyReuse    keyVerb = "reuse"    // it was given another call's answer
	keyConflict keyVerb = "conflict" // refused: another call has the key, with other arguments
	keyBlocked  keyVerb = "blocked"  // refused: nobody knows how another call ended
	keyResolve  keyVerb = "resolve"  // somebody found out how it ended
)

func (o keyOp) String() string {
	s := fmt.Sprintf("%s %s by %s (%s)", o.do, o.key, o.call, o.args)
	switch {
	case o.of != "":
		return fmt.Sprintf("%s, of %s, effects %s", s, o.of, o.effects)
	case o.effects != "":
		return fmt.Sprintf("%s, effects %s", s, o.effects)
	}
	return s
}

// keyView is the specification's state of a key: who has it, and how that ended.
type keyView struct {
	holder, args string         // "": it is free
	effects      events.Effects // "": the holder has not ended
}

// step is the specification: one call at a time has a key. Others with the same
// arguments get its answer, those with other arguments none; a call that ended
// without any effect gives the key back, and one whose end is not known keeps it.
func (s keyView) step(op keyOp) (bool, keyView) {
	same := s.holder != "" && s.args == op.args && s.holder != op.call
	switch op.do {
	case keyBegin:
		return s.holder == "", keyView{holder: op.call, args: op.args}
	case keyEnd:
		if s.holder != op.call || s.effects != "" {
			return false, s
		}
		if op.effects == events.EffectsNone {
			return true, keyView{}
		}
		return true, keyView{holder: s.holder, args: s.args, effects: op.effects}
	case keyResolve:
		if s.holder != op.call || s.effects != events.EffectsPossible {
			return false, s
		}
		if op.effects == events.EffectsNone {
			return true, keyView{}
		}
		return true, keyView{holder: s.holder, args: s.args, effects: op.effects}
	case keyReuse:
		return same && s.holder == op.of && s.effects != "" && s.effects == op.effects, s
	case keyBlocked:
		return same && s.effects == events.EffectsPossible, s
	case keyConflict:
		return s.holder != "" && s.holder != op.call && s.args != op.args, s
	}
	return false, s
}

func keyModel() porcupine.Model {
	return porcupine.Model{
		Partition: func(ops []porcupine.Operation) [][]porcupine.Operation {
			return partitioned(ops, func(in any) string { return in.(keyOp).key })
		},
		Init: func() any { return keyView{} },
		Step: func(state, input, _ any) (bool, any) {
			ok, next := state.(keyView).step(input.(keyOp))
			return ok, next
		},
		DescribeOperation: func(input, _ any) string { return input.(keyOp).String() },
	}
}

// The specification of keys refuses wrong histories.
func TestLinearKeyModel(t *testing.T) {
	type ops = []porcupine.Operation
	op := func(call, end int64, o keyOp) porcupine.Operation {
		o.key = "k"
		return porcupine.Operation{Call: call, Return: end, Input: o}
	}
	begin := func(at int64, who string) porcupine.Operation {
		return op(at, at+1, keyOp{do: keyBegin, call: who, args: "1"})
	}
	end := func(at int64, who string, e events.Effects) porcupine.Operation {
		return op(at, at+1, keyOp{do: keyEnd, call: who, args: "1", effects: e})
	}
	reuse := func(at int64, who, args, of string, told events.Effects) porcupine.Operation {
		return op(at, at+1, keyOp{do: keyReuse, call: who, args: args, of: of, effects: told})
	}
	refused := func(at int64, do keyVerb, who, args string) porcupine.Operation {
		return op(at, at+1, keyOp{do: do, call: who, args: args})
	}
	const none, possible, done = events.EffectsNone, events.EffectsPossible, events.EffectsDone
	for name, c := range map[string]struct {
		ok  bool
		ops ops
	}{
		"one runs, one is answered":             {true, ops{begin(1, "a"), end(3, "a", done), reuse(5, "b", "1", "a", done)}},
		"both run":                              {false, ops{begin(1, "a"), end(3, "a", done), begin(5, "b"), end(7, "b", done)}},
		"both run at once":                      {false, ops{begin(1, "a"), begin(1, "b"), end(3, "a", done), end(3, "b", done)}},
		"one runs twice":                        {false, ops{begin(1, "a"), begin(3, "a"), end(5, "a", done)}},
		"answered before the end":               {false, ops{begin(1, "a"), reuse(3, "b", "1", "a", done), end(5, "a", done)}},
		"answered in the name of a third":       {false, ops{begin(1, "a"), end(3, "a", done), reuse(5, "b", "1", "c", done)}},
		"other arguments are answered":          {false, ops{begin(1, "a"), end(3, "a", done), reuse(5, "b", "2", "a", done)}},
		"other arguments are refused":           {true, ops{begin(1, "a"), refused(3, keyConflict, "b", "2"), end(5, "a", done)}},
		"the same arguments are refused":        {false, ops{begin(1, "a"), refused(3, keyConflict, "b", "1"), end(5, "a", done)}},
		"a conflict with nobody":                {false, ops{refused(1, keyConflict, "b", "2"), begin(3, "a")}},
		"none frees it":                         {true, ops{begin(1, "a"), end(3, "a", none), begin(5, "b")}},
		"none is answered":                      {false, ops{begin(1, "a"), end(3, "a", none), reuse(5, "b", "1", "a", none)}},
		"possible blocks it":                    {true, ops{begin(1, "a"), end(3, "a", possible), refused(5, keyBlocked, "b", "1")}},
		"possible frees it":                     {false, ops{begin(1, "a"), end(3, "a", possible), begin(5, "b")}},
		"possible is told as unknown":           {true, ops{begin(1, "a"), end(3, "a", possible), reuse(5, "b", "1", "a", possible)}},
		"possible is told as a success":         {false, ops{begin(1, "a"), end(3, "a", possible), reuse(5, "b", "1", "a", done)}},
		"blocked by what is known":              {false, ops{begin(1, "a"), end(3, "a", done), refused(5, keyBlocked, "b", "1")}},
		"resolved as none":                      {true, ops{begin(1, "a"), end(3, "a", possible), op(5, 6, keyOp{do: keyResolve, call: "a", effects: none}), begin(7, "b")}},
		"resolved as done":                      {true, ops{begin(1, "a"), end(3, "a", possible), op(5, 6, keyOp{do: keyResolve, call: "a", effects: done}), reuse(7, "b", "1", "a", done)}},
		"resolved as done, and another runs it": {false, ops{begin(1, "a"), end(3, "a", possible), op(5, 6, keyOp{do: keyResolve, call: "a", effects: done}), begin(7, "b")}},
	} {
		if got := porcupine.CheckOperations(keyModel(), c.ops); got != c.ok {
			t.Errorf("%s: linearizable %v, want %v", name, got, c.ok)
		}
	}
}
