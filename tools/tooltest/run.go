package tooltest

import (
	"context"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// Bounds of the suite: how long a blocking example runs before it is ended, how
// soon a call must notice that it was ended before it began, and the output
// that a bounded tool may keep.
const (
	short = 150 * time.Millisecond
	soon  = 10 * time.Second
	small = 256
)

// examplesRun: each example ends as it says, with a result that can be stored.
func examplesRun(c *check) {
	c.each(func(e Example) {
		r := tools.Execute(c.ctx, c.tool, c.call(e), tools.Options{})
		switch {
		case !r.Confirmed:
			c.fault("%s: its end is not confirmed: %v", e.title(), r.Pids)
		case e.Asks && r.Class == events.ClassInput:
		case e.Asks:
			c.fault("%s: %s; it should ask a person", e.title(), said(r))
		case e.Fails == "" && r.Class != events.ClassOK:
			c.fault("%s: %s", e.title(), said(r))
		case e.Fails != "" && (r.Result.Error == nil || r.Result.Error.Code != e.Fails):
			c.fault("%s: %s; it should fail with %s", e.title(), said(r), e.Fails)
		}
		if _, err := json.Marshal(r.Result); err != nil || !utf8.ValidString(r.Result.Text.Text) {
			c.fault("%s: its result cannot be stored: %v", e.title(), err)
		}
	})
}

// deadlineIsObeyed: what goes on is ended by its deadline, in time, and is no
// success, whatever it had put out.
func deadlineIsObeyed(c *check) {
	c.blocking(func(e Example) {
		in := c.call(e)
		in.Deadline = time.Now().Add(short)
		c.overdue(e, tools.Execute(c.ctx, c.tool, in, tools.Options{Grace: soon}), events.ClassTimeout)
	})
	c.each(func(e Example) {
		ctx, cancel := context.WithDeadlineCause(c.ctx, time.Now().Add(-time.Second), tools.ErrDeadline)
		defer cancel()
		c.returns(ctx, e)
	})
}

// cancelIsObeyed: the same of a cancel.
func cancelIsObeyed(c *check) {
	c.blocking(func(e Example) {
		ctx, cancel := context.WithCancel(c.ctx)
		defer cancel()
		t := time.AfterFunc(short, cancel)
		defer t.Stop()
		c.overdue(e, tools.Execute(ctx, c.tool, c.call(e), tools.Options{Grace: soon}), events.ClassCancelled)
	})
	c.each(func(e Example) {
		ctx, cancel := context.WithCancel(c.ctx)
		cancel()
		c.returns(ctx, e)
	})
}

func (c *check) overdue(e Example, r tools.Report, class events.Class) {
	if r.Class != class || r.Result.Status != events.Failure || r.Answered {
		c.fault("%s: should have ended %s: %s", e.title(), class, said(r))
	}
	if !r.Confirmed {
		c.fault("%s: did not end %s after it should: %v", e.title(), soon, r.Pids)
	}
	tier := opinionOf(c.tool.Spec, json.RawMessage(e.Args)).Tier
	if r.Effects == events.EffectsDone || tier == events.Readonly && r.Effects != events.EffectsNone {
		c.fault("%s: tier %s, ended %s, and yet its effects are %s", e.title(), tier, class, r.Effects)
	}
}

// returns runs an example whose context has ended already: it may do its work
// or refuse, but must not wait.
func (c *check) returns(ctx context.Context, e Example) {
	in := c.call(e)
	done := make(chan struct{})
	go func() { // joined below, unless the tool is at fault
		defer close(done)
		_, _ = c.tool.Run(ctx, in) // what it says does not matter here
	}()
	t := time.NewTimer(soon)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
		c.fault("%s: still runs %s after its context has ended", e.title(), soon)
	}
}

// outputIsBounded: no text or data is larger than what the limits allow.
func outputIsBounded(c *check) {
	tool := c.tool
	tool.Limits.Output = small
	c.each(func(e Example) {
		r := tools.Execute(c.ctx, tool, c.call(e), tools.Options{})
		if n := len(r.Result.Text.Text); n > small {
			c.fault("%s: a text of %d bytes for a limit of %d", e.title(), n, small)
		}
		if n := len(r.Result.Data); n > small {
			c.fault("%s: data of %d bytes for a limit of %d", e.title(), n, small)
		}
		if r.Result.Error != nil && len(r.Result.Error.Message) > small {
			c.fault("%s: an error of %d bytes for a limit of %d", e.title(), len(r.Result.Error.Message), small)
		}
	})
}

// keyIsHonoured: two runs with one key have one effect and one answer, and a run
// with another key has an effect of its own.
func keyIsHonoured(c *check) {
	if !c.tool.HonoursKey {
		return
	}
	counted := false
	c.each(func(e Example) {
		if e.Count == nil || e.Fails != "" || e.Asks {
			return
		}
		counted = true
		in := c.call(e)
		in.Key = in.Call.String()
		before := e.Count(in.Workspace)
		first := tools.Execute(c.ctx, c.tool, in, tools.Options{})
		once := e.Count(in.Workspace)
		in.Attempt++
		second := tools.Execute(c.ctx, c.tool, in, tools.Options{})
		twice := e.Count(in.Workspace)
		in.Key += "/other"
		tools.Execute(c.ctx, c.tool, in, tools.Options{})
		other := e.Count(in.Workspace)
		if once != before+1 || twice != once || other != twice+1 {
			c.fault("%s: %d effects before, %d after one run, %d after a second with its key, %d after one with another key",
				e.title(), before, once, twice, other)
		}
		if first.Class != events.ClassOK || first.Result.Text != second.Result.Text {
			c.fault("%s: the first run %s with %q, the second %s with %q", e.title(), said(first), first.Result.Text.Text, said(second), second.Result.Text.Text)
		}
	})
	if !counted {
		c.fault("the tool says that it honours a key, and no example can count its effects")
	}
}

// probeFinds: a probe finds the effect of a call that was made, and none of one
// that was not.
func probeFinds(c *check) {
	if c.tool.Probe == nil {
		return
	}
	c.each(func(e Example) {
		if e.Fails != "" {
			return
		}
		if f, err := c.tool.Probe(c.ctx, c.call(e)); f.Found || err != nil {
			c.fault("%s: a probe of a call that was not made: found %v, %v", e.title(), f.Found, err)
		}
	})
	c.good(func(e Example, in tools.Invocation, r tools.Report) {
		f, err := c.tool.Probe(c.ctx, in)
		if !f.Found || err != nil {
			c.fault("%s: a probe of a call that was made: found %v, %v", e.title(), f.Found, err)
		} else if f.Result.Text != r.Result.Text {
			c.fault("%s: the call answers %q, its probe %q", e.title(), r.Result.Text.Text, f.Result.Text.Text)
		}
	})
}

// undoUndoes: an undo succeeds, twice too, and a probe finds nothing then.
func undoUndoes(c *check) {
	if c.tool.Compensate == nil {
		return
	}
	c.good(func(e Example, in tools.Invocation, r tools.Report) {
		for range 2 {
			if _, err := c.tool.Compensate(c.ctx, in, r.Result); err != nil {
				c.fault("%s: the undo fails: %v", e.title(), err)
			}
		}
		if c.tool.Probe == nil {
			return
		}
		if f, err := c.tool.Probe(c.ctx, in); f.Found || err != nil {
			c.fault("%s: a probe after the undo: found %v, %v", e.title(), f.Found, err)
		}
	})
}
