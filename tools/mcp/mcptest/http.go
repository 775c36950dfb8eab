package mcptest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Peek is the body of a request, which stays to be read.
func Peek(r *http.Request) string {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return string(body)
}

// ServeHTTP is http.Handler's: streamable HTTP, an event stream for each request. In the
// older revision there are sessions, and a stream of notifications.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		if s.o.Revision == New {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		s.stream(w, r, nil)
		return
	case http.MethodDelete:
		s.note("delete")
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 8<<20))
	var m message
	if err != nil || json.Unmarshal(body, &m) != nil {
		http.Error(w, "no message", http.StatusBadRequest)
		return
	}
	if m.ID == nil || m.Method == "" {
		s.handle(r.Context(), m, func(any) {}, func(string) {})
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if m.Method == "initialize" && s.o.Revision == Old {
		w.Header().Set("Mcp-Session-Id", "session-1")
	}
	s.stream(w, r, &m)
}

// verbatim is the data of an event as it is.
type verbatim string

// stream answers with events: those of a request, or what is told unasked.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, m *message) {
	w.Header().Set("Content-Type", "text/event-stream")
	out, done := make(chan []byte, 1000), make(chan struct{})
	put := func(v any) {
		data, err := json.Marshal(v)
		if text, is := v.(verbatim); is {
			data, err = []byte(strings.TrimSpace(string(text))), nil
		}
		if err != nil {
			return
		}
		select {
		case out <- data:
		case <-done:
		}
	}
	defer close(done)
	ended := make(chan struct{})
	switch {
	case m == nil || m.Method == "subscriptions/listen":
		s.mu.Lock()
		s.push = put
		s.mu.Unlock()
		if m != nil {
			s.handle(r.Context(), *m, put, func(string) {})
		}
	default:
		go func() { // ends with the request's context, or its tool
			defer close(ended)
			ctx, stop := s.begins(r.Context(), *m)
			defer stop()
			s.handle(ctx, *m, put, func(text string) { put(verbatim(text)) })
		}()
	}
	f, _ := w.(http.Flusher)
	w.WriteHeader(http.StatusOK)
	f.Flush()
	for {
		select {
		case data := <-out:
			fmt.Fprintf(w, "data: %s\n\n", data)
			f.Flush()
		case <-r.Context().Done():
			s.left(m)
			return
		case <-ended:
			if r.Context().Err() != nil { // it has ended for that
				s.left(m)
				return
			}
			for len(out) > 0 {
				fmt.Fprintf(w, "data: %s\n\n", <-out)
			}
			return
		}
	}
}

// left notes that the client has closed the stream of a call.
func (s *Server) left(m *message) {
	if m != nil && m.Method == "tools/call" {
		s.note("closed %s", m.ID)
	}
}
