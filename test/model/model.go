// Package model is a model that says what it was told to: a server on loopback that
// speaks the APIs of the providers, streaming and not. It holds each request against
// the provider's rules, and refuses a broken one as the provider does, so that an
// agent's loop which comes to its end has sent nothing wrong.
package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-run/sluice/gateway/codec"
)

// Call is a tool call that the model makes.
type Call struct {
	ID   string `json:"id,omitempty"` // as the provider gives it; may be repeated, or missing
	Tool string `json:"tool"`
	Args string `json:"args"` // as the model writes it: a JSON object, or what a model makes of one
}

// Step is one answer of the model.
type Step struct {
	Text  string `json:"text,omitempty"`
	Calls []Call `json:"calls,omitempty"`
	Cut   bool   `json:"cut,omitempty"` // stopped at its token limit

	// Busy is how many times the provider has no time for it first, and Breaks how many
	// times the connection breaks before the stream has ended; both of each conversation.
	Busy   int `json:"busy,omitempty"`
	Breaks int `json:"breaks,omitempty"`
}

// Server is the model. Its steps are given by how many answers of the model stand in the
// conversation that it is sent: asked again, it repeats itself.
type Server struct {
	URL   string // http://127.0.0.1:port
	steps []Step
	http  http.Server
	ended chan struct{}

	mu    sync.Mutex
	asked []Request
	tried map[string]int // how often a step was asked for, by conversation
}

// Request is what the model was asked.
type Request struct {
	Path     string
	Stream   bool
	Body     json.RawMessage
	Messages []json.RawMessage // of the conversation
	Status   int               // it was answered with
	Error    string            // why it was refused; "" where it was not
}

// New starts a model on a free port of loopback, and ends it with the test.
func New(t testing.TB, steps ...Step) *Server {
	t.Helper()
	s, err := Start("127.0.0.1:0", steps...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Start starts a model that listens on an address.
func Start(address string, steps ...Step) (*Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{URL: "http://" + l.Addr().String(), steps: steps, ended: make(chan struct{}), tried: make(map[string]int)}
	mux := http.NewServeMux()
	for _, api := range []api{chat, responses, anthropic} {
		mux.HandleFunc("POST "+api.path, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, api, false) })
	}
	for _, version := range []string{"/v1", "/v1beta"} { // the SDK's from 3.0 on, and before
		mux.HandleFunc("POST "+version+"/models/{action}", func(w http.ResponseWriter, r *http.Request) {
			s.serve(w, r, gemini, strings.HasSuffix(r.PathValue("action"), ":streamGenerateContent"))
		})
	}
	s.http.Handler = mux
	go func() {
		defer close(s.ended)
		_ = s.http.Serve(l) // until Close
	}()
	return s, nil
}

// Close ends the model, and every request to it.
func (s *Server) Close() {
	_ = s.http.Close() // what was asked is of no use any more
	<-s.ended
}

// Requests are all that the model was asked, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.asked...)
}

// ReadScript reads the steps of a model: a JSON array of them.
func ReadScript(r io.Reader) ([]Step, error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	var steps []Step
	if err := d.Decode(&steps); err != nil {
		return nil, fmt.Errorf("a script is a JSON array of steps: %w", err)
	}
	if len(steps) == 0 {
		return nil, errors.New("a script without steps has nothing to say")
	}
	return steps, nil
}

// api is the form in which a provider asks and answers.
type api struct {
	path   string
	format codec.Format
	// conversation is the messages of a request, and how many of them the model said,
	// a turn being one.
	conversation func(body map[string]json.RawMessage) (messages []json.RawMessage, turns int, err error)
	rules        func(body map[string]json.RawMessage, messages []json.RawMessage) error // what the codec's do not say
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
	asked := Request{Path: r.URL.Path, Body: raw, Status: http.StatusOK, Stream: stream}
	turns := 0
	if err == nil {
		turns, err = s.understand(a, &asked)
	}
	if err != nil {
		asked.Status, asked.Error = http.StatusBadRequest, err.Error()
	}
	breaks := false
	if err == nil {
		asked.Status, breaks = s.whim(&asked, turns)
	}
	s.mu.Lock()
	s.asked = append(s.asked, asked)
	s.mu.Unlock()
	switch {
	case asked.Status == http.StatusBadRequest:
		reply(w, asked.Status, a.refuse(asked.Error))
	case asked.Status != http.StatusOK:
		w.Header().Set("Retry-After-Ms", "10")
		reply(w, asked.Status, a.refuse("the model has no time"))
	case asked.Stream:
		send(w, a.stream(s.steps[turns], turns), breaks)
	default:
		reply(w, http.StatusOK, a.whole(s.steps[turns], turns))
	}
}

// understand reads a request as the provider does, and says how many answers of the model
// stand in it.
func (s *Server) understand(a api, asked *Request) (int, error) {
	var body map[string]json.RawMessage
	if err := json.Unmarshal(asked.Body, &body); err != nil {
		return 0, err
	}
	asked.Stream = asked.Stream || string(body["stream"]) == "true"
	messages, turns, err := a.conversation(body)
	asked.Messages = messages
	if err == nil {
		err = codec.Validate(a.format, messages)
	}
	if err == nil {
		err = a.rules(body, messages)
	}
	if err == nil && turns >= len(s.steps) {
		err = fmt.Errorf("the model has %d steps, and %d of its answers stand in the conversation", len(s.steps), turns)
	}
	return turns, err
}

// whim is what comes between a good question and its answer: no time, or a stream that
// breaks. A conversation is known by the words that it began with.
func (s *Server) whim(asked *Request, turns int) (status int, breaks bool) {
	begin := ""
	if len(asked.Messages) > 0 {
		begin = string(asked.Messages[0])
	}
	key := fmt.Sprint(asked.Path, turns, begin)
	s.mu.Lock()
	defer s.mu.Unlock()
	n, step := s.tried[key], s.steps[turns]
	s.tried[key]++
	if n < step.Busy {
		return http.StatusServiceUnavailable, false
	}
	return http.StatusOK, asked.Stream && n < step.Busy+step.Breaks
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // who asked may have gone
}

// send sends a stream, or all of it but its end and how it would have ended: then the
// connection is closed as if that were all.
func send(w http.ResponseWriter, events []event, breaks bool) {
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	if breaks {
		events = events[:(len(events)+1)/2]
	}
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
