package readstore

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/bus/jetlog/jettest"
	"github.com/sluice-run/sluice/events"
)

// appender puts the commits of a made-up log into a real one.
type appender struct {
	log  bus.Log
	last map[events.TurnKey]uint64
}

func newAppender(log bus.Log) *appender {
	return &appender{log: log, last: map[events.TurnKey]uint64{}}
}

// add appends the commits from one sequence of the made-up log up to another. mark
// tells their ids from those of others.
func (a *appender) add(t *testing.T, mark string, from, to uint64) {
	t.Helper()
	for seq := from; seq <= to; seq++ {
		c := bulkCommit(seq).Commit
		c.ID += mark
		c.Turn.Turn += mark
		s := must(a.log.Append(t.Context(), c, a.last[c.Turn]))(t)
		a.last[c.Turn] = s.Seq
	}
}

// TestStoreOfJetStream follows a real log: commits that cannot be read among others,
// and what the log drops.
func TestStoreOfJetStream(t *testing.T) {
	srv := jettest.Start(t)
	log := srv.Open(jetlog.Config{})
	a := newAppender(log)
	a.add(t, "", 1, 40)
	var ahead atomic.Int64 // of the clock
	dir := t.TempDir()
	s := start(t, dir, log, func(c *Config) { c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) } })
	level(t, s, log)
	nc := must(srv.Dial("test"))(t)
	defer nc.Close()
	must(nc.Request(bus.EventPrefix+"bad.t1", []byte("no commit"), soon))(t)
	a.add(t, "x", 1, 40)
	level(t, s, log)
	same(t, "with a commit that is none", dump(t, filepath.Join(dir, "store-1.db")), rebuilt(t, dir, log))
	for _, stream := range []string{jetlog.StreamLog, jetlog.StreamRead} {
		must(nc.Request("$JS.API.STREAM.PURGE."+stream, []byte(`{"seq": 42}`), soon))(t)
	}
	ahead.Store(int64(2 * choresEvery))
	until(t, "what the log has dropped goes", func() bool {
		page, err := s.Timeline(t.Context(), traceOfTurn(0), TimelineQuery{Limit: 1})
		return err == nil && len(page.Moments) == 1 && page.Moments[0].Pos == "1.42.0"
	})
	if n := count(t, s); n != 4 { // the turns of the second half name all of the traces
		t.Errorf("%d traces", n)
	}
}

// TestStoreOfALogThatLostItsTail: the disk of an embedded log has an earlier state,
// and the log goes on otherwise from there. What only the store remembers is taken out.
func TestStoreOfALogThatLostItsTail(t *testing.T) {
	first, second, dir := t.TempDir(), filepath.Join(t.TempDir(), "copy"), t.TempDir()
	embedded := func(path string, do func(*jetlog.Bus)) {
		t.Helper()
		log, srv, err := jetlog.OpenEmbedded(t.Context(), jetlog.ServerConfig{Dir: path}, jetlog.Config{})
		check(t, err)
		do(log)
		check(t, log.Close())
		check(t, srv.Close())
	}
	follow := func(log *jetlog.Bus) {
		t.Helper()
		s := must(Open(t.Context(), Config{Dir: dir, Log: log, Every: 2 * time.Millisecond, Rest: -1}))(t)
		s.Start(context.WithoutCancel(t.Context()))
		level(t, s, log)
		check(t, s.Stop())
	}
	embedded(first, func(log *jetlog.Bus) {
		a := newAppender(log)
		a.add(t, "", 1, 100)
		check(t, log.Barrier().Wait(t.Context()))
		check(t, os.CopyFS(second, os.DirFS(first)))
		a.add(t, "", 101, 130)
		follow(log)
	})
	check(t, os.Remove(filepath.Join(second, "sluice.lock")))
	embedded(second, func(log *jetlog.Bus) {
		head := must(log.Head(t.Context()))(t)
		if head.Generation != 2 || head.Seq < 2 || head.Seq > 101 {
			t.Fatalf("the copy ends at %s", head)
		}
		newAppender(log).add(t, "y", 1, 150-head.Seq)
		follow(log)
		got, want := dump(t, filepath.Join(dir, "store-1.db")), rebuilt(t, dir, log)
		same(t, "mended", behind(got), behind(want))
	})
}
