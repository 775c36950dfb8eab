package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/bus/vault"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy/secrets"
)

// keyToSeal is a secret that opens nothing.
const keyToSeal = "sk-AAAAAAAAAAAAAAAAAAAAAAAA"

// sealingDesk is a door with a vault.
func sealingDesk(t *testing.T) (*Desk, bus.Bus) {
	t.Helper()
	b := memlog.New(memlog.Config{}).View("door")
	keys, err := secrets.NewKeys(bytes.Repeat([]byte{3}, secrets.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	v, err := vault.New(vault.Config{Cells: b.Cells(), Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return NewDesk(DeskConfig{Bus: b, Vault: v, Declared: func(tool string) []string {
		if tool == "declaring" {
			return []string{"/pin"}
		}
		return nil
	}}), b
}

// storedText is all that the log holds.
func storedText(t *testing.T, b bus.Bus) string {
	t.Helper()
	var out bytes.Buffer
	err := b.Read(t.Context(), events.Position{}, bus.Filter{}, false, func(s bus.Stored) error {
		raw, err := events.Encode(s.Commit)
		out.Write(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func submitText(t *testing.T, d *Desk, envelope string) (Ticket, error) {
	t.Helper()
	o, err := ParseEnvelope([]byte(envelope))
	if err != nil {
		t.Fatal(err)
	}
	return d.Submit(t.Context(), o.Key, o.Turn)
}

func TestSubmissionsAreSealed(t *testing.T) {
	d, b := sealingDesk(t)
	ticket, err := submitText(t, d, `{"trace":"t","turn":"u","secrets":["/everywhere"],"calls":[
		{"id":"call_`+strings.Repeat("A", 24)+`","tool":"a","args":{"token":"abc","everywhere":"xyz"},"key":"k-`+keyToSeal+`"},
		{"id":"toolu_1","tool":"b","args":"{\"v\":\"`+keyToSeal+`\"}"},
		{"id":"fc_1","tool":"b","args":{"mine":"sealed by name","command":"ls"},"secrets":["/mine","/command"]},
		{"tool":"declaring","args":{"pin":"0123-by-schema"}},
		{"id":"named","tool":"deny_`+keyToSeal+`","args":{}},
		{"tool":"c","args":"{\"v\":\"`+keyToSeal+`"},
		{"tool":"d","args":{"v":1}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	v, err := d.Get(t.Context(), ticket.Key)
	if err != nil {
		t.Fatal(err)
	}
	calls := v.Turn.Submitted.Calls
	for i, want := range []struct {
		refs    int
		refused bool
		id      string
	}{{2, false, "call_" + strings.Repeat("A", 24)}, {1, false, "toolu_1"}, {0, true, "fc_1"}, {1, false, ""}, {0, true, "named"}, {0, true, ""}, {0, false, ""}} {
		c := calls[i]
		if len(c.Secrets) != want.refs || (c.Refused != nil) != want.refused || c.ProviderID != want.id {
			t.Errorf("call %d: %+v", i, c)
		}
	}
	all := storedText(t, b)
	for _, s := range []string{keyToSeal, `"abc"`, `"xyz"`, "0123-by-schema"} {
		if strings.Contains(all, s) {
			t.Errorf("%s is stored", s)
		}
	}
	if !strings.HasPrefix(calls[0].Key, "k-sluice-secret-") {
		t.Errorf("the idempotency key became %q", calls[0].Key)
	}
	values, err := d.vault.Open(t.Context(), ticket.Key.Call(1), calls[1].Secrets)
	if err != nil || values[calls[1].Secrets[0].ID].Text() != keyToSeal {
		t.Errorf("the value: %q, %v", values, err)
	}
}

// TestReferencesFromOutside: who submits cannot name what others have sealed.
func TestReferencesFromOutside(t *testing.T) {
	d, _ := sealingDesk(t)
	first, err := submitText(t, d, `{"trace":"t","turn":"u","calls":[{"tool":"a","args":{"token":"abc"}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	v, err := d.Get(t.Context(), first.Key)
	if err != nil {
		t.Fatal(err)
	}
	ref := v.Turn.Submitted.Calls[0].Secrets[0]
	stolen := events.TurnSubmitted{Principal: events.Principal{ID: "x"}, Calls: []events.RawCall{
		{Tool: "a", Args: events.Body{Text: `{"token":"` + secrets.Placeholder(ref.ID) + `"}`}, Secrets: []events.SecretRef{ref}},
		{Tool: "a", Args: events.Body{Text: `{"v":1}`}, Secrets: []events.SecretRef{ref}},
	}}
	ticket, err := d.Submit(t.Context(), events.TurnKey{}, stolen)
	if err != nil {
		t.Fatal(err)
	}
	if v, err = d.Get(t.Context(), ticket.Key); err != nil {
		t.Fatal(err)
	}
	for i, c := range v.Turn.Submitted.Calls {
		if len(c.Secrets) > 0 || (c.Refused != nil) != (i == 0) {
			t.Errorf("call %d: %+v", i, c)
		}
	}
}

func TestADoorWithoutAVault(t *testing.T) {
	b := memlog.New(memlog.Config{}).View("door")
	d := NewDesk(DeskConfig{Bus: b})
	ticket, err := submitText(t, d, `{"calls":[{"tool":"a","args":{"token":"abc-def"}},{"tool":"a","args":{"v":1}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	v, err := d.Get(t.Context(), ticket.Key)
	if err != nil {
		t.Fatal(err)
	}
	calls := v.Turn.Submitted.Calls
	if r := calls[0].Refused; r == nil || r.Code != events.AccessDenied || strings.Contains(storedText(t, b), "abc-def") || calls[1].Refused != nil {
		t.Errorf("%+v", calls)
	}
}

// TestNothingIsLeftOfWhatCameToNothing: values of submissions that lost are forgotten.
func TestNothingIsLeftOfWhatCameToNothing(t *testing.T) {
	d, b := sealingDesk(t)
	first, err := submitText(t, d, `{"trace":"t","turn":"u","calls":[{"tool":"a","args":{"token":"abc"}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := submitText(t, d, `{"trace":"t","turn":"u","calls":[{"tool":"a","args":{"token":"abc"}}]}`); err != nil || !again.Attached {
		t.Errorf("the same again: %+v, %v", again, err)
	}
	if _, err := submitText(t, d, `{"trace":"t","turn":"u","calls":[{"tool":"a","args":{"token":"xyz"}}]}`); !errors.Is(err, lifecycle.ErrDifferent) {
		t.Errorf("another secret: %v", err)
	}
	cells := 0
	errSeen := errors.New("all were seen")
	err = b.Cells().Watch(t.Context(), bus.BucketSecrets, "", func(c bus.Cell) error {
		if c.Key == "" {
			return errSeen
		}
		cells++
		return nil
	})
	if !errors.Is(err, errSeen) || cells != 1 {
		t.Errorf("%d values are kept, want 1: %v", cells, err)
	}
	v, err := d.Get(t.Context(), first.Key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.vault.Open(t.Context(), first.Key.Call(0), v.Turn.Submitted.Calls[0].Secrets); err != nil {
		t.Errorf("the value of the turn that is there: %v", err)
	}
}

func TestChangedArgumentsAreSealed(t *testing.T) {
	d, _ := sealingDesk(t)
	ticket, err := submitText(t, d, `{"trace":"t","turn":"u","calls":[{"tool":"a","args":{"token":"abc","x":"1"}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	v, err := d.Get(t.Context(), ticket.Key)
	if err != nil {
		t.Fatal(err)
	}
	was, ref := v.Turn.Submitted.Calls[0], v.Turn.Submitted.Calls[0].Secrets[0]
	call := ticket.Key.Call(0)
	if _, err := d.act(t.Context(), ticket.Key, lifecycle.CancelCall{Call: 0, By: events.Principal{ID: "p", Kind: "person"}, Reason: "with " + keyToSeal}); err != nil {
		t.Fatal(err) // it makes the call's request, which has its references
	}
	args, refs, err := d.sealChanged(t.Context(), call, strings.Replace(was.Args.Text, `"1"`, `"2"`, 1))
	if err != nil || len(refs) != 1 || refs[0] != ref || !bytes.Contains(args.JSON, []byte(`"2"`)) {
		t.Errorf("a placeholder that stays: %s %v %v", args.JSON, refs, err)
	}
	args, refs, err = d.sealChanged(t.Context(), call, `{"token":"new","x":"1"}`)
	if err != nil || len(refs) != 1 || refs[0] == ref || bytes.Contains(args.JSON, []byte("new")) {
		t.Errorf("a new secret: %s %v %v", args.JSON, refs, err)
	}
	values, err := d.vault.Open(t.Context(), call, refs)
	if err != nil || values[refs[0].ID].Text() != "new" {
		t.Errorf("its value: %q, %v", values, err)
	}
	for _, text := range []string{`{"x":"` + secrets.Placeholder(ref.ID) + `"}`, `{"x":"` + secrets.Mark(secrets.Token) + `"}`, `{"token":"` + keyToSeal, `[]`} {
		if _, _, err := d.sealChanged(t.Context(), call, text); !errors.Is(err, lifecycle.ErrArgs) || strings.Contains(err.Error(), keyToSeal) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if strings.Contains(storedText(t, d.bus), keyToSeal) {
		t.Error("a reason is stored with a secret in it")
	}
}

func TestImportsAreRedacted(t *testing.T) {
	d, b := sealingDesk(t)
	recording := `{"messages":[{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"token\":\"` + keyToSeal + `\"}"}}]},` +
		`{"role":"tool","tool_call_id":"call_1","content":"API_KEY=` + keyToSeal + ` ok"}]}`
	for range 2 { // the same again is the same
		if _, err := d.Import(t.Context(), strings.NewReader(recording), "test"); err != nil {
			t.Fatal(err)
		}
	}
	if all := storedText(t, b); strings.Contains(all, keyToSeal) || !strings.Contains(all, "[redacted: ") || !strings.Contains(all, "call_1") {
		t.Errorf("stored: %q", all)
	}
}

func TestProblemsAreDiscreet(t *testing.T) {
	p := BadRequest("workspace \"/x?password=hunter2\" with "+keyToSeal, "mend https://u:p@h/").discreet()
	text, err := json.Marshal(p)
	if err != nil || strings.Contains(string(text), keyToSeal) || strings.Contains(string(text), ":p@") || strings.Contains(string(text), "hunter2") {
		t.Errorf("%s, %v", text, err)
	}
}

func TestDeclarationsAreChecked(t *testing.T) {
	for _, envelope := range []string{
		`{"secrets":["token"],"calls":[{"tool":"a"}]}`, `{"secrets":["/` + strings.Repeat("x", 300) + `"],"calls":[{"tool":"a"}]}`,
		`{"calls":[{"tool":"a","secrets":["token"]}]}`, `{"calls":[{"tool":"a","secrets":{"x":1}}]}`, `{"calls":[{"tool":"a","secrets":[` + strings.TrimSuffix(strings.Repeat(`"/a",`, 65), ",") + `]}]}`,
	} {
		var p *Problem
		if _, err := ParseEnvelope([]byte(envelope)); !errors.As(err, &p) || p.Status != 400 {
			t.Errorf("%.80s: %v, want a problem", envelope, err)
		}
	}
}

// TestWhatIsDeclaredMustBeThere: a pointer to nothing is a mistake that would store the
// secret which it was meant for.
func TestWhatIsDeclaredMustBeThere(t *testing.T) {
	d, b := sealingDesk(t)
	api := newDoor(t, func(c *APIConfig) { c.Desk = d })
	const secret = "plain words that are secret"
	for name, body := range map[string]string{
		"of a call":           `{"calls":[{"tool":"a","args":{"v":"` + secret + `"},"secrets":["/vv"]}]}`,
		"one of two":          `{"calls":[{"tool":"a","args":{"v":"` + secret + `"},"secrets":["/v","/vv"]}]}`,
		"of the second call":  `{"calls":[{"tool":"a"},{"tool":"a","args":{"v":"` + secret + `"},"secrets":["/vv"]}]}`,
		"no arguments":        `{"calls":[{"tool":"a","secrets":["/vv"]}]}`,
		"true":                `{"calls":[{"tool":"a","args":{"vv":true},"secrets":["/vv"]}]}`,
		"of the envelope":     `{"secrets":["/vv"],"calls":[{"tool":"a","args":{"v":"` + secret + `"}},{"tool":"b","args":{"w":1}}]}`,
		"of both, one fits":   `{"secrets":["/v","/vv"],"calls":[{"tool":"a","args":{"v":"` + secret + `"}}]}`,
		"a provider's":        `{"secrets":["/vv"],"message":{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"a","arguments":"{\"v\":\"` + secret + `\"}"}}]}}`,
		"of a call, for what": `{"secrets":["/v"],"calls":[{"tool":"a","args":{"v":"` + secret + `"}},{"tool":"b","args":{"w":1},"secrets":["/vv"]}]}`,
	} {
		if got := api.want(422, `names no argument of`, "POST", "/v1/turns", body); !strings.Contains(got, `/vv`) || strings.Contains(got, secret) {
			t.Errorf("%s: %s", name, got)
		}
	}
	if all := storedText(t, b); all != "" {
		t.Errorf("something was kept: %s", all)
	}
	n := newNATSDoor(t)
	for _, body := range []string{`{"calls":[{"tool":"a","args":{"v":"x"},"secrets":["/vv"]}]}`, `{"secrets":["/vv"],"calls":[{"tool":"a","args":{"v":"x"}}]}`} {
		if a := n.ask("sub", "submit", body); a.Status != 422 || !strings.Contains(string(a.Body), "/vv") {
			t.Errorf("over NATS: %d %s", a.Status, a.Body)
		}
	}
	ticket, err := submitText(t, d, `{"trace":"t","turn":"u","secrets":["/v"],"calls":[{"tool":"a","args":{"v":"`+secret+`"}},{"tool":"b","args":{"w":1}},{"tool":"c","args":"{\"v\":\"`+secret+`\""},{"tool":"`+strings.Repeat("n", 200)+`","args":{"v":"`+secret+`"}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	v, err := d.Get(t.Context(), ticket.Key)
	if err != nil {
		t.Fatal(err)
	}
	calls := v.Turn.Submitted.Calls
	if len(calls[0].Secrets) != 1 || len(calls[1].Secrets) != 0 || calls[1].Refused != nil || calls[2].Refused == nil || calls[3].Refused == nil || strings.Contains(storedText(t, b), secret) {
		t.Errorf("%+v", calls)
	}
	if _, err := submitText(t, d, `{"calls":[{"tool":"a","args":"{\"v\":\"`+secret+`\"","secrets":["/v"]},{"tool":"a","args":{"v":"`+secret+`","command":"x"},"secrets":["/v","/command"]}]}`); err != nil || strings.Contains(storedText(t, b), secret) {
		t.Errorf("a secret of a call that is refused is stored, %v", err)
	}
}

// TestAChangedSecretIsOne: what a person puts in the place of a declared secret.
func TestAChangedSecretIsOne(t *testing.T) {
	d, _ := sealingDesk(t)
	ticket, err := submitText(t, d, `{"trace":"t","turn":"u","calls":[{"tool":"a","args":{"v":"plain words","x":"1"},"secrets":["/v"]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.act(t.Context(), ticket.Key, lifecycle.CancelCall{Call: 0, By: events.Principal{ID: "p", Kind: "person"}}); err != nil {
		t.Fatal(err) // it makes the call's request
	}
	args, refs, err := d.sealChanged(t.Context(), ticket.Key.Call(0), `{"v":"other words","x":"2"}`)
	if err != nil || len(refs) != 1 || bytes.Contains(args.JSON, []byte("other words")) || !bytes.Contains(args.JSON, []byte(`"x":"2"`)) {
		t.Errorf("%s %v %v", args.JSON, refs, err)
	}
}
