package jetlog

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Shortens is the error of opening a log with a Config.Retention that would remove what the
// log is to keep. Nothing has changed.
type Shortens struct {
	Have time.Duration // what is in force; 0: for ever
	Want time.Duration // what was asked for; never 0
}

func (s *Shortens) Error() string {
	return fmt.Sprintf("the log keeps an event %s, and a retention of %v would remove what is older than that", forSpan(s.Have), s.Want)
}

// forSpan says for how long a log keeps an event.
func forSpan(d time.Duration) string {
	if d == 0 {
		return "for ever"
	}
	return "for " + d.String()
}

// retain is the retention that a log shall have which has one; 0 is for ever.
func (c Config) retain(have time.Duration) (time.Duration, error) {
	shorter := c.Retention > 0 && (have == 0 || c.Retention < have)
	switch {
	case c.ChangeRetention, c.own && c.Retention > 0:
		return c.Retention, nil
	case shorter:
		return have, &Shortens{Have: have, Want: c.Retention}
	}
	return have, nil
}

// sayRetention tells of a retention that was changed. was is the log before.
func (c Config) sayRetention(was *jetstream.StreamInfo, is time.Duration) {
	before := was.Config.MaxAge
	switch {
	case is == before:
	case is > 0 && (before == 0 || is < before):
		c.logger().Warn("the log keeps its events for a shorter time from now on, and what is older is removed", "retention", is,
			"before", forSpan(before), "older_than", time.Now().Add(-is).UTC(), "oldest", was.State.FirstTime.UTC(), "commits", was.State.Msgs)
	default:
		c.logger().Info("the log keeps its events for a longer time from now on", "retention", forSpan(is), "before", forSpan(before))
	}
}

// Retention is how long the log keeps a commit, as it was when it was opened; 0 is for
// ever. It may be another than Config.Retention.
func (b *Bus) Retention() time.Duration { return b.cfg.Retention }

// Replicas is how many servers keep each commit, as it was when the log was opened; 1 or
// more.
func (b *Bus) Replicas() int { return b.replicas }

// Clustered says whether the server that keeps the log is one of a cluster.
func (b *Bus) Clustered() bool { return b.work.nc.ConnectedClusterName() != "" }
