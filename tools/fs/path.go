package fs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// refusal is a tool's failure that has changed nothing. Path is left to say
// which argument is to blame; "" means none.
func refusal(code events.Code, class events.Class, at, format string, args ...any) *tools.Error {
	return &tools.Error{
		Code: code, Class: class, Path: at, Effects: events.EffectsNone, Message: fmt.Sprintf(format, args...),
	}
}

func invalid(at, format string, args ...any) *tools.Error {
	return refusal(events.InvalidParam, events.ClassInvalid, at, format, args...)
}

func denied(format string, args ...any) *tools.Error {
	return refusal(events.AccessDenied, events.ClassTool, "/path", format, args...)
}

// clean is the one lexical name of a path: relative to the workspace, slashes
// only, without . and .. and repeated slashes; "." is the workspace. An absolute
// path is taken where it lies below workspace, which may be "" where it is not known.
func clean(workspace, given string) (string, *tools.Error) {
	switch {
	case given == "":
		return "", invalid("/path", "the path is empty: name a file, relative to the workspace")
	case len(given) > maxPath:
		return "", invalid("/path", "the path has %d bytes, and at most %d are taken", len(given), maxPath)
	case strings.ContainsRune(given, 0):
		return "", invalid("/path", "the path %q has a NUL byte: leave it out", given)
	}
	p := path.Clean(given)
	if path.IsAbs(p) {
		rel, ok := below(workspace, p)
		if !ok {
			return "", denied("%q is not inside the workspace: give a path relative to it", given)
		}
		p = rel
	}
	if strings.Count(p, "/") >= maxDeep {
		return "", invalid("/path", "the path is deeper than %d folders: use a shorter one", maxDeep)
	}
	if p == ".." || strings.HasPrefix(p, "../") {
		return "", denied("%q leads out of the workspace: stay inside it", given)
	}
	return p, nil
}

// below is p relative to the workspace it lies in.
func below(workspace, p string) (string, bool) {
	if workspace == "" {
		return "", false
	}
	w := path.Clean(filepath.ToSlash(workspace))
	if p == w {
		return ".", true
	}
	rel, ok := strings.CutPrefix(p, strings.TrimSuffix(w, "/")+"/")
	return rel, ok
}

// place is a path of a workspace, looked up.
type place struct {
	given string      // as the model wrote it
	clean string      // its lexical name
	name  string      // its real name: as clean, but without symbolic links
	info  fs.FileInfo // nil: there is no such file
}

// missing says whether nothing is there.
func (p place) missing() bool { return p.info == nil }

// openRoot opens the workspace of an attempt.
func openRoot(in tools.Invocation) (*os.Root, error) {
	if !filepath.IsAbs(in.Workspace) {
		return nil, fmt.Errorf("workspace %q is not an absolute path", in.Workspace)
	}
	return Open(in.Workspace)
}

// Open opens a workspace. It does not wait for what stands in the folder's place. It
// returns a *tools.Error where there is no such folder on this node, which no argument of
// a call can mend: who submits has named it.
func Open(workspace string) (*os.Root, error) {
	info, err := os.Stat(workspace) // to open a pipe would wait for its other end
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	var root *os.Root
	if err == nil {
		root, err = os.OpenRoot(workspace)
	}
	if err != nil {
		var short error = err
		if pe, ok := errors.AsType[*fs.PathError](err); ok {
			short = pe.Err
		}
		return nil, refusal(events.ExecutionError, events.ClassTool, "",
			"the workspace %q of this turn cannot be opened on this node (%v): whoever submits must name a folder that is there", workspace, short)
	}
	return root, nil
}

// Resolve is the one name of a file in a workspace: relative, clean, symbolic
// links followed as far as the path exists. Locks and expectations that use it
// meet however a model wrote the path. It returns a *tools.Error where the
// path leads out of the workspace.
func Resolve(workspace, given string) (string, error) {
	root, err := Open(workspace)
	if err != nil {
		return "", err
	}
	defer root.Close()
	at, err := lookUp(root, workspace, given)
	return at.name, err
}

// lookUp cleans a path and follows its symbolic links inside root. A path that
// leads out of it is an error; one that is missing is not.
func lookUp(root *os.Root, workspace, given string) (place, error) {
	name, bad := clean(workspace, given)
	if bad != nil {
		return place{}, bad
	}
	at := place{given: given, clean: name}
	todo := strings.Split(name, "/")
	done, links := ".", 0
	for len(todo) > 0 {
		part := todo[0]
		todo = todo[1:]
		switch {
		case part == "" || part == ".":
			continue
		case part == ".." && done == ".":
			return place{}, denied("%q is a link that leads out of the workspace: name a file inside it", given)
		case part == "..":
			done = path.Dir(done)
			continue
		}
		next := path.Join(done, part)
		info, err := root.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
			return missingPlace(at, next, todo)
		case err != nil:
			return place{}, pathError(given, err)
		case info.Mode()&fs.ModeSymlink == 0:
			done = next
			continue
		}
		if links++; links > maxLinks {
			return place{}, invalid("/path", "%q has more than %d symbolic links, or a circle of them", given, maxLinks)
		}
		target, err := root.Readlink(next)
		if err != nil {
			return place{}, pathError(given, err)
		}
		if path.IsAbs(target) {
			return place{}, denied("%q passes a link to %q, which is not followed: name a file inside the workspace", given, target)
		}
		if todo = append(strings.Split(target, "/"), todo...); len(todo) > 2*maxDeep {
			return place{}, invalid("/path", "%q has links that lead too deep", given)
		}
	}
	info, err := root.Lstat(done)
	if err != nil {
		return place{}, pathError(given, err)
	}
	at.name, at.info = done, info
	return at, nil
}

// missingPlace is a place whose name exists only up to next.
func missingPlace(at place, next string, todo []string) (place, error) {
	at.name = path.Join(append([]string{next}, todo...)...)
	for _, part := range todo {
		if part == ".." {
			return place{}, denied("%q passes a link that leads nowhere: name the file itself", at.given)
		}
	}
	return at, nil
}

// pathError is what a failed file operation means to a model.
func pathError(given string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return denied("%q may not be accessed: its permissions do not allow it", given)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return invalid("/path", "%q has a name that is too long for the file system", given)
	case errors.Is(err, syscall.ELOOP):
		return invalid("/path", "%q has a circle of symbolic links", given)
	case strings.Contains(err.Error(), "escapes from parent"):
		return denied("%q leads out of the workspace: stay inside it", given)
	case errors.Is(err, fs.ErrNotExist):
		return refusal(events.NotFound, events.ClassTool, "/path", "%q is gone: look again with Glob", given)
	case errors.Is(err, syscall.EISDIR):
		return isDirectory(given)
	}
	var short error = err
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		short = pe.Err // the inner paths are ours and say nothing to a model
	}
	return refusal(events.ExecutionError, events.ClassTool, "/path", "%q: %v", given, short)
}

func isDirectory(given string) *tools.Error {
	return refusal(events.IsDirectory, events.ClassTool, "/path",
		"%q is a directory: list it with Glob (path %q, pattern \"*\"), and name one file", given, given)
}

// regular refuses what is there but is no file with content.
func regular(at place) error {
	switch m := at.info.Mode(); {
	case m.IsDir():
		return isDirectory(at.given)
	case !m.IsRegular():
		return denied("%q is a %s and no regular file: it is neither read nor written", at.given, kindName(m))
	}
	return nil
}

func kindName(m fs.FileMode) string {
	switch {
	case m&fs.ModeNamedPipe != 0:
		return "named pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}

// openFolder opens a folder, and nothing that was put in its place: it never waits
// for the other end of a pipe.
func openFolder(root *os.Root, name string) (*os.File, error) {
	return root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
}

// openFile opens a regular file for reading. It never waits for the other end
// of a pipe that was put in the file's place.
func openFile(root *os.Root, at place) (*os.File, fs.FileInfo, error) {
	if at.info != nil {
		if err := regular(at); err != nil {
			return nil, nil, err // opening a device can be an act of its own
		}
	}
	f, err := root.OpenFile(at.name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, pathError(at.given, err)
	}
	info, err := f.Stat()
	if err == nil {
		at.info = info
		err = regular(at)
	} else {
		err = pathError(at.given, err)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, nil, err
	}
	return f, info, nil
}
