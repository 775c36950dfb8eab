package gateway_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/gateway/codec"
)

// A submission is durable once Submit returns. The same again attaches to it,
// so that a caller who did not hear the answer may simply repeat it.
func ExampleDesk_Submit() {
	log := memlog.New(memlog.Config{})
	defer log.Close()
	desk := gateway.NewDesk(gateway.DeskConfig{Bus: log.View("door")})
	key := events.TurnKey{Trace: "conversation-7", Turn: "3"}
	turn := events.TurnSubmitted{
		Principal: events.Principal{ID: "agent"},
		Calls:     []events.RawCall{{ProviderID: "call_a", Tool: "Read", Args: events.Body{Text: `{"path":"a.go"}`}}},
	}
	for range 2 {
		t, err := desk.Submit(context.Background(), key, turn)
		fmt.Println(t.Key, t.Attached, err)
	}
	// Output:
	// conversation-7/3 false <nil>
	// conversation-7/3 true <nil>
}

// A recorded conversation becomes events, and its answers come back as they were.
func ExampleDesk_Import() {
	log := memlog.New(memlog.Config{})
	defer log.Close()
	desk := gateway.NewDesk(gateway.DeskConfig{Bus: log.View("door")})
	ctx := context.Background()
	recording := `{"messages":[
		{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"get","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"c1","name":"get","content":"Error: none"}]}`
	report, err := desk.Import(ctx, strings.NewReader(recording), "session.json")
	fmt.Println(report.Turns, report.Answers, report.New, err)
	conversation, _ := desk.Trace(ctx, report.Traces[0])
	messages, _ := desk.Render(ctx, conversation.Turns[0], codec.OpenAI)
	fmt.Printf("%s\n", messages.Answered[0])
	// Output:
	// 1 1 1 <nil>
	// {"role":"tool","tool_call_id":"c1","name":"get","content":"Error: none"}
}
