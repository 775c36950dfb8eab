package e2e

import "testing"

// TestAWorkerComesBackAfterItsNode: both are killed in the middle of a call. The next node is
// there first: it waits for who can say what became of the call, and takes that one's word.
func TestAWorkerComesBackAfterItsNode(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w := b.worker()
	b.submit(turn{Trace: "probed", Turn: "t", Calls: one("stamp", args{"name": "a", "until": "never"})})
	poll(t, "its effect has happened", func() bool { return len(stamps(t, b.file)) == 1 })
	b.kill()
	w.kill()
	b.again()
	b.until("probed", "t", "recovered", "0")
	b.worker()
	b.end("probed", "t").Calls[0].is(t, "completed", "", "done")
	if n := stamped(t, b.file, "probed/t/0"); n != 1 {
		t.Errorf("an effect happened %d times", n)
	}
	verified(t, b.place, b.node)
}
