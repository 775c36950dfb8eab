package actors

import (
	"fmt"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
)

// lockOp is one operation on a resource's lock. What a lease is taken for is call;
// boot took it, at the revision token.
type lockOp struct {
	do        lockVerb
	resource  string
	call      string
	boot      string
	exclusive bool
	token     uint64
}

type lockVerb string

const (
	lockTake  lockVerb = "take"  // and got it
	lockFree  lockVerb = "free"  // all that the call has
	lockUndo  lockVerb = "undo"  // what boot has for the call
	lockLapse lockVerb = "lapse" // it was not renewed in time
	lockRenew lockVerb = "renew" // after it had lapsed
)

func (o lockOp) String() string {
	kind := "shared"
	if o.exclusive {
		kind = "exclusive"
	}
	return fmt.Sprintf("%s %s by %s on %s, %s, token %d", o.do, o.resource, o.call, o.boot, kind, o.token)
}

// lockView is the specification's state of one lock: who has it; whose lease has
// lapsed while nobody has taken it from them yet; and the highest token so far.
type lockView struct {
	holds, faded []lockOp
	top          uint64
}

// step is the specification: a lease is given only where nobody else has one that
// excludes it, and each with a higher token than all before. Leases that lapse and
// are given back go without a condition; one that has lapsed comes back only where
// nobody has had the lock meanwhile.
func (s lockView) step(op lockOp) (bool, lockView) {
	mine := func(x lockOp) bool { return x.call == op.call }
	here := func(x lockOp) bool { return x.call == op.call && x.boot == op.boot }
	same := func(x lockOp) bool { return here(x) && x.token == op.token }
	against := func(x lockOp) bool { return x.call != op.call && (x.exclusive || op.exclusive) }
	without := func(list []lockOp, gone func(lockOp) bool) []lockOp {
		return slices.DeleteFunc(slices.Clone(list), gone)
	}
	next := lockView{holds: s.holds, faded: s.faded, top: s.top}
	switch op.do {
	case lockTake:
		if slices.ContainsFunc(s.holds, against) || op.token <= s.top {
			return false, s
		}
		next.holds = append(without(s.holds, mine), op)
		next.faded = without(without(s.faded, mine), against)
		next.top = op.token
	case lockRenew:
		switch {
		case slices.ContainsFunc(s.holds, same):
		case !slices.ContainsFunc(s.faded, same):
			return false, s
		default:
			back := op
			back.do = lockTake
			next.holds, next.faded = append(slices.Clone(s.holds), back), without(s.faded, same)
		}
	case lockLapse:
		if i := slices.IndexFunc(s.holds, same); i >= 0 {
			next.faded = append(slices.Clone(s.faded), s.holds[i])
		}
		next.holds = without(s.holds, same)
	case lockFree:
		next.holds, next.faded = without(s.holds, mine), without(s.faded, mine)
	case lockUndo:
		next.holds, next.faded = without(s.holds, here), without(s.faded, here)
	}
	return true, next
}

func lockModel() porcupine.Model {
	return porcupine.Model{
		Partition: func(ops []porcupine.Operation) [][]porcupine.Operation {
			return partitioned(ops, func(in any) string { return in.(lockOp).resource })
		},
		Init: func() any { return lockView{} },
		Step: func(state, input, _ any) (bool, any) {
			ok, next := state.(lockView).step(input.(lockOp))
			return ok, next
		},
		Equal: func(a, b any) bool {
			x, y := a.(lockView), b.(lockView)
			return x.top == y.top && slices.Equal(x.holds, y.holds) && slices.Equal(x.faded, y.faded)
		},
		DescribeOperation: func(input, _ any) string { return input.(lockOp).String() },
	}
}

// The specification of locks refuses wrong histories.
func TestLinearLockModel(t *testing.T) {
	op := func(call, end int64, do lockVerb, who string, exclusive bool, token uint64) porcupine.Operation {
		return porcupine.Operation{Call: call, Return: end, Input: lockOp{do, "r", who, "n-" + who, exclusive, token}}
	}
	type ops = []porcupine.Operation
	a := op(1, 2, lockTake, "a", true, 1)
	read := op(1, 2, lockTake, "a", false, 1)
	for name, c := range map[string]struct {
		ok  bool
		ops ops
	}{
		"one after the other":              {true, ops{a, op(3, 3, lockFree, "a", true, 1), op(4, 5, lockTake, "b", true, 2)}},
		"two writers":                      {false, ops{a, op(3, 4, lockTake, "b", true, 2)}},
		"two writers at once":              {false, ops{op(1, 9, lockTake, "a", true, 1), op(1, 9, lockTake, "b", true, 2)}},
		"given back too late":              {false, ops{a, op(3, 4, lockTake, "b", true, 2), op(5, 5, lockFree, "a", true, 1)}},
		"a reader beside a writer":         {false, ops{a, op(3, 4, lockTake, "b", false, 2)}},
		"a writer beside a reader":         {false, ops{read, op(3, 4, lockTake, "b", true, 2)}},
		"two readers":                      {true, ops{read, op(3, 4, lockTake, "b", false, 2)}},
		"a token that does not grow":       {false, ops{op(1, 2, lockTake, "a", false, 5), op(3, 4, lockTake, "b", false, 5)}},
		"a token that goes back":           {false, ops{op(1, 2, lockTake, "a", false, 5), op(3, 4, lockTake, "b", false, 4)}},
		"after a lapse":                    {true, ops{a, op(3, 3, lockLapse, "a", true, 1), op(4, 5, lockTake, "b", true, 2)}},
		"before the lapse":                 {false, ops{a, op(3, 4, lockTake, "b", true, 2), op(6, 6, lockLapse, "a", true, 1)}},
		"renewed late, and nobody came":    {true, ops{a, op(3, 3, lockLapse, "a", true, 1), op(4, 5, lockRenew, "a", true, 1)}},
		"renewed late, and then another":   {false, ops{a, op(3, 3, lockLapse, "a", true, 1), op(4, 5, lockRenew, "a", true, 1), op(6, 7, lockTake, "b", true, 2)}},
		"renewed after another":            {false, ops{a, op(3, 3, lockLapse, "a", true, 1), op(4, 5, lockTake, "b", true, 2), op(6, 6, lockFree, "b", true, 2), op(7, 8, lockRenew, "a", true, 1)}},
		"an earlier owner gives back":      {false, ops{a, op(3, 4, lockTake, "b", true, 2), op(5, 5, lockUndo, "b", true, 2)}},
		"its next owner enters":            {true, ops{a, {Call: 3, Return: 4, Input: lockOp{lockTake, "r", "a", "n-2", true, 2}}}},
		"its earlier owner frees no other": {false, ops{a, {Call: 3, Return: 4, Input: lockOp{lockTake, "r", "a", "n-2", true, 2}}, op(5, 5, lockUndo, "a", true, 1), op(6, 7, lockTake, "b", true, 3)}},
	} {
		if got := porcupine.CheckOperations(lockModel(), c.ops); got != c.ok {
			t.Errorf("%s: linearizable %v, want %v", name, got, c.ok)
		}
	}
}
