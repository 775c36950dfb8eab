package tools_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// asker is a tool that ends with an error.
func asker(tier events.Tier, err error) tools.Tool {
	return tools.Tool{
		Spec: tools.Spec{Name: "asker", Tier: tier},
		Run:  func(context.Context, tools.Invocation) (events.Result, error) { return events.Result{}, err },
	}
}

// TestAToolAsks: an asking is an answer of the tool's, and no success; one that cannot be
// asked is its failure, and one behind a cancel is nothing.
func TestAToolAsks(t *testing.T) {
	page := events.InputRequest{ID: "q", Kind: events.InputURL, URL: "https://example.com/"}
	good := &tools.InputRequired{Requests: []events.InputRequest{page}, State: "s"}
	for _, c := range []struct {
		err     error
		tier    events.Tier
		class   events.Class
		effects events.Effects
		asks    bool
	}{
		{good, events.Irreversible, events.ClassInput, events.EffectsPossible, true},
		{fmt.Errorf("wrapped: %w", good), events.Readonly, events.ClassInput, events.EffectsNone, true},
		{&tools.InputRequired{}, events.Irreversible, events.ClassTool, events.EffectsPossible, false},
		{&tools.InputRequired{Requests: []events.InputRequest{page, page}}, events.Readonly, events.ClassTool, events.EffectsNone, false},
		{&tools.InputRequired{Requests: []events.InputRequest{page}, State: strings.Repeat("x", events.MaxInputState+1)}, events.Readonly, events.ClassTool, events.EffectsNone, false},
		{errors.New("no luck"), events.Readonly, events.ClassTool, events.EffectsNone, false},
	} {
		r := tools.Execute(t.Context(), asker(c.tier, c.err), tools.Invocation{}, tools.Options{})
		if r.Class != c.class || r.Effects != c.effects || (r.Input != nil) != c.asks {
			t.Errorf("%v: class %s, effects %s, input %v", c.err, r.Class, r.Effects, r.Input)
		}
		if _, ours := errors.AsType[*tools.InputRequired](c.err); ours && !r.Answered {
			t.Errorf("%v: the tool has not answered", c.err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	late := asker(events.Irreversible, good)
	late.Run = func(context.Context, tools.Invocation) (events.Result, error) {
		stop()
		return events.Result{}, good
	}
	if r := tools.Execute(ctx, late, tools.Invocation{}, tools.Options{}); r.Class != events.ClassCancelled || r.Input != nil {
		t.Errorf("behind a cancel: %+v", r)
	}
}
