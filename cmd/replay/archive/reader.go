package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// Reader reads an archive. Its methods may be used from many goroutines at once; it
// starts none. It holds no more than a few pieces, and what Read says.
type Reader struct {
	file   io.ReaderAt
	size   int64
	close  func() error
	begin  head
	first  int64 // offset of the first piece behind the begin
	man    Manifest
	end    int64  // offset behind the last piece of commits and blobs
	whole  []byte // SHA-256 of the file up to its last piece
	damage error  // of the file's own end; nil: it is whole

	mu    sync.Mutex
	pages map[int64]any // of the indexes that were read last, by offset
	order []int64       // of them, oldest first
	walk  *found        // what a walk has found, where the index is gone; nil: there was none yet
}

// Open opens the archive in a file. One that is cut off or damaged is opened, too,
// if it begins as an archive does: see Damage. Errors are ErrNotArchive, ErrNewer,
// ErrHostile, or the file's.
func Open(path string) (*Reader, error) {
	info, err := os.Stat(path) // opening a pipe would wait for who writes it
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file", path)
	}
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r, err := NewReader(f, info.Size())
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r.close = f.Close
	return r, nil
}

// Is says whether a file begins as an archive does. b is its first bytes, 16 or more.
func Is(b []byte) bool {
	return len(b) >= skipSize+len(ownMagic) && bytes.HasPrefix(b, fileMagic) && string(b[skipSize:skipSize+len(ownMagic)]) == ownMagic
}

// NewReader is Open of bytes that are somewhere else. They must not change.
func NewReader(file io.ReaderAt, size int64) (*Reader, error) {
	r := &Reader{file: file, size: size, pages: map[int64]any{}}
	if err := r.open(); err != nil {
		return nil, err
	}
	return r, nil
}

// Close gives the file back.
func (r *Reader) Close() error {
	if r.close == nil {
		return nil
	}
	return r.close()
}

// open reads the beginning and the end.
func (r *Reader) open() error {
	h, n, err := r.headAt(0)
	switch {
	case err != nil && !errors.Is(err, ErrHostile):
		return fmt.Errorf("%w: %w", ErrNotArchive, err)
	case err != nil:
		return err
	case h.Kind != pieceBegin || h.Format < 1:
		return fmt.Errorf("%w: it begins with a piece of another kind", ErrNotArchive)
	case h.Format > Format:
		return fmt.Errorf("%w: format %d, by %s; this one reads up to %d", ErrNewer, h.Format, named(h.Release), Format)
	}
	r.begin, r.first, r.end = h, int64(n), r.size
	if err := r.readEnd(); err != nil {
		if errors.Is(err, ErrHostile) {
			return err
		}
		r.damage = err
		r.man = Manifest{Format: h.Format, Release: h.Release, Redaction: h.Redaction}
	}
	return nil
}

func named(release string) string {
	if release == "" {
		return "an unknown release"
	}
	return clip(release)
}

// readEnd reads the last piece, and the manifest that it points to.
func (r *Reader) readEnd() error {
	h, n, err := r.headAt(r.size - endSize)
	if err != nil || h.Kind != pieceEnd || n != endSize {
		return damaged("it has no end: it was cut off, or something stands behind it")
	}
	m, raw, _, err := r.pieceAt(h.At)
	switch {
	case err == nil && m.Kind != pieceManifest:
		return damaged("its end does not point to the manifest")
	case err != nil:
		return fmt.Errorf("manifest: %w", err)
	}
	if err := json.Unmarshal(raw, &r.man); err != nil {
		return damaged("manifest: %v", err)
	}
	if len(r.man.Index.Traces) > maxPages || len(r.man.Index.Blobs) > maxPages {
		return fmt.Errorf("%w: an index of more than %d pages", ErrHostile, maxPages)
	}
	if r.man.Format != r.begin.Format {
		return damaged("manifest: format %d, and the file begins with %d", r.man.Format, r.begin.Format)
	}
	r.end, r.whole = h.At, h.Whole
	for _, p := range append(r.man.Index.Traces[:len(r.man.Index.Traces):len(r.man.Index.Traces)], r.man.Index.Blobs...) {
		if p.At < r.first || p.At >= h.At {
			return damaged("manifest: the index is not in the file")
		}
		r.end = min(r.end, p.At)
	}
	return nil
}

// Manifest says what is in the archive. Where the file's end is damaged it only has
// what the beginning says: format, release, and the redaction's mode.
func (r *Reader) Manifest() Manifest { return r.man }

// Redacted says whether bodies were replaced BEFORE the archive was written.
func (r *Reader) Redacted() bool { return r.man.Redaction != nil || r.begin.Redaction != nil }

// Damage says what is wrong with the file as a whole, an ErrDamaged; nil if its end,
// its manifest and its index are as they were written.
func (r *Reader) Damage() error { return r.damage }

// headAt reads the head at an offset.
func (r *Reader) headAt(at int64) (head, int, error) {
	if at < 0 || at >= r.size {
		return head{}, 0, io.ErrUnexpectedEOF
	}
	buf := make([]byte, min(maxHead, r.size-at))
	if _, err := r.file.ReadAt(buf, at); err != nil && !errors.Is(err, io.EOF) {
		return head{}, 0, fmt.Errorf("read the archive: %w", err)
	}
	return decodeHead(buf)
}

// pieceAt reads the piece at an offset, unpacked, and says where the next one begins.
func (r *Reader) pieceAt(at int64) (h head, raw []byte, next int64, err error) {
	h, n, err := r.headAt(at)
	if err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = damaged("it is cut off at byte %d", r.size)
		}
		return h, nil, 0, err
	}
	next = at + int64(n) + h.Packed
	raw, err = r.frameAt(h, at+int64(n))
	return h, raw, next, err
}

// frameAt reads the frame of a head, unpacked.
func (r *Reader) frameAt(h head, at int64) ([]byte, error) {
	if h.Packed == 0 {
		return nil, nil
	}
	if at+h.Packed > r.size {
		return nil, damaged("it is cut off at byte %d", r.size)
	}
	frame := make([]byte, h.Packed)
	if _, err := r.file.ReadAt(frame, at); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the archive: %w", err)
	}
	return unpack(h, frame)
}

// seek looks for the next place where a piece begins, from an offset on; the file's
// end if there is none.
func (r *Reader) seek(from int64) (int64, error) {
	const step = 64 << 10
	buf := make([]byte, step+maxHead)
	for from < r.size {
		n, err := r.file.ReadAt(buf[:min(int64(len(buf)), r.size-from)], from)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, fmt.Errorf("read the archive: %w", err)
		}
		for at := 0; at < min(n, step); {
			i := bytes.Index(buf[at:n], fileMagic)
			if i < 0 || at+i >= step {
				break
			}
			at += i
			if _, _, err := decodeHead(buf[at:n]); err == nil {
				return from + int64(at), nil
			}
			at++
		}
		from += step
	}
	return r.size, nil
}
