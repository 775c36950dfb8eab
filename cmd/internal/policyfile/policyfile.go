// Package policyfile reads policies in the Cedar language from files: one file, or the
// files *.cedar of a directory.
package policyfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sluice-run/sluice/actors"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/policy/cedar"
)

// Ext ends the names of the files that a directory is read for.
const Ext = ".cedar"

// options are what every set of a node has beside its texts.
func options() cedar.Options { return cedar.Options{Rules: policy.Rules{actors.UndoRule()}} }

// Open is the policy at a path, and nothing less: where anything in it is wrong, there
// is none. "" is the policy of a node that was given none.
func Open(path string) (policy.Authorizer, error) { return Load(path) }

// Load is the set of Cedar policies at a path: a file, or a directory whose files *.cedar
// count, but not those of directories in it; "" is the policy of a node that was given
// none. Its errors know the exit code of who misspelt something.
func Load(path string) (*cedar.Set, error) {
	if path == "" {
		return cedar.Default(options())
	}
	files, err := Read(path)
	if err != nil {
		return nil, exit.Misused(fmt.Errorf("policy %s: %w", path, err), "name a file of Cedar policies, or a directory with *.cedar files; sluice-node policy default prints one to begin with")
	}
	set, err := cedar.Load(files, options())
	if err != nil {
		return nil, exit.Misused(err, "mend what is named; sluice-node policy check "+path+" looks again, sluice-node policy show --schema prints what policies can speak of")
	}
	return set, nil
}

// tries is how often files are read that change meanwhile.
const tries = 4

// ErrChanging says that files were written to while they were read: what they hold is
// no policy that anybody meant.
var ErrChanging = errors.New("the files are being changed: write a new file, or a new directory, and rename it into its place; then try again")

// Read reads the files at a path, all as they were at one moment: they are read again
// until they are the same twice. The names are those below the directory, so that a
// policy has one version wherever it lies. The error is ErrChanging where they do not
// come to rest.
func Read(path string) ([]cedar.File, error) {
	return atRest(func() ([]cedar.File, error) { return once(path) })
}

// atRest reads until it has read the same twice, one after the other.
func atRest(read func() ([]cedar.File, error)) ([]cedar.File, error) {
	before, err := read()
	for range tries {
		if err != nil {
			return nil, err
		}
		now, nowErr := read()
		if nowErr == nil && slices.EqualFunc(before, now, sameFile) {
			return now, nil
		}
		before, err = now, nowErr
	}
	if err == nil {
		err = ErrChanging
	}
	return nil, err
}

func sameFile(a, b cedar.File) bool { return a.Name == b.Name && bytes.Equal(a.Text, b.Text) }

// once reads the files at a path.
func once(path string) ([]cedar.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		body, err := small(path)
		return []cedar.File{{Name: filepath.Base(path), Text: body}}, err
	}
	names, err := list(path)
	if err != nil {
		return nil, err
	}
	var out []cedar.File
	total := 0
	for _, name := range names {
		body, err := small(filepath.Join(path, name))
		if err != nil {
			return nil, err
		}
		if total += len(body); total > cedar.MaxTotal {
			return nil, fmt.Errorf("the files have more than %d bytes in all", cedar.MaxTotal)
		}
		out = append(out, cedar.File{Name: name, Text: body})
	}
	return out, nil
}

// maxEntries bounds the directory that is looked through.
const maxEntries = 4096

// list are the policies of a directory, without what editors leave behind.
func list(path string) ([]string, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	entries, err := dir.ReadDir(maxEntries + 1)
	if err = errors.Join(noEnd(err), dir.Close()); err != nil {
		return nil, err
	}
	if len(entries) > maxEntries {
		return nil, fmt.Errorf("the directory has more than %d entries: give the policies one of their own", maxEntries)
	}
	var out []string
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, Ext) && !strings.HasPrefix(name, ".") {
			out = append(out, name)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the directory has no file *%s", Ext)
	}
	if len(out) > cedar.MaxFiles {
		return nil, fmt.Errorf("the directory has %d files *%s, at most %d", len(out), Ext, cedar.MaxFiles)
	}
	return out, nil
}

func noEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// small reads a regular file that may be a policy, and no more of it than that.
func small(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for who writes
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: path, Err: errors.New("it is no regular file")}
	}
	var body []byte
	if err == nil {
		body, err = io.ReadAll(io.LimitReader(f, cedar.MaxFile+1))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(body) > cedar.MaxFile {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it has more than %d bytes", cedar.MaxFile)}
	}
	return body, nil
}
