package jetlog_test

import (
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/bustest"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/bus/jetlog/jettest"
)

// suiteAckWait is short because some promises wait for it.
const suiteAckWait = time.Second

func TestSuiteAlone(t *testing.T) {
	t.Parallel()
	srv := jettest.Start(t)
	bustest.Run(t, func(t *testing.T) bus.Bus { return openOn(t, srv.InProcess, 1) })
}

func TestSuiteCluster(t *testing.T) {
	t.Parallel()
	c := jettest.StartCluster(t)
	bustest.Run(t, func(t *testing.T) bus.Bus { return openOn(t, c.Dial, 3) })
}

// openOn opens a bus that the suite closes.
func openOn(t *testing.T, connect connector, replicas int) bus.Bus {
	t.Helper()
	b, err := jetlog.Open(t.Context(), jetlog.Config{Connect: connect, Replicas: replicas, AckWait: suiteAckWait})
	if err != nil {
		t.Fatal(err)
	}
	return b
}
