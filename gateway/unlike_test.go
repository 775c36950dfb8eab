package gateway

import (
	"testing"
	"time"
)

// TestDifferencesAreSaidOnce, when they have settled, and again where they come back.
func TestDifferencesAreSaidOnce(t *testing.T) {
	var d Differences
	began := time.Unix(0, 0)
	policy, clockA, clockB := Difference{What: "policy"}, Difference{What: differClock, Node: "a"}, Difference{What: differClock, Node: "b"}
	for i, c := range []struct {
		at      time.Duration
		settles time.Duration
		list    []Difference
		say     int
		policy  time.Duration
		clock   time.Duration
	}{
		{0, time.Minute, []Difference{policy}, 0, time.Millisecond, 0},
		{30 * time.Second, time.Minute, nil, 0, 0, 0}, // rolled out: nothing was said
		{60 * time.Second, time.Minute, []Difference{policy, clockA}, 0, time.Millisecond, time.Millisecond},
		{130 * time.Second, time.Minute, []Difference{policy, clockA, clockB}, 2, 70 * time.Second, 70 * time.Second},
		{160 * time.Second, time.Minute, []Difference{policy, clockB}, 0, 100 * time.Second, 30 * time.Second},
		{200 * time.Second, time.Minute, []Difference{policy, clockB}, 1, 140 * time.Second, 70 * time.Second},
		{210 * time.Second, time.Minute, nil, 0, 0, 0},
		{220 * time.Second, 0, []Difference{policy}, 1, time.Millisecond, 0}, // as at a start
		{230 * time.Second, 0, []Difference{policy}, 0, 10 * time.Second, 0},
	} {
		now := began.Add(c.at)
		if say := d.See(now, c.settles, c.list); len(say) != c.say {
			t.Errorf("%d: it says %v, want %d", i, say, c.say)
		}
		is := d.For(now)
		if is["policy"] != c.policy || is[differClock] != c.clock || is["ack-wait"] != 0 || len(is) != len(alike)+1 {
			t.Errorf("%d: %v", i, is)
		}
	}
}

// TestServes: a node that drains is none to count on, and one of another release is.
func TestServes(t *testing.T) {
	for value, want := range map[string]bool{`{"name":"x"}`: true, `{"name":"x","draining":true}`: false, `not JSON`: true, ``: true} {
		if Serves([]byte(value)) != want {
			t.Errorf("%s: %t", value, !want)
		}
	}
}
