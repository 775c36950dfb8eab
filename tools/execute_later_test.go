package tools

import (
	"context"
	"errors"
	"testing"

	"github.com/sluice-run/sluice/events"
)

func TestAnAnswerAfterTheEndIsEvidence(t *testing.T) {
	late := make(chan Report, 4)
	var say func(events.Result, error)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	slow := Tool{
		Spec: Spec{Name: "slow", Tier: events.Irreversible},
		Run: func(ctx context.Context, _ Invocation) (events.Result, error) {
			say = Later(ctx)
			stop()
			<-ctx.Done()
			return events.Result{}, ctx.Err()
		},
	}
	r := Execute(ctx, slow, Invocation{}, Options{Late: func(r Report) { late <- r }})
	if r.Class != events.ClassCancelled || r.Answered || !r.Confirmed {
		t.Fatalf("%+v", r)
	}
	say(events.Result{Text: events.Body{Text: "done after all"}}, nil)
	say(events.Result{Text: events.Body{Text: "twice"}}, nil)
	got := <-late
	if got.Class != events.ClassOK || !got.Answered || got.Effects != events.EffectsDone || got.Result.Text.Text != "done after all" {
		t.Errorf("%+v", got)
	}
	if len(late) != 0 {
		t.Error("the second word counted, too")
	}
}

func TestAnAnswerThatOvertakesTheEndWaitsForIt(t *testing.T) {
	late := make(chan Report, 1)
	tool := Tool{
		Spec: Spec{Name: "slow", Tier: events.Readonly},
		Run: func(ctx context.Context, _ Invocation) (events.Result, error) {
			Later(ctx)(events.Result{}, &Error{Message: "too late"})
			if len(late) != 0 {
				t.Error("told before the attempt was over")
			}
			return events.Result{}, context.Canceled
		},
	}
	r := Execute(t.Context(), tool, Invocation{}, Options{Late: func(r Report) { late <- r }})
	if r.Class != events.ClassCancelled {
		t.Errorf("%+v", r)
	}
	if got := <-late; got.Class != events.ClassTool || got.Result.Error == nil || got.Result.Error.Message != "too late" {
		t.Errorf("%+v", got)
	}
	Later(t.Context())(events.Result{}, nil) // of no attempt: nothing happens
}

func TestAToolKeepsWhatIsNotText(t *testing.T) {
	tool := Tool{
		Spec: Spec{Name: "picture", Tier: events.Readonly},
		Run: func(ctx context.Context, _ Invocation) (events.Result, error) {
			ref, err := KeepBlob(ctx, []byte{1, 2}, "image/png")
			return events.Result{Blobs: []events.BlobRef{ref}}, err
		},
	}
	keep := func(data []byte, media string) (events.BlobRef, error) {
		return events.BlobRef{Digest: "d", Media: media, Size: int64(len(data))}, nil
	}
	if r := Execute(t.Context(), tool, Invocation{}, Options{Keep: keep}); len(r.Result.Blobs) != 1 || r.Result.Blobs[0].Media != "image/png" {
		t.Errorf("%+v", r)
	}
	if r := Execute(t.Context(), tool, Invocation{}, Options{}); r.Class == events.ClassOK {
		t.Error("kept by nobody")
	}
	if _, err := KeepBlob(t.Context(), nil, ""); !errors.Is(err, ErrNotKept) {
		t.Error(err)
	}
}
