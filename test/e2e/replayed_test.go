package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/projections"
	"github.com/sluice-run/sluice/test/proc"
)

var replayedAll = flag.Bool("replayed", true, "export what each test's nodes leave in their log, and replay it")

var replayedKeep = flag.String("replayed.keep", "", "folder for the archives of live runs that are not replayed as they were")

// afterwards has what a test's nodes have left replayed at its end, once its nodes have
// been killed, and BEFORE its files go. Of a test that has failed nothing is replayed.
func (p *place) afterwards() {
	t := p.t
	t.Cleanup(func() {
		if _, err := os.Stat(filepath.Join(p.data, "jetstream")); err == nil && *replayedAll && !t.Failed() {
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
		if *replayedAll && !t.Failed() {
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
	known    renderings
	timely   map[string]int // ends that differ when played alone, by what decided them
	began    time.Time
}

func newReplay(t *testing.T, provoked []string) *replays {
	t.Helper()
	dir, err := os.MkdirTemp(bin, "replayed-")
	if err != nil {
		t.Fatal(err)
	}
	return &replays{t: t, provoked: provoked, dir: dir, file: filepath.Join(dir, "all.sluice"), known: renderings{}, timely: map[string]int{}, began: time.Now()}
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
	log, err := pasts(r.ctx, b, r.known, func(*projections.Turn) bool { return false })
	return log, errors.Join(err, b.Close())
}

// all exports a log, and replays the archive in every way. read reads that log without it.
func (r *replays) all(read func() (*reader, error), where ...string) {
	r.t.Helper()
	defer os.RemoveAll(r.dir)
	ctx, stop := context.WithTimeout(context.Background(), replayLimit)
	defer stop()
	r.ctx = ctx
	exported := r.verb(append([]string{"export", "--all", "-o", r.file}, where...)...)
	log, err := read()
	switch {
	case err != nil:
		r.t.Errorf("read the log of %v: %v", where, err)
		return
	case len(log.order) == 0:
		return // nothing has run
	case exported.code != 0:
		r.complain("export", exported)
		return
	}
	r.verified()
	r.decided()
	r.archived(log)
	r.imported(log)
	r.played(log)
	r.t.Logf("replayed: %d traces, %d events, in %v; other ends when played alone: %v", len(log.order), log.events(), time.Since(r.began).Round(time.Millisecond), r.timely)
}

// verified has the laws checked over the archive: nothing is wrong with it but what was
// provoked.
func (r *replays) verified() {
	r.t.Helper()
	s := r.verb("verify", "--archive", r.file)
	missing := func(what string) bool { return !strings.Contains(s.out, what) }
	if (s.code != 0) != (len(r.provoked) > 0) || slices.ContainsFunc(r.provoked, missing) {
		r.t.Errorf("the test provokes %q", r.provoked)
		r.complain("verify", s)
	}
}

// decided has every turn of the archive decided again: today's deciders do what was done.
func (r *replays) decided() {
	r.t.Helper()
	if s := r.verb("decide", "--all", "--archive", r.file); s.code != 0 {
		r.complain("decide", s)
	}
}

// verb runs a verb of sluice-replay on the archive, or where args say.
func (r *replays) verb(args ...string) spoken {
	r.t.Helper()
	cmd := exec.CommandContext(r.ctx, replay(r.t), args...)
	cmd.Env = proc.Env()
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		r.t.Errorf("sluice-replay %q: %v", args, err)
	}
	return spoken{cmd.ProcessState.ExitCode(), out.String(), said.String()}
}

// complain fails the test because of what a verb said, and keeps the archive.
func (r *replays) complain(verb string, s spoken) {
	r.t.Helper()
	r.t.Errorf("sluice-replay %s: exit %d\n%s\n%s", verb, s.code, tail(s.out, 4000), tail(s.err, 4000))
	r.keep()
}

// archived holds the archive against the log: at every event the same ends, and the
// same messages. Those of a turn's end are rendered anew.
func (r *replays) archived(log *reader) {
	r.t.Helper()
	a, err := archive.Open(r.file)
	if err != nil {
		r.t.Error(err)
		return
	}
	defer a.Close()
	got, err := pasts(r.ctx, a, r.known, func(t *projections.Turn) bool { return !t.Open() })
	if err != nil {
		r.t.Errorf("read the archive: %v", err)
		return
	}
	if d := log.differ(got, true); d != "" {
		r.t.Errorf("the log and its archive are not the same: %s", d)
	}
}

// imported puts the archive in a new log, and holds that against the first one.
func (r *replays) imported(log *reader) {
	r.t.Helper()
	s := jettest.StartWith(r.t, server.Options{JetStream: true, StoreDir: r.dir})
	defer s.Stop()
	if said := r.verb("import", r.file, "--nats", s.URL()); said.code != 0 {
		r.complain("import", said)
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

// played has every turn played again over today's deciders and actors, without a fault:
// what has ended ends in the same way, and the model is told the same. Where the verb
// says that something is not as recorded, turns that have not ended may be what it means.
func (r *replays) played(log *reader) {
	r.t.Helper()
	s := r.verb("fault", "--all", "--between", "start,turn_submitted", "--kind", "crash-lost", "--json", "--archive", r.file)
	lines := strings.Split(strings.TrimSpace(s.out), "\n")
	var sum struct {
		Total struct {
			Turns  int
			Unlike *int `json:"unlike_recorded"`
		}
	}
	err := json.Unmarshal([]byte(lines[len(lines)-1]), &sum)
	if err != nil || sum.Total.Unlike == nil {
		r.complain("fault", s)
		return
	}
	if s.code == 0 && *sum.Total.Unlike == 0 && sum.Total.Turns == log.turns() {
		return
	}
	if r.playedHere(log); !r.t.Failed() && s.code != 0 && log.whole() {
		r.complain("fault", s)
	}
}

// playedHere is played without the verb, and says which turns are meant.
func (r *replays) playedHere(log *reader) {
	r.t.Helper()
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
	was := p.turns[turn.Script.Key.Turn].state
	if was.Ended == nil {
		return // it was played on with answers that are made up
	}
	bad := len(turn.Failures) > 0
	for _, f := range turn.Failures {
		r.t.Errorf("turn %s, played without a fault: %s", turn.Script.Key, f)
	}
	for _, d := range turn.Differs {
		if why := timely(was.Calls[d.Call]); why != "" {
			r.timely[why]++
			continue
		}
		bad = true
		r.t.Errorf("turn %s, played without a fault: call %d is told %s, and was told %s; notes %q", turn.Script.Key, d.Call, d.Now, d.Recorded, turn.Script.Notes)
	}
	if bad {
		r.keep()
	}
}

// timely says what other calls decided of a call's end, of which its own turn's record
// does not have enough to play it alone. "" of every other end: that is the same.
func timely(c *lifecycle.Call) string {
	switch end := c.Terminal.(type) {
	case *events.Deduplicated:
		if end.Outcome.Effects == events.EffectsPossible {
			return "of a key whose holder became unknown"
		}
	case *events.Failed:
		if e := end.Result.Error; e != nil && e.Code == events.CircuitOpen {
			return "of a circuit that opened between two attempts"
		}
	}
	return ""
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
