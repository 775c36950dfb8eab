package jetlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-run/sluice/events"
)

// markerName is the file in the server's folder that says what the folder holds.
const markerName = "sluice.json"

// marker is that file. It is replaced, synced, BEFORE what it says is built upon.
type marker struct {
	Format      int          `json:"format"`
	Generations []markedSpan `json:"generations"` // oldest first
	Clean       bool         `json:"clean"`       // the server was closed, and everything is on the disk
	Last        uint64       `json:"last"`        // the log's last sequence then
}

type markedSpan struct {
	Generation uint32 `json:"generation"`
	First      uint64 `json:"first_sequence"`
}

func (m *marker) spans() spans {
	var out spans
	for _, s := range m.Generations {
		out = append(out, Span{s.Generation, s.First})
	}
	return out
}

func (m *marker) set(gens spans) {
	m.Generations = nil
	for _, g := range gens {
		m.Generations = append(m.Generations, markedSpan{g.Generation, g.FirstSeq})
	}
}

// Readable returns why this release cannot open the log of a directory, as far as the
// directory says it without being opened: one of a newer format, or whose marker is damaged.
// nil where nothing speaks against it.
func Readable(dir string) error {
	_, err := readMarker(dir)
	return err
}

// readMarker returns nil where there is none.
func readMarker(dir string) (*marker, error) {
	path := filepath.Join(dir, markerName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what %s holds: %w", dir, err)
	}
	var m marker
	var newer struct{ Format int } // the rest of a newer one may look otherwise
	if json.Unmarshal(text, &newer) == nil && newer.Format > events.Format {
		return nil, fmt.Errorf("%s is of format %d, and this release reads up to %d: %w, or name another directory",
			path, newer.Format, events.Format, events.ErrNewerFormat)
	}
	err = json.Unmarshal(text, &m)
	if err == nil && (m.Format < 1 || len(m.Generations) == 0) {
		err = errors.New("format or generations are missing")
	}
	if err = errors.Join(err, checkSpans(m.spans())); err != nil {
		return nil, fmt.Errorf("%s is damaged: put it back as it was; or remove it, and a new generation begins: %w", path, err)
	}
	return &m, nil
}

// write replaces the marker, and is durable when it returns.
func (m *marker) write(dir string) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return replace(filepath.Join(dir, markerName), append(text, '\n'))
}

// replace puts a file in the place of another, whole or not at all.
func replace(path string, text []byte) error {
	temporary := path + ".new"
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return explain(filepath.Dir(path), err)
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temporary, path)
	}
	if err == nil {
		err = syncPath(filepath.Dir(path))
	}
	return explain(filepath.Dir(path), err)
}

// history is what the marker and the log itself say of the log, at a start.
type history struct {
	marked *marker // nil: there was none
	stored spans   // of the log's own description; nil if there is no log
	last   uint64  // the log's last sequence now
	holes  int     // commits missing in the middle
}

// next is the log's generations from this start on, and why a new one begins,
// "" if none does.
func (h history) next() (gens spans, why string) {
	gens = h.stored
	if h.marked != nil {
		gens = h.marked.spans()
	}
	switch {
	case h.marked == nil && h.stored == nil:
		return firstSpans, ""
	case h.marked == nil:
		why = markerName + " is missing"
	case !h.marked.Clean:
		why = "it was not closed"
	case h.last < h.marked.Last:
		why = fmt.Sprintf("it ended at %d when it was closed", h.marked.Last)
	default:
		return gens, ""
	}
	return gens.then(h.last + 1), why
}

// then are the spans with one more that begins at a sequence. Those that would
// begin behind it have lost all that they had.
func (s spans) then(first uint64) spans {
	var out spans
	for _, g := range s {
		out = append(out, Span{g.Generation, min(g.FirstSeq, first)})
	}
	return append(out, Span{s.current() + 1, first})
}

// readHistory asks the server for what it has recovered.
func readHistory(ctx context.Context, js jetstream.JetStream, m *marker) (history, error) {
	h := history{marked: m}
	s, err := js.Stream(ctx, StreamLog)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return h, nil
	}
	if err != nil {
		return h, streamError(StreamLog, err)
	}
	info := s.CachedInfo()
	h.last, h.holes = info.State.LastSeq, info.State.NumDeleted
	h.stored, err = parseSpans(info.Config.Metadata[metaGenerations])
	return h, err
}

// mendMirror deletes the mirror if it is not what the log is: it stands beyond
// it, ends with another commit, or has a hole. Open makes it anew. It returns
// why, or "".
func mendMirror(ctx context.Context, js jetstream.JetStream) (why string, err error) {
	mirror, err := js.Stream(ctx, StreamRead)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return "", nil
	}
	if err != nil {
		return "", streamError(StreamRead, err)
	}
	why, err = mirrorDiffers(ctx, js, mirror)
	if err != nil || why == "" {
		return "", err
	}
	if err := js.DeleteStream(ctx, StreamRead); err != nil {
		return why, streamError(StreamRead, err)
	}
	return why, nil
}

func mirrorDiffers(ctx context.Context, js jetstream.JetStream, mirror jetstream.Stream) (string, error) {
	origin, err := js.Stream(ctx, StreamLog)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return "there is no log", nil
	}
	if err != nil {
		return "", streamError(StreamLog, err)
	}
	m, o := mirror.CachedInfo().State, origin.CachedInfo().State
	switch {
	case m.LastSeq > o.LastSeq:
		return fmt.Sprintf("it ends at %d, the log at %d", m.LastSeq, o.LastSeq), nil
	case m.NumDeleted != o.NumDeleted:
		return fmt.Sprintf("%d commits are missing in it, and %d in the log", m.NumDeleted, o.NumDeleted), nil
	case m.Msgs == 0 || m.LastSeq < o.FirstSeq:
		return "", nil
	}
	theirs, err := mirror.GetMsg(ctx, m.LastSeq)
	if err != nil {
		return fmt.Sprintf("its commit %d cannot be read: %v", m.LastSeq, err), nil
	}
	ours, err := origin.GetMsg(ctx, m.LastSeq)
	if err != nil {
		return "", fmt.Errorf("stream %s: commit %d: %w", StreamLog, m.LastSeq, err)
	}
	if a, b := commitID(theirs), commitID(ours); a != b {
		return fmt.Sprintf("its commit %d is %s, the log's %s", m.LastSeq, a, b), nil
	}
	return "", nil
}

// commitID names what a message holds.
func commitID(m *jetstream.RawStreamMsg) string {
	return m.Subject + " " + m.Header.Get(jetstream.MsgIDHeader) + " " + m.Time.String()
}
