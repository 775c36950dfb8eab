package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// piece is a piece of a file: its head, and where it stands.
type piece struct {
	head
	at    int64 // of the head
	frame int64 // of the frame
	next  int64 // of the piece behind it
}

// hole is a part of the file in which no piece can be found.
type hole struct {
	from, to int64
	last     bool   // it is the file's end
	what     string // what the index says of it; "" if it says nothing
}

func (h *hole) Error() string {
	where := fmt.Sprintf("the bytes %d to %d cannot be read", h.from, h.to)
	if h.last {
		where = fmt.Sprintf("it ends at byte %d, amid what begins at byte %d", h.to, h.from)
	}
	if h.what != "" {
		where += ": " + h.what
	}
	return damaged("%s", where).Error()
}

// Unwrap makes errors.Is(err, ErrDamaged) hold.
func (h *hole) Unwrap() error { return ErrDamaged }

// walker goes from piece to piece, without unpacking any.
type walker struct {
	r   *Reader
	at  int64
	raw int64 // bytes that the pieces so far unpack to
}

// walker begins behind the beginning.
func (r *Reader) walker() *walker { return &walker{r: r, at: r.first} }

// from begins at a piece.
func (r *Reader) walkerAt(at int64) *walker { return &walker{r: r, at: at} }

// next is the next piece of commits or blobs, or io.EOF behind the last one. A hole is
// an error, and the next call goes on behind it. The last piece of a file that is cut
// off may be shorter than it says.
func (w *walker) next(ctx context.Context) (piece, error) {
	if err := ctx.Err(); err != nil {
		return piece{}, err
	}
	if w.at >= w.r.end {
		return piece{}, io.EOF
	}
	h, n, err := w.r.headAt(w.at)
	switch {
	case errors.Is(err, ErrHostile):
		return piece{}, err
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, ErrDamaged):
		return piece{}, w.skip()
	case err != nil:
		return piece{}, err
	}
	p := piece{head: h, at: w.at, frame: w.at + int64(n), next: w.at + int64(n) + h.Packed}
	switch h.Kind {
	case pieceTraces, pieceBlobs, pieceManifest, pieceEnd:
		if w.r.damage == nil {
			return piece{}, fmt.Errorf("%w: a %s among the traces", ErrHostile, h.Kind)
		}
		w.at = w.r.size // of a file without its end
		return piece{}, io.EOF
	case pieceBegin:
		return piece{}, fmt.Errorf("%w: it begins twice: give each archive by itself", ErrHostile)
	}
	w.at = p.next
	w.raw += h.Raw
	if w.raw > maxRatio*w.r.size+slack {
		return piece{}, fmt.Errorf("%w: it unpacks to more than %d times its size", ErrHostile, maxRatio)
	}
	return p, nil
}

// skip looks for a piece behind a place where there is none.
func (w *walker) skip() error {
	from := w.at
	to, err := w.r.seek(from + 1)
	if err != nil {
		return err
	}
	w.at = min(to, w.r.end)
	h := &hole{from: from, to: w.at, last: w.at == w.r.size}
	if w.r.damage == nil {
		h.what = w.r.lostIn(h.from, h.to)
	}
	return h
}
