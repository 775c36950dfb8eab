// Package model is a model that says what it was told to: a server on loopback that
// speaks the APIs of the providers, streaming and not. It holds each conversation that it
// is sent against the provider's rules, and refuses a broken one as the provider does, so
// that an agent's loop which comes to its end has sent nothing wrong.
package model

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-run/sluice/gateway/codec"
)

// Call is a tool call that the model makes.
type Call struct {
	ID   string // as the provider gives it; may be repeated
	Tool string
	Args string // as the model writes it: a JSON object, or what a model makes of one
}

// Step is one answer of the model.
type Step struct {
	Text  string
	Calls []Call
	Cut   bool // stopped at its token limit
}

// Server is the model. Its steps are given by how many answers of the model stand in the
// conversation that it is sent: it has no state, and repeats itself when it is asked again.
type Server struct {
	URL   string // http://127.0.0.1:port
	steps []Step

	mu    sync.Mutex
	asked []Request
}

// Request is what the model was asked.
type Request struct {
	Path     string
	Body     json.RawMessage
	Messages []json.RawMessage // of the conversation
	Status   int               // it was answered with
	Error    string            // why it was refused; "" where it was not
}

// New starts a model on a free port of loopback, and ends it with the test.
func New(t testing.TB, steps ...Step) *Server {
	s := &Server{steps: steps}
	mux := http.NewServeMux()
	for _, api := range []api{chat, responses, anthropic} {
		mux.HandleFunc("POST "+api.path, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, api, false) })
	}
	mux.HandleFunc("POST /v1beta/models/{action}", func(w http.ResponseWriter, r *http.Request) {
		s.serve(w, r, gemini, strings.HasSuffix(r.PathValue("action"), ":streamGenerateContent"))
	})
	h := httptest.NewServer(mux)
	t.Cleanup(h.Close)
	s.URL = h.URL
	return s
}

// Requests are all that the model was asked, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.asked...)
}

// api is the form in which a provider asks and answers.
type api struct {
	path   string
	format codec.Format
	// conversation is the messages of a request, and how many of them the model said,
	// a turn being one.
	conversation func(body map[string]json.RawMessage) (messages []json.RawMessage, turns int, err error)
	whole        func(step Step, n int) any
	stream       func(step Step, n int) []event
	refuse       func(message string) any
}

// event is one of a stream: its name, "" for none, and its data.
type event struct {
	name string
	data any // a string is sent as it is, anything else as JSON
}

const maxBody = 16 << 20

func (s *Server) serve(w http.ResponseWriter, r *http.Request, a api, stream bool) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var body map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(raw, &body)
	}
	asked := Request{Path: r.URL.Path, Body: raw, Status: http.StatusOK}
	turns := 0
	if err == nil {
		asked.Messages, turns, err = a.conversation(body)
	}
	if err == nil {
		err = codec.Validate(a.format, asked.Messages)
	}
	if err == nil && turns >= len(s.steps) {
		err = fmt.Errorf("the model has %d steps, and %d of its answers stand in the conversation", len(s.steps), turns)
	}
	if err != nil {
		asked.Status, asked.Error = http.StatusBadRequest, err.Error()
	}
	s.mu.Lock()
	s.asked = append(s.asked, asked)
	s.mu.Unlock()
	if err != nil {
		reply(w, http.StatusBadRequest, a.refuse(err.Error()))
		return
	}
	if stream || string(body["stream"]) == "true" {
		send(w, a.stream(s.steps[turns], turns))
		return
	}
	reply(w, http.StatusOK, a.whole(s.steps[turns], turns))
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // who asked may have gone
}

func send(w http.ResponseWriter, events []event) {
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	for _, e := range events {
		data, plain := e.data.(string)
		if !plain {
			raw, err := json.Marshal(e.data)
			if err != nil {
				panic(err) // maps of plain values
			}
			data = string(raw)
		}
		if e.name != "" {
			fmt.Fprintf(w, "event: %s\n", e.name)
		}
		fmt.Fprintf(w, "data: %s\n\n", data)
		if flush.Flush() != nil {
			return
		}
	}
}

// pieces cuts a text into parts of a few bytes, as models send it: never inside a rune.
func pieces(s string) []string {
	var out []string
	part := ""
	for _, r := range s {
		part += string(r)
		if len(part) >= 5 {
			out, part = append(out, part), ""
		}
	}
	if part != "" || len(out) == 0 {
		out = append(out, part)
	}
	return out
}

type m = map[string]any

// list is the messages of a body's field.
func list(body map[string]json.RawMessage, field string) ([]json.RawMessage, error) {
	var out []json.RawMessage
	if err := json.Unmarshal(body[field], &out); err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return out, nil
}

// counted counts the messages of a role.
func counted(messages []json.RawMessage, role string) int {
	n := 0
	for _, raw := range messages {
		var is struct{ Role string }
		if json.Unmarshal(raw, &is) == nil && is.Role == role {
			n++
		}
	}
	return n
}
