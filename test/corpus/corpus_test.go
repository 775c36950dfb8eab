package corpus

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/projections"
)

var export = flag.String("export", "", "write the logs of this release into a new folder of this name")

// golden is what a log gives, whoever reads it.
type golden struct {
	Events   int                                `json:"events"`
	Turns    []goldenTurn                       `json:"turns"`
	Messages map[codec.Format][]json.RawMessage `json:"messages"` // at the end, asked and answered
	Prefixes map[codec.Format]string            `json:"prefixes"` // SHA-256 of the messages at every prefix
}

// goldenTurn is the fold of one turn.
type goldenTurn struct {
	Turn      string        `json:"turn"`
	Ended     events.Kind   `json:"ended,omitempty"`
	Epoch     uint32        `json:"epoch"`
	Takeovers int           `json:"takeovers,omitempty"`
	Calls     []goldenCalls `json:"calls"`
}

type goldenCalls struct {
	Tool     string          `json:"tool"`
	Phase    lifecycle.Phase `json:"phase"`
	Terminal events.Kind     `json:"terminal,omitempty"`
	Effects  events.Effects  `json:"effects,omitempty"`
	Attempt  int             `json:"attempt,omitempty"`
	Resolved events.Effects  `json:"resolved,omitempty"`
	Late     int             `json:"late,omitempty"`
	Undone   bool            `json:"undone,omitempty"`
}

// give is what today's code makes of a log.
func give(commits []events.Commit) (golden, error) {
	g := golden{Messages: map[codec.Format][]json.RawMessage{}, Prefixes: map[codec.Format]string{}}
	sums := map[codec.Format][]byte{}
	conv := projections.Answers.Init()
	folds := map[events.TurnKey]lifecycle.Turn{}
	var order []events.TurnKey
	for i, c := range commits {
		if _, known := folds[c.Turn]; !known {
			folds[c.Turn] = lifecycle.Turn{Key: c.Turn}
			order = append(order, c.Turn)
		}
		for e := range projections.Events(1, uint64(i+1), c) {
			g.Events++
			folds[c.Turn] = lifecycle.Evolve(folds[c.Turn], lifecycle.Meta{At: e.At, By: e.By}, e.Record)
			conv = projections.Answers.Apply(conv, e)
			for _, f := range codec.Formats() {
				list, err := messages(f, conv)
				if err != nil {
					return g, fmt.Errorf("%s at %s: %w", f, e.Pos, err)
				}
				sum := sha256.Sum256(append(sums[f], joined(list)...))
				sums[f], g.Messages[f] = sum[:], list
			}
		}
	}
	for f, sum := range sums {
		g.Prefixes[f] = hex.EncodeToString(sum)
	}
	for _, key := range order {
		g.Turns = append(g.Turns, goldenOf(folds[key]))
	}
	return g, nil
}

func joined(list []json.RawMessage) []byte {
	var out bytes.Buffer
	for _, m := range list {
		out.Write(m)
		out.WriteByte('\n')
	}
	return out.Bytes()
}

// messages are those of the conversation, which the provider must accept.
func messages(f codec.Format, conv projections.Conversation) ([]json.RawMessage, error) {
	turns := make([]codec.Turn, len(conv.Turns))
	for i, t := range conv.Turns {
		answers, _ := t.Answers(nil) // there is no store; the message says so
		calls, _ := t.Requests(nil)
		turns[i] = codec.Turn{Calls: calls, Answers: answers, CallBytes: t.Limits.CallBytes, TurnBytes: t.Limits.TurnBytes}
	}
	list, err := codec.Conversation(f, turns, 0)
	if err == nil {
		err = codec.Validate(f, list)
	}
	return list, err
}

func goldenOf(t lifecycle.Turn) goldenTurn {
	out := goldenTurn{Turn: t.Key.Turn, Epoch: t.Owner.Epoch, Takeovers: t.Takeovers}
	if t.Ended != nil {
		out.Ended = t.Ended.Kind()
	}
	for _, c := range t.Calls {
		g := goldenCalls{Tool: c.Tool, Phase: c.Phase, Attempt: c.Attempt, Late: len(c.Late), Undone: c.Undone}
		if c.Terminal != nil {
			g.Terminal = c.Terminal.Kind()
		}
		if c.Outcome != nil {
			g.Effects = c.Outcome.Effects
		}
		if c.Resolved != nil {
			g.Resolved = c.Resolved.Effects
		}
		out.Calls = append(out.Calls, g)
	}
	return out
}

// TestCorpus: what was written once is read the same for ever.
func TestCorpus(t *testing.T) {
	logs, err := Logs()
	if err != nil || len(logs) == 0 {
		t.Fatalf("%d logs, %v", len(logs), err)
	}
	for _, l := range logs {
		t.Run(l.Release+"/"+l.Name, func(t *testing.T) {
			commits, err := l.Commits()
			if err != nil {
				t.Fatal(err)
			}
			lawful(t, commits)
			got, err := give(commits)
			if err != nil {
				t.Fatal(err)
			}
			text, err := files.ReadFile(path.Join(l.Release, l.Name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			var want golden
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			back, err := json.Marshal(got) // raw JSON loses its layout in the file
			if err != nil {
				t.Fatal(err)
			}
			got = golden{}
			if err := json.Unmarshal(back, &got); err != nil {
				t.Fatal(err)
			}
			compact(want.Messages)
			got.only(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("it is read otherwise than by the release that wrote it (-then +now):\n%s", diff)
			}
		})
	}
}

// only leaves out the formats that the release did not have which wrote what is wanted.
func (g golden) only(want golden) {
	for f := range g.Prefixes {
		if _, then := want.Prefixes[f]; !then {
			delete(g.Messages, f)
			delete(g.Prefixes, f)
		}
	}
}

func compact(all map[codec.Format][]json.RawMessage) {
	for _, list := range all {
		for i, m := range list {
			var b bytes.Buffer
			if json.Compact(&b, m) == nil {
				list[i] = b.Bytes()
			}
		}
	}
}

// lawful holds every turn against the laws, whole and cut off behind each event.
func lawful(t *testing.T, commits []events.Commit) {
	t.Helper()
	turns := map[events.TurnKey][]events.Commit{}
	for _, c := range commits {
		turns[c.Turn] = append(turns[c.Turn], c)
		for _, v := range lifecycle.Laws(turns[c.Turn]) {
			t.Errorf("%s, commit %s: %s", c.Turn, c.ID, v)
		}
	}
	for key, list := range turns {
		if f := lifecycle.Fold(key, list...); f.Broken != "" || f.Foreign {
			t.Errorf("%s: broken %q, foreign %t", key, f.Broken, f.Foreign)
		}
	}
}

// TestCorpusHasEveryKind: a kind that no log has could change unseen.
func TestCorpusHasEveryKind(t *testing.T) {
	logs, err := Logs()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[events.Kind]bool{}
	for _, l := range logs {
		commits, err := l.Commits()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range commits {
			for _, r := range c.Records {
				seen[r.Event.Kind()] = true
			}
		}
	}
	for _, row := range events.Kinds {
		if !seen[row.Kind] {
			t.Errorf("no log has %s: write it into a script, and export a new folder", row.Kind)
		}
	}
}

// TestExport runs the scripts with today's deciders. With -export it writes what
// they give as the logs of a new release.
func TestExport(t *testing.T) {
	for _, s := range scripts {
		w := s.write()
		lawful(t, w.log)
		g, err := give(w.log)
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		if *export != "" && !t.Failed() {
			if err := write(*export, s.name, w.log, g); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// write adds the files of one log. Files that are there are history.
func write(folder, name string, log []events.Commit, g golden) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var bodies bytes.Buffer
	for _, c := range log {
		b, err := events.Encode(c)
		if err != nil {
			return err
		}
		bodies.Write(b)
	}
	text, err := json.MarshalIndent(g, "", " ")
	if err != nil {
		return err
	}
	for ext, body := range map[string][]byte{".msgpack": bodies.Bytes(), ".json": append(text, '\n')} {
		f, err := os.OpenFile(filepath.Join(folder, name+ext), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		if _, err = f.Write(body); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}
