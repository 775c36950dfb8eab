package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Secrets that must be nowhere but in the tools' hands. They open nothing.
const (
	aToken    = "sk-AAAAAAAAAAAAAAAAAAAAAAAA"
	aPassword = "hunter2-of-the-url"
	aWord     = "correct horse battery"
)

// spilt are the files below a directory, and the texts, that hold a secret in any form.
func spilt(t *testing.T, dir string, texts map[string]string) {
	t.Helper()
	look := func(where string, b []byte) {
		for _, secret := range []string{aToken, aPassword, aWord} {
			for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret)), url.QueryEscape(secret)} {
				if i := bytes.Index(b, []byte(form)); i >= 0 {
					t.Errorf("%s holds %q: …%q…", where, form, b[max(0, i-60):min(len(b), i+60)])
				}
			}
		}
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		look(path, b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for where, text := range texts {
		look(where, []byte(text))
	}
}

// delicate has secrets wherever a call may have one.
var delicate = turn{Trace: "s", Turn: "one", Calls: []call{
	{ID: "call_sk1", Tool: "echo", Args: args{"v": args{"token": aToken, "say": "with " + aToken + " in it", "password": aWord}}},
	{ID: "toolu_2", Tool: "write", Args: args{"path": "one.env", "text": "API_KEY=" + aToken + "\n"}},
	{ID: "fc_3", Tool: "Read", Args: args{"path": "one.env"}},
	{ID: "call_4", Tool: "fetch", Args: args{"url": "https://user:" + aPassword + "@h.example/"}},
	{ID: "call_5", Tool: "Bash", Args: args{"command": "cat https://user:" + aPassword + "@h.example/"}},
	{ID: "call_6", Tool: "echo", Args: `{"v":"` + aToken},
	{ID: "call_7", Tool: "echo", Args: args{"v": 1}, Key: "key-" + aToken},
}}

// TestSecretsAreNowhere submits secrets in every place of a call, kills the node in the
// middle, and looks everywhere.
func TestSecretsAreNowhere(t *testing.T) {
	p := newPlace(t)
	n := p.serve()
	watching := launch(t, nil, false, filepath.Join(bin, "sluice-node"), "tail", "--data", p.data, "--from", "start", "--json")
	got := n.run(delicate)
	for i, id := range []string{"call_sk1", "toolu_2", "fc_3", "call_4", "call_5", "call_6", "call_7"} {
		if a := answers(t, got.Messages)[i]; a.ID != id {
			t.Errorf("call %d is answered as %q, want %q", i, a.ID, id)
		}
	}
	if b, err := os.ReadFile(filepath.Join(p.work, "one.env")); string(b) != "API_KEY="+aToken+"\n" {
		t.Errorf("the tool wrote %q, %v", b, err)
	}
	poll(t, "the watcher has heard the first turn", func() bool { return strings.Contains(watching.said.String(), "call_sk1") })
	_, refused := n.ask("POST", "/v1/turns", json.RawMessage(`{"calls":[],"mode":"`+aToken+`"}`))
	_, unread := n.ask("POST", "/v1/turns", json.RawMessage(`{"workspace":"`+aToken+`","calls":[]}`))

	later := turn{Trace: "s", Turn: "two", Calls: []call{
		waits("killed"), {Tool: "write", Args: args{"path": "two.env", "text": "TOKEN=" + aToken + "\n"}},
	}}
	n.submit(later)
	n.until("s", "two", "started", "0")
	spilt(t, p.data, map[string]string{"the first node's log": n.log.String()})
	n.kill()
	spilt(t, p.data, nil)
	p.write("killed", "")

	second := p.serve()
	if v := second.submit(later); !v.Attached {
		t.Errorf("the same submission again is another one: %+v", v)
	}
	second.end("s", "two")
	if b, err := os.ReadFile(filepath.Join(p.work, "two.env")); string(b) != "TOKEN="+aToken+"\n" {
		t.Errorf("after the kill the tool wrote %q, %v", b, err)
	}
	archive := filepath.Join(t.TempDir(), "s.archive")
	exported := program(t, "", replay(t), "export", "--data", p.data, "s", "-o", archive)
	if exported.code != 0 {
		t.Fatalf("export: exit %d: %s", exported.code, exported.err)
	}
	poll(t, "the watcher has heard the end", func() bool { return strings.Contains(watching.said.String(), "two") })
	watching.signal(syscall.SIGINT)
	watching.wait(t)
	shown := program(t, "", replay(t), "show", "--data", p.data, "s")
	packed := program(t, "", replay(t), "show", "--archive", archive, "--json", "s") // it is compressed
	if packed.code != 0 || !strings.Contains(packed.out, "sluice-secret-") {
		t.Errorf("the archive: exit %d: %s%s", packed.code, packed.out, packed.err)
	}
	messages, _ := json.Marshal(second.messages("s", "one", "openai"))
	_, listed := second.ask("GET", "/v1/traces/s/timeline", nil)
	_, metrics := second.ask("GET", "/metrics", nil)
	if code := second.stop(); code != 0 {
		t.Errorf("exit %d", code)
	}
	if !strings.Contains(string(messages), "sluice-secret-") && !strings.Contains(string(messages), "[redacted: ") {
		t.Error("there is neither a placeholder nor a mark: the test looks at nothing")
	}
	spilt(t, p.data, map[string]string{
		"the second node's log": second.log.String(), "tail": watching.said.String() + watching.log.String(), "show": shown.out + shown.err, "export": exported.out + exported.err,
		"the archive": packed.out, "messages": string(messages), "the timeline": string(listed), "metrics": string(metrics), "a refusal": string(refused) + string(unread),
		"the first answers": string(bytes.Join(bytesOf(got.Messages), nil)),
	})
}

func bytesOf(list []json.RawMessage) [][]byte {
	out := make([][]byte, len(list))
	for i, m := range list {
		out[i] = m
	}
	return out
}

// TestSecretsWithoutTheirKey: a node that has lost the key says so, and runs nothing.
func TestSecretsWithoutTheirKey(t *testing.T) {
	p := newPlace(t)
	n := p.serve()
	n.submit(turn{Trace: "s", Turn: "one", Calls: []call{
		waits("killed"), {Tool: "write", Args: args{"path": "one.env", "text": "TOKEN=" + aToken + "\n"}},
	}})
	n.until("s", "one", "started", "0")
	n.kill()
	p.write("killed", "")
	if err := os.Remove(filepath.Join(p.data, "secrets.key")); err != nil {
		t.Fatal(err)
	}
	second := p.serve()
	v := second.end("s", "one")
	v.Calls[1].is(t, "failed", "ACCESS_DENIED", "none")
	if _, err := os.Stat(filepath.Join(p.work, "one.env")); !os.IsNotExist(err) {
		t.Errorf("the tool ran without the value: %v", err)
	}
	if code := second.stop(); code != 0 {
		t.Errorf("exit %d", code)
	}
	spilt(t, p.data, map[string]string{"the log": second.log.String()})
}

// TestEncryptedLog runs turns on a log that is encrypted on the disk.
func TestEncryptedLog(t *testing.T) {
	dir := t.TempDir()
	p := &place{t: t, data: filepath.Join(dir, "data"), work: dir, ledger: filepath.Join(dir, "ledger.jsonl")}
	key := filepath.Join(t.TempDir(), "log.key")
	must(t, "secrets", "key", key)
	n := p.serve("--encrypt-key", key)
	n.run(turn{Trace: "s", Turn: "one", Calls: []call{{Tool: "echo", Args: args{"v": "what nobody may read on the disk"}}}})
	n.kill()
	err := filepath.WalkDir(p.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte("nobody may read")) {
			t.Errorf("%s holds the text in clear", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range [][]string{nil, {"--encrypt-key", filepath.Join(p.data, "secrets.key")}} {
		s := verb(t, "", append([]string{"serve", "--data", p.data, "--workspace", p.work, "--http", "none"}, more...)...)
		if s.code != 3 || !strings.Contains(s.err, "--encrypt-key") {
			t.Errorf("with %q: exit %d: %s", more, s.code, s.err)
		}
	}
	if s := program(t, "", replay(t), "show", "--data", p.data, "--encrypt-key", key, "s"); s.code != 0 || !strings.Contains(s.out, "nobody may read") {
		t.Errorf("show: exit %d: %s%s", s.code, s.out, s.err)
	}
	second := p.serve("--encrypt-key", key)
	if v := second.look("s", "one"); v.State != "completed" {
		t.Errorf("after the kill it is %s", v.State)
	}
	if code := second.stop(); code != 0 {
		t.Errorf("exit %d", code)
	}
}
