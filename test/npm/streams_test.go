package npm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/test/npm"
)

// recorded is a stream of the assemblers' own corpus.
type recorded struct {
	Format string `json:"format"`
	Text   string `json:"text"`
	name   string
}

// corpus are the streams of a format that come as SDKs read them: server-sent events,
// nothing said about them.
func corpus(t *testing.T, format string) []recorded {
	t.Helper()
	all, err := os.ReadFile(filepath.Join("..", "..", "gateway", "codec", "testdata", "streams", format+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	var out []recorded
	for _, part := range strings.Split(string(all), "=== ")[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		body, _, ok := strings.Cut("\n"+rest, "\n----\n")
		body = strings.TrimPrefix(body, "\n")
		if !ok || body == "" || strings.HasPrefix(body, "options: ") {
			continue
		}
		var b strings.Builder
		for _, line := range strings.Split(body, "\n") {
			var e struct{ Type string }
			if json.Unmarshal([]byte(line), &e) == nil && e.Type != "" {
				fmt.Fprintf(&b, "event: %s\n", e.Type)
			}
			fmt.Fprintf(&b, "data: %s\n\n", line)
		}
		out = append(out, recorded{Format: format, Text: b.String(), name: name})
	}
	if len(out) < 10 {
		t.Fatalf("%s has %d streams", format, len(out))
	}
	return out
}

// made is a call that a reader of a stream has put together.
type made struct {
	ID   string
	Tool string
	Args any // as JSON, with numbers as JavaScript has them, or the text where it is none
}

func asMade(id, tool, args string) made {
	var v any
	if args == "" {
		args = "{}" // what no arguments mean
	}
	if json.Unmarshal([]byte(args), &v) != nil {
		v = args
	}
	return made{id, tool, v}
}

// ours is what the assembler makes of a stream: calls, whether the model was cut off, or why
// nothing is submitted.
func ours(r recorded) (calls []made, cut bool, err error) {
	_, m, err := codec.DecodeStream(codec.Format(r.Format), []byte(r.Text), codec.StreamOptions{})
	for _, c := range m.Calls {
		args := c.Args.Text
		var custom struct{ Input string }
		if c.Custom && json.Unmarshal([]byte(args), &custom) == nil {
			args = custom.Input
		}
		calls = append(calls, asMade(c.ProviderID, c.Tool, args))
		cut = cut || c.Refused != nil
	}
	return calls, cut, err
}

// theirs is what the SDKs make of streams.
func theirs(t *testing.T, packages []string, all []recorded) (calls [][]made, errs []string) {
	t.Helper()
	dir := npm.Place(t, "testdata", nil, packages...)
	in, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	cmd := exec.CommandContext(ctx, npm.Node(t), "accumulate.mjs")
	var said, failed bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, bytes.NewReader(in), &said, &failed
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, failed.String())
	}
	var got []struct {
		Calls []struct {
			ID, Tool string
			Args     json.RawMessage // a text, unless the SDK lets a stream's own value through
		}
		Error string
	}
	if err := json.Unmarshal(said.Bytes(), &got); err != nil || len(got) != len(all) {
		t.Fatalf("%d of %d, %v: %s", len(got), len(all), err, said.String())
	}
	for _, g := range got {
		var one []made
		for _, c := range g.Calls {
			args := string(c.Args)
			if text := ""; json.Unmarshal(c.Args, &text) == nil {
				args = text
			}
			one = append(one, asMade(c.ID, c.Tool, args))
		}
		calls, errs = append(calls, one), append(errs, g.Error)
	}
	return calls, errs
}

// stricter are the reasons for which nothing is submitted of a stream that an SDK takes.
// SDKs put together what comes, and leave it to who calls them whether it was all.
var stricter = map[string]string{
	"stream-cut":       "an SDK gives out what had come, where the stream ends early",
	"stream-error":     "an SDK gives an error of the provider on, and has a message anyway",
	"stream-ambiguous": "an SDK goes by the index alone, and takes a missing one for the first call, or for a call of its own",
	"stream-conflict":  "an SDK takes the last word, or glues both together",
	"stream-order":     "an SDK does not look whether a part has begun or ended",
	"stream-after-end": "an SDK reads on behind the end",
	"stream-choices":   "an SDK takes the first of several answers",
	"stream-malformed": "an SDK skips what it does not know",
	"too-large":        "an SDK has no bounds",
}

// What several of the streams below have in common.
const (
	noIndex  = "without an index OpenAI's SDK loses the calls; local servers do leave it out, and ids tell the calls apart"
	newIDs   = "some routers give chunks an id of their own; OpenAI's SDK begins another message with each"
	oneIndex = "a router gives all calls one index, and each an id; OpenAI's SDK glues them together"
	asObject = "a server sends arguments as an object where a text is meant; OpenAI's SDK makes [object Object] of it"
	empty    = "a backend in wide use ends with an empty output: the SDK believes it, and the calls are lost"
)

// explained are the streams that become calls here and something else there, by name, and why.
var explained = map[string]string{
	"openai: a router that gives each chunk an id of its own":                                      newIDs,
	"openai: the end and the usage have an id of their own":                                        newIDs,
	"openai: one index for all calls, each whole and with an id of its own":                        oneIndex,
	"openai: the same in one chunk, and a third in pieces":                                         oneIndex,
	"openai: a call that gets its index in a later delta":                                          noIndex,
	"openai: an empty function_call beside tool_calls says nothing":                                "a server sends an empty function_call, the form of old, with every message; OpenAI's SDK wants a name in it",
	"openai: an empty object, and then pieces":                                                     asObject,
	"openai: an empty object, and nothing more":                                                    asObject,
	"responses: the same, and the response is empty":                                               empty,
	"responses: the same, behind a text, and the response is empty":                                empty,
	"responses: the end comes twice, and response.done":                                            "an event that OpenAI's SDK does not know, behind an end that is the same again",
	"anthropic: message_start twice, the same, as behind some routers":                             "Anthropic's SDK takes no message_start twice; one that is the same is no other message",
	"openai: no index: an id opens a call, and a third with an index is a third":                   noIndex,
	"openai: no index, one after the other: arguments alone go on with the last call":              noIndex,
	"openai: no index, ids tell the open calls apart":                                              noIndex,
	"openai: no index, one id for two calls that are each whole: two calls":                        noIndex,
	"openai: no index, and the name comes behind the arguments, by the id":                         noIndex,
	"openai: no index, the id alone first":                                                         noIndex,
	"openai: an error that says nothing is none":                                                   "a router sends an empty error with each chunk; OpenAI's SDK throws whatever stands there",
	"openai: pings, before the format is known and after":                                          "a gateway sends pings of another provider's form, which OpenAI's SDK takes for chunks",
	"openai: [done] in small letters":                                                              "OpenAI's SDK reads another spelling of the end as JSON",
	"anthropic: a delta without a type is input where it can be nothing else":                      "a router leaves the type out; Anthropic's SDK passes the input over, and the call has none",
	"anthropic: usage behind the stop_reason, without a delta":                                     "a router tells the usage by itself; Anthropic's SDK wants a delta in it",
	"openai: no ids at all":                                                                        "calls without ids are told apart by their index, and answered under ids that are made; the SDK wants the server to make them",
	"openai: a custom tool":                                                                        "OpenAI's SDK cannot accumulate custom calls of Chat Completions: it looks for function in each",
	"openai: arguments as a value":                                                                 "a chunk without a role and an object in place of a text, as one local server sends it",
	"responses: a backend that sends the items by themselves alone":                                empty,
	"responses: incomplete, without items: those that came by themselves are refused, done or not": "the same, cut off: who keeps the items that came has ids that need answers",
}

// TestAccumulatorsAgree (Gemini's SDK has no accumulator: each chunk has whole parts): what the SDKs' own accumulators make of a stream is what ours
// makes of it, where both take it. Where only they do, the reason is one of a few; where only
// we do, or the calls differ, it is named and explained.
func TestAccumulatorsAgree(t *testing.T) {
	packages := []string{"openai@6.49.0", "@anthropic-ai/sdk@1.14.0"}
	var all []recorded
	for _, f := range []string{"openai", "responses", "anthropic"} {
		all = append(all, corpus(t, f)...)
	}
	calls, errs := theirs(t, packages, all)
	count := map[string]int{}
	seen := map[string]bool{}
	for i, r := range all {
		mine, cut, err := ours(r)
		verdict, why := compare(mine, cut, err, calls[i], errs[i])
		count[verdict]++
		name := r.Format + ": " + r.name
		if verdict == "differs" {
			seen[name] = true
			if explained[name] == "" {
				t.Errorf("%s\n  %s", name, why)
			}
		}
	}
	for name := range explained {
		if !seen[name] {
			t.Errorf("%s does not differ any more: take it out of explained", name)
		}
	}
	t.Logf("%d streams: %v", len(all), count)
	if n := count["same"] + count["same, and cut off"]; n < len(all)/4 {
		t.Errorf("only %d of %d are the same: is anything compared?", n, len(all))
	}
}

// compare says how two readers of a stream stand to each other.
func compare(mine []made, cut bool, err error, calls []made, failed string) (verdict, why string) {
	switch {
	case err != nil && failed != "":
		return "both refuse", ""
	case err != nil:
		word, _, _ := strings.Cut(err.Error(), ":")
		if stricter[word] == "" {
			return "differs", fmt.Sprintf("ours: %v\n  SDK:  %v", err, calls)
		}
		return "stricter: " + word, ""
	case failed != "":
		return "differs", fmt.Sprintf("ours: %v\n  SDK:  %s", mine, failed)
	}
	if cut { // arguments are what had come: an SDK mends them, or not
		only := func(list []made) []made {
			var out []made
			for _, m := range list {
				out = append(out, made{ID: m.ID, Tool: m.Tool})
			}
			return out
		}
		mine, calls = only(mine), only(calls)
	}
	if !slices.EqualFunc(mine, calls, func(a, b made) bool { return reflect.DeepEqual(a, b) }) {
		return "differs", fmt.Sprintf("ours: %v\n  SDK:  %v", mine, calls)
	}
	if cut {
		return "same, and cut off", ""
	}
	return "same", ""
}
