// Package archive keeps recorded traces in one file: their commits as they were
// stored, to the byte, with the positions that they had, and the bytes outside the log
// that they refer to. docs/replay/archives.md describes the format.
//
// A file is a row of pieces. Each begins with a head, which zstd takes for a frame to
// skip, and most go on with a zstd frame: zstd -dc prints what is in all of them. A
// head says what its frame holds, how large that is, and what its digest is, so a
// reader finds its way through a file that is damaged, and makes room for nothing that
// it was not told of. The pieces of one trace stand together, and traces in the order in
// which they began; the bytes that a commit refers to stand before it. An index of
// traces and one of those bytes follow, then the manifest, then the end, which has a
// fixed size.
package archive

import (
	"errors"
	"fmt"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// Format is the version of the format that this release writes, and the newest that
// it reads.
const Format = 1

// Bounds of what is written, and of what is read: a file that is beyond them is refused.
const (
	maxHead   = 1 << 10                          // bytes of a head
	maxRaw    = 4 << 20                          // bytes of a piece, unpacked
	maxPacked = maxRaw + 64<<10                  // bytes of a piece's frame
	maxBlob   = 256 << 20                        // bytes of one blob
	maxPages  = 1 << 16                          // pages of an index
	maxRatio  = 1024                             // times the file's size: what all pieces unpack to, and
	slack     = 64 << 20                         // bytes beside that
	maxCommit = 2 * bus.MaxCommit                // bytes of a stored commit: one that was redacted may have grown
	endSize   = 256                              // bytes of the last piece
	blockSize = 256 << 10                        // bytes of commits that are packed together, about
	partSize  = 1 << 20                          // bytes of a blob that are packed together
	pageSize  = 256 << 10                        // bytes of an index that are packed together, about
	maxSeq    = 1 << 62                          // sequence
	maxText   = 256                              // bytes of a release's name
	_         = uint(maxRaw - maxCommit - 1<<10) // a commit fits into a piece
)

var (
	// ErrDamaged says that a part of an archive cannot be read. The rest can.
	ErrDamaged = errors.New("the archive is damaged")
	// ErrNotArchive says that a file is none.
	ErrNotArchive = errors.New("not an archive of sluice-replay export")
	// ErrNewer says that a newer release wrote an archive.
	ErrNewer = errors.New("a newer release wrote this archive")
	// ErrHostile says that a file asks for more than any archive needs.
	ErrHostile = errors.New("no archive is like this: it is refused")
)

// damaged is an ErrDamaged of a part.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// Commit is a commit as it was stored, at the place where it stood. Its Body is read
// only.
type Commit struct {
	At   events.Position // with index 0
	Turn events.TurnKey
	Body []byte
}

// Trace is what an archive has of a trace.
type Trace struct {
	ID         string
	Turns      int
	Open       int // turns that had not ended
	Commits    int
	Events     int // in commits that can be decoded
	Unreadable int // commits that could not be decoded when they were exported
	First      events.Position
	Last       events.Position
	Digest     string   // of its commits, "sha256:…"; "" where the index is damaged
	Missing    []string // digests of bytes that were not there when it was exported
}

// Manifest says what is in an archive. JSON is its stored form; members that this
// release does not know are passed over.
type Manifest struct {
	Format     int           `json:"format"`
	Release    string        `json:"release"`    // that wrote it
	LogFormat  int           `json:"log_format"` // of the commits
	Kinds      []KindCount   `json:"kinds"`      // sorted
	Traces     int           `json:"traces"`
	Turns      int           `json:"turns"`
	Open       int           `json:"open_turns"`
	Commits    int           `json:"commits"`
	Events     int           `json:"events"`
	Unreadable int           `json:"unreadable_commits,omitempty"`
	Blobs      int           `json:"blobs"`
	BlobBytes  int64         `json:"blob_bytes"`
	Missing    int           `json:"missing_blobs,omitempty"`
	First      string        `json:"first,omitempty"` // positions
	Last       string        `json:"last,omitempty"`
	Digest     string        `json:"digest"` // of the digests of all traces
	Redaction  *Redaction    `json:"redaction,omitempty"`
	Index      manifestIndex `json:"index"`
}

// KindCount is how many events of a kind and version there are.
type KindCount struct {
	Kind    events.Kind `json:"kind"`
	Version int         `json:"version"`
	Events  int         `json:"events"`
}

// Redaction says what was replaced BEFORE the archive was written.
type Redaction struct {
	Mode string   `json:"mode"`           // bodies or keys
	Keys []string `json:"keys,omitempty"` // of mode keys: members whose values were replaced
}

// Modes of a redaction.
const (
	RedactBodies = "bodies" // every text that a person, a model or a tool wrote
	RedactKeys   = "keys"   // values of some JSON members
)

// manifestIndex is where the pages of the indexes are.
type manifestIndex struct {
	Traces []page `json:"traces"`
	Blobs  []page `json:"blobs,omitempty"`
}

// page is one piece of an index.
type page struct {
	First string `json:"first"` // the smallest key in it
	At    int64  `json:"at"`    // its offset in the file
}
