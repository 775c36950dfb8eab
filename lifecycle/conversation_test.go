package lifecycle_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

var rewrite = flag.Bool("rewrite", false, "rewrite testdata/*.txt with what happens now; commit only lines that you can explain")

// TestConversations talks to one turn a file. A paragraph is commands, a line of
// dashes, and what they led to: events, refusals, and what is due afterwards.
//
// The commands are the cases of speaker.say; a call is named by its offset, and
// "n1/1:" before a command makes boot n1 of epoch 1 send it.
func TestConversations(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d conversations, want at least 20: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld()
			got := converse(t, w, string(want))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			} else if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("%s (-want +got; -rewrite accepts it):\n%s", file, d)
			}
			everyPrefix(t, w.key, w.log)
		})
	}
}

// converse runs a file's commands and returns the file as it should be.
func converse(t *testing.T, w *world, file string) string {
	t.Helper()
	sp := &speaker{world: w}
	var paragraphs []string
	for p := range strings.SplitSeq(strings.TrimSpace(file), "\n\n") {
		said, _, isCommand := strings.Cut(p, "\n----")
		if !isCommand {
			paragraphs = append(paragraphs, p)
			continue
		}
		sp.out = nil
		for line := range strings.SplitSeq(said, "\n") {
			if !strings.HasPrefix(line, "#") {
				sp.line(t, line)
			}
		}
		for _, e := range lifecycle.Due(w.turn) {
			sp.print("due: %s", effectLine(e))
		}
		if len(w.log) > 0 {
			for _, v := range lifecycle.Laws(w.log) {
				t.Errorf("after %q: %s", said, v)
			}
		}
		paragraphs = append(paragraphs, strings.TrimRight(said+"\n----\n"+strings.Join(sp.out, "\n"), "\n"))
	}
	return strings.Join(paragraphs, "\n\n") + "\n"
}

// speaker says the commands of a conversation to a world.
type speaker struct {
	*world
	out []string
}

func (s *speaker) print(format string, args ...any) {
	s.out = append(s.out, fmt.Sprintf(format, args...))
}

// line says one command, for the last claimer or for who is named before it.
func (s *speaker) line(t *testing.T, line string) {
	t.Helper()
	by, named := s.me, false
	if who, rest, ok := strings.Cut(line, ": "); ok && strings.Contains(who, "/") {
		boot, epoch, _ := strings.Cut(who, "/")
		n, err := strconv.Atoi(epoch)
		if err != nil {
			t.Fatalf("%q: want boot/epoch", who)
		}
		by, line, named = events.Owner{Boot: boot, Epoch: uint32(n)}, rest, true
	}
	words := strings.Fields(line)
	a := &arguments{words: words[1:]}
	commands, err := s.say(words[0], a)
	if err == nil && len(a.words) > 0 {
		err = fmt.Errorf("nobody understands %q", a.words)
	}
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	for _, c := range commands {
		cmd := c(s.turn)
		if !named && ofDoors(cmd) {
			by = events.Owner{}
		}
		s.tell(by, cmd)
	}
}

// ofDoors says whether doors and persons send such a command.
func ofDoors(cmd lifecycle.Command) bool {
	switch cmd.(type) {
	case lifecycle.Submit, lifecycle.Approve, lifecycle.Reject, lifecycle.Answer, lifecycle.CancelCall, lifecycle.CancelTurn,
		lifecycle.Resolve, lifecycle.Undone, lifecycle.Note:
		return true
	}
	return false
}

// tell says one command and prints what it led to.
func (s *speaker) tell(by events.Owner, cmd lifecycle.Command) {
	records, err := s.do(by, cmd)
	for _, r := range records {
		s.print("%s", eventLine(r))
	}
	switch {
	case err != nil:
		s.print("refused: %s", strings.TrimPrefix(err.Error(), "turn "+s.key.String()+": "))
	case len(records) == 0:
		s.print("(nothing)")
	}
}

// later is a command that is made once the ones before it are done.
type later func(lifecycle.Turn) lifecycle.Command

func now(c lifecycle.Command) []later {
	return []later{func(lifecycle.Turn) lifecycle.Command { return c }}
}

var person = events.Principal{ID: "ann", Kind: "person"}

// say is the language.
func (s *speaker) say(word string, a *arguments) ([]later, error) {
	switch word {
	case "submit":
		return s.submit(a)
	case "tick":
		d, err := time.ParseDuration(a.next())
		s.now = s.now.Add(d)
		return nil, err
	case "answers":
		s.answers()
		return nil, nil
	case "claim":
		reply, _ := a.value("by")
		return now(lifecycle.Claim{Boot: a.next(), Drained: a.flag("drained"), Reply: reply}), nil
	case "finish": // by a node that does not serve the placement
		return now(lifecycle.Finish{Boot: a.next(), Retention: a.duration("retention")}), nil
	case "crash":
		return now(lifecycle.Claim{Boot: fmt.Sprint("n", s.me.Epoch+1)}), nil
	case "plan":
		inherited := events.Inherited{}
		if tool, ok := a.value("approved"); ok {
			name, offset, _ := strings.Cut(tool, "/")
			i, err := strconv.Atoi(offset)
			if err != nil {
				return nil, err
			}
			inherited.Session = []events.SessionYes{{Tool: name, Hash: facts(s.turn)[i].Hash, ToolVersion: "1", Policy: "p1", Principal: s.turn.Submitted.Principal}}
		}
		return now(lifecycle.Plan{Facts: facts(s.turn), Inherited: inherited, Policy: "p1"}), nil
	case "park":
		p := lifecycle.Park{}
		if d := a.duration("for"); d > 0 {
			p.Until = s.now.Add(d)
		}
		p.Keys = a.offsets(len(s.turn.Calls))
		return now(p), nil
	case "advance":
		return now(lifecycle.Advance{}), nil
	case "abandon":
		return now(lifecycle.Abandon{Reason: a.rest()}), nil
	case "note":
		return now(lifecycle.Note{Event: &events.ModelStarted{Model: a.next()}}), nil
	}
	return s.sayOfCalls(word, a)
}

// sayOfCalls is the part of the language that begins with offsets.
func (s *speaker) sayOfCalls(word string, a *arguments) ([]later, error) {
	if word == "cancel" && a.flag("turn") {
		return now(lifecycle.CancelTurn{By: person, Reason: a.rest()}), nil
	}
	calls := a.offsets(len(s.turn.Calls))
	if len(calls) == 0 {
		return nil, fmt.Errorf("nobody understands %q without a call", word)
	}
	one, err := s.ofCall(word, a)
	if one == nil && err == nil {
		err = fmt.Errorf("nobody understands %q", word)
	}
	var out []later
	for _, i := range calls {
		out = append(out, func(t lifecycle.Turn) lifecycle.Command { return one(t, i) })
	}
	return out, err
}

type ofCall func(t lifecycle.Turn, call int) lifecycle.Command

func (s *speaker) ofCall(word string, a *arguments) (ofCall, error) {
	switch word {
	case "judge":
		return s.judge(a)
	case "begin":
		return s.begin(a)
	case "settle":
		return s.settle(a)
	case "probe":
		found, failed := a.flag("found"), a.flag("failed")
		if !found && !failed && !a.flag("none") {
			return nil, errors.New("say found, none or failed")
		}
		n := a.number("attempt")
		return func(t lifecycle.Turn, i int) lifecycle.Command {
			return lifecycle.Probed{Call: i, Attempt: or(n, attemptOf(t, i)), Found: found, Failed: failed, Result: text("as the probe found it")}
		}, nil
	case "tell":
		n, text := a.number("attempt"), a.rest()
		return func(t lifecycle.Turn, i int) lifecycle.Command {
			return lifecycle.Tell{Call: i, Progress: events.Progress{Attempt: or(n, attemptOf(t, i)), Text: text}}
		}, nil
	case "expire":
		return func(_ lifecycle.Turn, i int) lifecycle.Command { return lifecycle.Expire{Call: i} }, nil
	}
	return s.byOthers(word, a)
}

// byOthers are the commands that anyone may send.
func (s *speaker) byOthers(word string, a *arguments) (ofCall, error) {
	switch word {
	case "approve":
		return s.approve(a)
	case "answer":
		return s.answer(a), nil
	case "reject":
		by, asking := decider(a), a.number("asking")
		note := a.rest()
		return func(_ lifecycle.Turn, i int) lifecycle.Command {
			return lifecycle.Reject{Call: i, By: by, Asking: asking, Note: note}
		}, nil
	case "cancel":
		why := a.rest()
		return func(_ lifecycle.Turn, i int) lifecycle.Command {
			return lifecycle.CancelCall{Call: i, By: person, Reason: why}
		}, nil
	case "late":
		return s.late(a)
	case "resolve":
		e := events.Effects(a.next())
		return func(_ lifecycle.Turn, i int) lifecycle.Command {
			return lifecycle.Resolve{Call: i, By: person, Effects: e}
		}, nil
	case "undo":
		return func(_ lifecycle.Turn, i int) lifecycle.Command {
			return lifecycle.Undone{Call: i, By: person, Result: text("undone")}
		}, nil
	}
	return nil, nil
}

func (s *speaker) submit(a *arguments) ([]later, error) {
	sub := events.TurnSubmitted{
		Principal: events.Principal{ID: "agent"}, CanAsk: !a.flag("nobody"), Disjoint: a.flag("disjoint"),
	}
	if p, ok := a.value("as"); ok {
		sub.Principal.ID = p
	}
	if a.flag("abort_rest") {
		sub.OnError = events.OnErrorAbortRest
	}
	if a.flag("read_only") {
		sub.Mode = events.ModeRead
	}
	if from, ok := a.value("imported"); ok {
		sub.Imported = from
	}
	sub.Limits.Concurrency = a.number("concurrency")
	sub.Limits.DeadlineMS = a.duration("deadline").Milliseconds()
	sub.Limits.CallMS = a.duration("call").Milliseconds()
	for i, w := range a.take() {
		sub.Calls = append(sub.Calls, writtenCall(i, w))
	}
	return now(lifecycle.Submit{Turn: sub}), nil
}

// writtenCall reads tool[:on][#key][!][~CODE]: what it works on, its key, that it
// does not parse, and why its door refuses it.
func writtenCall(i int, w string) events.RawCall {
	w, code, refused := strings.Cut(w, "~")
	w, broken := strings.CutSuffix(w, "!")
	w, key, _ := strings.Cut(w, "#")
	tool, on, _ := strings.Cut(w, ":")
	c := rawCall(i, tool, on, key)
	if broken {
		c.Args.Text = `{"n":`
	}
	if refused {
		c.Refused = &events.Refusal{Code: events.Code(code), Reason: "its message was cut: send less"}
	}
	return c
}

func (s *speaker) judge(a *arguments) (ofCall, error) {
	say, err := a.finding()
	return func(t lifecycle.Turn, i int) lifecycle.Command {
		if t.Call(i) == nil {
			return lifecycle.Judge{Call: i}
		}
		j := judged(t, t.Call(i))
		if say.Gate != "" {
			j.Findings = ruled(lifecycle.PlanGates, say)
		}
		return j
	}, err
}

func (s *speaker) begin(a *arguments) (ofCall, error) {
	say, err := a.finding()
	other, version, tier := a.flag("other"), a.number("version"), a.flag("stricter")
	changed := a.flag("changed")
	return func(t lifecycle.Turn, i int) lifecycle.Command {
		if t.Call(i) == nil {
			return lifecycle.Begin{Call: i}
		}
		b := begun(t, t.Call(i))
		if say.Gate != "" {
			b.Findings = ruled(lifecycle.StartGates, say)
		}
		if other {
			b.Verdict.Hash = "sha256:other"
		}
		if tier {
			b.Verdict.Tier = events.Approval
		}
		if version > 0 {
			b.Verdict.ToolVersion = strconv.Itoa(version)
		}
		if changed {
			b.Looked, b.Operands = true, []events.Seen{{Path: "s.sh", Digest: "sha256:changed", Size: 3}}
		}
		return b
	}, err
}

func (s *speaker) settle(a *arguments) (ofCall, error) {
	c := lifecycle.Settle{Attempt: a.number("attempt"), After: a.duration("after"), Run: 3 * time.Millisecond}
	c.Answered, c.Confirmed = !a.flag("unanswered"), !a.flag("unconfirmed")
	if e, ok := a.value("effects"); ok {
		c.Effects = events.Effects(e)
	}
	if a.flag("found") {
		r := text("as the probe found it")
		c.Found = &r
	}
	if pid := a.number("pid"); pid > 0 {
		c.Pids = []int{pid}
	}
	c.Class = events.Class(a.next())
	c.Result = text("done")
	if c.Class == events.ClassInput {
		c.Asks, c.Result = anAsking(a), events.Result{Status: events.Success}
	} else if c.Class != events.ClassOK {
		c.Result = events.Result{Status: events.Failure, Error: &events.Error{Code: events.ExecutionError, Message: string(c.Class)}}
	}
	return func(t lifecycle.Turn, i int) lifecycle.Command {
		one := c
		one.Call, one.Attempt = i, or(c.Attempt, attemptOf(t, i))
		return one
	}, nil
}

// anAsking is what a tool asks: one form, or with pages=N so many pages to visit.
func anAsking(a *arguments) *lifecycle.Asks {
	out := &lifecycle.Asks{State: "s", Expire: time.Hour}
	if a.flag("nested") {
		out.Requests = []events.InputRequest{{ID: "q", Kind: events.InputForm, Schema: []byte(`{"properties":{"a":{"type":"object"}}}`)}}
		return out
	}
	pages := a.number("pages")
	for i := range pages {
		out.Requests = append(out.Requests, events.InputRequest{ID: fmt.Sprint("p", i), Kind: events.InputURL, URL: "https://example.com/"})
	}
	if pages == 0 {
		schema := `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`
		out.Requests = []events.InputRequest{{ID: "q", Kind: events.InputForm, Message: "who?", Schema: []byte(schema)}}
	}
	return out
}

// answer says accept, decline or cancel to all that is asked, or to=ID to that alone.
func (s *speaker) answer(a *arguments) ofCall {
	by, round := decider(a), a.number("round")
	to, only := a.value("to")
	content, given := a.value("content")
	action := a.next()
	return func(t lifecycle.Turn, i int) lifecycle.Command {
		cmd := lifecycle.Answer{Call: i, By: by, Round: round}
		c := t.Call(i)
		if c == nil || c.Input == nil {
			return cmd
		}
		for _, r := range c.Input.Requests {
			if only {
				r.ID = to
			}
			one := events.InputAnswer{ID: r.ID, Action: action}
			switch {
			case given:
				one.Content = []byte(content)
			case action == events.InputAccept && r.Kind == events.InputForm:
				one.Content = []byte(`{"name":"ann"}`)
			}
			cmd.Answers = append(cmd.Answers, one)
		}
		return cmd
	}
}

// decider is who answers: ann, unless by= and kind= say otherwise.
func decider(a *arguments) events.Principal {
	who := person
	if by, ok := a.value("by"); ok {
		who.ID = by
	}
	if kind, ok := a.value("kind"); ok {
		who.Kind = strings.TrimPrefix(kind, "none")
	}
	return who
}

func (s *speaker) approve(a *arguments) (ofCall, error) {
	c := lifecycle.Approve{By: decider(a), Asking: a.number("asking")}
	if a.flag("session") {
		c.Scope = events.ScopeSession
	}
	c.Hash, _ = a.value("hash")
	if raw, ok := a.value("args"); ok {
		args, err := lifecycle.Parse(raw)
		if err != nil {
			return nil, err
		}
		c.Args = &args
	}
	return func(_ lifecycle.Turn, i int) lifecycle.Command {
		one := c
		one.Call = i
		return one
	}, nil
}

func (s *speaker) late(a *arguments) (ofCall, error) {
	from, _ := a.value("from")
	boot, epoch, _ := strings.Cut(from, "/")
	n, err := strconv.Atoi(epoch)
	if err != nil {
		return nil, fmt.Errorf("from=%q: want boot/epoch", from)
	}
	o := events.Outcome{Attempt: a.number("attempt"), Result: text("came late")}
	o.Effects = events.EffectsDone
	if e, ok := a.value("effects"); ok {
		o.Effects = events.Effects(e)
	}
	o.Class = events.Class(a.next())
	return func(_ lifecycle.Turn, i int) lifecycle.Command {
		return lifecycle.Late{Call: i, Owner: events.Owner{Boot: boot, Epoch: uint32(n)}, Outcome: o}
	}, nil
}

// answers prints what the model is told of each call now.
func (s *speaker) answers() {
	for i, c := range s.turn.Calls {
		a := lifecycle.AnswerOf(i, s.turn.Submitted.Calls[i], c.Terminal)
		line := fmt.Sprintf("answer %d %s", i, a.Standing)
		if a.Result.Error != nil {
			line += " " + string(a.Result.Error.Code)
		}
		if a.Of != "" {
			line += " of " + a.Of
		}
		s.print("%s", line)
	}
}

// attemptOf is the last attempt of a call, 0 where there is none or no such call.
func attemptOf(t lifecycle.Turn, i int) int {
	if c := t.Call(i); c != nil {
		return c.Attempt
	}
	return 0
}

func or(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// arguments are the words behind a command.
type arguments struct{ words []string }

func (a *arguments) next() string {
	if len(a.words) == 0 {
		return ""
	}
	w := a.words[0]
	a.words = a.words[1:]
	return w
}

func (a *arguments) take() []string {
	w := a.words
	a.words = nil
	return w
}

func (a *arguments) rest() string { return strings.Join(a.take(), " ") }

func (a *arguments) flag(name string) bool {
	i := slices.Index(a.words, name)
	if i >= 0 {
		a.words = slices.Delete(slices.Clone(a.words), i, i+1)
	}
	return i >= 0
}

func (a *arguments) value(name string) (string, bool) {
	i := slices.IndexFunc(a.words, func(w string) bool { return strings.HasPrefix(w, name+"=") })
	if i < 0 {
		return "", false
	}
	_, v, _ := strings.Cut(a.words[i], "=")
	a.words = slices.Delete(slices.Clone(a.words), i, i+1)
	return v, true
}

func (a *arguments) number(name string) int {
	v, ok := a.value(name)
	n, err := strconv.Atoi(v)
	if ok && err != nil {
		panic(err)
	}
	return n
}

func (a *arguments) duration(name string) time.Duration {
	v, ok := a.value(name)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		panic(err)
	}
	return d
}

// offsets are the numbers in front, or every call for "all".
func (a *arguments) offsets(calls int) []int {
	var out []int
	if a.flag("all") {
		for i := range calls {
			out = append(out, i)
		}
	}
	for len(a.words) > 0 {
		i, err := strconv.Atoi(a.words[0])
		if err != nil {
			break
		}
		out = append(out, i)
		a.next()
	}
	return out
}

// finding reads deny=gate:CODE, ask=gate, wait=gate and reuse=holder:kind.
func (a *arguments) finding() (lifecycle.Finding, error) {
	if v, ok := a.value("deny"); ok {
		gate, code, _ := strings.Cut(v, ":")
		return lifecycle.Finding{Gate: lifecycle.Gate(gate), Ruling: lifecycle.Deny, Code: events.Code(code), Reason: "it is forbidden"}, nil
	}
	if v, ok := a.value("ask"); ok {
		return lifecycle.Finding{Gate: lifecycle.Gate(v), Ruling: lifecycle.Ask, Reason: "the policy asks"}, nil
	}
	if v, ok := a.value("wait"); ok {
		return lifecycle.Finding{Gate: lifecycle.Gate(v), Ruling: lifecycle.Wait, Reason: "not now"}, nil
	}
	v, ok := a.value("reuse")
	if !ok {
		return lifecycle.Finding{}, nil
	}
	of, kind, _ := strings.Cut(v, ":")
	d := &events.Deduplicated{Of: of, Key: "k", As: events.Kind(kind), Outcome: events.Outcome{
		Attempt: 1, Class: events.ClassOK, Effects: events.EffectsDone, Result: text("of the first one"),
	}}
	if e, ok := a.value("effects"); ok {
		d.Outcome.Effects = events.Effects(e)
	}
	if d.As != events.KindCompleted {
		d.Outcome.Class, d.Outcome.Result = events.ClassTool, events.Result{Status: events.Failure}
	}
	return lifecycle.Finding{Gate: lifecycle.GateDedupe, Ruling: lifecycle.Reuse, Reuse: d}, nil
}
