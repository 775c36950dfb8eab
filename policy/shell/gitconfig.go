package shell

import (
	"regexp"
	"strings"
)

var (
	gitSection = regexp.MustCompile(`^\[[ \t]*([A-Za-z0-9.-]+)(?:[ \t]+"((?:[^"\\]|\\.)*)")?[ \t]*\]`)
	gitKey     = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=[ \t]*(.*))?$`)
)

// RevsFile is the one file of revisions for git blame to pass over that a configuration
// may name: whoever runs git looks that it is no link out of the workspace.
const RevsFile = ".git-blame-ignore-revs"

// GitConfig looks through the text of a configuration of git, or of a .gitmodules
// file, and returns the first setting with which a line that git reads with might
// start a program or read elsewhere although it runs in the environment of Quiet:
// an external diff, a driver's command, a filter, another work tree, a file that is
// included. ok is true where there is none. What is not understood is such a setting,
// too; its name is then "a line that is not understood".
func GitConfig(text string) (setting string, ok bool) {
	const odd = "a line that is not understood"
	section, sub := "", ""
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if strings.HasSuffix(line, "\\") || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' }) {
			return odd, false
		}
		line = strings.Trim(line, " \t")
		if m := gitSection.FindStringSubmatch(line); m != nil {
			section, sub = strings.ToLower(m[1]), m[2]
			line = strings.TrimLeft(line[len(m[0]):], " \t")
		}
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		m := gitKey.FindStringSubmatch(line)
		if m == nil {
			return odd, false
		}
		if key := strings.ToLower(m[1]); startsMore(section, strings.ToLower(sub), key, m[2]) {
			if sub != "" {
				section += "." + sub
			}
			return section + "." + key, false
		}
	}
	return "", true
}

// startsMore holds for settings that matter: sections and keys are in lower case. A
// section may carry its second name behind a dot, as in old files.
func startsMore(section, sub, key, value string) bool {
	section, old, _ := strings.Cut(section, ".")
	switch section {
	case "include", "includeif":
		return true
	case "core":
		return key == "worktree"
	case "blame": // of a file that is none of revisions, the message shows a line
		return key == "ignorerevsfile" && value != "" && value != RevsFile
	case "alias": // git runs it in the place of a command that it has not, or has no longer
		for _, name := range []string{key, sub, old} {
			if _, ours := gitCommands[name]; ours {
				return true
			}
		}
	case "diff":
		return key == "external" || key == "command" || key == "textconv"
	case "filter":
		return key == "clean" || key == "smudge" || key == "process"
	case "hook":
		return key == "command"
	case "branch", "tag": // it would have signatures checked, by a program
		return key == "sort" && strings.Contains(strings.ToLower(value), "signature")
	case "submodule": // git would run inside of it, by its configuration
		return key == "ignore" && value != "all" && value != "dirty"
	}
	return false
}
