package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/replay/again"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
)

// shown is an app whose output can be read.
func shown() (a *app, out, errs *bytes.Buffer) {
	out, errs = &bytes.Buffer{}, &bytes.Buffer{}
	return &app{out: bufio.NewWriter(out), err: errs, set: newSettings()}, out, errs
}

// blank has no blobs.
type blank struct{ bus.Blobs }

func (blank) Get(context.Context, events.BlobRef) ([]byte, error) { return nil, bus.ErrNotFound }

// lawful is quick with arguments that hash as recorded.
func lawful(trace, turn, tool string) []events.Commit {
	commits := quick(trace, turn)
	const hash = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" // of {}
	for _, c := range commits {
		for _, r := range c.Records {
			switch e := r.Event.(type) {
			case *events.TurnSubmitted:
				e.Calls[0].Tool = tool
			case *events.Requested:
				e.Hash, e.Tool = hash, tool
			case *events.Authorized:
				e.Verdict.Hash = hash
			case *events.Started:
				e.Hash, e.Deadline = hash, c.At.Add(time.Minute)
			}
		}
	}
	return commits
}

func TestDecideSaysNothingThatATerminalObeys(t *testing.T) {
	evil := "x\x1b[2Jy\u202ez\r\nsluice-replay: error: no"
	commits := lawful("t", "u", evil)
	for _, r := range commits[1].Records {
		if a, ok := r.Event.(*events.Authorized); ok {
			a.Decision, a.Verdict.Policies = evil, []string{evil}
		}
	}
	a, out, errs := shown()
	d := &decider{app: a, notes: true, conf: again.Config{Policy: policy.Default(), Settings: again.Settings{Registered: func(string) bool { return false }}}}
	err := d.run(t.Context(), &reading{source: (&shelf{}).place(commits...), blobs: blank{}}, target{trace: "t", call: noCall})
	if flushed := a.out.Flush(); !errors.Is(err, errSaid) || flushed != nil {
		t.Fatal(err, flushed)
	}
	for _, c := range []string{"\x1b", "\u202e", "\r", "\nsluice-replay"} {
		if strings.Contains(out.String(), c) || strings.Contains(errs.String(), c) {
			t.Errorf("%q in %q, %q", c, out, errs)
		}
	}
	for _, want := range []string{`call 0: recorded authorized (x\u001b[2Jy\u202ez\u000d\u000asluice-replay: error: no), would decide authorized (allow)`, "not registered now: what is recorded of it is taken"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

// TestTurnsAreHandedOutWhole: however little is held, each turn comes whole, and once;
// what was added behind its end comes with it, later.
func TestTurnsAreHandedOutWhole(t *testing.T) {
	s := &shelf{}
	const n = 60
	for i := range n {
		s.place(lawful("t", fmt.Sprint("u", i), "Read")[0])
	}
	for i := range n {
		s.place(lawful("t", fmt.Sprint("u", i), "Read")[1])
	}
	late := lawful("t", "u3", "Read")[0]
	late.Records = []events.Record{{Call: events.TurnEvent, Seq: 5, Event: &events.ModelStarted{Model: "m"}}}
	s.place(late)
	for _, limit := range []int{1, 4 << 10, 60 << 10, openBytes} {
		counts, whole := map[string]int{}, map[string]bool{}
		var order []string
		r := newTurnReader(s, bus.Filter{}, func(damage) { t.Error("damage") }, func(key events.TurnKey, commits []bus.Stored, already int) error {
			counts[key.Turn]++
			if already > 0 {
				counts[key.Turn]--
			}
			want := 2
			if key.Turn == "u3" {
				want = 3
			}
			whole[key.Turn] = len(commits) == want
			order = append(order, key.Turn)
			return nil
		})
		r.limit = limit
		if err := r.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if k := fmt.Sprint("u", i); counts[k] != 1 || !whole[k] {
				t.Errorf("limit %d: turn %s came %d times, whole at last: %t", limit, k, counts[k], whole[k])
			}
		}
		if limit == openBytes && (len(order) != n || !slices.IsSortedFunc(order, byNumber)) {
			t.Errorf("with room for all they come as they began: %v", order)
		}
	}
}

func byNumber(a, b string) int { return len(a)*1000 - len(b)*1000 + strings.Compare(a, b) }

// TestTheSumCountsATurnOnce: also where something was added behind its end.
func TestTheSumCountsATurnOnce(t *testing.T) {
	d := &decider{sum: decided{Notes: map[string]int{}, Stopped: map[string]int{}}}
	r := again.Report{Events: 9, Decided: 8, Given: 1, Notes: []again.Note{{Kind: again.NoteCut}}, Stopped: &again.Stop{Kind: again.StopNewer}, Difference: &again.Difference{Position: events.Position{Generation: 1, Seq: 7}}}
	d.count(r, 1)
	d.count(r, -1)
	d.count(r, 1)
	if s := d.sum; s.Turns != 1 || s.Events != 9 || s.Decided != 8 || s.Given != 1 || s.Differences != 1 || s.First != "1.7.0" || s.words() != "1 difference, the first at 1.7.0; 1 turn stopped: newer; 1 note: cut" {
		t.Errorf("%+v: %s", s, s.words())
	}
}

func TestANodeIsAskedForItsTools(t *testing.T) {
	answer := `[{"name":"Read"},{"name":"mcp_files_read"}]`
	status := http.StatusOK
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/tools" {
			t.Errorf("asked for %s", r.URL)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	defer srv.Close()
	defer http.DefaultClient.CloseIdleConnections()
	names, err := toolNames(t.Context(), jetlog.Running{HTTP: srv.URL})
	if err != nil || !names["Read"] || !names["compensate"] || names["Write"] {
		t.Errorf("%v, %v", names, err)
	}
	answer = "no JSON"
	if _, err := toolNames(t.Context(), jetlog.Running{HTTP: srv.URL}); err == nil {
		t.Error("what is no list was taken for one")
	}
	status = http.StatusServiceUnavailable
	if _, err := toolNames(t.Context(), jetlog.Running{HTTP: srv.URL}); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("%v", err)
	}
}

func TestANodesSettingsCountWhereNoFlagSaysOtherwise(t *testing.T) {
	told := map[string]string{"network": "true", "workspace": "/w", "principals": "/p.yaml"}
	d := deciding{}
	d.asNode(told)
	if d.network.is == nil || !*d.network.is || d.workspace != "/w" || d.principals != "/p.yaml" {
		t.Errorf("%+v", d)
	}
	off := false
	d = deciding{network: tri{&off}, workspace: "/mine"}
	d.asNode(told)
	if *d.network.is || d.workspace != "/mine" {
		t.Errorf("%+v", d)
	}
	d = deciding{}
	if d.asNode(nil); d.network.is != nil {
		t.Errorf("%+v", d)
	}
}

func TestMoments(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"":                          {},
		"2026-11-30T08:15:00Z":      now.Add(-225 * time.Minute),
		"2026-11-30T09:15:00+01:00": now.Add(-225 * time.Minute),
		"2026-11-30T08:15":          now.Add(-225 * time.Minute),
		"2026-11-30 08:15":          now.Add(-225 * time.Minute),
		"2026-11-30":                now.Add(-12 * time.Hour),
		"90m":                       now.Add(-90 * time.Minute),
		"3d":                        now.Add(-72 * time.Hour),
		"0s":                        now,
	} {
		if got, err := parseWhen("since", text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"yesterday", "-2h", "-3d", "99999999999d", "d", "2026-13-01", "1.5d", "12:00"} {
		if got, err := parseWhen("since", text, now); err == nil || exit.Code(err, false) != exit.Usage {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}
