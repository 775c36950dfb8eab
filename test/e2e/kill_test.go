package e2e

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-run/sluice/bus/jetlog/jettest"
)

var (
	killAll   = flag.Bool("kill.all", false, "kill at every point of every scene, on every keeper, and print the table")
	killOnly  = flag.String("kill.only", "", "only the cells whose name begins so, such as 'once append:after:started:0'")
	killOn    = flag.String("kill.on", "", "the keepers: some of embedded,R1,R3; left out: all three with -kill.all and -kill.only, else R1")
	killTimes = flag.Int("kill.times", 1, "how often each cell is played")
	killLanes = flag.Int("kill.lanes", 4, "cells at once")
)

// fewCells are those that are killed in every run of the tests: each stage and each
// tier once. A scene's name, then the points.
var fewCells = []string{
	"once-probe append:before:turn_submitted",
	"once-probe append:after:turn_submitted",
	"read append:before:turn_claimed",
	"once-vague append:after:turn_claimed",
	"once-key put:after:keys",
	"once-probe append:before:started:0",
	"once append:after:started:0",
	"undo append:after:started:0",
	"ask append:before:started:0",
	"once-probe tool:before:0",
	"once-probe tool:after:0",
	"undo tool:after:0",
	"undo-probe tool:after:0",
	"undo-key tool:after:0",
	"once-key tool:before:0",
	"once-vague tool:after:0",
	"read tool:after:0",
	"once append:before:completed:0",
	"undo-key append:after:completed:0",
	"read ack:before:queue",
	"read-retry append:after:retrying:0",
	"ask append:after:approval_requested:0",
	"ask-probe append:before:turn_parked",
	"ask append:after:approved:0",
	"ask-probe tool:after:0",
	"ask-no append:after:denied:0",
	"dedupe append:before:deduplicated:1",
	"fail append:after:failed:0",
	"late-read append:before:timed_out:0",
	"deaf append:before:unknown:0",
	"cancel-read append:after:cancel_requested:0",
	"cancel-once append:before:cancelled:0",
	"cancel-turn append:after:turn_cancel_requested",
	"progress append:after:progress:0",
	"rival-early tool:after:0",
	"rival-early-vague tool:after:0",
	"rival-late tool:before:0",
	"rival-late-vague tool:after:0",
	"once-probe tool:after:0 append:after:recovered:0",
	"once-probe tool:after:0 probe:after:0",
	"read tool:after:0 append:before:recovered:0",
}

// parseCell reads a cell's name.
func parseCell(name string) (cell, error) {
	words := strings.Fields(name)
	if len(words) == 0 {
		return cell{}, errors.New("a cell is a scene and points")
	}
	s, ok := sceneOf(words[0])
	if !ok {
		return cell{}, fmt.Errorf("there is no scene %q", words[0])
	}
	return cell{s, words[1:]}, nil
}

// TestKillAtEveryStage kills a node with SIGKILL at the durable stages of calls of
// every tier, and has another process take over: each call ends once, as its tier
// demands, what must not happen twice does not, and every answer is true.
//
// The short form is a selection on one NATS server. With -kill.all it is every point
// that turns come by, before and after, on the embedded log, one server and three.
func TestKillAtEveryStage(t *testing.T) {
	t.Parallel()
	if err := faultsBuilt(); err != nil {
		t.Fatal(err)
	}
	table := newKillTable()
	on := "R1"
	if *killAll || *killOnly != "" {
		on = "embedded,R1,R3"
	}
	for name := range strings.SplitSeq(cmp.Or(*killOn, on), ",") {
		t.Run(name, func(t *testing.T) { killOne(t, name, table) })
	}
	if !*killAll && *killOnly == "" {
		table.complete(t)
	}
	t.Logf("\n%s", table)
}

// killOne kills on one keeper.
func killOne(t *testing.T, name string, table *killTable) {
	k := keeper{name: name}
	switch name {
	case "embedded":
	case "R1":
		k.nats = newKeeper(t).URL()
	case "R3":
		k.nats, k.more = jettest.StartCluster(t).URL(), []string{"--replicas", "3"}
		alsoReplayed(t, k.nats)
	default:
		t.Fatalf("-kill.on: there is no keeper %q", name)
	}
	if k.nats != "" {
		newLane(t, k, "first").begin()
	}
	cells, err := chosen(t, k)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d cells, %d times, %d at once", len(cells), *killTimes, *killLanes)
	work := &jobs{left: slices.Repeat(cells, *killTimes)}
	var wg sync.WaitGroup
	for i := range *killLanes {
		wg.Go(func() {
			t.Run(fmt.Sprint("lane-", i), func(t *testing.T) {
				l := newLane(t, k, fmt.Sprint("lane-", i))
				l.work(work, table)
				l.settled()
				l.proven()
			})
		})
	}
	wg.Wait()
	if k.nats != "" {
		proven(t, k.nats)
	}
}

// begin has one node make the streams: four at once ask much of three servers that
// have just begun. A node that cannot reach the log ends, and is started again.
func (l *lane) begin() {
	for tries := 0; ; tries++ {
		v, err := l.start("")
		if err == nil {
			v.kill()
			return
		}
		if tries == 5 {
			l.t.Fatal(err)
		}
	}
}

// chosen are the cells to run.
func chosen(t *testing.T, k keeper) ([]cell, error) {
	if !*killAll && *killOnly == "" {
		var out []cell
		for _, name := range fewCells {
			c, err := parseCell(name)
			if err != nil {
				return nil, err
			}
			out = append(out, c)
		}
		return out, nil
	}
	if *killOnly != "" && strings.Contains(*killOnly, ":") {
		c, err := parseCell(*killOnly)
		return []cell{c}, err
	}
	all, err := everyCell(newLane(t, k, "recording"))
	return slices.DeleteFunc(all, func(c cell) bool { return !strings.HasPrefix(c.String(), *killOnly) }), err
}

// everyCell lists the points that each scene comes by where nobody dies, and those
// that a new owner comes by, by playing them once.
func everyCell(l *lane) ([]cell, error) {
	var out []cell
	for _, s := range scenes {
		found, err := l.points(cell{scene: s})
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	for _, s := range scenes {
		if !s.twice {
			continue
		}
		for _, first := range []string{"tool:before:0", "tool:after:0"} {
			found, err := l.points(cell{s, []string{first}})
			if err != nil {
				return nil, err
			}
			out = append(out, found...)
		}
	}
	l.cur.kill()
	return out, nil
}

// points plays a cell, and returns one more for each point that its last node passed.
func (l *lane) points(c cell) ([]cell, error) {
	l.cells++
	st, err := l.run(c, fmt.Sprintf("%s-%04d", l.name, l.cells), "")
	if err == nil {
		err = l.await("the turn's message is acked", func() (bool, error) {
			st.passed, err = l.cur.passed(st.trace + "/t")
			return slices.ContainsFunc(st.passed, func(p passage) bool { return p.is("ack", "after") && p.Points[0].What == "queue" }), err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c, err)
	}
	if f := check(st); len(f.words) > 0 {
		return nil, fmt.Errorf("%s: %s", c, strings.Join(f.words, "; "))
	}
	var out []cell
	for _, p := range st.passed {
		if op := p.Points[0].Op; !p.is("append", "refused") && (c.scene.whole || op != "barrier" && op != "publish") {
			out = append(out, cell{c.scene, append(slices.Clone(c.points), p.Points[0].name())})
		}
	}
	return out, nil
}

// jobs are cells that wait for a lane.
type jobs struct {
	mu   sync.Mutex
	left []cell
}

func (j *jobs) take() (c cell, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.left) == 0 {
		return cell{}, false
	}
	c, j.left = j.left[0], j.left[1:]
	return c, true
}

// slow is what is worth a line: longer than a take-over by presence takes.
const slow = 5 * time.Second

// work plays cells until none is left. Who brings a turn to its end is killed in the
// next one.
func (l *lane) work(j *jobs, table *killTable) {
	trace := func() string {
		l.cells++
		return fmt.Sprintf("%s-%04d", l.name, l.cells)
	}
	c, more := j.take()
	for at := trace(); more && l.t.Context().Err() == nil; {
		next, ok := j.take()
		then, fault := trace(), ""
		if ok {
			fault = l.faults(next, then)[0]
		}
		st, err := l.run(c, at, fault)
		f := &finding{}
		if err == nil {
			f = check(st)
		} else {
			f.say(&f.silent, "%v", err)
		}
		table.add(l.k.name, st, f)
		if st.took > slow {
			l.t.Logf("%s: the turn ended only %v after the last SIGKILL", c, st.took.Round(time.Millisecond))
		}
		if len(f.words) == 0 && (strings.Contains(*killOnly, ":") && *killTimes == 1 || st.took > 2*slow) {
			l.t.Logf("%s\n%s", c, l.logs(st))
		}
		if len(f.words) > 0 {
			l.t.Errorf("%s: %s\n  in trace %s; reproduce: go test ./test/e2e -run KillAtEvery -kill.on=%s -kill.only='%s'\n%s",
				c, strings.Join(f.words, "\n  "), at, l.k.name, c, l.logs(st))
		}
		c, at, more = next, then, ok
	}
}

// logs are the ends of what a cell's last nodes wrote, and the turn's log.
func (l *lane) logs(st *story) string {
	out := ""
	for _, e := range st.events {
		out += fmt.Sprintf("  %s %s %s %s\n", e.Position, e.kind(), e.Subject, tail(string(e.Data), 300))
	}
	for _, e := range st.effects {
		out += fmt.Sprintf("  effect %+v\n", e)
	}
	for _, d := range st.deaths {
		out += "  the dead one: " + ways(d.passed) + "\n"
	}
	out += "  its heir: " + ways(st.passed) + "\n"
	if l.cur != nil {
		out += tail(l.cur.log.String(), 3000)
	}
	return out
}

// ways are passages in one line.
func ways(list []passage) string {
	var out []string
	for _, p := range list {
		out = append(out, p.Points[0].name())
	}
	return strings.Join(out, ", ")
}

// settled waits until the lane's queue is empty: also what a node was killed for before
// it had acked it is acked, and nothing runs again for it.
func (l *lane) settled() {
	if l.cur == nil {
		return
	}
	nc, err := nats.Connect(l.cur.NATS, nats.NoReconnect())
	if err != nil {
		l.t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		l.t.Fatal(err)
	}
	left := ""
	err = l.await("the queue is empty", func() (bool, error) {
		c, err := js.Consumer(l.t.Context(), "SLUICE_TURNS", "turns_"+l.name)
		if err != nil {
			return false, err
		}
		i := c.CachedInfo()
		left = fmt.Sprintf("%d waiting, %d not acked", i.NumPending, i.NumAckPending)
		return i.NumPending == 0 && i.NumAckPending == 0, nil
	})
	if err != nil {
		l.t.Errorf("%v: %s", err, left)
	}
	all, err := l.done("")
	if err != nil {
		l.t.Error(err)
	}
	times := map[string]int{}
	for _, e := range all {
		times[e.Call]++
		if trialTools[e.Tool].tier != "readonly" && times[e.Call] > 1 {
			l.t.Errorf("at the end %s (%s) has happened %d times", e.Call, e.Tool, times[e.Call])
		}
	}
}

// proven ends the lane's node, and has all laws checked over a log of its own.
func (l *lane) proven() {
	if l.cur == nil {
		return
	}
	l.cur.signal(syscall.SIGTERM)
	<-l.cur.ended
	if l.k.nats != "" {
		return
	}
	if s := program(l.t, "", replay(l.t), "verify", "--data", l.p.data); s.code != 0 {
		l.t.Errorf("sluice-replay verify: exit %d\n%s\n%s", s.code, tail(s.out, 4000), s.err)
	}
}
