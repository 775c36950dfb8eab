package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-run/sluice/test/ports"
)

// bench is a node whose NATS workers can reach, also after it was started again, and the
// file that their effects go to.
type bench struct {
	*node
	t    *testing.T
	at   string // host and port of NATS
	url  string // with its token
	file string
	args []string
}

// newBench starts a node in which the workers' word on tiers counts.
func newBench(t *testing.T, more ...string) *bench {
	t.Helper()
	p := newPlace(t)
	port, err := ports.Free(1)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, at: ports.Loopback(port[0]), file: filepath.Join(filepath.Dir(p.work), "stamps.jsonl")}
	b.url = "nats://tok@" + b.at
	b.args = append([]string{"--listen-nats", b.at, "--nats-token", "tok", "--remote-tiers", "declared"}, more...)
	b.node = p.serve(b.args...)
	return b
}

// again starts the node anew.
func (b *bench) again() {
	b.t.Helper()
	b.node = b.place.serve(b.args...)
}

// open has the calls go on that stall until a file is there.
func (b *bench) open(file string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(filepath.Dir(b.file), file), nil, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// has waits until the node's tool list has a tool, or has not.
func (b *bench) has(name string, want bool) {
	b.t.Helper()
	poll(b.t, fmt.Sprintf("the tool %s is there: %t", name, want), func() bool { return b.tools()[name] == want })
}

// worker starts a worker in Go, and waits for its tools.
func (b *bench) worker() *process {
	b.t.Helper()
	w := goWorker(b.t, b.url, "worker", b.file)
	b.goTools()
	return w
}

// goTools waits for all tools of a worker in Go: it brings them one by one.
func (b *bench) goTools() {
	b.t.Helper()
	for _, tool := range []string{"sum", "ticks", "sized", "formal", "stamp", "stamp_blind", "stamp_keyed"} {
		b.has(tool, true)
	}
}

type seatView struct {
	Worker, Status, Why, Definition string
	Running                         int
}

// workersView is what GET /v1/workers says.
type workersView struct {
	Attempts int
	Tools    []struct {
		Tool, Status, Why, Definition, Declared, Tier string
		Workers                                       []seatView
	}
}

// seats waits until at least n workers of a tool are known.
func (b *bench) seats(tool string, n int) (out []seatView) {
	b.t.Helper()
	poll(b.t, fmt.Sprintf("%d workers of %s", n, tool), func() bool {
		var v workersView
		b.get("/v1/workers", &v)
		for _, one := range v.Tools {
			if one.Tool == tool {
				out = one.Workers
			}
		}
		return len(out) >= n
	})
	return out
}

func one(tool string, a args) []call { return []call{{Tool: tool, Args: a}} }

// TestRemoteWorkers: workers in three languages serve tools: a read, one that takes its time
// and is cancelled, one with an effect; and they leave in order.
func TestRemoteWorkers(t *testing.T) {
	for name, c := range crafts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			w := c.start(t, b.url, b.file)
			for _, tool := range []string{c.read, c.slow, c.effect} {
				b.has(tool, true)
			}
			v := b.run(turn{Trace: "all", Turn: "t", Calls: []call{
				{Tool: c.read, Args: c.readArgs(3)},
				{Tool: c.slow, Args: c.slowArgs(4)},
				{Tool: c.effect, Args: args{"text": "x", "item": "x", "name": "x"}},
				{Tool: c.read, Args: args{"nonsense": 1}},
			}})
			v.Calls[0].is(t, "completed", "", "none")
			v.Calls[1].is(t, "completed", "", "none")
			v.Calls[2].is(t, "denied", "INVALID_PARAM", "")
			v.Calls[3].is(t, "denied", "INVALID_PARAM", "")
			if got := answers(t, v.Messages)[0].Content.Text; !strings.Contains(got, c.reads) {
				t.Errorf("the read says %q, want %s", got, c.reads)
			}
			if len(of(b.events("all", "t"), "progress", "1")) == 0 {
				t.Error("no progress is in the log")
			}
			effect := map[string]args{"go": {"name": "x"}, "python": {"text": "x"}, "node": {"item": "x"}}[name]
			b.run(turn{Trace: "effect", Turn: "t", Calls: one(c.effect, effect)}).Calls[0].is(t, "completed", "", "done")
			if n := stamped(t, b.file, "effect/t/0"); n != 1 {
				t.Errorf("the effect happened %d times", n)
			}

			b.submit(turn{Trace: "stop", Turn: "t", Calls: one(c.slow, c.slowArgs(3000))})
			b.until("stop", "t", "progress", "0")
			b.post("/v1/turns/stop/t/calls/0/cancel", nil)
			b.end("stop", "t").Calls[0].is(t, "cancelled", "", "none")
			if e := of(b.events("stop", "t"), "unknown", "0"); len(e) > 0 {
				t.Error("the worker has not confirmed the end")
			}

			b.submit(turn{Trace: "drain", Turn: "t", Calls: one(c.slow, c.slowArgs(8))})
			b.until("drain", "t", "progress", "0")
			w.signal(syscall.SIGTERM)
			b.end("drain", "t").Calls[0].is(t, "completed", "", "none")
			if code := w.wait(t); code != 0 {
				t.Errorf("the worker's exit code is %d", code)
			}
			b.run(turn{Trace: "gone", Turn: "t", Calls: one(c.effect, effect)}).Calls[0].is(t, "failed", "EXECUTION_ERROR", "none")
			verified(t, b.place, b.node)
		})
	}
}

// TestRemoteWorkerIsKilled in the middle of calls: what only reads runs again at another
// worker, and of what may have had its effect nobody says that it had none.
func TestRemoteWorkerIsKilled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.worker()
	for trace, calls := range map[string][]call{
		"read": one("ticks", args{"until": "killed"}), "effect": one("stamp_blind", args{"name": "a", "until": "killed"}),
		"probed": one("stamp", args{"name": "b", "until": "killed"}), "keyed": one("stamp_keyed", args{"name": "c", "until": "killed"}),
	} {
		b.submit(turn{Trace: trace, Turn: "t", Calls: calls})
		b.until(trace, "t", "started", "0")
	}
	poll(t, "three effects have happened", func() bool { return len(stamps(t, b.file)) == 3 })
	b.until("read", "t", "progress", "0")
	first.kill()
	b.open("killed")
	second := b.worker()
	read, effect, probed, keyed := b.end("read", "t"), b.end("effect", "t"), b.end("probed", "t"), b.end("keyed", "t")
	read.Calls[0].is(t, "completed", "", "none")
	keyed.Calls[0].is(t, "completed", "", "done")
	probed.Calls[0].is(t, "completed", "", "done")
	effect.Calls[0].is(t, "unknown", "", "possible")
	if got := chain(b.events("read", "t"), "0"); got != "started 1, retrying, started 2, completed" {
		t.Errorf("a read: %s", got)
	}
	if a := answers(t, effect.Messages)[0]; a.Answer != "unknown" || a.Content.Error.Code != "UNKNOWN_OUTCOME" {
		t.Errorf("the model is told %+v", a)
	}
	for call, want := range map[string]int{"effect/t/0": 1, "probed/t/0": 1, "keyed/t/0": 2} {
		if n := stamped(t, b.file, call); n != want {
			t.Errorf("%s has begun %d times, want %d", call, n, want)
		}
	}
	keys := map[string]bool{}
	for _, e := range stamps(t, b.file) {
		if e.Call == "keyed/t/0" {
			keys[e.Key] = true
		}
	}
	if len(keys) != 1 || keys[""] {
		t.Errorf("the attempts of one call had the keys %v", keys)
	}

	status, body := b.ask(http.MethodPost, "/v1/turns/keyed/t/calls/0/compensate", args{"wait_ms": patience.Milliseconds()})
	if status != http.StatusOK {
		t.Errorf("undo: %d %s", status, body)
	}
	if e := of(b.events("keyed", "t"), "compensated", "0"); len(e) != 1 || !strings.Contains(string(e[0].Data), `unstamped {\"key\"`) {
		t.Errorf("the undo is %v", e)
	}
	second.kill()
	verified(t, b.place, b.node)
}

// TestRemoteNodeIsKilled: the node dies with calls at a worker that lives on. The next one
// knows the tools before the worker is back, and asks it what became of them.
func TestRemoteNodeIsKilled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.worker()
	b.submit(turn{Trace: "read", Turn: "t", Calls: one("ticks", args{"until": "killed"})})
	b.submit(turn{Trace: "probed", Turn: "t", Calls: one("stamp", args{"name": "a", "until": "never"})})
	b.submit(turn{Trace: "blind", Turn: "t", Calls: one("stamp_blind", args{"name": "b", "until": "never"})})
	b.submit(turn{Trace: "keyed", Turn: "t", Calls: one("stamp_keyed", args{"name": "c", "until": "killed"})})
	b.until("read", "t", "progress", "0")
	poll(t, "three effects have happened", func() bool { return len(stamps(t, b.file)) == 3 })
	b.kill()
	b.open("killed")
	b.again()
	b.end("probed", "t").Calls[0].is(t, "completed", "", "done")
	b.end("blind", "t").Calls[0].is(t, "unknown", "UNKNOWN_OUTCOME", "possible")
	b.end("read", "t").Calls[0].is(t, "completed", "", "none")
	b.end("keyed", "t").Calls[0].is(t, "completed", "", "done")
	for trace, want := range map[string]string{
		"read": "started 1, recovered restart, started 2, completed", "probed": "started 1, recovered probe, completed",
		"blind": "started 1, recovered unknown, unknown", "keyed": "started 1, recovered restart, started 2, completed",
	} {
		if got := chain(b.events(trace, "t"), "0"); got != want {
			t.Errorf("%s: %s; want %s", trace, got, want)
		}
	}
	if n := stamped(t, b.file, "probed/t/0") + stamped(t, b.file, "blind/t/0"); n != 2 {
		t.Errorf("two irreversible effects happened %d times", n)
	}
	verified(t, b.place, b.node)
}

// TestRemoteWorkersShare: several workers of a tool share its calls; each runs once, also
// while one of them comes, goes and stands still.
func TestRemoteWorkersShare(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.worker()
	second := goWorker(t, b.url, "worker", b.file)
	b.seats("stamp", 2)
	var calls []call
	for i := range 40 {
		calls = append(calls, call{Tool: "stamp", Args: args{"name": fmt.Sprint(i)}})
	}
	v := b.run(turn{Trace: "many", Turn: "t", Calls: calls, Disjoint: true})
	by := map[int]int{}
	for _, e := range stamps(t, b.file) {
		by[e.Pid]++
	}
	for i, c := range v.Calls {
		c.is(t, "completed", "", "done")
		if n := stamped(t, b.file, fmt.Sprintf("many/t/%d", i)); n != 1 {
			t.Errorf("call %d has run %d times", i, n)
		}
	}
	if len(by) != 2 || len(stamps(t, b.file)) != 40 {
		t.Errorf("the calls ran as %v", by)
	}
	first.signal(syscall.SIGSTOP) // it still is in the queue group, and answers nothing
	defer first.signal(syscall.SIGCONT)
	v = b.run(turn{Trace: "stopped", Turn: "t", Calls: calls[:6], Disjoint: true})
	for _, c := range v.Calls {
		c.is(t, "completed", "", "done")
	}
	first.signal(syscall.SIGCONT)
	second.signal(syscall.SIGTERM)
	second.wait(t)
	b.run(turn{Trace: "left", Turn: "t", Calls: calls[:2]}).Calls[1].is(t, "completed", "", "done")
	for i := range 6 { // what the one that stood still was offered, it was told not to begin
		if n := stamped(t, b.file, fmt.Sprintf("stopped/t/%d", i)); n != 1 {
			t.Errorf("call %d has run %d times", i, n)
		}
	}
	verified(t, b.place, b.node)
}

// TestRemoteLargeAndAsking: what no message can hold, both ways, and a tool that asks a person.
func TestRemoteLargeAndAsking(t *testing.T) {
	t.Parallel()
	b := newBench(t, "--remote-tiers", "declared")
	b.worker()
	v := b.run(turn{Trace: "large", Turn: "t", Calls: one("sized", args{"size": 3_000_000, "text": strings.Repeat("x", 900_000)})})
	v.Calls[0].is(t, "completed", "", "none")
	a := answers(t, v.Messages)[0]
	if string(a.Content.Data) != `{"heard":900000}` || v.Calls[0].Whole == nil || v.Calls[0].Whole.Size != 3_000_000 {
		t.Errorf("a large answer came as %d bytes, data %s, whole %+v", len(a.Content.Text), a.Content.Data, v.Calls[0].Whole)
	}
	b.submit(turn{Trace: "form", Turn: "t", CanAsk: true, Calls: one("formal", args{"name": "it"})})
	b.until("form", "t", "input_requested", "0")
	b.post("/v1/turns/form/t/calls/0/answer", args{"asking": 1, "answers": []args{{"id": "sign", "action": "accept", "content": args{"by": "ann"}}}})
	v = b.end("form", "t")
	v.Calls[0].is(t, "completed", "", "none")
	if got := answers(t, v.Messages)[0].Content.Text; got != `asked it: accept {"by":"ann"}` {
		t.Errorf("the tool went on with %q", got)
	}
	verified(t, b.place, b.node)
}

// TestRemoteWorkerIsRefused: a worker with another token says why the server does not let
// it in, and ends.
func TestRemoteWorkerIsRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	n := p.serve("--nats-token", "tok")
	w := pythonWorker(t, strings.Replace(n.NATS, "nats://", "nats://other@", 1), filepath.Join(p.work, "notes.jsonl"))
	if code := w.wait(t); code != 1 || !strings.Contains(w.said.String(), "NATS says Authorization Violation") || !strings.Contains(w.log.String(), "the URL needs its token") {
		t.Errorf("exit %d: %s%s", code, w.said.String(), w.log.String())
	}
}

// TestRemoteRegistration: whose word counts, who may have a name, and how an operator sees it.
func TestRemoteRegistration(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	n := p.serve("--nats-token", "tok", "--remote-gone", "10s")
	b := &bench{node: n, t: t, url: strings.Replace(n.NATS, "nats://", "nats://tok@", 1), file: filepath.Join(p.work, "stamps.jsonl")}
	w := b.worker()
	v := b.run(turn{Trace: "tier", Turn: "t", CanAsk: true, Calls: one("sum", args{"a": 1})})
	if v.Calls[0].Tier != "irreversible" {
		t.Errorf("without the operator's word the tier is %s", v.Calls[0].Tier)
	}
	hostile := b.stranger("eve")
	hostile.here("Bash", `{"schema":{"type":"object"},"tier":"readonly"}`)
	hostile.here("sum", `{"schema":{"type":"object"},"tier":"readonly","description":"another one"}`)
	hostile.here("broken", `{"schema":{"type":"nonsense"}}`)
	hostile.here("toolarge", `{"schema":{"type":"object","description":"`+strings.Repeat("x", 200<<10)+`"}}`)
	hostile.here("compensate", `{"schema":{"type":"object"}}`)
	for _, body := range []string{"", "{}", "[", `{"v":1,"type":"here"}`, `{"v":99,"type":"here","tool":{}}`, strings.Repeat("[", 100_000)} {
		hostile.lines = append(hostile.lines, [2]string{"sluice.here.garbage.worker.eve", body})
	}
	for _, subject := range []string{"sluice.here.a.b", "sluice.here.a__b.worker.eve", "sluice.here._x.worker.eve", "sluice.here.a.=GG.eve", "sluice.here.a.worker.e_e"} {
		hostile.say(subject, `{"v":1,"type":"here","tool":{"schema":{}}}`)
	}
	for tool, why := range map[string]string{"Bash": "registered already", "sum": "another definition", "broken": "schema", "toolarge": "bytes", "compensate": "registered already", "garbage": "version"} {
		poll(t, "the other "+tool+" is refused: "+why, func() bool {
			hostile.repeat()
			for _, s := range b.seats(tool, 0) {
				if strings.HasSuffix(s.Worker, ".eve") && s.Status == "refused" && strings.Contains(s.Why, why) {
					return true
				}
			}
			return false
		})
	}
	if told := hostile.told("Bash"); !strings.Contains(told, `"status":"refused"`) {
		t.Errorf("the worker was told %s", told)
	}
	if got := b.run(turn{Trace: "bash", Turn: "t", CanAsk: true, Calls: one("Bash", args{"command": "echo mine"})}); got.Calls[0].State != "completed" {
		t.Errorf("Bash: %+v", got.Calls[0])
	}
	out := must(t, "workers", "--data", p.data)
	for _, part := range []string{"sum", "irreversible (declared readonly)", "is refused: another definition of sum stands"} {
		if !strings.Contains(out+verb(t, "", "workers", "--data", p.data).err, part) {
			t.Errorf("sluice-node workers does not say %q:\n%s", part, out)
		}
	}
	w.kill()
	hostile.leave()
	b.has("sum", false) // nobody has served it for long enough
	b.run(turn{Trace: "gone", Turn: "t", Calls: one("sum", args{"a": 1})}).Calls[0].is(t, "denied", "UNKNOWN_TOOL", "")
	verified(t, p, n)
}

// TestRemoteSurvivesHostileAnswers: a worker that lies, floods, answers twice and for others
// settles nothing but its own attempts, and the node goes on.
func TestRemoteSurvivesHostileAnswers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w := b.worker()
	for name, answer := range hostileAnswers {
		s := b.stranger("h-" + name)
		s.serve("lie_"+name, answer)
		b.has("lie_"+name, true)
	}
	for name := range hostileAnswers {
		b.submit(turn{Trace: "lie-" + name, Turn: "t", Calls: one("lie_"+name, args{})})
	}
	good := b.run(turn{Trace: "good", Turn: "t", Calls: one("sum", args{"a": 1})})
	good.Calls[0].is(t, "completed", "", "none")
	for name := range hostileAnswers {
		v := b.end("lie-"+name, "t")
		switch c := v.Calls[0]; name {
		case "twice", "parts":
			c.is(t, "completed", "", "done")
		case "early":
			c.is(t, "failed", "", "none")
		default:
			if c.Effects != "possible" || c.State == "completed" {
				t.Errorf("%s: %+v", name, c)
			}
		}
	}
	w.signal(syscall.SIGTERM)
	w.wait(t)
	verified(t, b.place, b.node)
}

// TestRemoteWorkerHasItsOwnUser: a worker's permissions are for its tools alone, and nothing
// that it says makes a node publish elsewhere.
func TestRemoteWorkerHasItsOwnUser(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	users := p.natsUsersWith("  - {name: w1, kind: service, roles: [worker], tools: [sum, ticks, sized, formal, stamp, stamp_blind, stamp_keyed], password: %q}\n" +
		"  - {name: w2, kind: service, roles: [worker], tools: [other], password: %q}\n")
	n := p.serve("--nats-users", users, "--remote-tiers", "declared")
	b := &bench{node: n, t: t, file: filepath.Join(p.work, "stamps.jsonl")}
	b.url = strings.Replace(n.NATS, "nats://", "nats://w1:pw-w1@", 1)
	w := goWorker(t, b.url, "w1", b.file)
	b.goTools()
	b.run(turn{Trace: "own", Turn: "t", Calls: one("sum", args{"a": 1})}).Calls[0].is(t, "completed", "", "none")
	b.url = strings.Replace(n.NATS, "nats://", "nats://w2:pw-w2@", 1)
	s := b.stranger("x")
	for _, subject := range []string{
		"sluice.here.sum.w2.x", "sluice.here.other.w1.x", "sluice.here.other.worker.x", "sluice.tool.sum", "sluice.worker.w1.x", "sluice.workers",
		"sluice.ev.a.b", "sluice.api.ann.approve", "_INBOX._node.x", "$JS.API.INFO", "sluice.live.completed.x.a.b.0",
	} {
		s.refused(subject)
	}
	for _, subject := range []string{"sluice.tool.sum", "sluice.tool.other", "sluice.worker.w1.>", "sluice.answer.>", "sluice.here.>", "sluice.>", "_INBOX.>"} {
		s.deaf(subject)
	}
	s.user = "w2"
	s.here("other", `{"schema":{"type":"object"},"tier":"readonly"}`)
	b.has("other", true)
	w.signal(syscall.SIGTERM)
	w.wait(t)
	verified(t, p, n)
}

// TestRemoteDefinitionsTakeTurns: workers of a new definition wait until those of the old
// one have left, and no call is lost between them.
func TestRemoteDefinitionsTakeTurns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	old, next := b.stranger("old"), b.stranger("next")
	old.serve("saw", func(s *stranger, m map[string]any, say func(any)) { say(okAnswer(m, "by the old one")) })
	b.has("saw", true)
	next.version = "2"
	next.serve("saw", func(s *stranger, m map[string]any, say func(any)) { say(okAnswer(m, "by the next one")) })
	poll(t, "the next one waits", func() bool { return strings.Contains(next.told("saw"), `"status":"refused"`) })
	for i := range 8 { // both are in the queue group
		v := b.run(turn{Trace: "before", Turn: fmt.Sprint(i), Calls: one("saw", args{})})
		if got := answers(t, v.Messages)[0].Content.Text; got != "by the old one" {
			t.Errorf("call %d was done %q: %+v", i, got, v.Calls[0])
		}
	}
	old.leave()
	poll(t, "the next one serves", func() bool { return strings.Contains(next.told("saw"), `"status":"serving"`) })
	v := b.run(turn{Trace: "after", Turn: "t", Calls: one("saw", args{})})
	if got := answers(t, v.Messages)[0].Content.Text; got != "by the next one" {
		t.Errorf("done %q: %+v", got, v.Calls[0])
	}
	verified(t, b.place, b.node)
}

func okAnswer(m map[string]any, text string) any {
	return args{"v": 1, "type": "result", "id": m["id"], "seq": 1, "result": args{"text": text}}
}

// hostileAnswers are what a worker that has an attempt says: m is the go.
var hostileAnswers = map[string]func(s *stranger, m map[string]any, say func(any)){
	"twice": func(s *stranger, m map[string]any, say func(any)) {
		for i := range 5 {
			say(okAnswer(m, fmt.Sprint("answer ", i)))
		}
	},
	"silent": func(*stranger, map[string]any, func(any)) {},
	"others": func(s *stranger, m map[string]any, say func(any)) { // for attempts that it does not have
		say(args{"v": 1, "type": "result", "id": "another", "seq": 1, "result": args{"text": "forged"}})
	},
	"garbage": func(s *stranger, m map[string]any, say func(any)) {
		for _, v := range []any{nil, 1, "x", []any{}, args{"type": "result"}, args{"id": m["id"], "type": "fly"}, json.RawMessage(strings.Repeat("[", 5000))} {
			say(v)
		}
	},
	"flood": func(s *stranger, m map[string]any, say func(any)) {
		for range 200 {
			say(args{"v": 1, "type": "progress", "id": m["id"], "seq": 1, "text": strings.Repeat("x", 700_000)})
		}
	},
	"parts": func(s *stranger, m map[string]any, say func(any)) {
		whole, _ := json.Marshal(okAnswer(m, "in parts"))
		for _, p := range [][2]int{{1, 2}, {2, 3}, {1, 2}, {2, 2}} { // the second continues nothing
			half := whole[:len(whole)/2]
			if p[0] == 2 {
				half = whole[len(whole)/2:]
			}
			say(args{"v": 1, "type": "part", "id": m["id"], "seq": 1, "part": p[0], "parts": p[1], "data": half})
		}
	},
	"huge": func(s *stranger, m map[string]any, say func(any)) {
		for i := range 60 {
			say(args{"v": 1, "type": "part", "id": m["id"], "seq": 1, "part": i + 1, "parts": 1000, "data": make([]byte, 512<<10)})
		}
	},
	"early": nil, // see stranger.serve: it answers the offer with a result
}
