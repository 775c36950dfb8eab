package jetlog_test

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/bustest"
	"github.com/sluice-run/sluice/bus/jetlog"
)

// embedded is a bus whose Close closes its server too.
type embedded struct {
	benched
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
		b, srv, err := jetlog.OpenEmbedded(t.Context(), jetlog.ServerConfig{Dir: t.TempDir(), Port: -1, Token: "pw"}, jetlog.Config{AckWait: suiteAckWait})
		if err != nil {
			t.Fatal(err)
		}
		if mode := b.Barrier().Mode(); mode != jetlog.SyncBarrier {
			t.Errorf("the mode is %s", mode)
		}
		dial := func(name string) (*nats.Conn, error) {
			return nats.Connect(srv.URL(), append(jetlog.Options(name, nil), nats.Token("pw"))...)
		}
		return embedded{benched{b, dial}, srv}
	})
}
