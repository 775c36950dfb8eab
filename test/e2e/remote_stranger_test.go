package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/crypto/bcrypt"
)

// stranger is a worker that keeps to nothing but NATS.
type stranger struct {
	t        *testing.T
	nc       *nats.Conn
	user     string
	instance string
	version  string

	mu    sync.Mutex
	words map[string]string // what it was told last, by tool
	lines [][2]string       // what it has announced: subject and body
	errs  chan error
}

// stranger connects somebody by the bench's address.
func (b *bench) stranger(instance string) *stranger {
	b.t.Helper()
	s := &stranger{t: b.t, user: "worker", instance: instance, words: map[string]string{}, errs: make(chan error, 64)}
	nc, err := nats.Connect(b.url, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		select {
		case s.errs <- err:
		default:
		}
	}))
	if err != nil {
		b.t.Fatal(err)
	}
	s.nc = nc
	b.t.Cleanup(nc.Close)
	return s
}

func (s *stranger) say(subject, body string) {
	s.t.Helper()
	if err := errors.Join(s.nc.Publish(subject, []byte(body)), s.nc.Flush()); err != nil {
		s.t.Fatal(err)
	}
}

// repeat says its announcements again, as workers do.
func (s *stranger) repeat() {
	s.t.Helper()
	for _, l := range s.lines {
		s.say(l[0], l[1])
	}
}

func (s *stranger) name() string { return s.user + "." + s.instance }

// here announces a tool by its definition, and listens to what it is told of it.
func (s *stranger) here(tool, definition string) {
	s.t.Helper()
	s.mu.Lock()
	first := len(s.words) == 0
	s.words[tool] = ""
	s.mu.Unlock()
	if first {
		s.listen("sluice.worker."+s.name(), "", func(m *nats.Msg) { s.hear(m) })
	}
	line := [2]string{"sluice.here." + tool + "." + s.name(), `{"v":1,"type":"here","tool":` + definition + `}`}
	s.lines = append(s.lines, line)
	s.say(line[0], line[1])
}

func (s *stranger) listen(subject, queue string, f nats.MsgHandler) {
	s.t.Helper()
	_, err := s.nc.QueueSubscribe(subject, queue, f)
	if queue == "" {
		_, err = s.nc.Subscribe(subject, f)
	}
	if err = errors.Join(err, s.nc.Flush()); err != nil {
		s.t.Fatal(err)
	}
}

// hear notes what it is told of its definitions.
func (s *stranger) hear(m *nats.Msg) (word map[string]any) {
	if err := json.Unmarshal(m.Data, &word); err != nil {
		s.t.Errorf("a node says %q", m.Data)
	}
	if tool, ok := word["tool"].(string); ok && word["type"] == "told" {
		s.mu.Lock()
		s.words[tool] = string(m.Data)
		s.mu.Unlock()
	}
	return word
}

// told is what it was told last of a tool.
func (s *stranger) told(tool string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.words[tool]
}

// serve serves a tool by a definition of its own: answer is called with each go, and with
// nil as answer it says a result to the offer itself.
func (s *stranger) serve(tool string, answer func(s *stranger, m map[string]any, say func(any))) {
	s.t.Helper()
	publish := func(reply string, v any) {
		body, err := json.Marshal(v)
		if err != nil {
			body = []byte(fmt.Sprint(v))
		}
		_ = s.nc.Publish(reply, body) // what is too large is not sent
	}
	s.words[tool] = ""
	s.listen("sluice.worker."+s.name(), "", func(m *nats.Msg) {
		word := s.hear(m)
		if word["type"] == "go" {
			answer(s, word, func(v any) { publish(m.Reply, v) })
		}
	})
	s.say("sluice.here."+tool+"."+s.name(), `{"v":1,"type":"here","tool":{"schema":{"type":"object"},"tier":"irreversible","version":"`+s.version+`"}}`)
	s.listen("sluice.tool."+tool, "workers", func(m *nats.Msg) {
		var offer map[string]any
		if err := json.Unmarshal(m.Data, &offer); err != nil {
			s.t.Errorf("a node says %q", m.Data)
		}
		if answer == nil {
			publish(m.Reply, okAnswer(offer, "nobody said go"))
			return
		}
		for range 2 { // it takes everything, twice
			publish(m.Reply, args{"v": 1, "type": "accept", "worker": s.name()})
		}
	})
}

// leave says of all its tools that it is gone.
func (s *stranger) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tool := range s.words {
		s.say("sluice.here."+tool+"."+s.name(), `{"v":1,"type":"gone"}`)
	}
	s.nc.Close()
}

// refused fails unless the server keeps it from publishing there.
func (s *stranger) refused(subject string) {
	s.t.Helper()
	s.say(subject, `{"v":1,"type":"here","tool":{"schema":{"type":"object"}}}`)
	s.violation("publish to " + subject)
}

// deaf fails unless the server keeps it from listening there.
func (s *stranger) deaf(subject string) {
	s.t.Helper()
	if _, err := s.nc.Subscribe(subject, func(*nats.Msg) {}); err != nil {
		s.t.Fatal(err)
	}
	s.violation("subscribe to " + subject)
}

func (s *stranger) violation(what string) {
	s.t.Helper()
	if err := s.nc.Flush(); err != nil {
		s.t.Fatal(err)
	}
	select {
	case err := <-s.errs:
		if !errors.Is(err, nats.ErrPermissionViolation) {
			s.t.Errorf("%s: %v", what, err)
		}
	case <-time.After(patience):
		s.t.Errorf("a worker may %s", what)
	}
}

// natsUsersWith writes the file of users with more entries, each of which has a password's
// hash in the place of %q: that of pw- and its name.
func (p *place) natsUsersWith(entries string) string {
	p.t.Helper()
	path := p.natsUsers()
	text, err := os.ReadFile(path)
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(entries) {
		_, name, _ := strings.Cut(line, "name: ")
		name, _, _ = strings.Cut(name, ",")
		hash, err := bcrypt.GenerateFromPassword([]byte("pw-"+name), bcrypt.MinCost)
		if err != nil {
			p.t.Fatal(err)
		}
		text = fmt.Appendf(text, line, hash)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path
}
