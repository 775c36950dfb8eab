package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// turn is one message of the model, and where it belongs.
type turn struct {
	trace, id string
	calls     []call
}

// call is one of its calls: a tool and its arguments.
type call struct {
	tool string
	args any
}

// look is how the agent begins with an order.
func look(trace, order, customer string) turn {
	return turn{trace, "t1", []call{
		{"Read", map[string]any{"path": "orders/" + order + ".json"}},
		{"Read", map[string]any{"path": "customers/" + customer + ".json"}},
	}}
}

// charge takes money. The provider answers a while after it has.
func charge(trace, id, order string, amount int, answers time.Duration) turn {
	return turn{trace, id, []call{{"charge", struct {
		Order   string `json:"order"`
		Amount  int    `json:"amount"`
		StallMS int64  `json:"stall_ms"`
	}{order, amount, answers.Milliseconds()}}}}
}

// reply is what the customer is told.
func reply(trace, id, order, text string) turn {
	return turn{trace, id, []call{{"Write", struct {
		Path string `json:"path"`
		Text string `json:"text"`
	}{"replies/" + order + ".txt", text}}}}
}

// message is the turn as OpenAI's API has it. The model numbers its calls in each
// message anew, as some do.
func (t turn) message() ([]byte, error) {
	type function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	type toolCall struct {
		ID       string   `json:"id"`
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	var calls []toolCall
	for i, c := range t.calls {
		args, err := json.Marshal(c.args)
		if err != nil {
			return nil, err
		}
		calls = append(calls, toolCall{fmt.Sprintf("call_%d", i), "function", function{c.tool, string(args)}})
	}
	return json.Marshal(map[string]any{"role": "assistant", "content": nil, "tool_calls": calls})
}

// submit gives the turn to the node, and waits for its end where that is wanted.
func (s shop) submit(ctx context.Context, t turn, wait bool) error {
	msg, err := t.message()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, s.node, "submit", "--data", s.data, "--trace", t.trace, "--turn", t.id,
		"--principal", "checkout-agent", "--can-ask", "--format", "openai", fmt.Sprintf("--wait=%t", wait), "-")
	cmd.Stdin = bytes.NewReader(msg)
	return s.run(cmd)
}

// do runs one command.
func (s shop) do(ctx context.Context, path string, args ...string) error {
	return s.run(exec.CommandContext(ctx, path, args...))
}

func (s shop) run(cmd *exec.Cmd) error {
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	fmt.Println("$", cmd)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", cmd, err)
	}
	return nil
}
