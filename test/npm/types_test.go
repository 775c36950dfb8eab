package npm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/test/npm"
	"github.com/sluice-run/sluice/tools"
)

// sets are the releases of the SDKs whose types ours must satisfy: those that the examples
// name, and the ones that need a newer Node.js.
var sets = map[string][]string{
	"examples": {
		"openai@6.49.0", "@anthropic-ai/sdk@1.14.0", "@google/genai@2.32.0", "ai@6.0.326", "typescript@7.0.2", "@types/node@20.19.43",
		"@modelcontextprotocol/sdk@1.25.2", // the types of @google/genai name it
	},
	"newest": {
		"openai@7.59.0", "@anthropic-ai/sdk@1.14.0", "@google/genai@3.3.0", "ai@7.0.173", "typescript@7.0.2", "@types/node@22.19.3",
		"@modelcontextprotocol/sdk@1.25.2",
	},
}

// typed is what a message of a format is by its SDK. Literals are compiled as they are, so
// that a member which the type does not have is an error, too.
var typed = []struct {
	format      codec.Format
	name        string
	asked, told string // types of the model's message and of the answers
	list        string // of the tools; "" where the SDK's own tools are functions
	items       bool   // the model's message is an array of them
}{
	// The name of a tool message is not in the type: OpenAI takes it, and others that speak its API want it.
	{codec.OpenAI, "chat", "Chat.ChatCompletionAssistantMessageParam", "Chat.ChatCompletionToolMessageParam & { name?: string }", "Chat.ChatCompletionFunctionTool[]", false},
	{codec.Responses, "responses", "Responses.ResponseInputItem[]", "Responses.ResponseInputItem", "Responses.FunctionTool[]", true},
	{codec.Anthropic, "anthropic", "Anthropic.MessageParam", "Anthropic.MessageParam", "Anthropic.Tool[]", false},
	{codec.Gemini, "gemini", "Content", "Content", "Tool[]", false},
	{codec.AISDK, "aisdk", "AssistantModelMessage", "ToolModelMessage", "", false},
}

const header = `import type * as Chat from "openai/resources/chat/completions";
import type * as Responses from "openai/resources/responses/responses";
import type * as Anthropic from "@anthropic-ai/sdk/resources/messages";
import type { Content, Tool } from "@google/genai";
import type { AssistantModelMessage, ModelMessage, ToolModelMessage } from "ai";
`

// ends are a call's ends, by what the model is told of them.
func ends() map[string]events.Event {
	body := func(s string) events.Body { return events.Body{Text: s} }
	done := func(r events.Result) events.Event {
		return &events.Completed{Outcome: events.Outcome{Effects: events.EffectsDone, Result: r}}
	}
	return map[string]events.Event{
		"success":      done(events.Result{Text: body("Grüße\n\t\u0007 \"</script>\" ${x} `y` \u2028"), Data: json.RawMessage(`{"n":9007199254740993,"list":[1,null,true]}`)}),
		"empty":        done(events.Result{}),
		"binary":       done(events.Result{Text: body("[binary, 600 bytes of application/octet-stream, sha256:00]")}),
		"failed":       &events.Failed{Outcome: events.Outcome{Effects: events.EffectsNone, Result: events.Result{Text: body("out"), Error: &events.Error{Code: events.ExecutionError, Message: "Exit status 3."}}}},
		"denied":       &events.Denied{Gate: "validate", Code: events.InvalidParam, Reason: "v is missing.", Path: "/v"},
		"unknown":      &events.Unknown{Outcome: events.Outcome{Effects: events.EffectsPossible}},
		"timed out":    &events.TimedOut{Outcome: events.Outcome{Effects: events.EffectsPossible}},
		"cancelled":    &events.Cancelled{Outcome: events.Outcome{Effects: events.EffectsNone}, Reason: "stop"},
		"deduplicated": &events.Deduplicated{Of: "a/b/0", As: events.KindCompleted},
		"open":         nil,
	}
}

// source is a program that assigns everything that is rendered in a format to what the SDK
// has for it.
func source(t *testing.T) string {
	t.Helper()
	var names []string
	all := ends()
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	b.WriteString(header)
	for _, f := range typed {
		var calls []events.RawCall
		var answers []events.Answer
		for i, name := range names {
			c := events.RawCall{ProviderID: fmt.Sprintf("call_%d", i), Tool: "Bash", Args: events.Body{Text: `{"command":"ls","timeout_ms":9007199254740993}`}}
			if name == "denied" {
				c.Args.Text, c.ProviderID = `{"command":"l`, "call_0" // broken, and an id twice
			}
			calls = append(calls, c)
			answers = append(answers, lifecycle.AnswerOf(i, c, all[name]))
		}
		asked, err := codec.RenderCalls(f.format, calls, codec.Options{})
		if err != nil {
			t.Fatal(err)
		}
		told, err := codec.Render(f.format, answers, codec.Options{})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "export const %sAsked: %s = %s;\n", f.name, f.asked, asked)
		for i, m := range told {
			fmt.Fprintf(&b, "export const %sTold%d: %s = %s;\n", f.name, i, f.told, m)
		}
		if f.list != "" {
			fmt.Fprintf(&b, "export const %sTools: %s = %s;\n", f.name, f.list, toolList(t, f.format))
		}
	}
	// What the API takes as a whole.
	b.WriteString(`export const chat: Chat.ChatCompletionMessageParam[] = [{ role: "user", content: "go" }, chatAsked, chatTold0];
export const responses: Responses.ResponseInputItem[] = [{ role: "user", content: "go" }, ...responsesAsked, responsesTold0];
export const anthropic: Anthropic.MessageParam[] = [{ role: "user", content: "go" }, anthropicAsked, anthropicTold0];
export const gemini: Content[] = [{ role: "user", parts: [{ text: "go" }] }, geminiAsked, geminiTold0];
export const aisdk: ModelMessage[] = [{ role: "user", content: "go" }, aisdkAsked, aisdkTold0];
`)
	return b.String()
}

func toolList(t *testing.T, f codec.Format) json.RawMessage {
	t.Helper()
	list := []tools.Tool{{Spec: tools.Spec{Name: "Bash", Description: "runs a line", Schema: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}},"required":["command"],"additionalProperties":false}`)}}}
	render := map[codec.Format]func([]tools.Tool) (json.RawMessage, error){
		codec.OpenAI: tools.OpenAI, codec.Responses: tools.OpenAIResponses, codec.Anthropic: tools.Anthropic, codec.Gemini: tools.Gemini,
	}[f]
	raw, err := render(list)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

const config = `{"compilerOptions": {"strict": true, "noEmit": true, "module": "nodenext", "moduleResolution": "nodenext", "target": "es2022",
  "skipLibCheck": true, "types": ["node"]}, "files": ["rendered.ts"]}`

// compile runs TypeScript's compiler over a program, and returns what it says.
func compile(t *testing.T, packages []string, program string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"rendered.ts": program, "tsconfig.json": config, "package.json": `{"type":"module"}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	installed := npm.Install(t, packages...)
	if err := os.Symlink(filepath.Join(installed, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	cmd := exec.CommandContext(ctx, npm.Node(t), filepath.Join(installed, "node_modules", "typescript", "bin", "tsc"), "-p", ".")
	cmd.Dir, cmd.WaitDelay = dir, patience
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil && said.Len() == 0 {
		t.Fatalf("tsc: %v", err)
	}
	return said.String()
}

// TestRenderedTypes: what is rendered of every end of a call satisfies the types of the
// providers' own SDKs.
func TestRenderedTypes(t *testing.T) {
	program := source(t)
	for name, packages := range sets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if said := compile(t, packages, program); said != "" {
				t.Errorf("%s\n%s", said, numbered(program, said))
			}
		})
	}
}

// TestTheCompilerLooks: it finds what is wrong with a message.
func TestTheCompilerLooks(t *testing.T) {
	program := source(t)
	for name, wrong := range map[string][2]string{
		"a member that there is not": {`"tool_use_id":`, `"call":`},
		"a wrong type":               {`"output":{"type":"text"`, `"output":{"type":"words"`},
		"another role":               {`{"role":"tool","tool_call_id"`, `{"role":"tools","tool_call_id"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broken := strings.Replace(program, wrong[0], wrong[1], 1)
			if broken == program {
				t.Fatalf("%s is not in\n%s", wrong[0], program)
			}
			if said := compile(t, sets["examples"], broken); !strings.Contains(said, "error TS2") {
				t.Errorf("the compiler takes it: %s", said)
			}
		})
	}
}

// numbered are the lines that a compiler's words name.
func numbered(program, said string) string {
	var b strings.Builder
	for i, line := range strings.Split(program, "\n") {
		if strings.Contains(said, fmt.Sprintf("rendered.ts(%d,", i+1)) {
			fmt.Fprintf(&b, "%d: %s\n", i+1, line)
		}
	}
	return b.String()
}
