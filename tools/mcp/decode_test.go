package mcp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/mcp/mcptest"
)

// everywhere runs a test in each revision over pipes and over HTTP.
func everywhere(t *testing.T, tier events.Tier, test func(t *testing.T, w *world)) {
	both(t, func(t *testing.T, revision string) {
		t.Run("pipes", func(t *testing.T) { test(t, begin(t, mcptest.Options{Revision: revision}, tierOf(tier))) })
		t.Run("HTTP", func(t *testing.T) {
			w, _ := over(t, mcptest.Options{Revision: revision}, nil, tierOf(tier))
			test(t, w)
		})
	})
}

// verbatim has the server answer with a message as it is; ID stands for the request's.
func (w *world) verbatim(message string) tools.Report {
	w.t.Helper()
	args, err := json.Marshal(map[string]string{"message": message})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.call("verbatim", string(args))
}

var unreadableAnswers = map[string]string{
	"deep":             `{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":` + strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000) + `}}`,
	"deeper":           `{"jsonrpc":"2.0","result":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `,"id":ID}`,
	"another version":  `{"jsonrpc":"1.0","id":ID,"result":{"content":[]}}`,
	"no version":       `{"id":ID,"result":{"content":[]}}`,
	"an error of text": `{"jsonrpc":"2.0","id":ID,"error":"it broke"}`,
	"no JSON":          `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":'x'}]}}`,
	"cut":              `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"te`,
	"NaN":              `{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":{"n":NaN}}}`,
}

// An answer that cannot be read settles its call at once, and as what it is: the tool has
// answered, and asking again would not help.
func TestAnAnswerThatCannotBeReadSettlesItsCall(t *testing.T) {
	for tier, effects := range map[events.Tier]events.Effects{events.Readonly: events.EffectsNone, events.Irreversible: events.EffectsPossible} {
		everywhere(t, tier, func(t *testing.T, w *world) {
			for name, message := range unreadableAnswers {
				r := w.verbatim(message)
				if r.Class != events.ClassTool || r.Effects != effects || !r.Answered || r.Result.Error.Code != events.MCPExecutionError ||
					!strings.Contains(r.Result.Error.Message, "its answer cannot be read") {
					t.Errorf("%s %s: %+v: %+v", tier, name, r, r.Result.Error)
				}
			}
			if r := w.call("echo", `{"v":1}`); r.Class != events.ClassOK || w.noted("list") != 1 {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestAnswersInWhatCannotBeRead(t *testing.T) {
	for data, want := range map[string][]int64{
		`{"jsonrpc":"2.0","id":7,"result":{]`:                            {7},
		`{"id": 7 ,"jsonrpc" : "2.0"`:                                    {7},
		`{"jsonrpc":"2.0","id":"7","result":{}`:                          {7},
		`[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,`: {1, 2},
		`{"jsonrpc":"2.0","id":7,"id":8,"result":{`:                      {8}, // the last one counts, as for who decodes it
		`{"jsonrpc":"2.0","id":7,"method":"ping"`:                        nil,
		`{"jsonrpc":"2.0","id":7`:                                        nil, // it may be the beginning of 70
		`{"jsonrpc":"2.0","id":7.5,"result":{}`:                          nil,
		`{"jsonrpc":"2.0","id":null,"result":{}`:                         nil,
		`{"jsonrpc":"2.0","result":{"id":7}`:                             nil,
		`{"jsonrpc":"2.0","x":"\"id\":7,","y":"id"`:                      nil,
		`{"level":"error","id":7,"error":"none"}`:                        nil, // a program's log
		`{"level":"info","id":7,"msg":"jsonrpc"}`:                        nil,
		`npm warn {"jsonrpc":"2.0","id":7,"result":{}}`:                  nil,
		`"id"`: nil, ``: nil, `[`: nil, `]]]{`: nil,
	} {
		if got := answersIn([]byte(data)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", data, got, want)
		}
	}
}

// What is no text becomes U+FFFD where it comes in, and the same everywhere.
func TestHalvesOfPairsInAnAnswer(t *testing.T) {
	everywhere(t, events.Readonly, func(t *testing.T, w *world) {
		r := w.verbatim(`{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"\ud83d x \ud800"},{"type":"text","text":"\ud83d\ude00"}],` +
			`"structuredContent":{"k\udc00":"\ud800","n":12345678901234567890123,"deep":[{"\ud83d\ude00":"\\ud800 \udfff"}]}}}`)
		if want := `{"k\ufffd":"\ufffd","n":12345678901234567890123,"deep":[{"\ud83d\ude00":"\\ud800 \ufffd"}]}`; r.Class != events.ClassOK || string(r.Result.Data) != want {
			t.Errorf("%s: %+v", r.Result.Data, r)
		}
		if want := "\uFFFD x \uFFFD\n😀"; r.Result.Text.Text != want {
			t.Errorf("%q", r.Result.Text.Text)
		}
		r = w.verbatim(`{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"{\"k\":\"\ud800\"}"}],"structuredContent":{"k":"\ud800"}}}`)
		if string(r.Result.Data) != `{"k":"\ufffd"}` || r.Result.Text.Text != "" {
			t.Errorf("the text only repeats the data: %+v", r.Result)
		}
		r = w.verbatim(`{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"no \ud800"}}`)
		if r.Result.Error == nil || !strings.HasPrefix(r.Result.Error.Message, "no \uFFFD (error") {
			t.Errorf("%+v", r.Result.Error)
		}
	})
}

// An answer to another request is not this one's, whoever sent it here.
func TestAnAnswerToAnotherRequestOverHTTP(t *testing.T) {
	const id = 7
	other := `{"jsonrpc":"2.0","id":8,"result":{"content":[{"type":"text","text":"another's"}]}}`
	for data, want := range map[string]string{
		other:                                      "error",
		`{"jsonrpc":"2.0","id":7,"result":{}}`:     "{}",
		`{"jsonrpc":"2.0","id":"7","result":{}}`:   "{}",
		`{"jsonrpc":"2.0","id":"07x","result":{}}`: "error",
		`{"jsonrpc":"2.0","id":null,"result":{}}`:  "error",
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"bad"}}`: "bad",
		`{"jsonrpc":"2.0","error":{"code":-32600,"message":"bad"}}`:           "bad",
		`{"jsonrpc":"2.0","id":8,"error":{"code":-32600,"message":"bad"}}`:    "error",
		`{"jsonrpc":"2.0","id":8,"error":"bad"}`:                              "error",
	} {
		msg, err := decodeFor(id, []byte(data))
		got := "error"
		if r, is := msg.(*jsonrpc.Response); is && err == nil {
			if got = string(r.Result); r.Error != nil {
				got = r.Error.Error()
			}
			if r.ID != idOf(id) {
				t.Errorf("%s: id %v", data, r.ID)
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", data, got, want)
		}
	}
	both(t, func(t *testing.T, revision string) {
		w, _ := over(t, mcptest.Options{Revision: revision}, nil, tierOf(events.Irreversible))
		if r := w.verbatim(other); r.Class != events.ClassUnavailable || r.Effects != events.EffectsPossible || r.Answered {
			t.Errorf("%+v", r)
		}
		if r := w.verbatim(fmt.Sprintf(`{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":"n must be positive"}}`, jsonrpc.CodeInvalidParams)); r.Class != events.ClassInvalid {
			t.Errorf("%+v", r)
		}
	})
}

func FuzzAnswersIn(f *testing.F) {
	for _, message := range unreadableAnswers {
		if len(message) < 1000 {
			f.Add([]byte(strings.ReplaceAll(message, "ID", "7")))
		}
	}
	f.Add([]byte(`[{"jsonrpc":"2.0","id":1,"result":{}},{"id":"2","error":{}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":0}{"id":"1" "error":{`))
	f.Fuzz(func(t *testing.T, data []byte) {
		ids := answersIn(data)
		msg, err := decode(data)
		if r, is := msg.(*jsonrpc.Response); is && err == nil {
			if n, isInt := r.ID.Raw().(int64); isInt && len(ids) > 1 {
				t.Errorf("%q answers %d, and %v", data, n, ids)
			}
		}
	})
}

// An answer that can be read is no result all the same: what is wrong with it is said in
// words, and nobody is told of a success.
func TestAnswersThatAreNoResults(t *testing.T) {
	everywhere(t, events.Irreversible, func(t *testing.T, w *world) {
		for result, says := range map[string]string{
			`[]`:                              "it is no object, but of type array",
			`"done"`:                          "it is no object, but of type string",
			`{"content":[],"isError":"yes"}`:  "its isError is of type string",
			`{"content":{"type":"text"}}`:     "its content is of type object",
			`{"task":{"taskId":"1"}}`:         "has begun a task",
			`{"resultType":"x","content":[]}`: "a kind that is not known here: x",
		} {
			r := w.verbatim(`{"jsonrpc":"2.0","id":ID,"result":` + result + `}`)
			if r.Class != events.ClassTool || r.Effects != events.EffectsPossible || !strings.Contains(r.Result.Error.Message, says) || strings.Contains(r.Result.Error.Message, "Go ") {
				t.Errorf("%s: %+v: %+v", result, r, r.Result.Error)
			}
		}
		if r := w.verbatim("\uFEFF" + `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"marked"}]}}`); r.Result.Text.Text != "marked" {
			t.Errorf("behind a byte order mark: %+v", r)
		}
	})
}
