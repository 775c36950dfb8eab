package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
)

// Check reads the whole file and holds it against its digests. It returns nil, or an
// ErrDamaged that joins what is wrong, piece by piece: the first twenty of it.
func (r *Reader) Check(ctx context.Context) error {
	if r.damage == nil {
		sum := sha256.New()
		if _, err := io.Copy(sum, Paced(ctx, io.NewSectionReader(r.file, 0, r.size-endSize))); err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		if bytes.Equal(sum.Sum(nil), r.whole) {
			return nil
		}
	}
	return r.pieces(ctx)
}

// Paced is a reader that ends with ctx: between two reads, never in one.
func Paced(ctx context.Context, r io.Reader) io.Reader { return &paced{ctx, r} }

type paced struct {
	ctx context.Context
	r   io.Reader
}

// Read is io.Reader's.
func (p *paced) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	return p.r.Read(b)
}

// pieces holds each piece against its digest.
func (r *Reader) pieces(ctx context.Context) error {
	const most = 20
	bad, n := r.damage, 0
	note := func(err error) {
		if n++; n <= most {
			bad = errors.Join(bad, err)
		}
	}
	for w := r.walker(); ; {
		p, err := w.next(ctx)
		var h *hole
		switch {
		case errors.Is(err, io.EOF):
			r.indexes(ctx, note)
			if bad == nil {
				bad = damaged("its bytes do not fit the digest at its end")
			}
			return bad
		case errors.As(err, &h):
			note(err)
		case err != nil:
			return err
		default:
			if _, err := r.frameAt(p.head, p.frame); err != nil {
				note(fmt.Errorf("%s: %w", p.what(), err))
			}
		}
	}
}

// what names what a piece holds.
func (p piece) what() string {
	if p.Kind == pieceBlob {
		return "blob " + digestText(p.Digest)
	}
	return fmt.Sprintf("commits %d to %d of trace %s", p.Nth+1, p.Nth+p.Count, p.Trace)
}

// indexes reads every page of the indexes.
func (r *Reader) indexes(ctx context.Context, note func(error)) {
	if r.damage != nil {
		return
	}
	for _, list := range [][]page{r.man.Index.Traces, r.man.Index.Blobs} {
		for _, p := range list {
			if ctx.Err() != nil {
				return
			}
			if _, _, _, err := r.pieceAt(p.At); err != nil {
				note(fmt.Errorf("index: %w", err))
			}
		}
	}
}
