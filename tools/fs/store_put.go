package fs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"syscall"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// put writes the new content beside the file, makes it durable, and gives it
// the file's name in one step.
func (c *change) put(ctx context.Context) error {
	temp := path.Join(path.Dir(c.at.name), tempName(path.Base(c.at.name)))
	info, err := c.writeTemp(temp)
	if err == nil {
		if err = c.mayChange(ctx); err == nil {
			err = c.name(temp)
		}
	}
	if err != nil {
		_ = c.root.Remove(temp) // the next writer clears away what this leaves
		return err
	}
	c.info = info
	return c.settle()
}

// writeTemp writes the content to a new file with the mode and owner of the old one.
func (c *change) writeTemp(temp string) (fs.FileInfo, error) {
	if err := c.root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, pathError(c.given, err)
	}
	mode := fs.FileMode(0o666)
	if c.existed {
		mode = 0o600 // until the old mode is set
	}
	f, err := c.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, pathError(c.given, err)
	}
	info, err := c.fill(f)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, pathError(c.given, err)
	}
	return info, nil
}

func (c *change) fill(f *os.File) (fs.FileInfo, error) {
	if _, err := f.Write(c.content); err != nil {
		return nil, err
	}
	if c.existed {
		if st, ok := c.info.Sys().(*syscall.Stat_t); ok {
			_ = f.Chown(int(st.Uid), int(st.Gid)) // as far as this process may
		}
		if err := f.Chmod(c.info.Mode().Perm()); err != nil {
			return nil, err
		}
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	return f.Stat()
}

// mayChange is the last look, right before the file gets its new content.
func (c *change) mayChange(ctx context.Context) error {
	if err := c.stillOld(); err != nil || c.in.Fence == nil {
		return err
	}
	switch err := c.in.Fence(ctx); {
	case err == nil:
		return nil
	case errors.Is(err, tools.ErrFenced):
		return c.conflict("%q is not this call's to change any more: its lease was lost to another owner; nothing has changed", c.given)
	default:
		return interrupted(ctx, errors.Join(ctx.Err(), refusal(events.ExecutionError, events.ClassUnavailable, "",
			"nobody could say whether this call still has its lease on %q: nothing has changed", c.given)))
	}
}

// name gives the temporary file the name. A file that must be new gets it by a
// link, which fails where somebody else was quicker; a rename would not.
func (c *change) name(temp string) error {
	if !c.existed {
		err := c.root.Link(temp, c.at.name)
		switch {
		case err == nil:
			_ = c.root.Remove(temp) // a second name; the next writer clears it away
			return nil
		case errors.Is(err, fs.ErrExist):
			return c.conflict("%q was made by another program at this moment: read it, then decide again", c.given)
		}
		// Some file systems have no links: rename, after stillOld has looked.
	}
	if err := c.root.Rename(temp, c.at.name); err != nil {
		return pathError(c.given, err)
	}
	return nil
}

// remove takes the file away.
func (c *change) remove(ctx context.Context) error {
	if !c.existed {
		return nil
	}
	if err := c.mayChange(ctx); err != nil {
		return err
	}
	if err := c.root.Remove(c.at.name); err != nil {
		return pathError(c.given, err)
	}
	return c.settle()
}

// settle makes the new name durable. The change has happened already.
func (c *change) settle() error {
	if err := c.lock.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) {
		return &tools.Error{
			Code: events.ExecutionError, Effects: events.EffectsDone, Path: "/path",
			Message: "the file was changed, but the disk did not confirm it: read the file before anything else",
		}
	}
	return nil
}
