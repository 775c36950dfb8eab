package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
)

// keptPages is how many pages of the indexes stay in memory.
const keptPages = 8

// found is what a walk over a file without an index finds.
type found struct {
	traces map[string]*entry
	order  []string // in the file's order
	blobs  map[[sha256.Size]byte]int64
	holes  []error
}

// pageOf reads a page of an index, unless it was read just now.
func pageOf[T any](r *Reader, kind string, at int64, check func(T) error) ([]T, error) {
	r.mu.Lock()
	list, ok := r.pages[at].([]T)
	r.mu.Unlock()
	if ok {
		return list, nil
	}
	h, raw, _, err := r.pieceAt(at)
	if err == nil && h.Kind != kind {
		err = damaged("a %s stands where the index of %s should", h.Kind, kind)
	}
	for dec := json.NewDecoder(bytes.NewReader(raw)); err == nil && dec.More(); {
		var one T
		if err = dec.Decode(&one); err != nil {
			err = damaged("index of %s: %v", kind, err)
		} else if err = check(one); err == nil {
			list = append(list, one)
		}
	}
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, there := r.pages[at]; !there {
		r.pages[at], r.order = list, append(r.order, at)
	}
	if len(r.order) > keptPages {
		delete(r.pages, r.order[0])
		r.order = slices.Delete(r.order, 0, 1)
	}
	return list, nil
}

// pageFor is the page of an index that may have a key; ok is false if none can.
func pageFor(pages []page, key string) (p page, ok bool) {
	i := sort.Search(len(pages), func(i int) bool { return pages[i].First > key })
	if i == 0 {
		return p, false
	}
	return pages[i-1], true
}

func (r *Reader) tracePage(p page) ([]entry, error) {
	return pageOf(r, pieceTraces, p.At, func(e entry) error { return e.check(r.size) })
}

// entryOf is what the index has of a trace; nil if there is no such trace. Where the
// index cannot be read, the file is walked through.
func (r *Reader) entryOf(ctx context.Context, trace string) (*entry, error) {
	if r.damage == nil {
		p, ok := pageFor(r.man.Index.Traces, trace)
		if !ok {
			return nil, nil
		}
		list, err := r.tracePage(p)
		if err == nil {
			i, there := slices.BinarySearchFunc(list, trace, func(e entry, id string) int { return strings.Compare(e.ID, id) })
			if !there {
				return nil, nil
			}
			return &list[i], nil
		}
		if !errors.Is(err, ErrDamaged) {
			return nil, err
		}
	}
	f, err := r.walked(ctx)
	if err != nil {
		return nil, err
	}
	return f.traces[trace], nil
}

// blobAt is where a blob begins; 0 if the archive does not have it.
func (r *Reader) blobAt(ctx context.Context, sum [sha256.Size]byte) (int64, error) {
	if r.damage == nil {
		p, ok := pageFor(r.man.Index.Blobs, hex.EncodeToString(sum[:]))
		if !ok {
			return 0, nil
		}
		list, err := pageOf(r, pieceBlobs, p.At, func(e blobEntry) error {
			if e.At < 0 || e.At >= r.size || len(e.Digest) != sha256.Size {
				return fmt.Errorf("%w: the index of blobs points nowhere", ErrHostile)
			}
			return nil
		})
		if err == nil {
			i, there := slices.BinarySearchFunc(list, sum[:], func(e blobEntry, d []byte) int { return bytes.Compare(e.Digest, d) })
			if !there {
				return 0, nil
			}
			return list[i].At, nil
		}
		if !errors.Is(err, ErrDamaged) {
			return 0, err
		}
	}
	f, err := r.walked(ctx)
	if err != nil {
		return 0, err
	}
	return f.blobs[sum], nil
}

// walked is what a walk over the file finds. It is done once.
func (r *Reader) walked(ctx context.Context) (*found, error) {
	r.mu.Lock()
	f := r.walk
	r.mu.Unlock()
	if f != nil {
		return f, nil
	}
	f = &found{traces: map[string]*entry{}, blobs: map[[sha256.Size]byte]int64{}}
	for w := r.walker(); ; {
		p, err := w.next(ctx)
		var h *hole
		switch {
		case errors.Is(err, io.EOF):
			r.mu.Lock()
			defer r.mu.Unlock()
			r.walk = f
			return f, nil
		case errors.As(err, &h):
			f.holes = append(f.holes, err)
		case err != nil:
			return nil, err
		case p.Kind == pieceBlob && p.Offset == 0:
			f.blobs[[sha256.Size]byte(p.Digest)] = p.at
		case p.Kind == pieceCommits:
			f.add(p)
		}
	}
}

// add notes a piece of commits.
func (f *found) add(p piece) {
	e := f.traces[p.Trace]
	if e == nil {
		e = &entry{ID: p.Trace, First: place{uint64(p.Gen), p.First}}
		f.traces[p.Trace] = e
		f.order = append(f.order, p.Trace)
	}
	e.Commits += p.Count
	e.Last = place{uint64(p.Gen), p.Last}
	e.Blocks = append(e.Blocks, block{uint64(p.at), p.First})
}

// lostIn names what the index says that stands between two offsets.
func (r *Reader) lostIn(from, to int64) string {
	var names []string
	for _, p := range r.man.Index.Traces {
		list, err := r.tracePage(p)
		if err != nil {
			return ""
		}
		for _, e := range list {
			for i, b := range e.Blocks {
				if b.at() < from || b.at() >= to {
					continue
				}
				last := e.Last[1]
				if i+1 < len(e.Blocks) {
					last = e.Blocks[i+1].first() - 1
				}
				names = append(names, fmt.Sprintf("trace %s from sequence %d to %d", e.ID, b.first(), last))
			}
		}
	}
	const most = 8
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// Traces calls yield for each trace, sorted by id, with what the index has of it; of
// a damaged file, in the file's order, with what can be told without reading it. It
// returns what yield returned, or why the index cannot be read.
func (r *Reader) Traces(ctx context.Context, yield func(Trace) error) error {
	if r.damage == nil {
		for _, p := range r.man.Index.Traces {
			list, err := r.tracePage(p)
			if err != nil {
				return err
			}
			for _, e := range list {
				if err := errors.Join(ctx.Err(), yield(e.trace())); err != nil {
					return err
				}
			}
		}
		return nil
	}
	f, err := r.walked(ctx)
	if err != nil {
		return err
	}
	for _, id := range f.order {
		if err := yield(f.traces[id].trace()); err != nil {
			return err
		}
	}
	return nil
}
