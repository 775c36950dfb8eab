package tools_test

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// One attempt of a tool, with a deadline that it does not meet: what it had put
// out by then is kept, and is no success.
func ExampleExecute() {
	tool := tools.Tool{
		Spec: tools.Spec{Name: "slow", Tier: events.Irreversible},
		Run: func(ctx context.Context, _ tools.Invocation) (events.Result, error) {
			<-ctx.Done()
			return events.Result{Text: events.Body{Text: "half of it"}}, ctx.Err()
		},
	}
	in := tools.Invocation{Attempt: 1, Args: []byte("{}"), Deadline: time.Now().Add(10 * time.Millisecond)}
	r := tools.Execute(context.Background(), tool, in, tools.Options{})
	fmt.Println(r.Class, r.Effects, r.Answered, r.Confirmed)
	fmt.Println(r.Result.Status, r.Result.Error.Code, r.Result.Text.Text)
	// Output:
	// timeout possible false true
	// error TIMEOUT half of it
}

// A tool that panics is a failed attempt like any other.
func ExampleExecute_panic() {
	tool := tools.Tool{
		Spec: tools.Spec{Name: "broken", Tier: events.Readonly},
		Run:  func(context.Context, tools.Invocation) (events.Result, error) { panic("oh no") },
	}
	r := tools.Execute(context.Background(), tool, tools.Invocation{Attempt: 1, Args: []byte("{}")}, tools.Options{})
	fmt.Println(r.Class, r.Effects, r.Result.Error.Code)
	// Output: panic none EXECUTION_ERROR
}

// A tool says how its process ended; the runtime records it beside the result.
func ExampleTell() {
	tool := tools.Tool{Run: func(ctx context.Context, _ tools.Invocation) (events.Result, error) {
		status := 3
		tools.Tell(ctx, tools.Ending{Exit: &status, Output: 1024})
		return events.Result{}, &tools.Error{Code: events.ExecutionError, Message: "exit status 3", Effects: events.EffectsDone}
	}}
	r := tools.Execute(context.Background(), tool, tools.Invocation{Attempt: 1, Args: []byte("{}")}, tools.Options{})
	fmt.Println(*r.Exit, r.Output, r.Class, r.Effects)
	// Output: 3 1024 tool done
}

// A text that is too long keeps one end, or both, and says what it lost.
func ExampleCutText() {
	text := "one\ntwo\nthree\nfour\nfive\nsix\n"
	kept, bytes, lines := tools.CutText(text, tools.Limits{Lines: 2, Keep: tools.KeepBoth})
	fmt.Println(kept)
	fmt.Println(bytes, lines)
	// Output:
	// one
	// [20 bytes, 4 lines cut]
	// six
	//
	// 20 4
}

// What a person reads before saying yes shows every character there is.
func ExampleVisible() {
	fmt.Println(tools.Visible("rm -rf ~ #\x1b[2K\x1b[1Gls -la"))
	fmt.Println(tools.Visible("gro.elpmaxe\u202e lruc"))
	// Output:
	// rm -rf ~ #\u001b[2K\u001b[1Gls -la
	// gro.elpmaxe\u202e lruc
}
