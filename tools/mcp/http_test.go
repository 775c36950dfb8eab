package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/mcp/mcptest"
)

// over has the world's server answer over HTTP.
func over(t *testing.T, o mcptest.Options, wrap func(http.Handler) http.Handler, edit ...func(*world, *Server, *Config)) (*world, *httptest.Server) {
	t.Helper()
	o.Journal = t.TempDir() + "/journal"
	h := http.Handler(mcptest.Make(o))
	if wrap != nil {
		h = wrap(h)
	}
	at := httptest.NewServer(h)
	t.Cleanup(at.Close)
	all := append([]func(*world, *Server, *Config){func(_ *world, s *Server, c *Config) {
		*s = Server{Name: s.Name, URL: at.URL + "/mcp", Headers: map[string]string{"Authorization": "Bearer s3cret"}}
		c.Times.Pong = 5 * time.Second
	}}, edit...)
	return begin(t, o, all...), at
}

func TestHTTPGoesThereAndBack(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		var seen atomic.Value
		w, _ := over(t, mcptest.Options{Revision: revision}, func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer s3cret" {
					t.Error("without the operator's header: " + r.Method)
				}
				if tp := r.Header.Get("Traceparent"); tp != "" {
					seen.Store(tp)
				}
				h.ServeHTTP(rw, r)
			})
		})
		if st := w.state(); st.State != Up || st.Revision != revision {
			t.Fatalf("%+v", st)
		}
		r := w.call("echo", `{"v":9007199254740993}`, func(in *tools.Invocation) { in.Traceparent = "00-1-2-01" })
		if r.Class != events.ClassOK || r.Result.Text.Text != "9007199254740993" || seen.Load() != "00-1-2-01" {
			t.Errorf("%+v", r)
		}
		var steps []float64
		in := tools.Invocation{Args: json.RawMessage(`{}`), Progress: func(p events.Progress) { steps = append(steps, p.Done) }}
		if r, err := w.tool("steps").Run(t.Context(), in); err != nil || r.Text.Text != "done" || fmt.Sprint(steps) != "[1 2 3]" {
			t.Errorf("%+v, %v: %v", r, err, steps)
		}
		if r := w.call("fail", `{}`); r.Class != events.ClassTool || r.Result.Error.Code != events.MCPExecutionError {
			t.Errorf("%+v", r)
		}
		if r := w.call("perror", `{"code":-32602,"message":"no"}`); r.Class != events.ClassInvalid {
			t.Errorf("%+v", r)
		}
		if r := w.call("huge", `{"bytes":17000000}`); r.Result.Error == nil || r.Result.Error.Code != events.TooLarge {
			t.Errorf("%+v", r)
		}
		if revision == mcptest.New {
			if r := w.call("ask", `{}`); r.Class != events.ClassInput {
				t.Errorf("%+v", r)
			}
		}
		if r := w.call("change", `{"drop":"blank"}`); r.Class != events.ClassOK {
			t.Errorf("%+v", r)
		}
		until(t, "the list is new", func() bool { _, is := w.registry.Lookup("srv__blank"); return !is })
	})
}

// A cancel over HTTP closes the stream of that call, and of no other.
func TestHTTPCancelClosesTheStream(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		w, _ := over(t, mcptest.Options{Revision: revision}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ends, other := make(chan tools.Report, 1), make(chan tools.Report, 1)
		go func() { ends <- w.callWithin(ctx, "late", `{"ms":2000}`) }() // one that answers a cancel may end the stream itself
		go func() { other <- w.call("sleep", `{"ms":400}`) }()
		until(t, "both calls are there", func() bool { return w.noted("call ") == 2 })
		cancel()
		if r := <-ends; r.Class != events.ClassCancelled || !r.Confirmed || r.Effects != events.EffectsPossible {
			t.Errorf("%+v", r)
		}
		until(t, "the server sees the stream closed", func() bool { return w.noted("closed ") == 1 })
		if r := <-other; r.Class != events.ClassOK {
			t.Errorf("%+v", r)
		}
	})
}

// What one request meets is that request's alone.
func TestHTTPTroubleIsOneCalls(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		var trouble atomic.Value
		trouble.Store("")
		w, _ := over(t, mcptest.Options{Revision: revision}, func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				what := trouble.Load().(string)
				if r.Method != http.MethodPost || what == "" || !strings.Contains(mcptest.Peek(r), `"charge"`) {
					h.ServeHTTP(rw, r)
					return
				}
				mishap(rw, what)
			})
		}, tierOf(events.Irreversible))
		beside := make(chan tools.Report, 1)
		go func() { beside <- w.call("sleep", `{"ms":1000}`) }()
		until(t, "the call beside it is there", func() bool { return w.noted("call ") == 1 })
		for what, want := range map[string]struct {
			code    events.Code
			class   events.Class
			effects events.Effects
			says    string
		}{
			"401":      {events.MCPNetworkError, events.ClassUnavailable, events.EffectsNone, "refuses this node"},
			"429":      {events.MCPNetworkError, events.ClassUnavailable, events.EffectsNone, "429"},
			"400":      {events.MCPNetworkError, events.ClassTool, events.EffectsNone, "400"},
			"500":      {events.MCPNetworkError, events.ClassUnavailable, events.EffectsPossible, "500"},
			"503":      {events.MCPNetworkError, events.ClassUnavailable, events.EffectsPossible, "503"},
			"html":     {events.MCPNetworkError, events.ClassUnavailable, events.EffectsPossible, "no message"},
			"half":     {events.MCPNetworkError, events.ClassUnavailable, events.EffectsPossible, "broke before"},
			"stream":   {events.MCPNetworkError, events.ClassUnavailable, events.EffectsPossible, "broke before"},
			"garbage":  {events.MCPNetworkError, events.ClassUnavailable, events.EffectsPossible, "broke before"},
			"redirect": {events.MCPNetworkError, events.ClassUnavailable, events.EffectsNone, "redirects"},
			"words":    {events.MCPParamError, events.ClassInvalid, events.EffectsNone, "n is missing"},
			"gone":     {events.MCPNetworkError, events.ClassUnavailable, events.EffectsPossible, "ended before it answered: "},
		} {
			trouble.Store(what)
			r := w.call("charge", `{}`)
			if r.Class != want.class || r.Effects != want.effects || r.Result.Error == nil || r.Result.Error.Code != want.code || !strings.Contains(r.Result.Error.Message, want.says) {
				t.Errorf("%s: %+v: %+v", what, r, r.Result.Error)
			}
			if strings.Contains(r.Result.Error.Message, w.spec.URL) { // it may have a key in it
				t.Errorf("%s: the server's address is told: %s", what, r.Result.Error.Message)
			}
			if what == "429" && r.After != 7*time.Second {
				t.Errorf("%v", r.After)
			}
		}
		trouble.Store("")
		if r := <-beside; r.Class != events.ClassOK {
			t.Errorf("the call beside it: %+v", r)
		}
		if r := w.call("echo", `{"v":1}`); r.Class != events.ClassOK || w.noted("list") != 1 {
			t.Errorf("%d lists: %+v", w.noted("list"), r)
		}
	})
}

// A stream that has begun, and on which nothing comes, is a timeout, though it is this side
// that breaks it in the end.
func TestHTTPSilenceIsATimeout(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		t.Parallel()
		w, _ := over(t, mcptest.Options{Revision: revision}, func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost || !strings.Contains(mcptest.Peek(r), `"charge"`) {
					h.ServeHTTP(rw, r)
					return
				}
				rw.Header().Set("Content-Type", "text/event-stream")
				_ = http.NewResponseController(rw).Flush()
				<-r.Context().Done()
			})
		}, tierOf(events.Irreversible), func(_ *world, s *Server, _ *Config) { s.Limits.Wall = 4 * time.Second })
		if r := w.call("charge", `{}`); r.Class != events.ClassTimeout || r.Effects != events.EffectsPossible || r.Answered {
			t.Errorf("%+v: %+v", r, r.Result.Error)
		}
	})
}

// mishap is an answer that is none.
func mishap(rw http.ResponseWriter, what string) {
	switch what {
	case "401", "400", "500":
		var status int
		_, _ = fmt.Sscan(what, &status)
		http.Error(rw, "no", status)
	case "429", "503":
		var status int
		_, _ = fmt.Sscan(what, &status)
		rw.Header().Set("Retry-After", "7")
		http.Error(rw, "no", status)
	case "html":
		rw.Header().Set("Content-Type", "text/html")
		_, _ = rw.Write([]byte("<html>welcome</html>"))
	case "half":
		rw.Header().Set("Content-Type", "application/json")
		rw.Header().Set("Content-Length", "1000")
		_, _ = rw.Write([]byte(`{"jsonrpc":`))
	case "stream":
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = rw.Write([]byte(": nothing comes\n\n"))
	case "garbage":
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = rw.Write([]byte("data: {half\n\ndata: []\n\nnonsense\n\n"))
	case "words":
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusBadRequest)
		_, _ = rw.Write([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"n is missing"}}`))
	case "gone":
		c, _, err := http.NewResponseController(rw).Hijack()
		if err == nil {
			_ = c.Close()
		}
	case "redirect":
		rw.Header().Set("Location", "http://169.254.169.254/latest")
		rw.WriteHeader(http.StatusTemporaryRedirect)
	}
}

// A server that has forgotten its sessions has done nothing of what it refuses: the call
// goes to it in a new one.
func TestHTTPServerThatForgetsItsSession(t *testing.T) {
	var forgotten atomic.Bool
	w, _ := over(t, mcptest.Options{Revision: mcptest.Old}, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if strings.Contains(mcptest.Peek(r), `"initialize"`) {
				forgotten.Store(false)
			}
			if forgotten.Load() && r.Header.Get("Mcp-Session-Id") != "" {
				http.Error(rw, "no such session", http.StatusNotFound)
				return
			}
			h.ServeHTTP(rw, r)
		})
	})
	forgotten.Store(true)
	if r := w.call("meta", `{}`); r.Class != events.ClassOK || w.noted("call meta") != 1 || w.noted("initialize") != 2 {
		t.Errorf("%+v: %v", r, mcptest.Lines(w.o.Journal))
	}
}

// A server that answers 404 to one call, and not to a sign of life, speaks of that call:
// the session stays, and the calls in it.
func TestHTTPNotFoundIsOneCalls(t *testing.T) {
	var calls atomic.Int64
	w, _ := over(t, mcptest.Options{Revision: mcptest.Old}, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if strings.Contains(mcptest.Peek(r), `"charge"`) {
				calls.Add(1)
				http.Error(rw, `{"error":"session gone"}`, http.StatusNotFound)
				return
			}
			h.ServeHTTP(rw, r)
		})
	}, tierOf(events.Irreversible))
	beside := make(chan tools.Report, 1)
	go func() { beside <- w.call("sleep", `{"ms":500}`) }()
	until(t, "the call beside it is there", func() bool { return w.noted("call ") == 1 })
	for range 3 {
		r := w.call("charge", `{}`)
		if r.Class != events.ClassTool || r.Effects != events.EffectsNone || !strings.Contains(r.Result.Error.Message, "404") {
			t.Errorf("%+v", r)
		}
	}
	if r := <-beside; r.Class != events.ClassOK || calls.Load() != 3 || w.noted("initialize") != 1 {
		t.Errorf("%d calls, %d sessions: %+v", calls.Load(), w.noted("initialize"), r)
	}
}

// A stream of notifications that has ended is made up for by asking.
func TestHTTPServerWithoutNotifications(t *testing.T) {
	for what, status := range map[string]int{"refused": http.StatusMethodNotAllowed, "none": http.StatusNotFound, "broken": http.StatusInternalServerError} {
		t.Run(what, func(t *testing.T) {
			w, _ := over(t, mcptest.Options{Revision: mcptest.Old}, func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodGet {
						http.Error(rw, "no", status)
						return
					}
					h.ServeHTTP(rw, r)
				})
			})
			if r := w.call("echo", `{"v":1}`); r.Class != events.ClassOK {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestHTTPServerThatNamesItsSessionAnew: some give each answer an id.
func TestHTTPServerThatNamesItsSessionAnew(t *testing.T) {
	w, _ := over(t, mcptest.Options{Revision: mcptest.Old}, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if strings.Contains(mcptest.Peek(r), `"blank"`) {
				rw.Header().Set("Mcp-Session-Id", "another")
			}
			h.ServeHTTP(rw, r)
		})
	})
	for range 2 {
		if r := w.call("blank", `{}`); r.Class != events.ClassOK || w.noted("initialize") != 1 {
			t.Errorf("%d sessions: %+v", w.noted("initialize"), r)
		}
	}
}

// TestHTTPStreamThatCannotBeTakenUpAgain: a stream that has ended with an id, and which the
// server does not give again, is its call's fault alone; that of notifications is nobody's.
func TestHTTPStreamThatCannotBeTakenUpAgain(t *testing.T) {
	for what, again := range map[string]http.HandlerFunc{
		"404":   func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "no such stream", http.StatusNotFound) },
		"405":   func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "not here", http.StatusMethodNotAllowed) },
		"502":   func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "no upstream", http.StatusBadGateway) },
		"reset": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"page":  func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("<html>")) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var told atomic.Int64
			w, _ := over(t, mcptest.Options{Revision: mcptest.Old}, func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					switch {
					case r.Method == http.MethodGet && (told.Add(1) > 1 || r.Header.Get("Last-Event-Id") != ""):
						again(rw, r)
					case r.Method == http.MethodGet: // notifications, which end at once
						rw.Header().Set("Content-Type", "text/event-stream")
					case strings.Contains(mcptest.Peek(r), `"charge"`):
						rw.Header().Set("Content-Type", "text/event-stream")
						_, _ = rw.Write([]byte("id: 7\nretry: 10\ndata: \n\n"))
					default:
						h.ServeHTTP(rw, r)
					}
				})
			}, tierOf(events.Irreversible))
			beside := make(chan tools.Report, 1)
			go func() { beside <- w.call("sleep", `{"ms":4000}`) }()
			until(t, "the call beside it is there", func() bool { return w.noted("call ") == 1 })
			r := w.call("charge", `{}`)
			if r.Class != events.ClassUnavailable || r.Effects != events.EffectsPossible {
				t.Errorf("%+v", r)
			}
			until(t, "the notifications were asked for again", func() bool { return told.Load() > 1 })
			if r := <-beside; r.Class != events.ClassOK || w.noted("initialize") != 1 {
				t.Errorf("%d sessions: %+v %+v", w.noted("initialize"), r, r.Result.Error)
			}
		})
	}
}

// A server that goes away is noticed, its calls end, and it is connected again.
func TestHTTPServerThatGoesAway(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		var away atomic.Bool
		gone := make(chan struct{})
		w, at := over(t, mcptest.Options{Revision: revision}, func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if away.Load() {
					http.Error(rw, "gone", http.StatusBadGateway)
					return
				}
				h.ServeHTTP(rw, r)
			})
		}, tierOf(events.Readonly), func(_ *world, _ *Server, c *Config) {
			c.Times.Ping, c.Times.Patience, c.Times.MaxPause = 50*time.Millisecond, time.Second, 100*time.Millisecond
		})
		held := make(chan tools.Report, 1)
		go func() { held <- w.call("sleep", `{"ms":600000}`); close(gone) }()
		until(t, "the call is there", func() bool { return w.noted("call ") == 1 })
		away.Store(true)
		at.CloseClientConnections()
		if r := <-held; r.Class != events.ClassUnavailable || r.Effects != events.EffectsNone {
			t.Errorf("%+v", r)
		}
		<-gone
		until(t, "it is noticed", func() bool { return w.state().State != Up })
		away.Store(false)
		until(t, "it is back", func() bool { return w.state().State == Up })
		if r := w.call("echo", `{"v":1}`); r.Class != events.ClassOK {
			t.Errorf("%+v", r)
		}
	})
}
