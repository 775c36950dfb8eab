package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

type runFunc = func(context.Context, tools.Invocation) (events.Result, error)

// toolOf is a tool of that tier with no more than its code.
func toolOf(tier events.Tier, run runFunc) tools.Tool {
	return tools.Tool{Spec: tools.Spec{Name: "t", Tier: tier}, Run: run}
}

func answers(r events.Result, err error) runFunc {
	return func(context.Context, tools.Invocation) (events.Result, error) { return r, err }
}

func text(s string) events.Result { return events.Result{Text: events.Body{Text: s}} }

func call() tools.Invocation {
	return tools.Invocation{Call: events.CallKey{Trace: "t", Turn: "u", Offset: 3}, Attempt: 2, Tool: "t", Args: []byte("{}")}
}

func execute(t *testing.T, tool tools.Tool, o tools.Options) tools.Report {
	t.Helper()
	return tools.Execute(t.Context(), tool, call(), o)
}

func TestAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tool := toolOf(events.Irreversible, func(ctx context.Context, in tools.Invocation) (events.Result, error) {
			if d, ok := ctx.Deadline(); !ok || !d.Equal(in.Deadline) || time.Until(d) != tools.DefaultWall {
				t.Errorf("deadline %v, told %v", d, in.Deadline)
			}
			in.Progress(events.Progress{}) // never nil
			<-time.After(time.Second)
			return text("done"), nil
		})
		got := execute(t, tool, tools.Options{})
		want := tools.Report{
			Result: events.Result{Status: events.Success, Text: events.Body{Text: "done"}}, Class: events.ClassOK,
			Effects: events.EffectsDone, Output: 4, Run: time.Second, Answered: true, Confirmed: true,
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	})
}

// TestEmptyAnswersAreAnswers: what says nothing is done, and not still open.
func TestEmptyAnswersAreAnswers(t *testing.T) {
	for name, r := range map[string]events.Result{
		"zero":         {},
		"empty text":   text(""),
		"null":         {Data: json.RawMessage("null")},
		"empty list":   {Data: json.RawMessage("[]")},
		"empty object": {Data: json.RawMessage(`{"content":[]}`)},
		"blank data":   {Data: json.RawMessage("  ")},
	} {
		got := execute(t, toolOf(events.Readonly, answers(r, nil)), tools.Options{})
		if got.Result.Status != events.Success || got.Class != events.ClassOK || got.Result.Error != nil || !got.Answered {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestFailuresByTheirKind(t *testing.T) {
	own := func(e tools.Error) error { return fmt.Errorf("wrapped: %w", &e) }
	for name, c := range map[string]struct {
		result   events.Result
		err      error
		class    events.Class
		code     events.Code
		message  string // a part of it; "" means the whole is "said"
		effects  events.Effects
		answered bool
	}{
		"plain":          {err: own(tools.Error{Code: events.NotFound, Message: "said"}), class: events.ClassTool, code: events.NotFound, effects: events.EffectsPossible, answered: true},
		"claims none":    {err: own(tools.Error{Message: "said", Effects: events.EffectsNone}), class: events.ClassTool, code: events.ExecutionError, effects: events.EffectsNone, answered: true},
		"claims done":    {err: own(tools.Error{Message: "said", Effects: events.EffectsDone}), class: events.ClassTool, code: events.ExecutionError, effects: events.EffectsDone, answered: true},
		"invalid":        {err: own(tools.Error{Message: "said", Class: events.ClassInvalid}), class: events.ClassInvalid, code: events.ExecutionError, effects: events.EffectsNone, answered: true},
		"conflict":       {err: own(tools.Error{Message: "said", Class: events.ClassConflict, Code: events.Conflict}), class: events.ClassConflict, code: events.Conflict, effects: events.EffectsNone, answered: true},
		"unavailable":    {err: own(tools.Error{Message: "said", Class: events.ClassUnavailable}), class: events.ClassUnavailable, code: events.ExecutionError, effects: events.EffectsPossible},
		"refused":        {err: own(tools.Error{Message: "said", Class: events.ClassUnavailable, Effects: events.EffectsNone}), class: events.ClassUnavailable, code: events.ExecutionError, effects: events.EffectsNone},
		"its own limit":  {err: own(tools.Error{Message: "said", Class: events.ClassTimeout, Code: events.Timeout}), class: events.ClassTimeout, code: events.Timeout, effects: events.EffectsPossible},
		"false class":    {err: own(tools.Error{Message: "said", Class: events.ClassOK}), class: events.ClassTool, code: events.ExecutionError, effects: events.EffectsPossible, answered: true},
		"silent":         {err: own(tools.Error{}), class: events.ClassTool, code: events.ExecutionError, message: "did not say why", effects: events.EffectsPossible, answered: true},
		"ours":           {err: errors.New("secret detail"), class: events.ClassTool, code: events.InternalError, message: "fair run", effects: events.EffectsPossible},
		"inner deadline": {err: fmt.Errorf("get: %w", context.DeadlineExceeded), class: events.ClassTimeout, code: events.Timeout, message: "time limit", effects: events.EffectsPossible},
		"inner cancel":   {err: context.Canceled, class: events.ClassCancelled, code: events.CodeCancelled, message: "stopped", effects: events.EffectsPossible},
		"failed result":  {result: events.Result{Status: events.Failure, Error: &events.Error{Code: events.NotFound, Message: "said"}}, class: events.ClassTool, code: events.NotFound, effects: events.EffectsPossible, answered: true},
		"bare failure":   {result: events.Result{Status: events.Failure}, class: events.ClassTool, code: events.ExecutionError, message: "reported a failure", effects: events.EffectsPossible, answered: true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, tier := range []events.Tier{events.Readonly, events.Reversible, events.Irreversible, events.Approval} {
				got := execute(t, toolOf(tier, answers(c.result, c.err)), tools.Options{})
				effects := c.effects
				if tier == events.Readonly {
					effects = events.EffectsNone
				}
				if got.Class != c.class || got.Effects != effects || got.Answered != c.answered || !got.Confirmed {
					t.Errorf("%s: class %s, effects %s, answered %v, confirmed %v", tier, got.Class, got.Effects, got.Answered, got.Confirmed)
				}
				e := got.Result.Error
				if got.Result.Status != events.Failure || e == nil || e.Code != c.code || c.message == "" && e.Message != "said" || !strings.Contains(e.Message, c.message) {
					t.Errorf("%s: %s %+v", tier, got.Result.Status, e)
				}
				if e != nil && strings.Contains(e.Message, "secret") {
					t.Error("the model reads what is for the operator")
				}
			}
		})
	}
}

func TestWhatAFailureCarries(t *testing.T) {
	beside := events.Result{Status: events.Success, Text: events.Body{Text: "as far as it came"}}
	got := execute(t, toolOf(events.Readonly, answers(events.Result{}, &tools.Error{
		Class: events.ClassUnavailable, Message: "429", Path: "/url", After: 3 * time.Second, Result: &beside,
	})), tools.Options{})
	if got.After != 3*time.Second || got.Result.Text.Text != "as far as it came" || got.Result.Status != events.Failure || got.Result.Error.Path != "/url" {
		t.Errorf("%+v", got)
	}
}

func TestOursIsForTheOperator(t *testing.T) {
	var log bytes.Buffer
	o := tools.Options{Log: slog.New(slog.NewJSONHandler(&log, nil))}
	execute(t, toolOf(events.Readonly, answers(events.Result{}, errors.New("no such database"))), o)
	if !strings.Contains(log.String(), "no such database") || !strings.Contains(log.String(), `"call":"t/u/3","attempt":2`) {
		t.Errorf("log: %s", &log)
	}
	log.Reset()
	execute(t, toolOf(events.Readonly, answers(events.Result{}, &tools.Error{Message: "for the model"})), o)
	if log.Len() > 0 {
		t.Errorf("log: %s", &log)
	}
}

func TestToolsThatBreak(t *testing.T) {
	nothing := func(context.Context, tools.Invocation) (events.Result, error) { return events.Result{}, nil }
	tierBreaks := toolOf(events.Readonly, nothing)
	tierBreaks.TierOf = func(json.RawMessage) events.Tier { panic("in the spec") }
	for name, tool := range map[string]tools.Tool{
		"panic": toolOf(events.Irreversible, func(context.Context, tools.Invocation) (events.Result, error) { panic("oh no") }),
		"nil pointer": toolOf(events.Irreversible, func(context.Context, tools.Invocation) (events.Result, error) {
			var e *tools.Error
			return *e.Result, nil
		}),
		"panic(nil)": toolOf(events.Irreversible, func(context.Context, tools.Invocation) (events.Result, error) { panic(nil) }),
		"Goexit": toolOf(events.Irreversible, func(context.Context, tools.Invocation) (events.Result, error) {
			runtime.Goexit()
			return events.Result{}, nil
		}),
		"no code": toolOf(events.Irreversible, nil),
		"spec":    tierBreaks,
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			got := execute(t, tool, tools.Options{Log: slog.New(slog.NewJSONHandler(&log, nil))})
			if got.Class != events.ClassPanic || got.Effects != events.EffectsPossible || got.Answered || !got.Confirmed {
				t.Errorf("%+v", got)
			}
			e := got.Result.Error
			if e == nil || e.Code != events.ExecutionError || strings.Contains(e.Message, "goroutine") || strings.Contains(e.Message, "oh no") {
				t.Errorf("%+v", e)
			}
			if !strings.Contains(log.String(), "goroutine") {
				t.Errorf("no stack in the log: %s", &log)
			}
		})
	}
	reading := execute(t, toolOf(events.Readonly, func(context.Context, tools.Invocation) (events.Result, error) { panic(1) }), tools.Options{})
	if reading.Effects != events.EffectsNone {
		t.Errorf("readonly: effects %s", reading.Effects)
	}
}

// TestATimeOutWithOutputIsNoSuccess, whatever the tool says of it.
func TestATimeOutWithOutputIsNoSuccess(t *testing.T) {
	for name, err := range map[string]error{
		"as success":  nil,
		"as ctx":      context.DeadlineExceeded,
		"as failure":  &tools.Error{Message: "broken pipe", Result: &events.Result{Status: events.Success, Text: events.Body{Text: "half"}}},
		"as anything": errors.New("whatever"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tool := toolOf(events.Irreversible, func(ctx context.Context, _ tools.Invocation) (events.Result, error) {
					<-ctx.Done()
					if !errors.Is(context.Cause(ctx), tools.ErrDeadline) {
						t.Errorf("cause %v", context.Cause(ctx))
					}
					return text("half"), err
				})
				tool.Limits.Wall = 3 * time.Second
				got := execute(t, tool, tools.Options{})
				if got.Class != events.ClassTimeout || got.Answered || !got.Confirmed || got.Effects != events.EffectsPossible || got.Run != 3*time.Second {
					t.Errorf("%+v", got)
				}
				if got.Result.Status != events.Failure || got.Result.Error.Code != events.Timeout || got.Result.Text.Text != "half" {
					t.Errorf("%+v", got.Result)
				}
			})
		})
	}
}

func TestTheEarlierDeadlineCounts(t *testing.T) {
	for _, c := range []struct{ wall, deadline, want time.Duration }{
		{0, 0, tools.DefaultWall},
		{5 * time.Second, 0, 5 * time.Second},
		{5 * time.Second, 2 * time.Second, 2 * time.Second},
		{2 * time.Second, 5 * time.Second, 2 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			tool := toolOf(events.Readonly, func(ctx context.Context, _ tools.Invocation) (events.Result, error) {
				<-ctx.Done()
				return events.Result{}, ctx.Err()
			})
			tool.Limits.Wall = c.wall
			in := call()
			if c.deadline > 0 {
				in.Deadline = time.Now().Add(c.deadline)
			}
			if got := tools.Execute(t.Context(), tool, in, tools.Options{}); got.Run != c.want || got.Class != events.ClassTimeout {
				t.Errorf("wall %s, deadline %s: %s after %s", c.wall, c.deadline, got.Class, got.Run)
			}
		})
	}
}

func TestACancelSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		cause   error
		class   events.Class
		message string
	}{
		"no reason": {nil, events.ClassCancelled, "the call was cancelled while it ran"},
		"a reason":  {errors.New("ann said stop"), events.ClassCancelled, "the call was cancelled while it ran: ann said stop"},
		"too late":  {fmt.Errorf("of the turn: %w", context.DeadlineExceeded), events.ClassTimeout, "the deadline passed before the tool had answered"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				tool := toolOf(events.Reversible, func(ctx context.Context, _ tools.Invocation) (events.Result, error) {
					cancel(c.cause)
					<-ctx.Done()
					return events.Result{}, ctx.Err()
				})
				got := tools.Execute(ctx, tool, call(), tools.Options{})
				if got.Class != c.class || got.Result.Error.Message != c.message || got.Effects != events.EffectsPossible || !got.Confirmed {
					t.Errorf("%+v %+v", got, got.Result.Error)
				}
			})
		})
	}
}

func TestACancelOfWhatHadNoEffect(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	tool := toolOf(events.Irreversible, func(context.Context, tools.Invocation) (events.Result, error) {
		cancel()
		return events.Result{}, &tools.Error{Message: "had not sent anything", Effects: events.EffectsNone}
	})
	got := tools.Execute(ctx, tool, call(), tools.Options{})
	if got.Class != events.ClassCancelled || got.Effects != events.EffectsNone || !strings.Contains(got.Result.Error.Message, "had not sent anything") {
		t.Errorf("%+v", got)
	}
}

func TestWhatIsOverIsNotStarted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	late := call()
	late.Deadline = time.Now().Add(-time.Second)
	never := toolOf(events.Irreversible, func(context.Context, tools.Invocation) (events.Result, error) {
		t.Error("started")
		return events.Result{}, nil
	})
	for class, got := range map[events.Class]tools.Report{
		events.ClassCancelled: tools.Execute(ctx, never, call(), tools.Options{}),
		events.ClassTimeout:   tools.Execute(t.Context(), never, late, tools.Options{}),
	} {
		if got.Class != class || got.Effects != events.EffectsNone || !got.Confirmed || got.Answered || got.Result.Status != events.Failure {
			t.Errorf("%s: %+v", class, got)
		}
	}
}

// TestADeafTool is given up after the grace, and its answer is evidence.
func TestADeafTool(t *testing.T) {
	for _, c := range []struct{ grace, asked, want time.Duration }{
		{0, 0, tools.DefaultGrace},
		{time.Second, 0, time.Second},
		{0, 2 * time.Second, tools.DefaultGrace + 2*time.Second},
		{0, time.Hour, tools.DefaultGrace + tools.MaxGrace},
	} {
		synctest.Test(t, func(t *testing.T) {
			late := make(chan tools.Report, 1)
			tool := toolOf(events.Irreversible, func(ctx context.Context, _ tools.Invocation) (events.Result, error) {
				tools.Tell(ctx, tools.Ending{Pids: []int{4711}, Grace: c.asked, Output: 9})
				<-time.After(time.Minute)
				tools.Tell(ctx, tools.Ending{})
				return text("after all"), nil
			})
			tool.Limits.Wall = 5 * time.Second
			got := execute(t, tool, tools.Options{Grace: c.grace, Late: func(r tools.Report) { late <- r }})
			if got.Run != 5*time.Second+c.want || got.Confirmed || got.Answered || got.Effects != events.EffectsPossible || got.Class != events.ClassTimeout {
				t.Errorf("%+v", got)
			}
			if cmp.Diff([]int{4711}, got.Pids) != "" || got.Result.Error.Code != events.UnknownOutcome || got.Output != 9 {
				t.Errorf("%+v %+v", got, got.Result.Error)
			}
			r := <-late
			if r.Class != events.ClassOK || r.Effects != events.EffectsDone || !r.Answered || !r.Confirmed || r.Result.Text.Text != "after all" || r.Run != time.Minute {
				t.Errorf("late: %+v", r)
			}
		})
	}
}

func TestADeafToolThatReadsHasNoEffects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		tool := toolOf(events.Irreversible, func(context.Context, tools.Invocation) (events.Result, error) {
			cancel()
			<-time.After(time.Second)
			panic("and in the end it breaks, with nobody to hear of it")
		})
		tool.TierOf = func(json.RawMessage) events.Tier { return events.Readonly }
		got := tools.Execute(ctx, tool, call(), tools.Options{})
		if got.Class != events.ClassCancelled || got.Effects != events.EffectsNone || got.Confirmed {
			t.Errorf("%+v", got)
		}
		<-time.After(time.Minute) // which is long enough for it
	})
}

func TestWhatAToolTellsOfItsProcess(t *testing.T) {
	three := 3
	got := execute(t, toolOf(events.Irreversible, func(ctx context.Context, _ tools.Invocation) (events.Result, error) {
		tools.Tell(ctx, tools.Ending{Pids: []int{1}})
		tools.Tell(ctx, tools.Ending{Exit: &three, Output: 1 << 40})
		return events.Result{}, &tools.Error{Message: "exit status 3", Effects: events.EffectsDone}
	}), tools.Options{})
	if got.Exit == nil || *got.Exit != 3 || got.Output != 1<<40 || !got.Confirmed {
		t.Errorf("%+v", got)
	}
	left := execute(t, toolOf(events.Irreversible, func(ctx context.Context, _ tools.Invocation) (events.Result, error) {
		tools.Tell(ctx, tools.Ending{Signal: "SIGKILL", Pids: []int{12, 13}})
		return text("x"), nil
	}), tools.Options{})
	if left.Confirmed || cmp.Diff([]int{12, 13}, left.Pids) != "" || left.Signal != "SIGKILL" {
		t.Errorf("%+v", left)
	}
	tools.Tell(t.Context(), tools.Ending{}) // outside of an attempt it says nothing to nobody
}
