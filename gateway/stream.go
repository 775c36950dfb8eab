package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"time"

	"github.com/sluice-run/sluice/gateway/codec"
)

// streamRoute is where a model's stream goes in as it comes.
const streamRoute = "POST /v1/turns:stream"

// mediaOf are the media types of bodies that are no JSON, by route.
var mediaOf = map[string][]string{
	streamRoute: {"text/event-stream", "application/x-ndjson", "application/jsonl"},
}

// Bounds of a stream's time. A model may think for minutes without a word.
const (
	streamLimit   = MaxWait         // for the whole of it
	streamSilence = 5 * time.Minute // between two pieces
	streamGrace   = bodyLimit       // to end the body once the stream itself has ended
	streamDrain   = 2 * time.Second // to read on in a body whose stream is refused
)

// submitStream is POST /v1/turns:stream. The body is a model's stream as its provider sends
// it; what else a submission says stands in the query, or in the header Sluice-Envelope.
// Nothing is submitted before the body has ended, and with it the stream. It answers as
// POST /v1/turns does or, with Accept: text/event-stream, as the stream comes.
func (a *API) submitStream(w http.ResponseWriter, r *http.Request) error {
	in, err := streamOf(r)
	if err != nil {
		return err
	}
	if err := a.complete(r, &in.order); err != nil {
		return err
	}
	if r.ContentLength > codec.MaxStream {
		return StreamProblem(&codec.StreamError{Fault: codec.FaultTooLarge, Reason: fmt.Sprintf("more than %d bytes", codec.MaxStream)})
	}
	if in.shown {
		a.streamShown(w, r, in)
		return nil
	}
	m, err := a.readStream(w, r, in, nil)
	if err != nil {
		return err
	}
	o, err := a.streamOrder(r, in, m)
	if err != nil {
		return err
	}
	if len(m.Calls) == 0 {
		ok(w, nothing(o, m))
		return nil
	}
	status, out, err := a.run(r, o)
	if err != nil {
		return err
	}
	if status == http.StatusAccepted {
		w.Header().Set("Location", "/v1/turns/"+out.Trace+"/"+out.Turn)
	}
	writeJSON(w, status, "application/json", streamed{out, m.Reason})
	return nil
}

// streamed is a submitted, and why the model stopped.
type streamed struct {
	submitted
	Stop string `json:"stop,omitempty"` // in the provider's word
}

// stateNothing is the state of a stream that is a model's last word, and so asks for no
// call: there is no turn then.
const stateNothing = "nothing"

// nothing is the answer to such a stream: its ids are those that were sent.
func nothing(o Order, m codec.Message) streamed {
	return streamed{submitted{Trace: o.Key.Trace, Turn: o.Key.Turn, State: stateNothing, Unanswered: m.Unanswered}, m.Reason}
}

// streamOrder is the submission of a stream's message. Who sent it must still be let in:
// a stream may last longer than a token.
func (a *API) streamOrder(r *http.Request, in streamIn, m codec.Message) (Order, error) {
	o := in.order
	if a.keys != nil && !a.still(r) {
		return o, errNotStill
	}
	o.Turn.Calls, o.Turn.Format, o.Unanswered = m.Calls, string(in.stream.Format()), m.Unanswered
	if err := Declare(o.Turn.Calls, in.secrets); err != nil {
		return o, err
	}
	if err := a.desk.mayUndo(r.Context(), who(r), o.Turn); err != nil {
		return o, err
	}
	a.letGo(visitOf(r))
	return o, nil
}

// readStream reads a body into a stream, and gives its message. see is called after each
// piece; its error ends the reading.
func (a *API) readStream(w http.ResponseWriter, r *http.Request, in streamIn, see func() error) (codec.Message, error) {
	ctx, stop := a.until(r)
	defer stop()
	control := http.NewResponseController(w)
	rest := time.Now().Add(bodyLimit)                    // for what is thrown away of a body that nobody reads on
	defer func() { _ = control.SetReadDeadline(rest) }() // not every writer has one
	defer context.AfterFunc(ctx, func() { _ = control.SetReadDeadline(time.Now()) })()
	last := time.Now().Add(streamLimit)
	piece := make([]byte, 32<<10)
	for {
		by := time.Now().Add(streamSilence)
		if in.stream.Over() {
			by = time.Now().Add(streamGrace)
		}
		_ = control.SetReadDeadline(earlier(by, last))
		if ctx.Err() != nil {
			return codec.Message{}, ctx.Err()
		}
		n, err := r.Body.Read(piece)
		if _, err := in.stream.Write(piece[:n]); err != nil {
			if see == nil { // who does not read while it sends has to be done with sending, to hear it
				_ = control.SetReadDeadline(time.Now().Add(streamDrain))
				_, _ = io.CopyN(io.Discard, r.Body, codec.MaxStream)
			}
			rest = time.Now().Add(bodyLimit)
			return codec.Message{}, StreamProblem(err)
		}
		if err := a.holdStream(ctx, visitOf(r), int64(in.stream.Size())); err != nil {
			return codec.Message{}, err
		}
		if see != nil && n > 0 {
			if err := see(); err != nil {
				return codec.Message{}, err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			rest = time.Time{}
			m, err := in.stream.End()
			if err == nil {
				err = HaltProblem(m)
			}
			return m, StreamProblem(err)
		case ctx.Err() != nil:
			return codec.Message{}, ctx.Err()
		case err != nil:
			return codec.Message{}, brokenOff(err)
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// brokenOff is the problem of a body that did not come to its end.
func brokenOff(err error) error {
	const next = "nothing was submitted: send the whole stream again"
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return problem(http.StatusRequestTimeout, "stream-silent", "The stream fell silent",
			fmt.Sprintf("nothing came for %v, or the whole took longer than %v, or the body did not end %v after the stream", streamSilence, streamLimit, streamGrace), next)
	}
	return problem(http.StatusBadRequest, "bad-request", "The request cannot be read", "the body ended early: "+err.Error(), next)
}

// streamStep is how many bytes are taken of the budget for streams at once.
const streamStep = 64 << 10

// holdStream takes of the budget for streams what one has grown to.
func (a *API) holdStream(ctx context.Context, v *visit, size int64) error {
	if size <= v.stream {
		return nil
	}
	more := (size - v.stream + streamStep - 1) / streamStep * streamStep
	if !a.shares.hold(v.share, more) {
		return tooMany(fmt.Sprintf("the streams of %s hold more than %d MiB", v.share.id, eachStreamBudget>>20), time.Second)
	}
	ctx, stop := context.WithTimeout(ctx, bodyLimit)
	defer stop()
	if err := a.streamed.Acquire(ctx, more); err != nil {
		a.shares.hold(v.share, -more)
		return problem(http.StatusServiceUnavailable, "busy", "The door holds as much of streams as it can",
			fmt.Sprintf("%d MiB of models' streams are being read", streamBudget>>20), "nothing was submitted: send it again")
	}
	v.stream += more
	return nil
}

// streamVerdicts say what a stream's fault is called, and what to do about it.
var streamVerdicts = map[codec.Fault]struct{ title, next string }{
	codec.FaultCut:       {"The stream was cut off", "nothing was submitted: ask the model again, and relay its stream to the end"},
	codec.FaultError:     {"The model's provider failed", "nothing was submitted: ask the model again"},
	codec.FaultAmbiguous: {"A piece could belong to more than one call", "nothing was submitted: ask the model without streaming, and send its response to POST /v1/turns"},
	codec.FaultConflict:  {"The stream contradicts itself", "nothing was submitted: relay one stream, each event once and in order, or send the response to POST /v1/turns"},
	codec.FaultOrder:     {"An event stands where it cannot", "nothing was submitted: relay the stream from its beginning, each event once and in order"},
	codec.FaultAfterEnd:  {"Something follows the stream's end", "nothing was submitted: send each stream in a request of its own; a router that writes a reason on each chunk cannot be understood, so ask it without streaming and send the response to POST /v1/turns"},
	codec.FaultChoices:   {"The stream has several answers", "nothing was submitted: ask the model for one"},
	codec.FaultMalformed: {"An event is none of this format", "nothing was submitted: relay the bytes as they come from the provider; a response that did not stream goes to POST /v1/turns"},
	codec.FaultFormat:    {"The format is not known", "nothing was submitted: say format=openai, responses, anthropic or gemini, and relay the bytes as they come; a response that did not stream goes to POST /v1/turns"},
	codec.FaultTooLarge:  {"The stream is too large", "nothing was submitted: have the model ask for less at once"},
}

// StreamProblem is the *Problem that tells why a stream submits nothing, and what to do
// about it. An error that is no *codec.StreamError, and nil, it returns as they are.
func StreamProblem(err error) error {
	var e *codec.StreamError
	if !errors.As(err, &e) {
		return err
	}
	v := streamVerdicts[e.Fault]
	detail := e.Reason
	if e.Event > 0 {
		detail = fmt.Sprintf("event %d: %s", e.Event, e.Reason)
	}
	return problem(e.Status(), string(e.Fault), v.title, detail, v.next)
}

// framingOf is how the body's events are told apart, by its media type.
func framingOf(r *http.Request) codec.Framing {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")) // it was checked
	switch media {
	case "text/event-stream":
		return codec.FramingSSE
	case "application/x-ndjson", "application/jsonl":
		return codec.FramingNDJSON
	}
	return "" // as it looks
}
