package jetlog_test

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// The specification of appends refuses wrong histories, and takes right ones with
// answers that are not clear.
func TestLinearAppendModel(t *testing.T) {
	k := turn("linear", "1")
	op := func(client int, call, end int64, id string, at uint64, out appendOut) porcupine.Operation {
		return porcupine.Operation{ClientId: client, Call: call, Return: end, Input: appendIn{k, id, at}, Output: out}
	}
	keep := func(seq uint64) appendOut { return appendOut{kind: wasKept, seq: seq} }
	move := func(seq uint64) appendOut { return appendOut{kind: wasMoved, seq: seq} }
	read := func(seq uint64, id string) appendOut { return appendOut{kind: wasRead, seq: seq, id: id} }
	first := op(0, 1, 2, "a", 0, keep(5))
	for name, c := range map[string]struct {
		ok  bool
		ops []porcupine.Operation
	}{
		"one of two is kept":                    {true, []porcupine.Operation{first, op(1, 1, 3, "b", 0, move(5))}},
		"two are kept at one expectation":       {false, []porcupine.Operation{first, op(1, 1, 3, "b", 0, keep(6))}},
		"two are kept one after the other":      {false, []porcupine.Operation{first, op(1, 3, 4, "b", 0, keep(6))}},
		"a chain":                               {true, []porcupine.Operation{first, op(1, 3, 4, "b", 5, keep(9)), op(0, 5, 6, "", 0, read(9, "b"))}},
		"a sequence goes back":                  {false, []porcupine.Operation{first, op(1, 3, 4, "b", 5, keep(4))}},
		"a conflict with what never was":        {false, []porcupine.Operation{first, op(1, 3, 4, "b", 0, move(7))}},
		"a conflict with the expectation":       {false, []porcupine.Operation{first, op(1, 3, 4, "b", 5, move(5))}},
		"a conflict with what is not yet there": {false, []porcupine.Operation{op(1, 1, 2, "b", 0, move(5)), op(0, 3, 4, "a", 0, keep(5))}},
		"a kept commit is not read":             {false, []porcupine.Operation{first, op(1, 3, 4, "", 0, read(0, ""))}},
		"another commit is read":                {false, []porcupine.Operation{first, op(1, 3, 4, "", 0, read(5, "b"))}},
		"in doubt, and kept":                    {true, []porcupine.Operation{op(0, 1, never, "a", 0, appendOut{kind: wasUnsure}), op(1, 3, 4, "", 0, read(5, "a"))}},
		"in doubt, and lost":                    {true, []porcupine.Operation{op(0, 1, never, "a", 0, appendOut{kind: wasUnsure}), op(1, 3, 4, "b", 0, keep(5))}},
		"in doubt, and kept later": {true, []porcupine.Operation{
			op(0, 1, never, "a", 0, appendOut{kind: wasUnsure}), op(1, 3, 4, "", 0, read(0, "")), op(1, 5, 6, "b", 0, move(7)), op(1, 7, 8, "", 0, read(7, "a")),
		}},
		"in doubt, kept and replaced": {false, []porcupine.Operation{
			op(0, 1, never, "a", 0, appendOut{kind: wasUnsure}), op(1, 3, 4, "", 0, read(7, "a")), op(1, 5, 6, "b", 0, keep(8)),
		}},
		"not sent, and there": {false, []porcupine.Operation{op(0, 1, 2, "a", 0, appendOut{kind: wasUnsent}), op(1, 3, 4, "", 0, read(5, "a"))}},
	} {
		if got := porcupine.CheckOperations(appendModel(), c.ops); got != c.ok {
			t.Errorf("%s: linearizable %v, want %v", name, got, c.ok)
		}
	}
}
