package jetlog_test

import (
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/bustest"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/bus/jetlog/jettest"
)

// suiteAckWait is short because some promises wait for it.
const suiteAckWait = time.Second

// TestSuiteAlone keeps the promises with the permissions of a node, each of which is
// needed for it.
func TestSuiteAlone(t *testing.T) {
	t.Parallel()
	log := newSpy()
	srv := jettest.StartWith(t, server.Options{JetStream: true, StoreDir: t.TempDir(), Users: []*server.User{nodeUser(), rootUser(), workerUser()}})
	srv.NATS().SetLoggerV2(log, false, true, false)
	inProcess := func(name string, o ...nats.Option) (*nats.Conn, error) {
		return nats.Connect("", append(append(jetlog.Options(name, nil), nats.InProcessServer(srv.NATS())), o...)...)
	}
	node := as(inProcess, "node")
	bustest.Run(t, func(t *testing.T) bus.Bus { return withSeats(t, node, as(inProcess, bustest.WorkerUser), 1) })
	further(t, srv.URL(), node, as(inProcess, "root"))
	log.check(t, jetlog.PermissionsOf(jetlog.User{Name: "node", Node: true}), alone)
}

// TestSuiteCluster is the same on three servers, where streams are widened, too.
func TestSuiteCluster(t *testing.T) {
	t.Parallel()
	log := newSpy()
	ann := &server.User{Username: "ann", Password: "pw", Permissions: permissionsOf(jetlog.User{Name: "ann"})}
	c := jettest.StartClusterWith(t, server.Options{Users: []*server.User{nodeUser(), rootUser(), ann, workerUser()}})
	for _, n := range c.Nodes {
		n.NATS().SetLoggerV2(log, false, true, false)
	}
	anybody := func(name string, o ...nats.Option) (*nats.Conn, error) {
		return nats.Connect(c.URL(), append(jetlog.Options(name, nil), o...)...)
	}
	dial := as(anybody, "node")
	if err := openOn(t, dial, 1).Close(); err != nil {
		t.Fatal(err)
	}
	bustest.Run(t, func(t *testing.T) bus.Bus { return withSeats(t, dial, as(anybody, bustest.WorkerUser), 3) })
	acrossServers(t, c, dial)
	p := jetlog.PermissionsOf(jetlog.User{Name: "node", Node: true})
	p.Subscribe = nil
	p.Publish = slices.DeleteFunc(p.Publish, func(s string) bool { return !alone(s) })
	log.check(t, p, func(string) bool { return false })
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
