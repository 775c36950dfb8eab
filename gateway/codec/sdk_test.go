package codec

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sluice-run/sluice/events"
)

// sdkCase is a model's message in the shape of a type of a provider's SDK, and what it asks
// for. Each was checked against that type by the compiler of its language.
type sdkCase struct {
	Type    string // package@version and the name of the type
	Format  Format
	Refused bool
	Reason  string
	Calls   []struct {
		ID, Tool, Args string
		Custom         bool
	}
	Wants []string // what the provider wants back, somewhere in the model's message
	Body  json.RawMessage
}

func TestMessagesOfTheSDKs(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "sdk", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	seen := make(map[Format]bool)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var c sdkCase
			if err := json.Unmarshal(raw, &c); err != nil {
				t.Fatal(err)
			}
			seen[c.Format] = true
			checkSDK(t, c)
		})
	}
	for _, f := range Formats() {
		if !seen[f] && f != Neutral {
			t.Errorf("no message of %s", f)
		}
	}
}

func checkSDK(t *testing.T, c sdkCase) {
	if got := Sniff(c.Body); got != c.Format && len(c.Calls) > 0 {
		t.Errorf("%s looks like %s", c.Type, got)
	}
	m, err := Decode(c.Format, c.Body)
	if err != nil || m.Reason != c.Reason {
		t.Fatalf("%+v, %v", m, err)
	}
	want := make([]events.RawCall, len(c.Calls))
	for i, w := range c.Calls {
		want[i] = events.RawCall{ProviderID: w.ID, Tool: w.Tool, Args: events.Body{Text: w.Args}, Custom: w.Custom}
	}
	if len(want) != len(m.Calls) {
		t.Fatalf("%+v", m.Calls)
	}
	for i, got := range m.Calls {
		if (got.Refused != nil) != c.Refused {
			t.Errorf("call %d: refused %+v", i, got.Refused)
		}
		got.Refused, got.Extra = nil, events.Body{}
		if json.Valid([]byte(got.Args.Text)) { // an object is laid out as it came
			got.Args.Text = string(marshal(json.RawMessage(got.Args.Text)))
		}
		if diff := cmp.Diff(want[i], got); diff != "" {
			t.Error(diff)
		}
	}
	if len(m.Calls) == 0 {
		return
	}
	messages, err := Conversation(c.Format, []Turn{{Calls: m.Calls, Answers: answersTo(m.Calls)}}, 0)
	if err != nil || Validate(c.Format, messages) != nil {
		t.Fatalf("%v, %v: %s", err, Validate(c.Format, messages), messages)
	}
	for _, w := range c.Wants {
		if !strings.Contains(string(marshal(messages)), w) {
			t.Errorf("%s is not in %s", w, messages)
		}
	}
}
