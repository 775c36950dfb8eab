package actors

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/bus/vault"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/policy/secrets"
	"github.com/sluice-run/sluice/tools"
)

// theSecret is what must be nowhere but in the tool's hands.
const theSecret = "sk-AAAAAAAAAAAAAAAAAAAAAAAA"

// keysFor are keys that a vault of a test has.
func keysFor(t *testing.T, b byte) *secrets.Keys {
	t.Helper()
	k, err := secrets.NewKeys(bytes.Repeat([]byte{b}, secrets.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func vaultOf(t *testing.T, c vault.Config) *vault.Vault {
	t.Helper()
	v, err := vault.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// safe is a log with a door, a node and whatever either of them says.
type safe struct {
	t    *testing.T
	log  *memlog.Log
	bus  bus.Bus
	desk *gateway.Desk

	mu   sync.Mutex
	said bytes.Buffer // the log lines, and the live events
}

func (s *safe) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said.Write(p)
}

// newSafe starts a node with tools, and a door; values are sealed under one key.
func newSafe(t *testing.T, change func(*Config), list ...tools.Tool) *safe {
	t.Helper()
	s := &safe{t: t, log: memlog.New(memlog.Config{})}
	s.bus = s.log.View("door")
	log := slog.New(slog.NewTextHandler(s, nil))
	door := vaultOf(t, vault.Config{Cells: s.bus.Cells(), Keys: keysFor(t, 1)})
	s.desk = gateway.NewDesk(gateway.DeskConfig{Bus: s.bus, Vault: door, Log: log})
	view := s.log.View("node")
	testNode(t, view, func(c *Config) {
		c.Vault = vaultOf(t, vault.Config{Cells: view.Cells(), Keys: keysFor(t, 1)})
		c.Log = log
		if change != nil {
			change(c)
		}
	}, list...)
	ctx, stop := context.WithCancel(t.Context())
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		_ = s.bus.Listen(ctx, ">", func(subject string, event []byte) { fmt.Fprintf(s, "%s %s\n", subject, event) })
	}()
	t.Cleanup(func() { stop(); <-heard })
	return s
}

// run submits one call and waits for its turn's end.
func (s *safe) run(tool, args string, declared ...string) *lifecycle.Call {
	s.t.Helper()
	raw := events.RawCall{ProviderID: "call_1", Tool: tool, Args: events.Body{Text: args}}
	for _, p := range declared {
		if p != "" {
			raw.Secrets = append(raw.Secrets, events.SecretRef{Path: p})
		}
	}
	ticket, err := s.desk.Submit(s.t.Context(), events.TurnKey{}, events.TurnSubmitted{Principal: events.Principal{ID: "a"}, Calls: []events.RawCall{raw}})
	if err != nil {
		s.t.Fatal(err)
	}
	turn := ended(s.t, s.bus, ticket.Key)
	if turn.Submitted.Calls[0].ProviderID != "call_1" {
		s.t.Errorf("the provider's id became %q", turn.Submitted.Calls[0].ProviderID)
	}
	return turn.Calls[0]
}

// everything is all that was stored or said, but for the vault.
func (s *safe) everything() string {
	s.t.Helper()
	var out bytes.Buffer
	var refs []events.BlobRef
	err := s.bus.Read(s.t.Context(), events.Position{}, bus.Filter{}, false, func(st bus.Stored) error {
		b, err := events.Encode(st.Commit)
		out.Write(b)
		text, _ := json.Marshal(st.Commit)
		out.Write(text)
		for _, r := range st.Commit.Records {
			if o := events.OutcomeOf(r.Event); o != nil {
				refs = append(refs, o.Result.Blobs...)
				if o.Result.Cut != nil {
					refs = append(refs, o.Result.Cut.Whole)
				}
			}
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, r := range refs {
		b, err := s.bus.Blobs().Get(s.t.Context(), r)
		if err != nil {
			s.t.Errorf("blob %s: %v", r.Digest, err)
		}
		out.Write(b)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out.Write(s.said.Bytes())
	return out.String()
}

// without fails where a secret stands anywhere in what was stored or said.
func (s *safe) without(secret string) {
	s.t.Helper()
	all := s.everything()
	for name, form := range map[string]string{
		"as it is": secret, "in base64": base64.StdEncoding.EncodeToString([]byte(secret))[:8], "for a URL": url.QueryEscape(secret),
	} {
		if i := strings.Index(all, form); i >= 0 {
			s.t.Errorf("the secret is there %s: …%q…", name, all[max(0, i-80):min(len(all), i+60)])
		}
	}
}

// teller is a tool that tells what it was given in every way there is.
func teller(got *[]string, how string) tools.Tool {
	return testTool("teller", events.Irreversible, func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		var args struct{ Token string }
		err := json.Unmarshal(in.Args, &args)
		*got = append(*got, args.Token)
		in.Progress(events.Progress{Text: strings.Repeat("x", 500) + args.Token})
		coded := base64.StdEncoding.EncodeToString([]byte("u:" + args.Token))
		text := "token " + args.Token + " is " + coded + " or https://h/?x=" + url.QueryEscape(args.Token)
		data, _ := json.Marshal(map[string]any{"args": json.RawMessage(in.Args), args.Token: coded})
		r := events.Result{
			Status: events.Success, Text: events.Body{Text: text}, Data: data,
			Context: []events.Modifier{{Name: "c", Value: json.RawMessage(`"` + args.Token + `"`)}},
		}
		switch how {
		case "error":
			return r, &tools.Error{Code: events.ExecutionError, Message: "dial https://u:p@h/ with " + args.Token, Result: &r}
		case "our error":
			return r, errors.Join(err, fmt.Errorf("no luck with %s", args.Token))
		case "panic":
			panic("broke with " + args.Token)
		case "binary":
			r.Text.Text = "\x00\x01\xff" + strings.Repeat(args.Token+"\x00", 50)
		case "long":
			r.Text.Text = strings.Repeat("line with "+args.Token+" in it\n", 5000)
		}
		return r, err
	})
}

func TestSecretsReachTheToolAlone(t *testing.T) {
	for _, how := range []string{"answer", "error", "our error", "panic", "binary", "long"} {
		t.Run(how, func(t *testing.T) {
			var got []string
			s := newSafe(t, nil, teller(&got, how))
			call := s.run("teller", `{"token":"`+theSecret+`","v":"https://u:p4ssw0rd@h/"}`)
			if len(got) != 1 || got[0] != theSecret {
				t.Errorf("the tool was given %q", got)
			}
			if call.Outcome == nil {
				t.Fatalf("it ended as %s: %+v", call.Last, call.Terminal)
			}
			s.without(theSecret)
			s.without("p4ssw0rd")
			if !strings.Contains(s.everything(), "sluice-secret-") {
				t.Error("there is no placeholder: the test looks at nothing")
			}
		})
	}
}

// TestSecretsAreForgotten: with its turn's end a value goes.
func TestSecretsAreForgotten(t *testing.T) {
	var got []string
	s := newSafe(t, nil, teller(&got, "answer"))
	s.run("teller", `{"token":"`+theSecret+`"}`)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	errGone := errors.New("gone")
	there := 0
	err := s.bus.Cells().Watch(ctx, bus.BucketSecrets, "", func(c bus.Cell) error {
		switch {
		case c.Key == "" && there == 0:
			return errGone
		case c.Key != "" && c.Value == nil:
			if there--; there == 0 {
				return errGone
			}
		case c.Key != "":
			there++
		}
		return nil
	})
	if !errors.Is(err, errGone) {
		t.Errorf("%d values are left: %v", there, err)
	}
}

// TestWithoutTheValueNothingRuns: no tool is ever given a placeholder.
func TestWithoutTheValueNothingRuns(t *testing.T) {
	for name, v := range map[string]func(*testing.T, bus.Bus) Vault{
		"no vault":  func(*testing.T, bus.Bus) Vault { return nil },
		"in memory": func(t *testing.T, _ bus.Bus) Vault { return vaultOf(t, vault.Config{}) },
		"another key": func(t *testing.T, b bus.Bus) Vault {
			return vaultOf(t, vault.Config{Cells: b.Cells(), Keys: keysFor(t, 2)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			own := &safe{t: t, log: memlog.New(memlog.Config{})}
			own.bus = own.log.View("door")
			own.desk = gateway.NewDesk(gateway.DeskConfig{Bus: own.bus, Vault: vaultOf(t, vault.Config{Cells: own.bus.Cells(), Keys: keysFor(t, 1)})})
			testNode(t, own.log.View("node"), func(c *Config) { c.Vault = v(t, own.bus) }, teller(&got, "answer"))
			call := own.run("teller", `{"token":"`+theSecret+`"}`)
			o := call.Outcome
			if len(got) > 0 || o == nil || o.Result.Error == nil || o.Result.Error.Code != events.AccessDenied || o.Effects != events.EffectsNone || call.Last != events.KindFailed {
				t.Errorf("given %q; ended as %s: %+v", got, call.Last, o)
			}
			if o != nil && !strings.Contains(o.Result.Error.Message, "send the call again") {
				t.Errorf("it says %q", o.Result.Error.Message)
			}
		})
	}
}

// guardedTool is a tool whose operation depends on arguments with plain names.
func guardedTool(got *[]string) tools.Tool {
	t := testTool("act", events.Irreversible, func(_ context.Context, in tools.Invocation) (events.Result, error) {
		*got = append(*got, string(in.Args))
		return events.Result{Status: events.Success}, nil
	})
	str := func(args json.RawMessage, name string) string { return stringAt(args, "/"+name) }
	t.Schema = json.RawMessage(`{"type":"object","properties":{"short":{"type":"string","pattern":"^k-[a-z]+$","maxLength":9},"count":{"type":"integer","minimum":5}}}`)
	t.Operation = func(args json.RawMessage) events.Operation {
		op := events.Operation{Class: events.OpExecute}
		if v := str(args, "location"); v != "" {
			op.Paths = []string{v}
		}
		if v := str(args, "verb"); v != "" {
			op.Commands = strings.Split(v, ";")
		}
		return op
	}
	t.TierOf = func(args json.RawMessage) events.Tier {
		if str(args, "how") == "gentle" {
			return events.Readonly
		}
		return events.Irreversible
	}
	t.Resources = func(args json.RawMessage) []events.ResourceUse {
		if v := str(args, "thing"); v != "" {
			return []events.ResourceUse{{Name: "thing:" + strings.ToLower(v), Exclusive: true}}
		}
		return nil
	}
	return t
}

// wordy is a policy that looks at the arguments.
type wordy struct{ lax }

func (wordy) Authorize(r policy.Request) policy.Verdict {
	v := policy.Verdict{Decision: policy.Allow, Policies: []string{"wordy"}, Version: "lax"}
	switch {
	case bytes.Contains(r.Args, []byte("forbidden")):
		v.Decision, v.Code, v.Reason = policy.Deny, events.PermissionDenied, "The word forbidden is not allowed."
	case bytes.Contains(r.Args, []byte("delicate")):
		v.Decision, v.Reason = policy.Ask, "The word is delicate."
	}
	return v
}

// TestASecretHidesNothing: what would be judged otherwise with its value in it is not
// run, whatever the name of the argument.
func TestASecretHidesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		args, secret string
		runs         bool
		says         string
	}{
		"a file":                  {`{"location":"/etc/passwd"}`, "/location", false, "names a file"},
		"a command":               {`{"verb":"ls;rm"}`, "/verb", false, "something else"},
		"one command":             {`{"verb":"ls"}`, "/verb", true, ""},
		"a tier":                  {`{"how":"gentle"}`, "/how", false, "something else"},
		"a resource":              {`{"thing":"ABC"}`, "/thing", false, "something else"},
		"a word of the policy":    {`{"note":"forbidden"}`, "/note", false, "is not allowed"},
		"a question":              {`{"note":"delicate"}`, "/note", false, "person's approval"},
		"a harmless word":         {`{"note":"fine"}`, "/note", true, ""},
		"a pattern that fits":     {`{"short":"k-abc"}`, "/short", true, ""},
		"a pattern that does not": {`{"short":"K1"}`, "/short", false, "schema"},
		"a number":                {`{"count":7}`, "/count", true, ""},
		"a number too small":      {`{"count":2}`, "/count", false, "schema"},
		"a password":              {`{"password":"x","note":"fine"}`, "", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			s := newSafe(t, func(c *Config) { c.Authorizer = wordy{} }, guardedTool(&got))
			call := s.run("act", c.args, c.secret)
			if c.runs {
				if len(got) != 1 || got[0] != c.args || call.Last != events.KindCompleted {
					t.Errorf("given %q; ended as %s: %+v", got, call.Last, call.Terminal)
				}
				return
			}
			if len(got) > 0 {
				t.Fatalf("it ran with %q", got)
			}
			o := call.Outcome
			if d, ok := call.Terminal.(*events.Denied); ok { // before anybody was asked
				o = &events.Outcome{Effects: events.EffectsNone, Result: events.Result{Error: &events.Error{Code: d.Code, Message: d.Reason}}}
			}
			if o == nil || o.Result.Error == nil || o.Result.Error.Code != events.AccessDenied || o.Effects != events.EffectsNone || !strings.Contains(o.Result.Error.Message, c.says) {
				t.Errorf("ended as %s: %+v", call.Last, call.Terminal)
			}
			if value := strings.Trim(c.args[strings.Index(c.args, ":")+1:], `"}`); len(value) > 6 && c.says != "is not allowed" {
				s.without(value)
			}
		})
	}
}

// furnished is a workspace with some things in it.
func furnished(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, err := range []error{
		os.WriteFile(filepath.Join(dir, "s.sh"), nil, 0o600), os.WriteFile(filepath.Join(dir, "evil7.sh"), nil, 0o600),
		os.Mkdir(filepath.Join(dir, "folder7"), 0o700), os.Symlink("nothing", filepath.Join(dir, "link7x")), os.Symlink("/etc", filepath.Join(dir, "out7")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// naming is a tool of whose line a word may name a file, and a part of it, too.
func naming(got *string) tools.Tool {
	run := testTool("run", events.Irreversible, func(_ context.Context, in tools.Invocation) (events.Result, error) {
		*got = stringAt(in.Args, "/line")
		return events.Result{Status: events.Success}, nil
	})
	run.Operands = func(args json.RawMessage) []string {
		_, value, _ := strings.Cut(stringAt(args, "/line"), "=")
		_, part, cut := strings.Cut(value, "=")
		if !cut {
			part = value[1:]
		}
		return []string{"s.sh", value, part}
	}
	return run
}

// TestASecretInAWordIsNoFile: a word with a secret in it keeps nobody from running what
// was agreed to, and names no file that nobody was shown.
func TestASecretInAWordIsNoFile(t *testing.T) {
	for name, c := range map[string]struct {
		secret string
		after  string // file that is made once somebody is asked
		ends   events.Kind
		asked  bool
	}{
		"a key":                        {theSecret, "", events.KindCompleted, true},
		"with marks that are cut at":   {"Zm9v=YmFyYmF6cXV4/cXV4cQ==", "", events.KindCompleted, true},
		"below nothing":                {"/9j/4AAQSkZJRgABAQ", "", events.KindCompleted, true},
		"a file that is there":         {"evil7.sh", "", events.KindDenied, false},
		"a folder that is there":       {"folder7", "", events.KindDenied, false},
		"a link to nothing":            {"link7x", "", events.KindDenied, false},
		"behind a link that leads out": {"out7/passwd", "", events.KindDenied, false},
		"what was named already":       {"s.sh", "", events.KindDenied, false},
		"a file outside":               {"/etc/passwd", "", events.KindFailed, true},
		"a file that comes":            {"comes7.sh", "comes7.sh", events.KindFailed, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, dir := "", furnished(t)
			run := naming(&got)
			s := newSafe(t, func(c *Config) { c.Authorizer, c.Workspace = wordy{}, dir }, run)
			line := "./s.sh delicate --token=" + c.secret
			ticket, err := s.desk.Submit(t.Context(), events.TurnKey{}, events.TurnSubmitted{CanAsk: true, Principal: events.Principal{ID: "a"}, Calls: []events.RawCall{
				{Tool: "run", Args: events.Body{Text: `{"line":"` + line + `"}`}},
			}})
			if err != nil {
				t.Fatal(err)
			}
			turn := until(t, s.bus, ticket.Key, "asking", func(turn lifecycle.Turn) bool {
				return len(turn.Calls) > 0 && (turn.Calls[0].Phase == lifecycle.PhaseAsking || turn.Calls[0].Terminal != nil)
			})
			if asked := turn.Calls[0].Asked; (asked != nil) != c.asked || asked != nil && len(asked.Operands) != 1 {
				t.Fatalf("asked: %+v; ended as %+v", asked, turn.Calls[0].Terminal)
			}
			if c.after != "" {
				if err := os.WriteFile(filepath.Join(dir, c.after), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if c.asked {
				as(t, s.bus, ticket.Key, lifecycle.Approve{Call: 0, By: boss})
			}
			call := ended(t, s.bus, ticket.Key).Calls[0]
			if call.Last != c.ends || (got == line) != (c.ends == events.KindCompleted) {
				t.Errorf("given %q; ended as %s: %+v", got, call.Last, call.Terminal)
			}
			if strings.Count(line, c.secret) == 1 {
				s.without(c.secret)
			}
		})
	}
}

// TestPlaceholdersOfOthers: a placeholder that a model writes is never opened.
func TestPlaceholdersOfOthers(t *testing.T) {
	var got []string
	s := newSafe(t, nil, teller(&got, "answer"))
	s.run("teller", `{"token":"`+theSecret+`"}`)
	all := s.everything()
	at := strings.Index(all, "sluice-secret-")
	stolen := all[at : at+secrets.PlaceholderLength]
	for _, args := range []string{`{"token":"` + stolen + `"}`, `{"x":"say ` + stolen + `","token":"other"}`, `{"token":"` + theSecret + `","x":"` + stolen + `"}`} {
		if call := s.run("teller", args); call.Last != events.KindDenied {
			t.Errorf("%s: ended as %s", args, call.Last)
		}
	}
	if len(got) != 1 {
		t.Errorf("the tool was given %q", got)
	}
	// Written into the log by somebody who is no door, it is opened for no other call.
	raw := events.RawCall{Tool: "teller", Args: events.Body{Text: `{"token":"` + stolen + `"}`}, Secrets: []events.SecretRef{{ID: strings.TrimPrefix(stolen, "sluice-secret-"), Path: "/token"}}}
	key := submit(t, s.bus, events.TurnSubmitted{Calls: []events.RawCall{raw}})
	if c := ended(t, s.bus, key).Calls[0]; c.Last != events.KindFailed || len(got) != 1 {
		t.Errorf("a stolen reference: ended as %s, given %q", c.Last, got)
	}
}

// TestWhatToolsFindIsTakenOut: an output may hold secrets that nobody has given.
func TestWhatToolsFindIsTakenOut(t *testing.T) {
	reader := testTool("reader", events.Readonly, func(context.Context, tools.Invocation) (events.Result, error) {
		return events.Result{Status: events.Success, Text: events.Body{Text: "A=1\nAPI_KEY=" + theSecret + "\n\x1b[1msk-\x1b[0mBBBBBBBBBBBBBBBBBBBBBBBB\n"}}, nil
	})
	s := newSafe(t, nil, reader)
	if got := s.run("reader", `{}`).Outcome.Result.Text.Text; !strings.HasPrefix(got, "A=1\nAPI_KEY="+secrets.Mark(secrets.Secret)) {
		t.Errorf("got %q", got)
	}
	s.without(theSecret)
	s.without("sk-BBBBBBBBBBBBBBBBBBBBBBBB")
	binary := newSafe(t, nil, testTool("binary", events.Readonly, func(context.Context, tools.Invocation) (events.Result, error) {
		return events.Result{Status: events.Success, Text: events.Body{Text: "\x00\x01\xff" + strings.Repeat("\x00"+theSecret, 9)}}, nil
	}))
	if blobs := binary.run("binary", `{}`).Outcome.Result.Blobs; len(blobs) != 1 {
		t.Errorf("a binary answer is kept in %d blobs", len(blobs))
	}
	binary.without(theSecret)
	shown := newSafe(t, func(c *Config) { c.ShowSecrets = true }, reader)
	if got := shown.run("reader", `{}`).Outcome.Result.Text.Text; !strings.Contains(got, theSecret) {
		t.Errorf("with ShowSecrets: got %q", got)
	}
}

// TestMarksAreNotWritten: what was taken out of a text must not be taken for the text.
func TestMarksAreNotWritten(t *testing.T) {
	var got []string
	s := newSafe(t, nil, teller(&got, "answer"))
	call := s.run("teller", `{"text":"API_KEY=`+secrets.Mark(secrets.APIKey)+`"}`)
	d, ok := call.Terminal.(*events.Denied)
	if !ok || d.Code != events.InvalidParam || !strings.Contains(d.Reason, "it is not the secret") || len(got) > 0 {
		t.Errorf("ended as %s: %+v, given %q", call.Last, call.Terminal, got)
	}
}

// TestSecretsOutliveTheirNode: another node with the key runs what the first has left.
func TestSecretsOutliveTheirNode(t *testing.T) {
	log := memlog.New(memlog.Config{})
	door := log.View("door")
	desk := gateway.NewDesk(gateway.DeskConfig{Bus: door, Vault: vaultOf(t, vault.Config{Cells: door.Cells(), Keys: keysFor(t, 1)})})
	raw := events.RawCall{Tool: "teller", Args: events.Body{Text: `{"token":"` + theSecret + `"}`}}
	sub := events.TurnSubmitted{Principal: events.Principal{ID: "a"}, Calls: []events.RawCall{raw}}
	first, err := desk.Submit(t.Context(), events.TurnKey{Trace: "t", Turn: "u"}, sub)
	if err != nil {
		t.Fatal(err)
	}
	other := log.View("other door") // with an older key, too: ids stay
	keys, err := secrets.NewKeys(bytes.Repeat([]byte{9}, secrets.KeySize), bytes.Repeat([]byte{1}, secrets.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	again, err := gateway.NewDesk(gateway.DeskConfig{Bus: other, Vault: vaultOf(t, vault.Config{Cells: other.Cells(), Keys: keys})}).Submit(t.Context(), first.Key, sub)
	if err != nil || !again.Attached {
		t.Errorf("the same again: %+v, %v", again, err)
	}
	sub.Calls[0].Args.Text = `{"token":"another-` + theSecret + `"}`
	if _, err := desk.Submit(t.Context(), first.Key, sub); !errors.Is(err, lifecycle.ErrDifferent) {
		t.Errorf("another secret: %v, want ErrDifferent", err)
	}
	var got []string
	node := log.View("node")
	testNode(t, node, func(c *Config) { c.Vault = vaultOf(t, vault.Config{Cells: node.Cells(), Keys: keys}) }, teller(&got, "answer"))
	if call := ended(t, door, first.Key).Calls[0]; call.Last != events.KindCompleted || len(got) != 1 || got[0] != theSecret {
		t.Errorf("ended as %s, given %q", call.Last, got)
	}
}

// TestAPersonSeesPlaceholders: what is asked about holds no value, and a person may change
// the arguments around it, or give another one.
func TestAPersonSeesPlaceholders(t *testing.T) {
	for name, change := range map[string]func(args string) (changed, want string){
		"as it is": func(string) (string, string) { return "", `{"token":"` + theSecret + `","x":"1"}` },
		"around it": func(args string) (string, string) {
			return strings.Replace(args, `"1"`, `"2"`, 1), `{"token":"` + theSecret + `","x":"2"}`
		},
		"another secret": func(string) (string, string) { return `{"token":"new-one","x":"1"}`, `{"token":"new-one","x":"1"}` },
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			tool := testTool("danger", events.Approval, func(_ context.Context, in tools.Invocation) (events.Result, error) {
				got = append(got, string(in.Args))
				return events.Result{Status: events.Success}, nil
			})
			s := newSafe(t, func(c *Config) { c.Authorizer = askingAll{} }, tool)
			raw := events.RawCall{Tool: "danger", Args: events.Body{Text: `{"token":"` + theSecret + `","x":"1"}`}}
			ticket, err := s.desk.Submit(t.Context(), events.TurnKey{}, events.TurnSubmitted{Principal: events.Principal{ID: "a"}, CanAsk: true, Calls: []events.RawCall{raw}})
			if err != nil {
				t.Fatal(err)
			}
			asked := until(t, s.bus, ticket.Key, "the question", func(turn lifecycle.Turn) bool {
				return len(turn.Calls) > 0 && turn.Calls[0].Phase == lifecycle.PhaseAsking
			})
			yes := gateway.Decision{Yes: true, By: events.Principal{ID: "p", Kind: "person"}}
			changed, want := change(asked.Calls[0].Args.Text)
			if changed != "" {
				yes.Args = &changed
			}
			id := gateway.ApprovalID{Call: ticket.Key.Call(0)}
			if _, err := s.desk.Decide(t.Context(), id, yes); err != nil {
				t.Fatal(err)
			}
			turn := until(t, s.bus, ticket.Key, "its end, or another question", func(turn lifecycle.Turn) bool {
				return turn.Ended != nil || changed != "" && turn.Calls[0].Phase == lifecycle.PhaseAsking && turn.Calls[0].Asked.Number() > 1
			})
			if turn.Ended == nil { // the changed arguments pass all gates again, and are asked about
				yes.Args = nil
				if _, err := s.desk.Decide(t.Context(), id, yes); err != nil {
					t.Fatal(err)
				}
				turn = ended(t, s.bus, ticket.Key)
			}
			if len(got) != 1 || got[0] != want {
				t.Errorf("given %q, want %q; ended as %s: %+v", got, want, turn.Calls[0].Last, turn.Calls[0].Terminal)
			}
			s.without(theSecret)
			s.without("new-one")
		})
	}
}

// askingAll asks a person about every call.
type askingAll struct{ lax }

func (askingAll) Authorize(policy.Request) policy.Verdict {
	return policy.Verdict{Decision: policy.Ask, Reason: "Everything is asked about.", Policies: []string{"asking"}, Version: "lax"}
}

// heard waits until an event of a kind is in the turn's history.
func heard(t *testing.T, b bus.Bus, key events.TurnKey, kind events.Kind) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for {
		stored, err := b.Load(ctx, key, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range stored {
			for _, r := range s.Commit.Records {
				if r.Event.Kind() == kind {
					return
				}
			}
		}
		if !pause(ctx, 2*time.Millisecond) {
			t.Fatalf("waited for %s in vain; history: %s", kind, kinds(stored))
		}
	}
}

// TestProgressAndLateAnswers come while a tool runs, and when nobody waits for it.
func TestProgressAndLateAnswers(t *testing.T) {
	release := make(chan struct{})
	deaf := testTool("deaf", events.Irreversible, func(_ context.Context, in tools.Invocation) (events.Result, error) {
		token := stringAt(in.Args, "/token")
		in.Progress(events.Progress{Text: strings.Repeat("x", 400) + " " + token + " " + strings.Repeat("x", 20) + token + strings.Repeat(" y", 99)}) // its limit cuts the second one
		<-release
		return events.Result{Status: events.Success, Text: events.Body{Text: "late " + token}}, nil
	})
	deaf.Limits.Wall = 500 * time.Millisecond
	s := newSafe(t, nil, deaf)
	raw := events.RawCall{Tool: "deaf", Args: events.Body{Text: `{"token":"` + theSecret + `"}`}}
	ticket, err := s.desk.Submit(t.Context(), events.TurnKey{}, events.TurnSubmitted{Principal: events.Principal{ID: "a"}, Calls: []events.RawCall{raw}})
	if err != nil {
		t.Fatal(err)
	}
	heard(t, s.bus, ticket.Key, events.KindProgress)
	ended(t, s.bus, ticket.Key)
	close(release)
	heard(t, s.bus, ticket.Key, events.KindLateResult)
	s.without(theSecret)
	s.without(theSecret[:12])
}
