package jetlog_test

import (
	"testing"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/bustest"
	"github.com/sluice-run/sluice/bus/jetlog"
)

// embedded is a bus whose Close closes its server too.
type embedded struct {
	*jetlog.Bus
	srv *jetlog.Server
}

func (e embedded) Close() error {
	err := e.Bus.Close()
	if late := e.srv.Close(); late != nil {
		return late
	}
	return err
}

func TestSuiteEmbedded(t *testing.T) {
	bustest.Run(t, func(t *testing.T) bus.Bus {
		b, srv, err := jetlog.OpenEmbedded(t.Context(), jetlog.ServerConfig{Dir: t.TempDir()}, jetlog.Config{AckWait: suiteAckWait})
		if err != nil {
			t.Fatal(err)
		}
		if mode := b.Barrier().Mode(); mode != jetlog.SyncBarrier {
			t.Errorf("the mode is %s", mode)
		}
		return embedded{b, srv}
	})
}
