package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/bus/jetlog/jettest"
	"github.com/sluice-run/sluice/cmd/replay/archive"
	"github.com/sluice-run/sluice/cmd/replay/fault"
	"github.com/sluice-run/sluice/events"
)

var replayedKeep = flag.String("replayed.keep", "", "folder for the archives of live runs that are not replayed as they were")

// afterwards has what a test's nodes have left replayed at its end, once its nodes have
// been killed, and BEFORE its files go. Of a test that has failed nothing is replayed.
func (p *place) afterwards() {
	t := p.t
	t.Cleanup(func() {
		if _, err := os.Stat(filepath.Join(p.data, "jetstream")); err == nil && !t.Failed() {
			newReplay(t, p.provoked).directory(p.data)
		}
	})
}

// newKeeper starts a NATS server that keeps a log, and has that replayed at the test's
// end.
func newKeeper(t *testing.T) *jettest.Server {
	t.Helper()
	s := jettest.Start(t)
	alsoReplayed(t, s.URL())
	t.Cleanup(func() { // it comes BEFORE that
		if s.NATS() == nil && !t.Failed() {
			s.Start() // the test has left it stopped
		}
	})
	return s
}

// alsoReplayed has the log of a NATS server replayed at the test's end, BEFORE what was
// started earlier is stopped.
func alsoReplayed(t *testing.T, url string) {
	t.Cleanup(func() {
		if !t.Failed() {
			newReplay(t, nil).server(url)
		}
	})
}

// replayLimit is how long the replay of one test's log may take.
const replayLimit = 4 * time.Minute

// replays is a log that a live run has left, and is exported and replayed.
type replays struct {
	t        *testing.T
	ctx      context.Context
	provoked []string // what the test itself has broken: parts of what verify says
	dir      string
	file     string // the archive
	began    time.Time
}

func newReplay(t *testing.T, provoked []string) *replays {
	t.Helper()
	dir, err := os.MkdirTemp(bin, "replayed-")
	if err != nil {
		t.Fatal(err)
	}
	return &replays{t: t, provoked: provoked, dir: dir, file: filepath.Join(dir, "all.sluice"), began: time.Now()}
}

// directory replays the log of a data directory that nobody uses.
func (r *replays) directory(data string) {
	r.t.Helper()
	r.all(func() (*reader, error) {
		s := jettest.StartWith(r.t, server.Options{JetStream: true, StoreDir: data})
		defer s.Stop()
		return r.read(s.URL())
	}, "--data", data)
}

// server replays the log of a NATS server.
func (r *replays) server(url string) {
	r.t.Helper()
	r.all(func() (*reader, error) { return r.read(url) }, "--nats", url)
}

// read reads a server's log, without any verb.
func (r *replays) read(url string) (*reader, error) {
	b, err := jetlog.Open(r.ctx, jetlog.Config{Connect: func(name string) (*nats.Conn, error) {
		return nats.Connect(url, jetlog.Options(name, nil)...)
	}})
	if err != nil {
		return nil, err
	}
	log, err := pasts(r.ctx, b)
	return log, errors.Join(err, b.Close())
}

// all exports a log, and replays the archive in every way. read reads that log without it.
func (r *replays) all(read func() (*reader, error), where ...string) {
	r.t.Helper()
	defer os.RemoveAll(r.dir)
	ctx, stop := context.WithTimeout(context.Background(), replayLimit)
	defer stop()
	r.ctx = ctx
	said, exported := r.verb(append([]string{"export", "--all", "-o", r.file}, where...)...)
	log, err := read()
	switch {
	case err != nil:
		r.t.Errorf("read the log of %v: %v", where, err)
		return
	case len(log.order) == 0:
		return // nothing has run
	case exported != nil:
		r.t.Errorf("sluice-replay export of %v: %v\n%s", where, exported, said)
		return
	}
	r.verified()
	r.decided()
	r.imported(log)
	r.played(r.archived(log))
	r.t.Logf("replayed: %d traces, %d events, in %v", len(log.order), log.events(), time.Since(r.began).Round(time.Millisecond))
}

// verified has the laws checked over the archive: nothing is wrong with it but what was
// provoked.
func (r *replays) verified() {
	r.t.Helper()
	said, err := r.verb("verify", "--archive", r.file)
	for _, what := range r.provoked {
		if err == nil || !strings.Contains(said, what) {
			r.t.Errorf("sluice-replay verify does not tell what the test has provoked, %q: %v\n%s", what, err, tail(said, 4000))
		}
	}
	if err != nil && len(r.provoked) == 0 {
		r.t.Errorf("sluice-replay verify: %v\n%s", err, tail(said, 4000))
		r.keep()
	}
}

// decided has every turn of the archive decided again: today's deciders do what was done.
func (r *replays) decided() {
	r.t.Helper()
	if said, err := r.verb("decide", "--all", "--archive", r.file); err != nil {
		r.t.Errorf("sluice-replay decide: %v\n%s", err, tail(said, 4000))
		r.keep()
	}
}

// verb runs a verb of sluice-replay, and returns all that it said.
func (r *replays) verb(args ...string) (said string, err error) {
	r.t.Helper()
	cmd := exec.CommandContext(r.ctx, replay(r.t), args...)
	cmd.Env = clean(os.Environ())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// archived holds the archive against the log: at every event the same ends, and the
// same messages.
func (r *replays) archived(log *reader) *reader {
	r.t.Helper()
	a, err := archive.Open(r.file)
	if err != nil {
		r.t.Error(err)
		return nil
	}
	defer a.Close()
	got, err := pasts(r.ctx, a)
	if err != nil {
		r.t.Errorf("read the archive: %v", err)
		return nil
	}
	if d := log.differ(got, true); d != "" {
		r.t.Errorf("the log and its archive are not the same: %s", d)
	}
	return got
}

// imported puts the archive in a new log, and holds that against the first one.
func (r *replays) imported(log *reader) {
	r.t.Helper()
	s := jettest.StartWith(r.t, server.Options{JetStream: true, StoreDir: r.dir})
	defer s.Stop()
	if said, err := r.verb("import", r.file, "--nats", s.URL()); err != nil {
		r.t.Errorf("sluice-replay import: %v\n%s", err, tail(said, 4000))
		return
	}
	got, err := r.read(s.URL())
	if err != nil {
		r.t.Errorf("read the log that the archive was imported into: %v", err)
		return
	}
	if d := log.differ(got, false); d != "" {
		r.t.Errorf("the log, and the one that its archive was imported into, are not the same: %s", d)
	}
	for id, p := range got.traces {
		for key, t := range p.turns {
			if t.state.Submitted != nil && t.state.Submitted.Imported == "" {
				r.t.Errorf("turn %s/%s is not marked as imported: a node would run it", id, key)
			}
		}
	}
}

// played plays every turn again over today's deciders and actors, without a fault: what
// has ended ends in the same way, and the model is told the same.
func (r *replays) played(log *reader) {
	r.t.Helper()
	if log == nil {
		return
	}
	a, err := archive.Open(r.file)
	if err != nil {
		r.t.Error(err)
		return
	}
	defer a.Close()
	for _, id := range log.order {
		p := log.traces[id]
		scripts, not := fault.Build(fault.Trace{
			Name: id, Commits: p.commits,
			Blob: func(ref events.BlobRef) ([]byte, error) { return a.Blobs().Get(r.ctx, ref) },
			Turn: func(key events.TurnKey) ([]events.Commit, error) { return log.commitsOf(key), nil },
		}, fault.Options{})
		for _, n := range not {
			if t := p.turns[n.Turn.Turn]; t.state.Submitted != nil || log.whole() {
				r.t.Errorf("turn %s cannot be played: %s", n.Turn, n.Why)
			}
		}
		plan, err := fault.Runner{Workers: 1}.Plan(r.ctx, scripts)
		if err != nil {
			r.t.Error(err)
			return
		}
		for _, turn := range plan.Turns {
			r.baseline(p, turn)
		}
	}
}

// baseline holds a turn that was played without a fault against its record.
func (r *replays) baseline(p *past, turn *fault.Turn) {
	r.t.Helper()
	if p.turns[turn.Script.Key.Turn].state.Ended == nil {
		return // it was played on with answers that are made up
	}
	for _, f := range turn.Failures {
		r.t.Errorf("turn %s, played without a fault: %s", turn.Script.Key, f)
	}
	for _, d := range turn.Differs {
		text, err := json.Marshal(d)
		r.t.Errorf("turn %s, played without a fault, is not as recorded: %s, %v; notes %q", turn.Script.Key, text, err, turn.Script.Notes)
	}
	if turn.Failures != nil || turn.Differs != nil {
		r.keep()
	}
}

// keep keeps the archive for who looks into a failure.
func (r *replays) keep() {
	if *replayedKeep == "" {
		return
	}
	text, err := os.ReadFile(r.file)
	if err == nil {
		err = os.WriteFile(filepath.Join(*replayedKeep, strings.ReplaceAll(r.t.Name(), "/", "_")+".sluice"), text, 0o600)
	}
	if err != nil {
		r.t.Error(err)
	}
}
