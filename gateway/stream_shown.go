package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/codec"
)

// preview is a piece of a call as who watches sees it. It says of itself what it is.
type preview struct {
	Only bool `json:"preview"` // always true
	codec.Preview
}

// streamShown answers POST /v1/turns:stream with what comes of it as it comes: previews,
// submitted once that is durable, and the answer at last; or an error. Previews that
// nobody reads hold the reading up, and end it after writeLimit: who asks for them reads
// them while it sends.
func (a *API) streamShown(w http.ResponseWriter, r *http.Request, in streamIn) {
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex() // HTTP/2 needs no word for it
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	s := &stream{w: w, control: control}
	if s.text("retry: 3600000\n\n") != nil { // a browser's reader must not send it all again
		return
	}
	if err := a.showStream(w, r, in, s); err != nil {
		_ = s.problem(problemOf(err).discreet()) // the last thing that is written
	}
}

func (a *API) showStream(w http.ResponseWriter, r *http.Request, in streamIn, s *stream) error {
	m, err := a.readStream(w, r, in, func() error { return s.previews(in.stream.Previews()) })
	if err != nil {
		return err
	}
	if err := s.previews(in.stream.Previews()); err != nil {
		return err
	}
	o, err := a.streamOrder(r, in, m)
	if err != nil {
		return err
	}
	if len(m.Calls) == 0 {
		return s.data("answer", nothing(o, m))
	}
	t, err := a.desk.Submit(r.Context(), o.Key, o.Turn)
	if err != nil {
		return about(t.Key, err)
	}
	out := submittedOf(t, "submitted", o).overHTTP(o.Turn.CanAsk)
	if err := s.data("submitted", out); err != nil {
		return err
	}
	if o.Wait > 0 || t.Attached {
		look := a.desk.Get
		if o.Wait > 0 {
			look = func(context.Context, events.TurnKey) (View, error) { return a.waitShown(r, t, o.Wait, s) }
		}
		v, err := look(r.Context(), t.Key)
		if err != nil {
			return about(t.Key, err)
		}
		if _, out, err = a.outcome(r.Context(), t, v, o); err != nil {
			return about(t.Key, err)
		}
	}
	return s.data("answer", streamed{out, m.Reason})
}

// waitShown waits for a turn's end, and says meanwhile that the answer lives.
func (a *API) waitShown(r *http.Request, t Ticket, limit time.Duration, s *stream) (View, error) {
	ctx, stop := a.until(r)
	type ended struct {
		v   View
		err error
	}
	end := make(chan ended, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() {
		v, err := a.desk.Wait(ctx, t.Key, limit)
		end <- ended{v, err}
	})
	ping := time.NewTicker(a.ping)
	defer ping.Stop()
	for {
		select {
		case e := <-end:
			return e.v, e.err
		case <-ping.C:
			if a.keys != nil && !a.still(r) {
				return View{}, errNotStill
			}
			if err := s.text(": ping\n\n"); err != nil {
				return View{}, err
			}
		}
	}
}

// previews writes pieces of calls.
func (s *stream) previews(list []codec.Preview) error {
	if len(list) == 0 {
		return nil
	}
	var b strings.Builder
	for _, p := range list {
		data, err := json.Marshal(preview{true, p})
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "event: preview\ndata: %s\n\n", data)
	}
	return s.text(b.String())
}

// data writes one event.
func (s *stream) data(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.text(fmt.Sprintf("event: %s\ndata: %s\n\n", name, data))
}
