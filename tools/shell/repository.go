package shell

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	rules "github.com/sluice-run/sluice/policy/shell"

	"github.com/sluice-run/sluice/tools"
)

// maxGitFile is the length in bytes of the longest file of git's that is looked at.
const maxGitFile = 1 << 20

// repository looks at the configuration that git would obey in a folder, and says why
// it must not run there unasked, or "". Such a configuration can name programs, and
// whoever may write files in the workspace may have written it.
func repository(root string) string {
	for top := root; ; top = filepath.Dir(top) {
		dot := filepath.Join(top, ".git")
		info, err := os.Stat(dot)
		switch {
		case err == nil && info.IsDir():
			if real, err := filepath.EvalSymlinks(dot); err != nil || top == root && !within(root, real) {
				return "its .git is a link that leads out of the workspace"
			}
			return configured(top, dot)
		case err == nil:
			dir, why := pointed(root, top, dot)
			if why != "" {
				return why
			}
			return configured(top, dir)
		case bare(top):
			return configured(top, top)
		}
		if top == filepath.Dir(top) {
			return "" // no repository
		}
	}
}

// bare says whether a folder looks like a repository without a work tree.
func bare(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// pointed is the folder that a .git file names. One outside of the workspace must name
// this work tree in its turn: else any repository could be read through it.
func pointed(root, top, dot string) (dir, why string) {
	text, err := gitFile(dot)
	to, ok := strings.CutPrefix(strings.TrimRight(text, "\r\n"), "gitdir: ")
	if err != nil || !ok {
		return "", "its .git is not understood"
	}
	dir = join(top, to)
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", "its .git names a folder that is not there"
	}
	if !within(root, top) || within(root, real) {
		return real, ""
	}
	back, _ := gitFile(filepath.Join(real, "gitdir")) // of a repository with several work trees
	if named, err := filepath.EvalSymlinks(join(real, strings.TrimRight(back, "\r\n"))); err != nil || named != dot {
		return "", "its .git names a repository outside of the workspace that does not belong to it"
	}
	return real, ""
}

// configured looks at the files of a repository that configure it.
func configured(top, dir string) string {
	common := dir
	if text, err := gitFile(filepath.Join(dir, "commondir")); err == nil {
		common = join(dir, strings.TrimRight(text, "\r\n"))
	}
	for _, file := range []string{
		filepath.Join(common, "config"), filepath.Join(dir, "config"), filepath.Join(dir, "config.worktree"), filepath.Join(top, ".gitmodules"),
	} {
		text, err := gitFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		name, _ := filepath.Rel(top, file) // both are absolute
		if err != nil {
			return fmt.Sprintf("git's configuration %s cannot be looked at", tools.Visible(name))
		}
		if setting, ok := rules.GitConfig(text); !ok {
			return fmt.Sprintf("git's configuration %s has %s, with which git may start a program or read outside of the workspace: "+
				"let a person look at it, and do without git until then", tools.Visible(name), tools.Visible(setting))
		}
	}
	return ""
}

// gitFile is the text of a small regular file.
func gitFile(name string) (string, error) {
	info, err := os.Stat(name) // a pipe would be waited for
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxGitFile {
		return "", errors.New("it is no small file")
	}
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxGitFile))
	return string(b), err
}
