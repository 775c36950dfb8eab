package jetlog

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-run/sluice/bus"
)

// TestALogWithoutQuorumIsUnavailable, whichever of the client's interfaces has heard so.
func TestALogWithoutQuorumIsUnavailable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&jetstream.APIError{Code: 503, ErrorCode: 10008}, true},
		{&nats.APIError{Code: 503, ErrorCode: 10008}, true},
		{nats.ErrNoResponders, true},
		{&jetstream.APIError{Code: 404, ErrorCode: 10059}, false},
		{&nats.APIError{Code: 404, ErrorCode: 10059}, false},
	} {
		err := fmt.Errorf("watch: %w", c.err)
		if got := errors.Is(unavailable(err), bus.ErrUnavailable); got != c.want || leaderless(err) && !busy(err) {
			t.Errorf("%v: unavailable %t, want %t", c.err, got, c.want)
		}
	}
}
