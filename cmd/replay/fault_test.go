package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/actors"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/replay/fault"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/fixture"
)

// allowAll lets every call through.
type allowAll struct{}

// Authorize is policy.Authorizer's.
func (allowAll) Authorize(policy.Request) policy.Verdict {
	return policy.Verdict{Decision: policy.Allow, Gate: "authorize", Version: "test"}
}

// Version is policy.Authorizer's.
func (allowAll) Version() string { return "test" }

// charged is a data directory in which a real node has recorded a turn that charges a
// customer, with a real tool, into the ledger.
func charged(t *testing.T, ledger string) string {
	t.Helper()
	dir := t.TempDir()
	ctx := context.Background()
	b, srv, err := jetlog.OpenEmbedded(ctx, jetlog.ServerConfig{Dir: dir}, jetlog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := fixture.Tools(fixture.Config{Ledger: ledger})
	if err != nil {
		t.Fatal(err)
	}
	registry, err := tools.NewRegistry(list...)
	if err != nil {
		t.Fatal(err)
	}
	node, err := actors.New(actors.Config{Bus: b, Registry: registry, Authorizer: allowAll{}, Boot: "real", Workspace: t.TempDir()})
	if err == nil {
		err = node.Start(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	desk := gateway.NewDesk(gateway.DeskConfig{Bus: b})
	_, view, err := desk.Run(ctx, events.TurnKey{Trace: "shop", Turn: "pay"}, events.TurnSubmitted{
		Principal: events.Principal{ID: "agent"},
		Calls: []events.RawCall{
			{ProviderID: "a", Tool: "charge", Args: events.Body{Text: `{"order":"o1","amount":12}`}},
			{ProviderID: "b", Tool: "echo", Args: events.Body{Text: `{"v":"thanks"}`}},
		},
	}, time.Minute)
	if err := errors.Join(err, node.Stop(ctx), b.Close(), srv.Close()); err != nil {
		t.Fatal(err)
	}
	if !view.Ended() || view.Turn.Calls[0].Last != events.KindCompleted || view.Turn.Calls[1].Last != events.KindCompleted {
		t.Fatalf("the turn was not run: %+v, %+v", view.Turn.Calls[0], view.Turn.Calls[1])
	}
	return dir
}

// TestFaultReachesNoTool: a trace with a charge is played hundreds of times, and the
// ledger that the real tool wrote stays as it is, to the byte.
func TestFaultReachesNoTool(t *testing.T) {
	ledger := filepath.Join(t.TempDir(), "ledger.jsonl")
	dir := charged(t, ledger)
	before, err := os.ReadFile(ledger)
	if err != nil || bytes.Count(before, []byte("\n")) != 1 {
		t.Fatalf("the ledger: %q, %v", before, err)
	}
	var out, errw strings.Builder
	code := run(t.Context(), []string{"fault", "--data", dir, "shop", "--all-pairs", "--all-kinds", "--json"}, strings.NewReader(""), &out, &errw)
	after, err := os.ReadFile(ledger)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the ledger has changed: %q, %v", after, err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var sum struct{ Total faultSum }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &sum); err != nil || code != 0 {
		t.Fatalf("exit status %d, %v\n%s", code, err, errw.String())
	}
	effects := 0
	for _, line := range lines[:len(lines)-1] {
		var r fault.Result
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if len(r.Effects) > 0 {
			effects += r.Effects[0].Effects
		}
	}
	if c := sum.Total.Counts; effects < 50 || c.Failed() > 0 || sum.Total.Cells != len(lines)-1 || sum.Total.Unlike > 0 {
		t.Errorf("%d scripted effects, %+v", effects, sum.Total)
	}
}
