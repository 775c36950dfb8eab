package bus

import (
	"context"
	"time"
)

// Measures is what a keeper says of itself at a glance, for metrics. Nothing is decided
// by it.
type Measures struct {
	Queues  []QueueMeasure  // one for each placement that was asked for, and the wake-ups
	Streams []StreamMeasure // what the store holds, sorted by name

	Retention time.Duration // of the log; 0: for ever
	Replicas  int           // of the log; 0: not known
}

// WakesQueue is the name of the wake-ups' queue in a QueueMeasure: no placement has a dot.
const WakesQueue = ".wakes"

// QueueMeasure is how many items a queue has that were not acked.
type QueueMeasure struct {
	Placement string // or WakesQueue
	Waiting   uint64 // for a node
	Held      uint64 // in somebody's hands
}

// StreamMeasure is the size of one of a keeper's streams.
type StreamMeasure struct {
	Name     string // as its keeper calls it
	Messages uint64
	Bytes    uint64
}

// Measurer is a Bus that can be measured: all keepers are.
type Measurer interface {
	// Measure looks at the queues of the placements, and at all streams. It is a look,
	// changes nothing, and a queue that nobody has pulled from may be told as empty.
	Measure(ctx context.Context, placements []string) (Measures, error)
}
