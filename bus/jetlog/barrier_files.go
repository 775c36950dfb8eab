package jetlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// files are the files of the embedded server that a barrier makes durable: the
// message blocks of some streams. They are used by one goroutine at a time.
//
// The server appends to a stream's newest block, N.blk, with write(2) BEFORE it
// acknowledges; it goes on to block N+1 when that is full. Older blocks are
// written again only where messages were removed, and the server syncs such a
// block itself. So a sync covers the newest block and all that have come since
// the last one. proveLayout checks that this is how it is.
type files struct {
	root    string   // <store>/jetstream/$G/streams
	above   []string // root and its parents, up to the server's folder
	streams []*streamFiles
	flush   func(*os.File) error // fdatasync; a field so that a test can break it
}

// stamp tells whether a file is still the one that was seen, and unchanged.
type stamp struct {
	inode uint64
	size  int64
	mtime int64 // nanoseconds since 1970
	gone  bool  // it has no name any more: removed, or replaced
}

// debt is what a stream owes to the disk.
type debt int

const (
	nothing  debt = iota
	appended      // its newest block has grown
	listing       // there may be new blocks, or the newest was replaced
	created       // it was not there before
)

// coarse is how far apart two changes of a folder must be so that its time
// surely tells them apart, on any file system.
const coarse = 3 * time.Second

// streamFiles are one stream's. It keeps the folder and the newest block open:
// at every barrier every stream is looked at, and a path is slow to follow.
type streamFiles struct {
	folder  string   // of the stream
	msgs    *os.File // the folder of its blocks; nil: the stream was not there
	listed  stamp    // of msgs before it was listed last
	young   bool     // that was so soon after a change that a further one may not show
	index   uint64   // of the newest block then; 0: none
	next    string   // name of the block after it
	block   *os.File // the newest; nil: none
	flushed stamp    // of block before its last sync
	seen    stamp    // of msgs or block, as look found it
}

func newFiles(store string, streams []string) *files {
	f := &files{root: filepath.Join(store, "jetstream", "$G", "streams"), flush: flushFile}
	for dir := f.root; ; dir = filepath.Dir(dir) {
		f.above = append(f.above, dir)
		if dir == store {
			break
		}
	}
	for _, name := range streams {
		f.streams = append(f.streams, &streamFiles{folder: filepath.Join(f.root, name)})
	}
	return f
}

// sync makes durable what was written to the streams before it was called. A
// stream that does not exist has nothing to lose. Where several streams owe
// something they are synced side by side: the disk does that at once.
func (f *files) sync() error {
	var wg sync.WaitGroup
	errs := make([]error, len(f.streams))
	var last func()
	for i, s := range f.streams {
		owed, err := s.look()
		if errs[i] = err; owed == nothing || err != nil {
			continue
		}
		if last != nil {
			wg.Go(last)
		}
		last = func() { errs[i] = f.pay(s, owed) }
	}
	if last != nil {
		last() // mostly the only one
	}
	wg.Wait()
	return errors.Join(errs...)
}

// pay syncs what a stream owes.
func (f *files) pay(s *streamFiles, owed debt) (err error) {
	if owed == appended {
		err = s.append(f.flush)
	} else {
		err = s.list(f.flush)
	}
	if owed == created {
		err = errors.Join(err, f.keepFolder(s))
	}
	if err != nil {
		return fmt.Errorf("sync of %s: %w", s.folder, err)
	}
	return nil
}

// close gives back what is open.
func (f *files) close() {
	for _, s := range f.streams {
		s.forget()
	}
}

// keepFolder makes durable that the stream exists: its description, its
// consumers', and the folders above.
func (f *files) keepFolder(s *streamFiles) error {
	err := filepath.WalkDir(s.folder, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "msgs":
			return fs.SkipDir
		}
		return syncPath(path)
	})
	for _, dir := range f.above {
		err = errors.Join(err, syncPath(dir))
	}
	return err
}

// syncPath syncs a file or a folder. One that has gone needs nothing.
func syncPath(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (s *streamFiles) path(index uint64) string {
	return filepath.Join(s.folder, "msgs", blockName(index))
}

func blockName(index uint64) string { return strconv.FormatUint(index, 10) + ".blk" }

// look says what the stream owes.
func (s *streamFiles) look() (debt, error) {
	folder, err := s.lookAtFolder()
	switch {
	case err != nil || s.msgs == nil:
		return nothing, err
	case s.listed == stamp{}:
		s.seen = folder
		return created, nil
	case folder != s.listed || s.young && existsIn(s.msgs, s.next):
		s.seen = folder
		return listing, nil
	}
	s.young = s.young && time.Since(time.Unix(0, folder.mtime)) < coarse
	if s.block == nil {
		return nothing, nil
	}
	now, err := statOf(s.block)
	switch {
	case err != nil || now == s.flushed:
		return nothing, err
	case now.gone:
		s.seen = folder
		return listing, nil
	}
	s.seen = now
	return appended, nil
}

// lookAtFolder opens the folder where it is not open, or has been replaced.
func (s *streamFiles) lookAtFolder() (stamp, error) {
	if s.msgs != nil {
		if now, err := statOf(s.msgs); err != nil || !now.gone {
			return now, err
		}
	}
	s.forget()
	f, err := os.Open(filepath.Join(s.folder, "msgs"))
	if errors.Is(err, fs.ErrNotExist) {
		return stamp{}, nil
	}
	if err != nil {
		return stamp{}, err
	}
	s.msgs = f
	return statOf(f)
}

// append syncs the newest block.
func (s *streamFiles) append(flush func(*os.File) error) error {
	if err := flush(s.block); err != nil {
		return err
	}
	s.flushed = s.seen // as it was before the sync: what came in between is found next time
	return nil
}

func (s *streamFiles) forget() {
	if s.msgs != nil {
		_ = s.msgs.Close() // it was only read from and synced
	}
	s.msgs, s.listed = nil, stamp{}
	s.hold(nil, 0, stamp{})
}

// hold keeps a block as the newest; nil means that there is none above index.
func (s *streamFiles) hold(f *os.File, index uint64, flushed stamp) {
	if s.block != nil {
		_ = s.block.Close() // it was only read from and synced
	}
	s.block, s.index, s.flushed, s.next = f, index, flushed, blockName(index+1)
}

// list syncs the block that was newest, and all that have come since (at first:
// all there are), and the folder that names them.
func (s *streamFiles) list(flush func(*os.File) error) error {
	folder := s.seen // as it was before the listing: what came in between is found next time
	blocks, err := blocksIn(s.msgs.Name())
	if err != nil {
		return err
	}
	for _, index := range blocks {
		if index < s.index {
			continue
		}
		if err := s.take(index, flush); err != nil {
			return err
		}
	}
	if len(blocks) == 0 {
		s.hold(nil, s.index, stamp{})
	}
	if err := s.msgs.Sync(); err != nil {
		return err
	}
	s.listed, s.young = folder, true
	return nil
}

// keyOf is the file with the key of a block, in an encrypted store. It is written once,
// when the block is begun.
func (s *streamFiles) keyOf(index uint64) string {
	return filepath.Join(s.folder, "msgs", strconv.FormatUint(index, 10)+".key")
}

// take syncs a block, its key, and keeps it as the newest.
func (s *streamFiles) take(index uint64, flush func(*os.File) error) error {
	if err := syncPath(s.keyOf(index)); err != nil {
		return err
	}
	f, err := os.Open(s.path(index))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed since: its messages are gone by design
	}
	if err != nil {
		return err
	}
	now, err := statOf(f)
	if err == nil {
		err = flush(f)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	s.hold(f, index, now)
	return nil
}

// blocksIn are the indexes of the blocks in a folder, in order.
func blocksIn(msgs string) ([]uint64, error) {
	entries, err := os.ReadDir(msgs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []uint64
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".blk")
		if index, err := strconv.ParseUint(name, 10, 64); ok && err == nil {
			out = append(out, index)
		}
	}
	slices.Sort(out)
	return out, nil
}

// statOf looks at an open file. It is os.File.Stat without its garbage.
func statOf(f *os.File) (stamp, error) {
	var st unix.Stat_t
	for {
		switch err := unix.Fstat(int(f.Fd()), &st); err {
		case nil:
			return stamp{uint64(st.Ino), int64(st.Size), st.Mtim.Nano(), st.Nlink == 0}, nil
		case unix.EINTR:
		default:
			return stamp{}, &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
		}
	}
}

// existsIn says whether an open folder has a file of that name.
func existsIn(folder *os.File, name string) bool {
	return unix.Faccessat(int(folder.Fd()), name, unix.F_OK, 0) == nil
}
