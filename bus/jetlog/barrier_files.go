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

// streamFiles are one stream's. It keeps the folder and the newest block open:
// at every barrier every stream is looked at, and a path is slow to follow.
type streamFiles struct {
	folder  string   // of the stream
	msgs    *os.File // the folder of its blocks; nil: the stream was not there
	listed  stamp    // of msgs when it was listed last
	index   uint64   // of the newest block then; 0: none
	next    string   // name of the block after it
	block   *os.File // the newest; nil: none
	flushed stamp    // of block before its last sync
}

func newFiles(store string, streams []string) *files {
	f := &files{root: filepath.Join(store, "jetstream", "$G", "streams"), flush: datasync}
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
// stream that does not exist has nothing to lose. Streams are synced side by
// side: the disk does several at once, and the rest are looked at meanwhile.
func (f *files) sync() error {
	var wg sync.WaitGroup
	errs := make([]error, len(f.streams))
	for i, s := range f.streams {
		owed, err := s.look()
		if errs[i] = err; owed == nothing || err != nil {
			continue
		}
		wg.Go(func() { errs[i] = f.pay(s, owed) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// pay syncs what a stream owes.
func (f *files) pay(s *streamFiles, owed debt) (err error) {
	switch owed {
	case appended:
		err = f.flush(s.block)
	case listing:
		err = s.list(f.flush)
	case folder:
		err = errors.Join(s.list(f.flush), f.keepFolder(s))
	}
	if err != nil {
		return fmt.Errorf("sync of %s: %w", s.folder, err)
	}
	s.flushed, s.listed = s.seen, s.seenFolder
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

// sync syncs the blocks, and says whether the stream was not there before.
func (s *streamFiles) sync(flush func(*os.File) error) (isNew bool, err error) {
	var folder stamp
	if s.msgs != nil {
		if folder, err = statOf(s.msgs); err != nil {
			return false, err
		}
	}
	if s.msgs == nil || folder.gone { // not there yet, or deleted and perhaps made anew
		if err := s.open(); err != nil || s.msgs == nil {
			return false, err
		}
		if folder, err = statOf(s.msgs); err != nil {
			return false, err
		}
		return true, s.list(folder, flush)
	}
	// A new block changes the folder's time, but perhaps not within one tick of
	// a coarse clock: so the next block is looked for by its name, too.
	if folder != s.listed || existsIn(s.msgs, s.next) {
		return false, s.list(folder, flush)
	}
	if s.block == nil {
		return false, nil
	}
	now, err := statOf(s.block)
	switch {
	case err != nil:
		return false, err
	case now.gone:
		return false, s.list(folder, flush)
	case now == s.flushed:
		return false, nil
	}
	if err := flush(s.block); err != nil {
		return false, err
	}
	s.flushed = now
	return false, nil
}

// open opens the folder of the blocks anew, if there is one.
func (s *streamFiles) open() error {
	s.forget()
	f, err := os.Open(filepath.Join(s.folder, "msgs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	s.msgs = f
	return err
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
func (s *streamFiles) list(folder stamp, flush func(*os.File) error) error {
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
	s.listed = folder // as it was before the listing: what came in between is found next time
	return s.msgs.Sync()
}

// take syncs a block and keeps it as the newest.
func (s *streamFiles) take(index uint64, flush func(*os.File) error) error {
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
