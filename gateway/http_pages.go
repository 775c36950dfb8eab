package gateway

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
)

// waitOf is how long a request may wait, by its wait_ms; 0: not at all.
func waitOf(q url.Values, most time.Duration) (time.Duration, error) {
	v := q.Get("wait_ms")
	if v == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 || n > most.Milliseconds() {
		return 0, BadRequest(fmt.Sprintf("wait_ms=%.40s", v), fmt.Sprintf("send 0 to %d", most.Milliseconds()))
	}
	return time.Duration(n) * time.Millisecond, nil
}

// place takes a place among the event streams, or says whose they all are.
func (a *API) place(r *http.Request) (leave func(), err error) {
	select {
	case a.streams <- struct{}{}:
	default:
		return nil, problem(http.StatusServiceUnavailable, "streams", "There are too many event streams",
			fmt.Sprintf("%d are open", cap(a.streams)), "close one, or read from another node")
	}
	share := visitOf(r).share
	if !a.shares.stream(share, 1) {
		<-a.streams
		return nil, tooMany(fmt.Sprintf("%s has %d event streams open", share.id, a.limits.EachStreams), time.Second)
	}
	return func() {
		a.shares.stream(share, -1)
		<-a.streams
	}, nil
}

// slot takes a place among those who wait for events, with those who have a stream of
// them; false: there is none left, for anybody or for this one.
func (a *API) slot(r *http.Request) (leave func(), ok bool) {
	leave, err := a.place(r)
	return leave, err == nil
}

// wantsPage says whether events are asked for page by page, and not as a stream.
func wantsPage(r *http.Request) bool {
	q := r.URL.Query()
	accept := strings.Join(r.Header["Accept"], ",")
	return q.Has("limit") || q.Has("wait_ms") || strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/event-stream")
}

// getEventsPage is GET /v1/events for who reads page by page: with limit, wait_ms, or an
// Accept that names application/json. An empty page waits for its first event as long as
// wait_ms says, unless as many wait already as may have a stream.
func (a *API) getEventsPage(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	switch {
	case q.Has("follow"):
		return BadRequest("follow of a page", "leave follow out, and send wait_ms; or limit and wait_ms out, for a stream")
	case r.Header.Get("Last-Event-ID") != "":
		return BadRequest("Last-Event-ID of a page", "send the next of the page before as from")
	}
	in, err := a.filterOf(r)
	if err == nil {
		err = a.mayFeed(r, in)
	}
	if err != nil {
		return err
	}
	asked := feedAsked{filter: in, slot: func() (func(), bool) { return a.slot(r) }}
	if asked.from, err = readAt(q.Get("from")); err != nil {
		return err
	}
	if asked.limit, err = limitOf(r); err != nil {
		return err
	}
	if asked.wait, err = waitOf(q, maxPageWait); err != nil {
		return err
	}
	ctx, stop := a.until(r)
	defer stop()
	out, err := a.desk.page(ctx, asked)
	if err == nil {
		ok(w, out)
	}
	return err
}

// Bounds of a page of a turn's own events.
const (
	maxTurnPage      = 1000
	maxTurnPageBytes = 4 << 20 // an event that is larger by itself is a page
)

// turnEvents answers GET …/events.
type turnEvents struct {
	Trace  string            `json:"trace"`
	Turn   string            `json:"turn"`
	Events []json.RawMessage `json:"events"`         // CloudEvents
	Next   string            `json:"next,omitempty"` // cursor of the next page; "": there is none yet
}

// getTurnEvents is GET …/events: the turn's events from behind a position on.
func (a *API) getTurnEvents(w http.ResponseWriter, r *http.Request) error {
	behind, err := cursorOf(r.URL.Query().Get("cursor"))
	if err != nil {
		return err
	}
	limit, err := limitOf(r)
	if err != nil {
		return err
	}
	v, err := a.turn(r)
	if err != nil {
		return err
	}
	out, err := v.eventsBehind(behind, limit, maxTurnPageBytes)
	if err == nil {
		okTagged(w, r, out)
	}
	return err
}

// cursorOf is where a page of a turn's events begins.
func cursorOf(cursor string) (events.Position, error) {
	if cursor == "" {
		return events.Position{}, nil
	}
	p, err := events.ParsePosition(cursor)
	if err != nil {
		return p, BadRequest("cursor: "+err.Error(), "send the next of the page before, or the position of an event")
	}
	return after(p), nil
}

// eventsBehind is a page of a turn's events from a position on: at most limit (0: as many
// as a page may have) and as many bytes, but one.
func (v View) eventsBehind(from events.Position, limit, bytes int) (turnEvents, error) {
	if limit == 0 {
		limit = maxTurnPage
	}
	out := turnEvents{Trace: v.Turn.Key.Trace, Turn: v.Turn.Key.Turn, Events: []json.RawMessage{}}
	last, size := "", 0
	for _, s := range v.Commits {
		for i, rec := range s.Commit.Records {
			if s.Position(i).Compare(from) < 0 {
				continue
			}
			e := FeedEvent{Stored: s, Index: i}
			if c := v.Turn.Call(rec.Call); c != nil {
				e.Tool = v.Turn.Submitted.Calls[rec.Call].Tool
			}
			ce, err := e.CloudEvent()
			if err != nil {
				return out, err
			}
			if len(out.Events) > 0 && (len(out.Events) >= limit || size+len(ce) > bytes) {
				out.Next = last
				return out, nil
			}
			out.Events, last, size = append(out.Events, ce), s.Position(i).String(), size+len(ce)
		}
	}
	return out, nil
}

// tagOf is a tag for an answer's bytes. It is a weak one: whoever compresses an answer on
// its way does not change what it says.
func tagOf(body []byte) string {
	sum := sha256.Sum256(body)
	return `W/"` + base64.RawURLEncoding.EncodeToString(sum[:18]) + `"`
}

// tagged says whether the request's If-None-Match names a tag.
func tagged(r *http.Request, tag string) bool {
	for t := range strings.SplitSeq(strings.Join(r.Header["If-None-Match"], ","), ",") {
		if t = strings.TrimSpace(t); t == "*" || strings.TrimPrefix(t, "W/") == strings.TrimPrefix(tag, "W/") {
			return true
		}
	}
	return false
}

// unchanged puts the tag on an answer, and is all of it where the caller has it already.
func unchanged(w http.ResponseWriter, r *http.Request, tag string) bool {
	w.Header().Set("ETag", tag)
	if !tagged(r, tag) {
		return false
	}
	w.WriteHeader(http.StatusNotModified)
	return true
}

// okTagged answers with a value, or with nothing where the caller has its tag.
func okTagged(w http.ResponseWriter, r *http.Request, v any) {
	body, err := json.Marshal(v)
	switch {
	case err != nil:
		ok(w, v) // which says so
	case !unchanged(w, r, tagOf(body)):
		writeBody(w, http.StatusOK, "application/json", append(body, '\n'))
	}
}
