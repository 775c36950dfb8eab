package again_test

import (
	"cmp"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/replay/again"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/test/corpus"
)

var (
	hostileFlag = flag.Int("hostile", 1500, "how many histories that nobody writes to decide")
	hostileSeed = flag.Uint64("hostileseed", 0, "the seed of those; 0 takes a new one")
)

// TestWhateverStandsInALog: histories that no release writes are decided as far as they
// go; whatever they hold, nothing breaks, and every call is counted.
func TestWhateverStandsInALog(t *testing.T) {
	turns := map[events.TurnKey][]bus.Stored{}
	var keys []events.TurnKey
	for _, name := range []string{"ends", "people", "owners", "imported"} {
		l, err := corpus.Read("v1", name)
		if err != nil {
			t.Fatal(err)
		}
		commits, err := l.Commits()
		if err != nil {
			t.Fatal(err)
		}
		k, of := turnsOf(commits)
		keys = append(keys, k...)
		for _, k := range k {
			turns[k] = of[k]
		}
	}
	seed := cmp.Or(*hostileSeed, uint64(time.Now().UnixNano()))
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	same, other := 0, 0
	for range *hostileFlag {
		key := keys[rng.IntN(len(keys))]
		log := spoilt(rng, turns[key], turns[keys[rng.IntN(len(keys))]])
		for _, c := range []again.Config{{}, {Strict: true, Policy: policy.Default()}, {Policy: shut{}, Settings: again.Settings{Redacted: true, Registered: again.Readable}}} {
			r := again.Turn(key, log, c)
			if r.Decided > r.Events || r.Difference == nil && r.Stopped == nil && r.Decided != r.Events {
				t.Fatalf("%d of %d events, and neither a difference nor a stop", r.Decided, r.Events)
			}
			if r.Difference != nil {
				_ = r.Difference.String()
				other++
			} else {
				same++
			}
		}
		s := survey(again.Config{Policy: policy.Default()}, again.Selection{}, log...)
		whole(t, s)
	}
	if other == 0 || same == 0 {
		t.Errorf("%d with a difference, %d without: this test shows less than it means to", other, same)
	}
}

// spoilt is a history with one to four faults in it.
func spoilt(rng *rand.Rand, log, others []bus.Stored) []bus.Stored {
	out := make([]bus.Stored, len(log))
	for i, s := range log {
		out[i] = s
		out[i].Commit.Records = append([]events.Record(nil), s.Commit.Records...)
	}
	any := func(list []bus.Stored) (*bus.Stored, int) {
		s := &list[rng.IntN(len(list))]
		return s, rng.IntN(len(s.Commit.Records))
	}
	for range 1 + rng.IntN(4) {
		s, i := any(out)
		o, k := any(others)
		rec := &s.Commit.Records[i]
		switch rng.IntN(9) {
		case 0:
			rec.Event = o.Commit.Records[k].Event
		case 1:
			*rec = o.Commit.Records[k]
		case 2:
			rec.Call = rng.IntN(12) - 2
		case 3:
			rec.Seq += uint32(rng.IntN(3)) - 1
		case 4:
			s.Commit.By = o.Commit.By
		case 5:
			s.Commit.At = s.Commit.At.Add(time.Duration(rng.IntN(7_200_000)-3_600_000) * time.Millisecond)
		case 6:
			at := rng.IntN(len(out))
			out[at], *s = *s, out[at]
		case 7:
			rec.Event = events.Foreign{Name: "new", Version: 3}
		case 8:
			s.Commit.Records = append(s.Commit.Records, s.Commit.Records[i])
		}
	}
	return out
}
