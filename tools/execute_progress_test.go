package tools_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// TestProgressIsCoalesced: a tool that talks all the time is heard four times a
// second, with its newest word, and never waits for the one who listens.
func TestProgressIsCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type heard struct {
			At   time.Duration
			Text string
		}
		var got []heard
		began := time.Now()
		slow := func(p events.Progress) {
			if p.Attempt != 2 {
				t.Errorf("attempt %d", p.Attempt)
			}
			got = append(got, heard{time.Since(began), p.Text})
			<-time.After(97 * time.Millisecond)
		}
		r := execute(t, toolOf(events.Readonly, func(_ context.Context, in tools.Invocation) (events.Result, error) {
			for i := range 100 {
				in.Progress(events.Progress{Attempt: 99, Text: fmt.Sprint(i)})
				<-time.After(10 * time.Millisecond)
			}
			if took := time.Since(began); took != time.Second {
				t.Errorf("the tool took %s: it waited", took)
			}
			return text("x"), nil
		}), tools.Options{Progress: slow})
		want := []heard{{0, "0"}, {347 * time.Millisecond, "34"}, {694 * time.Millisecond, "69"}}
		if d := cmp.Diff(want, got); d != "" || r.Class != events.ClassOK {
			t.Errorf("%s (-want +got):\n%s", r.Class, d)
		}
	})
}

func TestProgressEndsWithTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := false
		tool := toolOf(events.Readonly, func(_ context.Context, in tools.Invocation) (events.Result, error) {
			for range 30 {
				in.Progress(events.Progress{Text: "still here"})
				<-time.After(100 * time.Millisecond)
			}
			return text("x"), nil
		})
		tool.Limits.Wall = time.Second
		execute(t, tool, tools.Options{Progress: func(events.Progress) {
			if over {
				t.Error("progress of an attempt that is over")
			}
		}})
		over = true
		<-time.After(time.Minute)
	})
}

func TestProgressIsMadeStorable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got events.Progress
		execute(t, toolOf(events.Readonly, func(_ context.Context, in tools.Invocation) (events.Result, error) {
			in.Progress(events.Progress{Text: "\xff\x00" + strings.Repeat("界", 10_000), Done: math.NaN(), Total: math.Inf(1)})
			<-time.After(time.Second)
			return text("x"), nil
		}), tools.Options{Progress: func(p events.Progress) { got = p }})
		if got.Done != 0 || got.Total != 0 || !utf8.ValidString(got.Text) || len(got.Text) > 512 || strings.Contains(got.Text, "\x00") {
			t.Errorf("%+v", got)
		}
	})
}
