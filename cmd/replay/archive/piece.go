package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/sluice-run/sluice/events"
)

// What the pieces of a file are.
const (
	pieceBegin    = "begin"    // the first; no frame
	pieceCommits  = "commits"  // of one trace
	pieceBlob     = "blob"     // bytes that a commit refers to, or a part of them
	pieceTraces   = "traces"   // a page of the index of traces
	pieceBlobs    = "blobs"    // a page of the index of blobs
	pieceManifest = "manifest" // JSON
	pieceEnd      = "end"      // the last; no frame
)

// head is what a piece says of itself, in JSON. Members that this release does not
// know are passed over.
type head struct {
	Kind   string `json:"kind"`
	Packed int64  `json:"packed,omitempty"` // bytes of the frame behind the head
	Raw    int64  `json:"raw,omitempty"`    // bytes that it holds
	Sum    []byte `json:"sha256,omitempty"` // of the frame

	// Of begin.
	Format    int        `json:"format,omitempty"`
	Release   string     `json:"release,omitempty"`
	Redaction *Redaction `json:"redaction,omitempty"` // without the keys

	// Of commits.
	Trace string `json:"trace,omitempty"`
	Nth   int    `json:"nth,omitempty"` // of the first one in its trace, from 0
	Count int    `json:"count,omitempty"`
	First uint64 `json:"first,omitempty"` // sequences
	Last  uint64 `json:"last,omitempty"`
	Gen   uint32 `json:"generation,omitempty"` // the highest
	Final bool   `json:"final,omitempty"`      // the trace ends with it

	// Of a blob.
	Digest []byte `json:"blob,omitempty"`   // SHA-256 of all of it
	Offset int64  `json:"offset,omitempty"` // of this part in it
	Size   int64  `json:"size,omitempty"`   // of all of it

	// Of end.
	At    int64  `json:"manifest,omitempty"` // offset in the file
	Whole []byte `json:"whole,omitempty"`    // SHA-256 of the file up to the end
}

// A head is a skippable frame of zstd: magic, length, then a magic of our own, the
// length of the JSON in it, the JSON, zeros up to the frame's length, and a CRC-32C of
// all of that.
const (
	skipMagic = 0x184d2a5a
	skipSize  = 8
	ownMagic  = "sluA"
	crcSize   = 4
	fixedHead = skipSize + len(ownMagic) + 2 + crcSize
)

// fileMagic is how a file begins, but for the four bytes of a length.
var fileMagic = binary.LittleEndian.AppendUint32(nil, skipMagic)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encodeHead is a head in its stored form, at least size bytes long.
func encodeHead(h head, size int) ([]byte, error) {
	body, err := json.Marshal(&h)
	if err != nil {
		return nil, err
	}
	total := max(size, fixedHead+len(body))
	if total > maxHead {
		return nil, fmt.Errorf("a head of %d bytes", total)
	}
	out := binary.LittleEndian.AppendUint32(nil, skipMagic)
	out = binary.LittleEndian.AppendUint32(out, uint32(total-skipSize))
	out = append(out, ownMagic...)
	out = binary.LittleEndian.AppendUint16(out, uint16(len(body)))
	out = append(out, body...)
	out = append(out, make([]byte, total-crcSize-len(out))...)
	return binary.LittleEndian.AppendUint32(out, crc32.Checksum(out, castagnoli)), nil
}

// decodeHead reads the head that b begins with, and says how long it is. b may end
// before it does: that is io.ErrUnexpectedEOF.
func decodeHead(b []byte) (h head, size int, err error) {
	if len(b) < fixedHead {
		return h, 0, io.ErrUnexpectedEOF
	}
	size = skipSize + int(min(binary.LittleEndian.Uint32(b[4:]), maxHead))
	switch {
	case !bytes.HasPrefix(b, fileMagic) || !bytes.Equal(b[skipSize:skipSize+len(ownMagic)], []byte(ownMagic)):
		return h, 0, damaged("no piece begins here")
	case size < fixedHead || size > maxHead:
		return h, 0, damaged("a head says that it has %d bytes", size)
	case len(b) < size:
		return h, 0, io.ErrUnexpectedEOF
	}
	b = b[:size]
	if crc32.Checksum(b[:size-crcSize], castagnoli) != binary.LittleEndian.Uint32(b[size-crcSize:]) {
		return h, 0, damaged("a head does not fit its checksum")
	}
	at := skipSize + len(ownMagic)
	n := int(binary.LittleEndian.Uint16(b[at:]))
	if n > size-fixedHead {
		return h, 0, damaged("a head is longer than it is")
	}
	if err := json.Unmarshal(b[at+2:at+2+n], &h); err != nil {
		return h, 0, damaged("a head cannot be decoded: %v", err)
	}
	return h, size, h.check()
}

// check refuses what no writer writes.
func (h head) check() error {
	switch {
	case h.Packed < 0 || h.Raw < 0 || h.Nth < 0 || h.Count < 0 || h.Offset < 0 || h.Size < 0 || h.At < 0:
		return fmt.Errorf("%w: a number in a head is negative", ErrHostile)
	case h.Packed > maxPacked || h.Raw > maxRaw:
		return fmt.Errorf("%w: a piece of %d bytes that unpack to %d: at most %d", ErrHostile, h.Packed, h.Raw, maxRaw)
	case h.Size > maxBlob:
		return fmt.Errorf("%w: a blob of %d bytes: at most %d", ErrHostile, h.Size, maxBlob)
	case (h.Packed == 0) != (h.Raw == 0) || h.Packed > 0 && len(h.Sum) != sha256.Size:
		return fmt.Errorf("%w: a head without the size or the digest of its frame", ErrHostile)
	case h.Kind == pieceCommits:
		return h.checkCommits()
	case h.Kind == pieceBlob && (len(h.Digest) != sha256.Size || h.Offset > h.Size-h.Raw):
		return fmt.Errorf("%w: a part of a blob that is not in it", ErrHostile)
	}
	return nil
}

func (h head) checkCommits() error {
	if err := events.CheckID("trace", h.Trace); err != nil {
		return fmt.Errorf("%w: %w", ErrHostile, err)
	}
	if h.Count == 0 || h.Raw == 0 || int64(h.Count) > h.Raw || h.First > h.Last || h.Last > maxSeq || h.Last-h.First < uint64(h.Count-1) {
		return fmt.Errorf("%w: trace %s: %d commits from sequence %d to %d in %d bytes", ErrHostile, h.Trace, h.Count, h.First, h.Last, h.Raw)
	}
	return nil
}

// encoder makes frames, for all writers: it costs more to make than to use. The same
// bytes give the same frame. It holds no goroutine, and may be used from many.
var encoder = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithSingleSegment(true))
})

// sized is a head with what it says of its frame.
func sized(h head, raw, frame []byte) head {
	sum := sha256.Sum256(frame)
	h.Packed, h.Raw, h.Sum = int64(len(frame)), int64(len(raw)), sum[:]
	return h
}

// decoder opens frames, for all readers: it costs more to make than to use. It holds no
// goroutine, and may be used from many.
var decoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxRaw), zstd.WithDecoderMaxWindow(maxRaw))
})

// unpack opens the frame of a head, and takes no more room than the head has said.
func unpack(h head, frame []byte) ([]byte, error) {
	if sum := sha256.Sum256(frame); !bytes.Equal(sum[:], h.Sum) {
		return nil, damaged("the bytes do not fit their digest")
	}
	var z zstd.Header
	if err := z.Decode(frame); err != nil {
		return nil, damaged("no zstd frame: %v", err)
	}
	if z.Skippable || !z.HasFCS || z.FrameContentSize != uint64(h.Raw) || z.DictionaryID != 0 {
		return nil, fmt.Errorf("%w: a frame of another size than its head says", ErrHostile)
	}
	dec, err := decoder()
	if err != nil {
		return nil, err
	}
	raw, err := dec.DecodeAll(frame, make([]byte, 0, h.Raw))
	if err != nil {
		return nil, damaged("unpack: %v", err)
	}
	if int64(len(raw)) != h.Raw {
		return nil, fmt.Errorf("%w: a frame of another size than its head says", ErrHostile)
	}
	return raw, nil
}
