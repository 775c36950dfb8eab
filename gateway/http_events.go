package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-run/sluice/events"
)

// getEvents is GET /v1/events: the log's events as server-sent events. The id of
// each is its position, its type the kind, its data a CloudEvent. A reader goes on
// where it was with Last-Event-ID, or from a position with ?from= (the event
// there is the first; "start" is the log's beginning; neither: from now on).
// ?trace= ?turn= ?kind= and ?tool= filter; the last two may stand several times,
// or hold several with commas. ?follow=false ends at the head.
//
// Three types are about the stream itself, and have no id: gap, rewound, and
// unreadable. A line that begins with a colon says only that the stream lives.
//
// Who may not watch the log reads the events of a turn of its own with ?trace= and ?turn=.
// A stream ends where its reader is not let in any more.
//
// Who asks for a page gets one: see getEventsPage.
func (a *API) getEvents(w http.ResponseWriter, r *http.Request) error {
	if wantsPage(r) {
		return a.getEventsPage(w, r)
	}
	if r.Method == http.MethodHead {
		w.Header().Set("Allow", http.MethodGet)
		return problem(http.StatusMethodNotAllowed, "method", "Not by that method", "HEAD of a stream", "use GET")
	}
	in, err := a.feedOf(r)
	if err == nil {
		err = a.mayFeed(r, in.filter)
	}
	if err != nil {
		return err
	}
	leave, err := a.place(r)
	if err != nil {
		return err
	}
	defer leave()
	if a.metrics != nil {
		a.metrics.streams.Inc()
		defer a.metrics.streams.Dec()
	}
	ctx, stop := a.until(r)
	defer stop()
	patience := spoolPatience
	if !in.follow {
		patience = 0
	}
	sp := newSpool(spoolSize, patience)
	ended := make(chan error, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() {
		ended <- a.desk.Events(ctx, in.from, in.filter, in.follow, func(e FeedEvent) error { return sp.put(ctx, e) })
	})
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	s := &stream{w: w, control: http.NewResponseController(w), gaps: a.gap}
	if s.text("retry: 1000\n\n") == nil {
		a.pour(ctx, sp, s, ended, func() bool { return a.still(r) })
	}
	return nil
}

func (a *API) gap() {
	if a.metrics != nil {
		a.metrics.gaps.Inc()
	}
}

// pour writes what the spool holds until the feed ends, the reader has gone, or it is not
// let in any more, which is looked at with each ping.
func (a *API) pour(ctx context.Context, sp *spool, s *stream, ended <-chan error, still func() bool) {
	ping := time.NewTicker(a.ping)
	defer ping.Stop()
	for {
		var err error
		select {
		case <-sp.more:
			err = s.events(sp.take())
		case <-ping.C:
			if !still() {
				_ = s.problem(errNotStill) // the last thing that is written
				return
			}
			err = s.text(": ping\n\n")
		case end := <-ended:
			for rest := sp.take(); len(rest) > 0 && err == nil; rest = sp.take() {
				err = s.events(rest)
			}
			if end != nil && ctx.Err() == nil && err == nil {
				_ = s.problem(end) // the last thing that is written
			}
			return
		}
		if err != nil {
			return
		}
	}
}

// errNotStill is the problem of a reader whose token has expired, or who was taken out of
// the file, while its stream was open.
var errNotStill = problem(http.StatusUnauthorized, "unauthenticated", "This door wants to know who you are",
	"what you came in with counts no more", "send Authorization: Bearer and a token of yours")

// feedRequest is what a reader asks for.
type feedRequest struct {
	from   events.Position
	filter FeedFilter
	follow bool
}

// filterOf is which events a request asks for.
func (a *API) filterOf(r *http.Request) (FeedFilter, error) {
	q := r.URL.Query()
	one := func(name string) string { return strings.Join(q[name], ",") }
	f := FeedFilter{Trace: one("trace"), Turn: one("turn"), Tools: several(q["tool"])}
	var err error
	if f.Kinds, err = ParseKinds(several(q["kind"])); err != nil {
		return f, BadRequest(err.Error(), "use the kinds of the documentation")
	}
	return f, f.check()
}

// check returns nil for a filter whose ids are ids.
func (f FeedFilter) check() error {
	switch {
	case f.Trace != "" && events.CheckID("trace", f.Trace) != nil:
		return events.CheckID("trace", f.Trace)
	case f.Turn != "" && events.CheckID("turn", f.Turn) != nil:
		return events.CheckID("turn", f.Turn)
	case f.Turn != "" && f.Trace == "":
		return BadRequest("turn without trace", "a turn's id is unique only in its trace: send both")
	}
	return nil
}

func (a *API) feedOf(r *http.Request) (feedRequest, error) {
	out := feedRequest{follow: true}
	q := r.URL.Query()
	var err error
	one := func(name string) string { return strings.Join(q[name], ",") }
	if out.filter, err = a.filterOf(r); err != nil {
		return out, err
	}
	switch v := one("follow"); v {
	case "", "true":
	case "false":
		out.follow = false
	default:
		return out, BadRequest(fmt.Sprintf("follow %q", v), "say true or false")
	}
	out.from, err = a.begin(r, one("from"))
	return out, err
}

// begin is where a reader begins.
func (a *API) begin(r *http.Request, from string) (events.Position, error) {
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		p, err := events.ParsePosition(id)
		if err != nil {
			return p, BadRequest("Last-Event-ID: "+err.Error(), "send the id of the last event that you have seen")
		}
		return after(p), nil
	}
	switch from {
	case "":
		return a.desk.bus.Head(r.Context())
	case "start":
		return events.Position{}, nil
	}
	p, err := events.ParsePosition(from)
	if err != nil {
		return p, BadRequest("from: "+err.Error(), "send a position, or start")
	}
	return p, nil
}

// several are the values of a parameter that may hold several.
func several(values []string) []string {
	var out []string
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			if part != "" {
				out = append(out, part)
			}
		}
	}
	return out
}

// ParseKinds reads names of kinds, and refuses what is none, naming those there are.
func ParseKinds(list []string) ([]events.Kind, error) {
	var out []events.Kind
	for _, name := range list {
		k := events.Kind(name)
		if _, known := events.KindRow(k); !known {
			var all []string
			for _, row := range events.Kinds {
				all = append(all, string(row.Kind))
			}
			slices.Sort(all)
			return nil, fmt.Errorf("kind %q is none of %s", name, strings.Join(all, ", "))
		}
		out = append(out, k)
	}
	return out, nil
}

// stream writes server-sent events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	gaps    func()
}

// text writes, and sends at once. A reader who takes nothing for writeLimit has gone.
func (s *stream) text(t string) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeLimit)) // not every writer has one
	if _, err := s.w.Write([]byte(t)); err != nil {
		return err
	}
	return s.control.Flush()
}

func (s *stream) events(list []FeedEvent) error {
	if len(list) == 0 {
		return nil
	}
	var b strings.Builder
	for _, e := range list {
		if err := s.event(&b, e); err != nil {
			return err
		}
	}
	return s.text(b.String())
}

// noticed is the data of a notice.
type noticed struct {
	From string `json:"from"` // from here on something is not as the reader may think
	To   string `json:"to"`   // the feed goes on here

	Error string `json:"error,omitempty"` // of an unreadable commit: why it is one
}

func noticeOfFeed(e FeedEvent) noticed {
	out := noticed{From: e.From.String(), To: e.Position.String()}
	if e.Err != nil {
		out.Error = wholeText(e.Err.Error())
	}
	return out
}

func (s *stream) event(b *strings.Builder, e FeedEvent) error {
	if e.Notice != "" {
		data, err := json.Marshal(noticeOfFeed(e))
		fmt.Fprintf(b, "event: %s\ndata: %s\n\n", e.Notice, data)
		if e.Notice == NoticeGap {
			s.gaps()
		}
		return err
	}
	data, err := e.CloudEvent()
	if err != nil {
		return errors.Join(err, s.problem(err))
	}
	fmt.Fprintf(b, "id: %s\nevent: %s\ndata: %s\n\n", e.Position, oneLine(string(e.Record().Event.Kind())), data)
	return nil
}

// oneLine keeps a kind of a newer release, whatever it holds, within its line.
func oneLine(s string) string {
	return strings.NewReplacer("\n", "_", "\r", "_").Replace(s)
}

func (s *stream) problem(err error) error {
	data, merr := json.Marshal(problemOf(err))
	return errors.Join(merr, s.text(fmt.Sprintf("event: error\ndata: %s\n\n", data)))
}
