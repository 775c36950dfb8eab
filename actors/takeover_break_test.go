package actors

import (
	"context"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

func TestProbeTakeover(t *testing.T) {
	l := memlog.New(memlog.Config{AckWait: 200 * time.Millisecond})
	ran := make(chan string, 10)
	mk := func(who string) tools.Tool {
		return testTool("charge", events.Irreversible, func(ctx context.Context, in tools.Invocation) (events.Result, error) {
			ran <- who
			<-ctx.Done()
			return events.Result{}, ctx.Err()
		})
	}
	reg, _ := tools.NewRegistry(mk("dead"))
	dead, err := New(Config{Bus: l.View("dead"), Registry: reg, Authorizer: lax{}, Boot: "dead", Workspace: t.TempDir(), Presence: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, kill := context.WithCancel(t.Context())
	if err := dead.Start(ctx); err != nil {
		t.Fatal(err)
	}
	b := l.View("door")
	k := submit(t, b, events.TurnSubmitted{Calls: calls("charge")})
	t.Log(<-ran)
	kill()
	stopNode(t, dead)
	testNode(t, l.View("b"), nil, mk("b"))
	turn := ended(t, b, k)
	wantLasts(t, turn, "unknown")
	select {
	case w := <-ran:
		t.Errorf("ran again on %s", w)
	default:
	}
}
