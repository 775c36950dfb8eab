package jetlog_test

import (
	"testing"

	"go.uber.org/goleak"
)

// A server that is stopped while a mirror or a source asks for its consumer
// leaves the goroutine that waits for the answer, for half a minute at most.
const serverPrefix = "github.com/nats-io/nats-server/v2/server.(*stream)."

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction(serverPrefix+"trySetupSourceConsumer.func3"),
		goleak.IgnoreAnyFunction(serverPrefix+"setupMirrorConsumer.func3"),
	)
}
