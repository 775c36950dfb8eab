package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/bus/jetlog/jettest"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/test/corpus"
)

// ofRelease puts a log of an earlier release on a server, to the byte as that release
// wrote it, but for what change makes of a commit.
func ofRelease(t *testing.T, l corpus.Log, change func(i int, body []byte) []byte) (url string) {
	t.Helper()
	s := jettest.Start(t)
	b, err := jetlog.Open(t.Context(), jetlog.Config{Connect: func(name string) (*nats.Conn, error) {
		return nats.Connect(s.URL(), jetlog.Options(name, nil)...)
	}})
	if err != nil {
		t.Fatal(err)
	}
	last := map[events.TurnKey]uint64{}
	for i, body := range l.Bodies {
		c, err := events.Decode(body)
		if err != nil {
			t.Fatal(err)
		}
		st, err := b.AppendBody(t.Context(), change(i, body), last[c.Turn])
		if err != nil {
			t.Fatalf("commit %d: %v", i, err)
		}
		last[c.Turn] = st.Seq
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	return s.URL()
}

func asWritten(_ int, body []byte) []byte { return body }

// TestALogOfAnEarlierReleaseIsReplayed: the laws hold, today's deciders decide the same,
// each provider's messages are those that the release itself rendered, and an archive
// of it says the same.
func TestALogOfAnEarlierReleaseIsReplayed(t *testing.T) {
	t.Parallel()
	logs, err := corpus.Logs()
	if err != nil || len(logs) < 4 {
		t.Fatalf("%d logs, %v", len(logs), err)
	}
	for _, l := range logs {
		t.Run(l.Release+"/"+l.Name, func(t *testing.T) {
			url := ofRelease(t, l, asWritten)
			file := filepath.Join(t.TempDir(), "earlier.sluice")
			// What stood outside a log is not kept with it: export says so, and goes on.
			program(t, "", replay(t), "export", "--all", "-o", file, "--nats", url)
			for _, where := range [][]string{{"--nats", url}, {"--archive", file}} {
				replayed(t, 0, append([]string{"verify", "--skip-blobs"}, where...)...)
				// The policy of that log was its script's own: here the deciders are asked.
				replayed(t, 0, append([]string{"decide", "--all", "--policy", "recorded", "--strict"}, where...)...)
				asRendered(t, l, where...)
			}
		})
	}
}

// asRendered holds the conversation against that of the release which wrote the log.
func asRendered(t *testing.T, l corpus.Log, where ...string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "corpus", l.Release, l.Name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var then struct {
		Messages map[codec.Format][]json.RawMessage
	}
	if err := json.Unmarshal(text, &then); err != nil || len(then.Messages) < 3 || len(then.Messages) > len(codec.Formats()) {
		t.Fatalf("%s/%s: %v", l.Release, l.Name, err)
	}
	for f, want := range then.Messages {
		s := program(t, "", replay(t), append([]string{"messages", "--all", "--calls", "--json", "--format", string(f)}, where...)...)
		var now struct{ Messages []json.RawMessage }
		if err := json.Unmarshal([]byte(s.out), &now); err != nil || len(now.Messages) != len(want) {
			t.Errorf("%v, %s: %d messages, want %d: %v\n%s", where, f, len(now.Messages), len(want), err, s.err)
			continue
		}
		for i := range want { // in files, raw JSON loses its layout
			then, err := json.Marshal(want[i])
			today, err2 := json.Marshal(now.Messages[i])
			if errors.Join(err, err2) != nil || !bytes.Equal(then, today) {
				t.Errorf("%v, %s, message %d:\n%s\nand that release said\n%s", where, f, i, tail(string(today), 2000), tail(string(then), 2000))
			}
		}
	}
}

// TestAChangedDecisionIsNamed: where today's deciders would not have done what is
// recorded, the first event is named, with what is recorded and what would be decided.
func TestAChangedDecisionIsNamed(t *testing.T) {
	t.Parallel()
	l, err := corpus.Read("v1", "ends")
	if err != nil {
		t.Fatal(err)
	}
	at := ""
	url := ofRelease(t, l, func(i int, body []byte) []byte {
		c, err := events.Decode(body)
		if err != nil {
			t.Fatal(err)
		}
		for k, r := range c.Records {
			done, ok := r.Event.(*events.TurnCompleted)
			if !ok || at != "" {
				continue
			}
			at = events.Position{Generation: 1, Seq: uint64(i + 1), Index: k}.String()
			done.Counts[events.KindFailed]++ // as if its deciders had counted otherwise
		}
		out, err := events.Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		return out
	})
	out := replayed(t, 1, "decide", "--all", "--policy", "recorded", "--nats", url)
	if !strings.Contains(out, "diverged at event ") || !strings.Contains(out, "("+at+")") || !strings.Contains(out, "turn_completed") || !strings.Contains(out, "would decide") {
		t.Errorf("decide names no first difference at %s:\n%s", at, out)
	}
}
