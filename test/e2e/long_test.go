package e2e

import "testing"

// TestALongCallIsNotDispatchedAgain: it runs for more than twice as long as a message
// stays with a node that gives no sign of life, with other nodes idle beside it.
func TestALongCallIsNotDispatchedAgain(t *testing.T) {
	t.Parallel()
	c := muster(t, 3, "--ack-wait", "6s", "--presence", "5s")
	v := c.nodes[0].submit(turn{Trace: "long", Turn: "t", Calls: []call{charge("long", 1, "stall_ms", 13_000)}})
	c.nodes[1].end(v.Trace, v.Turn).Calls[0].is(t, "completed", "", "done")
	list := c.nodes[2].events(v.Trace, v.Turn)
	if n := len(of(list, "turn_claimed", "")); n != 1 {
		t.Errorf("it was claimed %d times", n)
	}
	if n := len(of(list, "started", "0")); n != 1 {
		t.Errorf("it was started %d times", n)
	}
	if n := c.charged("long"); n != 1 {
		t.Errorf("charged %d times", n)
	}
}
