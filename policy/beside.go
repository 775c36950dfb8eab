package policy

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// beside is what stands beside a shell line in its object, and becomes a part of what runs.
type beside struct {
	quoted string // words for it, as a program that is started without a shell gets them
	plain  string // the same, as who joins them to a line gives them to a shell
	differ bool   // it is another line then: commands and variables may stand in the words
	set    string // variables that are set for it
	folder string // where it runs
	odd    bool   // a variable that no shell can set: what a tool makes of it cannot be judged
}

// besideIt reads the members beside the one that holds a line, and those of an object of
// options.
func besideIt(name string, all []member) beside {
	var b beside
	for _, m := range all {
		if m.name == name {
			continue
		}
		b.member(m)
		if n := plainName(m.name); n == "options" || n == "opts" {
			for _, o := range members(m.value) {
				b.member(o)
			}
		}
	}
	return b
}

func (b *beside) member(m member) {
	switch plainName(m.name) {
	case "args", "arg", "arguments", "argv", "parameters", "params", "flags", "options", "opts", "extraargs", "cmdargs", "commandargs":
		b.words(m.value)
	case "env", "environment", "envvars", "environ":
		b.variables(m.value)
	case "cwd", "dir", "directory", "chdir", "workdir", "workingdir", "workingdirectory", "currentdirectory":
		_ = json.Unmarshal(m.value, &b.folder) // of another type it names none
	}
}

// words adds words: a list of them, or a text that holds some. What is no text in a list
// is a word as it is written.
func (b *beside) words(raw json.RawMessage) {
	var list []json.RawMessage
	var text string
	switch {
	case json.Unmarshal(raw, &list) == nil && len(list) > 0:
		words := make([]string, len(list))
		for i, w := range list {
			if json.Unmarshal(w, &words[i]) != nil {
				words[i] = string(w)
			}
		}
		b.quoted += " " + quoteAll(words)
		b.plain += " " + strings.Join(words, " ")
		b.differ = b.differ || slices.ContainsFunc(words, expands.MatchString)
	case json.Unmarshal(raw, &text) == nil && text != "":
		b.quoted += " " + text
		b.plain += " " + text
	}
}

// expands is what a shell makes something else of than a word.
var expands = regexp.MustCompile("[;|&<>`\n]|\\$[A-Za-z_({]")

// variables adds an object of variables, or a list of NAME=value.
func (b *beside) variables(raw json.RawMessage) {
	add := func(name, value string) {
		b.odd = b.odd || !variable.MatchString(name)
		b.set = name + "=" + quoteAll([]string{value}) + " " + b.set
	}
	for _, m := range slices.Backward(members(raw)) {
		var value string
		if json.Unmarshal(m.value, &value) == nil {
			add(m.name, value)
		}
	}
	var list []string
	_ = json.Unmarshal(raw, &list) // of an object there is none
	for _, text := range slices.Backward(list) {
		if name, value, ok := strings.Cut(text, "="); ok {
			add(name, value)
		}
	}
}

// variable is the form of a shell variable's name.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// lines are what runs of a line with what stands beside it, but for the folder.
func (b beside) lines(line string) []string {
	if b.odd {
		return []string{"\x00"}
	}
	out := []string{b.set + line + b.quoted}
	if b.differ {
		out = append(out, b.set+line+b.plain)
	}
	return out
}
