// Command go is an agent on any server that speaks OpenAI's Chat Completions: net/http asks the
// model, Sluice runs the calls.
//
//	go run ./examples/go [--stream] [--ask] "question"
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/sluice-run/sluice/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "agent: error:", err)
		os.Exit(1)
	}
}

// agent asks a model, and has its calls run.
type agent struct {
	sluice   *client.Client
	out      io.Writer
	ask      bool // a person can be asked
	url, key string
	model    string
	tools    json.RawMessage
	messages []json.RawMessage
}

func run(ctx context.Context, args []string, out io.Writer) error {
	a := &agent{out: out, url: cmp.Or(os.Getenv("OPENAI_BASE_URL"), "https://api.openai.com/v1"), key: os.Getenv("OPENAI_API_KEY"), model: cmp.Or(os.Getenv("MODEL"), "gpt-5.6")}
	flags := flag.NewFlagSet("agent", flag.ContinueOnError)
	stream := flags.Bool("stream", false, "read the model's answers as they come")
	flags.BoolVar(&a.ask, "ask", false, "a person can be asked; otherwise what must be asked is denied")
	trace := flags.String("trace", fmt.Sprintf("go-%d", time.Now().UnixNano()), "names the conversation in Sluice's log")
	turns := flags.Int("turns", 20, "how often the model may answer")
	if err := flags.Parse(args); err != nil {
		return err
	}
	// The node may be killed and started again meanwhile: what is sent is sent again, and done once.
	c, err := client.New(cmp.Or(os.Getenv("SLUICE_URL"), "http://127.0.0.1:8383"), client.Options{Token: os.Getenv("SLUICE_TOKEN"), Retry: client.Retry{Attempts: 30, Most: time.Second}})
	if err != nil {
		return err
	}
	defer c.Close()
	a.sluice = c
	if a.tools, err = c.Tools(ctx, client.OpenAI); err != nil {
		return err
	}
	a.say(map[string]string{"role": "user", "content": cmp.Or(strings.Join(flags.Args(), " "), "What is in this folder?")})
	for n := range *turns {
		turn := client.Submission{Trace: *trace, Turn: fmt.Sprintf("t%d", n+1), Format: client.OpenAI, CanAsk: a.ask}
		step := a.whole
		if *stream {
			step = a.streamed
		}
		if more, err := step(ctx, turn); err != nil || !more {
			return err
		}
	}
	return fmt.Errorf("the model has not come to an end in %d turns", *turns)
}

func (a *agent) say(message any) {
	raw, _ := json.Marshal(message) // strings and JSON: it cannot fail
	a.messages = append(a.messages, raw)
}

// post asks the model, and asks again where it has no time.
func (a *agent) post(ctx context.Context, stream bool) (*http.Response, error) {
	for failed := 0; ; failed++ {
		resp, err := a.try(ctx, stream)
		if err == nil || resp == nil || failed == 3 || resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode < http.StatusInternalServerError {
			return resp, err
		}
		select {
		case <-time.After(time.Second << failed):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// try asks the model once. Where it answers an error there is its answer, too, which is closed.
func (a *agent) try(ctx context.Context, stream bool) (*http.Response, error) {
	body, err := json.Marshal(map[string]any{"model": a.model, "messages": a.messages, "tools": a.tools, "stream": stream})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+a.key)
	resp, err := http.DefaultClient.Do(req)
	if err == nil && resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 2000))
		err = errors.Join(fmt.Errorf("the model: %s: %s", resp.Status, said), resp.Body.Close())
	}
	return resp, err
}

// whole has the model answer at once, and says whether it asked for anything.
func (a *agent) whole(ctx context.Context, turn client.Submission) (more bool, err error) {
	resp, err := a.post(ctx, false)
	if err != nil {
		return false, err
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return false, err
	}
	var completion struct {
		Choices []struct {
			Message struct{ Content string }
		}
	}
	if err := json.Unmarshal(raw, &completion); err != nil || len(completion.Choices) != 1 {
		return false, errors.Join(fmt.Errorf("the model: %.200s", raw), err)
	}
	content := completion.Choices[0].Message.Content
	fmt.Fprintln(a.out, content)
	turn.Message = raw // as it came
	done, err := a.sluice.Run(ctx, turn)
	switch {
	case errors.Is(err, client.NothingToRun): // it has no calls, and the model had ended: a problem like ModelCut says that it had not
		return false, nil
	case err != nil:
		return false, err
	}
	return true, a.told(ctx, done, content)
}

// streamed relays the model's stream, and shows its words. A stream that broke has submitted
// nothing: the model is asked again.
func (a *agent) streamed(ctx context.Context, turn client.Submission) (more bool, err error) {
	for range 3 {
		resp, err := a.post(ctx, true)
		if err != nil {
			return false, err
		}
		words := &words{out: a.out}
		done, err := a.sluice.SubmitStream(ctx, turn, client.Stream{Body: io.TeeReader(resp.Body, words)})
		_ = resp.Body.Close() // it was read as far as it went
		fmt.Fprintln(a.out)
		var p *client.Problem
		switch {
		case errors.As(err, &p) && strings.HasPrefix(string(p.Code()), "stream-"), errors.Is(err, client.ModelFailed), errors.Is(err, io.ErrUnexpectedEOF):
			fmt.Fprintln(a.out, "[again]", err)
			continue
		case err != nil || done.State == "nothing":
			return false, err
		}
		if _, err := a.sluice.Wait(ctx, done.Key()); err != nil {
			return false, err
		}
		return true, a.told(ctx, done, words.text.String())
	}
	return false, errors.New("the model's stream broke three times")
}

// told adds the calls, as Sluice has them, and their answers to the conversation.
func (a *agent) told(ctx context.Context, done client.Submitted, content string) error {
	m, err := a.sluice.Messages(ctx, done.Key(), client.OpenAI)
	if err != nil {
		return err
	}
	var asked struct {
		Calls json.RawMessage `json:"tool_calls"`
	}
	if err := json.Unmarshal(m.Assistant, &asked); err != nil {
		return err
	}
	a.say(map[string]any{"role": "assistant", "content": content, "tool_calls": asked.Calls})
	a.messages = append(a.messages, m.Messages...)
	return a.show(m.Messages)
}

// show shows the answers of a turn, a line each.
func (a *agent) show(messages []json.RawMessage) error {
	for _, raw := range messages {
		var message struct{ Content string }
		var answer struct {
			Status, Text string
			Error        *struct{ Code, Message string }
		}
		if err := errors.Join(json.Unmarshal(raw, &message), json.Unmarshal([]byte(message.Content), &answer)); err != nil {
			return err
		}
		if answer.Error != nil {
			answer.Text = answer.Error.Code + ": " + answer.Error.Message
		}
		line, _, _ := strings.Cut(answer.Text, "\n")
		fmt.Fprintf(a.out, "[%s] %.120s\n", answer.Status, line)
	}
	return nil
}

// words takes the model's words out of a stream of Chat Completions as it goes by.
type words struct {
	out  io.Writer
	text strings.Builder
	line []byte // one that has not ended
}

func (w *words) Write(b []byte) (int, error) {
	w.line = append(w.line, b...)
	for {
		line, rest, whole := bytes.Cut(w.line, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		w.line = rest
		data, _ := bytes.CutPrefix(line, []byte("data:"))
		var chunk struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if json.Unmarshal(data, &chunk) != nil || len(chunk.Choices) == 0 {
			continue // [DONE], and what has no words
		}
		w.text.WriteString(chunk.Choices[0].Delta.Content)
		fmt.Fprint(w.out, chunk.Choices[0].Delta.Content)
	}
}
