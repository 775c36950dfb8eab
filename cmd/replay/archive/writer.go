package archive

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// Options say what is written of an archive beside its traces.
type Options struct {
	Release   string     // of this program
	Redaction *Redaction // what the commits were redacted by BEFORE they came here; nil: they were not
}

// Writer writes an archive: Begin, then Add for each commit of the trace in the order
// of their sequences, then Begin of the next trace, whose first commit has a later
// sequence than the first of the one before; then Close. It holds a block of commits,
// the largest blob, and some 400 bytes for each trace and 100 for each blob. It is for
// one goroutine. After an error it is of no use.
type Writer struct {
	out   io.Writer
	whole hash.Hash
	at    int64 // bytes written
	enc   *zstd.Encoder
	man   Manifest
	kinds map[kindVersion]int
	sum   hash.Hash // of the digests of all traces

	blobs   map[[sha256.Size]byte]blobPlace
	entries []packedEntry
	trace   *traceWriter
	last    uint64 // sequence of the first commit of the last trace
	fill    int    // bytes of commits that are packed together
	seen    map[string]bool
	lost    []string // what was not there, the first of it
}

// mostLost is how much of what was not there is named.
const mostLost = 20

// Lost names what commits refer to and blobs did not have: the first twenty of it.
func (w *Writer) Lost() []string { return w.lost }

type kindVersion struct {
	kind    events.Kind
	version int
}

// blobPlace is where a blob is. at 0: it was not there.
type blobPlace struct {
	at, size int64
}

// packedEntry is a trace's entry in its stored form: they are kept to the end.
type packedEntry struct {
	id   string
	text []byte
}

// traceWriter is the trace that is being written.
type traceWriter struct {
	entry
	sum   hash.Hash
	turns map[string]bool // whether each has ended
	block bytes.Buffer
	head  head // of the block
	lost  map[[sha256.Size]byte]bool
}

// NewWriter begins an archive.
func NewWriter(out io.Writer, o Options) (*Writer, error) {
	enc, err := encoder()
	if err != nil {
		return nil, err
	}
	w := &Writer{
		out: out, whole: sha256.New(), enc: enc, kinds: map[kindVersion]int{}, sum: sha256.New(),
		blobs: map[[sha256.Size]byte]blobPlace{}, seen: map[string]bool{}, fill: blockSize,
		man: Manifest{Format: Format, Release: clip(o.Release), LogFormat: events.Format, Redaction: o.Redaction},
	}
	h := head{Kind: pieceBegin, Format: Format, Release: w.man.Release}
	if o.Redaction != nil {
		h.Redaction = &Redaction{Mode: o.Redaction.Mode}
	}
	return w, w.write(h, nil, 0)
}

func clip(s string) string { return s[:min(len(s), maxText)] }

// write writes a piece. raw is what its frame holds, nil if it has none.
func (w *Writer) write(h head, raw []byte, size int) error {
	var frame []byte
	if len(raw) > 0 {
		frame = w.enc.EncodeAll(raw, nil)
		h = sized(h, raw, frame)
	}
	b, err := encodeHead(h, size)
	if err != nil {
		return err
	}
	for _, part := range [][]byte{b, frame} {
		if _, err := w.out.Write(part); err != nil {
			return fmt.Errorf("write the archive: %w", err)
		}
		w.whole.Write(part)
		w.at += int64(len(part))
	}
	return nil
}

// Begin ends the trace before, and begins another one.
func (w *Writer) Begin(trace string) error {
	if err := w.end(); err != nil {
		return err
	}
	if err := events.CheckID("trace", trace); err != nil {
		return err
	}
	if w.seen[trace] {
		return fmt.Errorf("trace %s is in the archive already", trace)
	}
	w.seen[trace] = true
	w.trace = &traceWriter{
		entry: entry{ID: trace}, sum: sha256.New(), turns: map[string]bool{}, lost: map[[sha256.Size]byte]bool{},
	}
	return nil
}

// Add adds a commit of the trace. The bytes that it refers to are taken from blobs and
// stand before it; those that blobs does not have are noted, and are no error. nil is
// for none.
func (w *Writer) Add(ctx context.Context, c Commit, blobs bus.Blobs) error {
	t := w.trace
	switch {
	case t == nil || c.Turn.Trace != t.ID:
		return fmt.Errorf("a commit of %s, and it is not that trace's turn", c.Turn)
	case t.Commits > 0 && c.At.Seq <= t.Last[1]:
		return fmt.Errorf("trace %s: sequence %d comes behind %d", t.ID, c.At.Seq, t.Last[1])
	case t.Commits == 0 && len(w.seen) > 1 && c.At.Seq <= w.last:
		return fmt.Errorf("trace %s begins at sequence %d, behind one that begins at %d", t.ID, c.At.Seq, w.last)
	case len(c.Body) > maxCommit:
		return fmt.Errorf("commit at %s: %d bytes: %w", c.At, len(c.Body), bus.ErrTooLarge)
	}
	if err := c.Turn.Check(); err != nil {
		return err
	}
	if err := w.about(ctx, c, blobs); err != nil {
		return err
	}
	if t.Commits == 0 {
		t.First, w.last = placeOf(c.At), c.At.Seq
	}
	if t.block.Len() >= w.fill {
		if err := w.flush(t, false); err != nil {
			return err
		}
	}
	if t.block.Len() == 0 {
		t.head = head{Kind: pieceCommits, Trace: t.ID, Nth: t.Commits, First: c.At.Seq}
	}
	if err := appendRecord(&t.block, c); err != nil {
		return err
	}
	t.head.Count, t.head.Last, t.head.Gen = t.head.Count+1, c.At.Seq, max(t.head.Gen, c.At.Generation)
	t.Commits, t.Last = t.Commits+1, placeOf(c.At)
	sumCommit(t.sum, c)
	return nil
}

// sumCommit adds a commit to its trace's digest.
func sumCommit(sum hash.Hash, c Commit) {
	fmt.Fprintf(sum, "%s %d\n", c.Turn.Turn, len(c.Body))
	sum.Write(c.Body)
}

// about counts what is in a commit, and writes what it refers to.
func (w *Writer) about(ctx context.Context, c Commit, blobs bus.Blobs) error {
	t := w.trace
	if _, known := t.turns[c.Turn.Turn]; !known {
		t.turns[c.Turn.Turn] = false
	}
	commit, err := events.Decode(c.Body)
	if err != nil || commit.Turn != c.Turn {
		t.Unreadable++
		return nil
	}
	for _, r := range commit.Records {
		t.Events++
		w.kinds[kindVersion{r.Event.Kind(), versionOf(r.Event)}]++
		if events.EndsTurn(r.Event.Kind()) {
			t.turns[c.Turn.Turn] = true
		}
		for _, ref := range References(r.Event) {
			if err := w.refer(ctx, ref, blobs); err != nil {
				return fmt.Errorf("commit at %s: %w", c.At, err)
			}
		}
	}
	return nil
}

func versionOf(e events.Event) int {
	if f, ok := e.(events.Foreign); ok {
		return f.Version
	}
	for _, row := range events.Kinds {
		if row.Kind == e.Kind() {
			return row.Version
		}
	}
	return 0
}

// refer writes a blob, once.
func (w *Writer) refer(ctx context.Context, ref events.BlobRef, blobs bus.Blobs) error {
	sum, ok := parseDigest(ref.Digest)
	if !ok {
		return nil // it can be nowhere; verify says so
	}
	p, known := w.blobs[sum]
	if !known {
		data, err := get(ctx, blobs, ref)
		switch {
		case err == nil:
			if p, err = w.blob(sum, data); err != nil {
				return err
			}
		case ctx.Err() != nil, errors.Is(err, bus.ErrUnavailable):
			return fmt.Errorf("blob %s: %w", ref.Digest, err)
		}
		w.blobs[sum] = p
	}
	if p.at == 0 && !w.trace.lost[sum] {
		w.trace.lost[sum] = true
		w.trace.Missing = append(w.trace.Missing, sum[:])
		if len(w.lost) < mostLost {
			w.lost = append(w.lost, fmt.Sprintf("trace %s refers to %s, %d bytes", w.trace.ID, ref.Digest, ref.Size))
		}
	}
	return nil
}

func get(ctx context.Context, blobs bus.Blobs, ref events.BlobRef) ([]byte, error) {
	if blobs == nil {
		return nil, bus.ErrNotFound
	}
	data, err := blobs.Get(ctx, ref)
	if err == nil && len(data) > maxBlob {
		err = fmt.Errorf("%d bytes: an archive takes blobs of at most %d", len(data), maxBlob)
	}
	return data, err
}

// blob writes a blob in parts.
func (w *Writer) blob(sum [sha256.Size]byte, data []byte) (blobPlace, error) {
	p := blobPlace{at: w.at, size: int64(len(data))}
	w.man.Blobs++
	w.man.BlobBytes += p.size
	h := head{Kind: pieceBlob, Digest: sum[:], Size: p.size}
	if len(data) == 0 {
		return p, w.write(h, nil, 0)
	}
	for part := range slices.Chunk(data, partSize) {
		if err := w.write(h, part, 0); err != nil {
			return p, err
		}
		h.Offset += int64(len(part))
	}
	return p, nil
}

// flush writes the commits that have gathered.
func (w *Writer) flush(t *traceWriter, final bool) error {
	t.Blocks = append(t.Blocks, block{uint64(w.at), t.head.First})
	t.head.Final = final
	err := w.write(t.head, t.block.Bytes(), 0)
	t.block.Reset()
	return err
}

// end ends the trace that is being written.
func (w *Writer) end() error {
	t := w.trace
	if t == nil {
		return nil
	}
	w.trace = nil
	if t.Commits == 0 {
		delete(w.seen, t.ID)
		return nil // nothing was there
	}
	if err := w.flush(t, true); err != nil {
		return err
	}
	for _, ended := range t.turns {
		t.Turns++
		if !ended {
			t.Open++
		}
	}
	t.Digest = t.sum.Sum(nil)
	fmt.Fprintf(w.sum, "%s ", t.ID)
	w.sum.Write(t.Digest)
	w.count(t.entry)
	text, err := json.Marshal(t.entry)
	if err == nil && len(text) > maxRaw/2 {
		err = fmt.Errorf("trace %s is too large for one archive", t.ID)
	}
	w.entries = append(w.entries, packedEntry{t.ID, text})
	return err
}

func (w *Writer) count(e entry) {
	m := &w.man
	m.Traces, m.Turns, m.Open, m.Commits = m.Traces+1, m.Turns+e.Turns, m.Open+e.Open, m.Commits+e.Commits
	m.Events, m.Unreadable = m.Events+e.Events, m.Unreadable+e.Unreadable
	if m.First == "" {
		m.First = e.First.position().String()
	}
	if last := e.Last.position(); w.lastOf().Seq < last.Seq {
		m.Last = last.String()
	}
}

// lastOf is the last position so far.
func (w *Writer) lastOf() events.Position {
	p, err := events.ParsePosition(w.man.Last)
	if err != nil {
		return events.Position{}
	}
	return p
}

// Close writes the indexes, the manifest and the end, and returns the manifest.
func (w *Writer) Close() (Manifest, error) {
	if err := w.end(); err != nil {
		return w.man, err
	}
	slices.SortFunc(w.entries, func(a, b packedEntry) int { return strings.Compare(a.id, b.id) })
	var err error
	if w.man.Index.Traces, err = w.index(pieceTraces, w.entries); err != nil {
		return w.man, err
	}
	if w.man.Index.Blobs, err = w.index(pieceBlobs, w.blobEntries()); err != nil {
		return w.man, err
	}
	w.man.Kinds = w.kindCounts()
	w.man.Digest = digestText(w.sum.Sum(nil))
	text, err := json.Marshal(w.man)
	if err != nil {
		return w.man, err
	}
	at := w.at
	if err := w.write(head{Kind: pieceManifest}, text, 0); err != nil {
		return w.man, err
	}
	return w.man, w.write(head{Kind: pieceEnd, At: at, Whole: w.whole.Sum(nil)}, nil, endSize)
}

func (w *Writer) blobEntries() []packedEntry {
	out := make([]packedEntry, 0, len(w.blobs))
	for sum, p := range w.blobs {
		if p.at == 0 {
			w.man.Missing++
			continue
		}
		text, _ := json.Marshal(blobEntry{sum[:], p.at, p.size}) // of numbers and bytes: it cannot fail
		out = append(out, packedEntry{hex.EncodeToString(sum[:]), text})
	}
	slices.SortFunc(out, func(a, b packedEntry) int { return strings.Compare(a.id, b.id) })
	return out
}

// index writes pages of entries, a line each.
func (w *Writer) index(kind string, list []packedEntry) ([]page, error) {
	var pages []page
	var raw bytes.Buffer
	first := ""
	flush := func() error {
		if raw.Len() == 0 {
			return nil
		}
		pages = append(pages, page{first, w.at})
		err := w.write(head{Kind: kind}, raw.Bytes(), 0)
		raw.Reset()
		return err
	}
	for _, e := range list {
		if raw.Len() > 0 && raw.Len()+len(e.text) > pageSize {
			if err := flush(); err != nil {
				return nil, err
			}
		}
		if raw.Len() == 0 {
			first = e.id
		}
		raw.Write(e.text)
		raw.WriteByte('\n')
	}
	if err := flush(); err != nil {
		return nil, err
	}
	if len(pages) > maxPages {
		return nil, fmt.Errorf("an index of %d pages: at most %d fit into one archive", len(pages), maxPages)
	}
	return pages, nil
}

func (w *Writer) kindCounts() []KindCount {
	out := make([]KindCount, 0, len(w.kinds))
	for k, n := range w.kinds {
		out = append(out, KindCount{k.kind, k.version, n})
	}
	slices.SortFunc(out, func(a, b KindCount) int {
		return cmp.Or(strings.Compare(string(a.Kind), string(b.Kind)), cmp.Compare(a.Version, b.Version))
	})
	return out
}
