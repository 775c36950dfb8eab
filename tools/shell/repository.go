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
	top, dir, why := found(root)
	if why != "" || dir == "" {
		return why
	}
	if why := configured(top, dir); why != "" {
		return why
	}
	return linked(root, top, dir)
}

// found is the repository that git would find from a folder: its work tree, and the folder
// that holds it, "" where there is none. why says that git must not run there.
func found(root string) (top, dir, why string) {
	for top := root; ; top = filepath.Dir(top) {
		dot := filepath.Join(top, ".git")
		info, err := os.Stat(dot)
		switch {
		case err == nil && info.IsDir():
			if real, err := filepath.EvalSymlinks(dot); err != nil || top == root && !within(root, real) {
				return top, "", "its .git is a link that leads out of the workspace"
			}
			return top, dot, ""
		case err == nil:
			dir, why := pointed(root, top, dot)
			return top, dir, why
		case bare(top):
			return top, top, ""
		}
		if top == filepath.Dir(top) {
			return top, "", "" // no repository
		}
	}
}

// unread are the folders of a repository that git does not read lines of text from.
var unread = map[string]bool{"hooks": true, "modules": true, "lfs": true, "annex": true}

// linked looks for links that lead from a repository in the workspace out of it: git shows
// lines of what it takes for its own files.
func linked(root, top, dir string) string {
	seen := map[string]bool{}
	entries := 0
	for _, place := range []string{dir, common(dir)} {
		if !within(root, place) {
			continue // no call could have made the links
		}
		why := leading(root, []string{place}, seen, &entries, func(p string) bool {
			rel, _ := filepath.Rel(place, p) // p is below place
			return unread[rel] || filepath.Dir(rel) == "objects" && rel != "objects/info"
		})
		if why != "" {
			return why + ", and git reads there: let a person look at it, and do without git until then"
		}
	}
	revs := filepath.Join(top, rules.RevsFile)
	if real, err := filepath.EvalSymlinks(revs); err == nil && within(root, revs) && !within(root, real) {
		return rules.RevsFile + " leads out of the workspace, through a link"
	}
	return ""
}

// common is the folder that holds what the work trees of a repository share.
func common(dir string) string {
	if text, err := gitFile(filepath.Join(dir, "commondir")); err == nil {
		return join(dir, strings.TrimRight(text, "\r\n"))
	}
	return dir
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
	for _, file := range []string{
		filepath.Join(common(dir), "config"), filepath.Join(dir, "config"), filepath.Join(dir, "config.worktree"), filepath.Join(top, ".gitmodules"),
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
