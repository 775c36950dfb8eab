package fs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// change is one replacement of a file's content as a whole.
type change struct {
	root  *os.Root
	in    tools.Invocation
	given string // path as the model wrote it
	// next makes the new content of the old; exists is false where there is
	// no file. nil content removes the file. It is called under the lock.
	next func(at place, old []byte, exists bool) ([]byte, error)

	at      place
	lock    *os.File // the folder, locked
	old     []byte
	existed bool
	links   uint64 // names of the old file
	content []byte // new
	info    fs.FileInfo
	dirs    string // first of the folders that were made for it; "" means none
}

// tries bounds how often links may move under a change before it gives up.
const tries = 3

// apply looks the path up, locks its folder, checks what is expected of the
// file, and replaces it in one step. Any error but one after the last step has
// changed nothing, and says so. The caller must call release.
func (c *change) apply(ctx context.Context) error {
	for range tries {
		again, err := c.hold(ctx)
		if err != nil {
			return interrupted(ctx, err)
		}
		if !again {
			return interrupted(ctx, c.replace(ctx))
		}
	}
	return denied("%q is a link that keeps moving: name the file itself", c.given)
}

// interrupted turns the end of ctx, which came before anything was changed,
// into an answer that says so.
func interrupted(ctx context.Context, err error) error {
	switch {
	case err == nil || ctx.Err() == nil || !errors.Is(err, ctx.Err()):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return refusal(events.Timeout, events.ClassTimeout, "", "the deadline passed before the file was touched: nothing has changed")
	}
	return refusal(events.CodeCancelled, events.ClassCancelled, "", "cancelled before the file was touched: nothing has changed")
}

// hold locks the folder of the file. It says again where a link led elsewhere
// once the lock was held.
func (c *change) hold(ctx context.Context) (again bool, err error) {
	c.release()
	if c.at, err = lookUp(c.root, c.in.Workspace, c.given); err != nil {
		return false, err
	}
	if err := permit(c.in, events.OpWrite, c.at); err != nil {
		return false, err
	}
	folder := path.Dir(c.at.name)
	if c.at.missing() {
		if err := c.makeFolder(ctx, folder); err != nil {
			return false, err
		}
	}
	if c.lock, err = openFolder(c.root, folder); err != nil {
		return false, pathError(c.given, err)
	}
	if err := lockFolder(ctx, c.lock); err != nil {
		return false, err
	}
	now, err := lookUp(c.root, c.in.Workspace, c.given)
	again = now.name != c.at.name
	c.at = now
	return again, err
}

// makeFolder makes the folders that a new file needs, unless it is known
// already that there may be none.
func (c *change) makeFolder(ctx context.Context, folder string) error {
	if info, err := c.root.Stat(folder); err == nil {
		if !info.IsDir() {
			return notFound(ctx, c.root, c.at)
		}
		return nil
	}
	if err := c.expected(nil, false); err != nil {
		return err
	}
	if _, err := c.next(c.at, nil, false); err != nil {
		if errors.Is(err, errNeedsFile) {
			return notFound(ctx, c.root, c.at)
		}
		return err
	}
	parent, first := nearestParent(c.root, c.at.name)
	if err := c.root.MkdirAll(folder, 0o777); err != nil {
		if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fs.ErrExist) {
			return notFound(ctx, c.root, c.at)
		}
		return pathError(c.given, err)
	}
	if c.dirs == "" {
		c.dirs = path.Join(parent, first)
	}
	return nil
}

// errNeedsFile is how next says that the file must be there.
var errNeedsFile = &tools.Error{Code: events.NotFound}

// release lets go of the folder.
func (c *change) release() {
	if c.lock != nil {
		_ = c.lock.Close() // its lock goes with it
		c.lock = nil
	}
}

// lockFolder takes the exclusive flock of an open folder. The folder and not the
// file is locked: a file that is replaced by rename takes its lock away with
// it. It waits until ctx ends.
func lockFolder(ctx context.Context, folder *os.File) error {
	raw, err := folder.SyscallConn()
	if err != nil {
		return err
	}
	for wait := time.Millisecond; ; wait = min(2*wait, 20*time.Millisecond) {
		var locked error
		if err := raw.Control(func(fd uintptr) { locked = unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB) }); err != nil {
			return err
		}
		switch {
		case locked == nil:
			return nil
		case errors.Is(locked, unix.EINTR):
			continue
		case !errors.Is(locked, unix.EWOULDBLOCK):
			return fmt.Errorf("lock the folder %s: %w", folder.Name(), locked)
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-t.C:
		}
	}
}

// replace does the change under the lock.
func (c *change) replace(ctx context.Context) error {
	if err := c.readOld(); err != nil {
		return err
	}
	if err := c.expected(c.old, c.existed); err != nil {
		return err
	}
	content, err := c.next(c.at, c.old, c.existed)
	if err != nil {
		if errors.Is(err, errNeedsFile) {
			return notFound(ctx, c.root, c.at)
		}
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.content = content
	if content == nil {
		return c.remove(ctx)
	}
	return c.put(ctx)
}

func (c *change) readOld() error {
	c.old, c.existed, c.links = nil, !c.at.missing(), 0
	if !c.existed {
		return nil
	}
	f, info, err := openFile(c.root, c.at)
	if err != nil {
		return err
	}
	defer f.Close()
	if c.old, err = readAll(f, info.Size(), maxEditFile); err != nil {
		return pathError(c.given, err)
	}
	if len(c.old) > maxEditFile {
		return refusal(events.TooLarge, events.ClassTool, "/path",
			"%q has more than %d bytes, and is not changed: use a program such as sed", c.given, maxEditFile)
	}
	c.info = info
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		c.links = uint64(st.Nlink)
	}
	return nil
}

// expected checks the file against what this trace last saw of it: digest and
// size alone. A time that was put back hides no change, and a touch is none.
func (c *change) expected(old []byte, exists bool) error {
	for _, e := range c.in.Expect {
		if !c.speaksOf(e.Path) {
			continue
		}
		switch {
		case e.Digest == "" && !exists:
		case e.Digest == "":
			return c.conflict("%q exists now (%s, %d bytes) and did not before: read it, then decide again", c.given, Digest(old), len(old))
		case !exists:
			return c.conflict("%q is gone since it was last read (%s): look again with Glob", c.given, e.Digest)
		default:
			if now := Digest(old); now != e.Digest || int64(len(old)) != e.Size {
				return c.conflict("%q has changed since it was last read: it is %s (%d bytes) now and was %s (%d bytes); read it again, then repeat the change on what it says now",
					c.given, now, len(old), e.Digest, e.Size)
			}
		}
	}
	return nil
}

// speaksOf says whether an expectation's path is this file, under either of its names.
func (c *change) speaksOf(p string) bool {
	name, bad := clean(c.in.Workspace, p)
	if bad != nil {
		return false
	}
	if name == c.at.clean || name == c.at.name {
		return true
	}
	other, err := lookUp(c.root, c.in.Workspace, p)
	return err == nil && other.name == c.at.name
}

func (c *change) conflict(format string, args ...any) *tools.Error {
	return refusal(events.Conflict, events.ClassConflict, "/path", format, args...)
}

// stillOld says whether the file is the one that was read. Programs that take
// no lock may change it meanwhile; this leaves them a moment, not the whole time.
func (c *change) stillOld() error {
	now, err := c.root.Lstat(c.at.name)
	if errors.Is(err, fs.ErrNotExist) && !c.existed {
		return nil
	}
	if err == nil && c.existed && os.SameFile(now, c.info) && now.Size() == c.info.Size() && now.ModTime().Equal(c.info.ModTime()) {
		return nil
	}
	return c.conflict("%q was changed by another program at this moment: read it again, then repeat the change on what it says now", c.given)
}
