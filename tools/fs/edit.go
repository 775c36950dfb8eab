package fs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

type editIn struct {
	Path       string `json:"path" jsonschema:"the file, relative to the workspace"`
	OldString  string `json:"old_string" jsonschema:"the text to replace, exactly as it stands in the file, without Read's line numbers; empty to make a new file"`
	NewString  string `json:"new_string" jsonschema:"the text that takes its place"`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema:"replace every place where it stands; otherwise there must be one"`
}

// Edit is the tool that replaces a piece of a text file.
func Edit() (tools.Tool, error) {
	spec := writing(tools.Spec{
		Name: EditName,
		Description: "Replaces old_string by new_string in a text file of the workspace. old_string must stand there exactly once, unless replace_all is set. " +
			"Mode, line ends (CRLF) and byte order mark stay. It fails with CONFLICT where the file has changed since it was read.",
	})
	spec.Asks = func(args json.RawMessage) string {
		var in editIn
		if json.Unmarshal(args, &in) != nil {
			return EditName + " " + tools.Visible(string(args))
		}
		return fmt.Sprintf("Edit %s\n%s%s", tools.Visible(in.Path), prefixed("- ", in.OldString), prefixed("+ ", in.NewString))
	}
	spec.Probe = probeEdit
	spec.Preview = previewing(previewEdit)
	return tools.Typed(spec, edit)
}

// writing is what the two tools that change files have in common.
func writing(s tools.Spec) tools.Spec {
	s.Tier = events.Reversible
	s.Operation = operation(events.OpWrite, "")
	s.Resources = locks
	s.Writes = []string{"/path"}
	s.Compensate = undo
	s.Limits = limits()
	return s
}

// prefixed shows every line of text behind a mark. What a terminal would act on
// is escaped, tabs between words excepted.
func prefixed(mark, text string) string {
	if text == "" {
		return ""
	}
	var b strings.Builder
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		parts := strings.Split(line, "\t")
		for i, p := range parts {
			parts[i] = tools.Visible(p)
		}
		b.WriteString(mark + strings.Join(parts, "\t") + "\n")
	}
	return b.String()
}

func edit(ctx context.Context, in tools.Invocation, args editIn) (events.Result, error) {
	if args.OldString == args.NewString {
		return events.Result{}, invalid("/new_string", "old_string and new_string are the same: there is nothing to change")
	}
	if err := relativeOnly(in.Workspace, args.Path); err != nil {
		return events.Result{}, err
	}
	root, err := openRoot(in)
	if err != nil {
		return events.Result{}, err
	}
	defer root.Close()
	replaced := 0
	c := &change{root: root, in: in, given: args.Path}
	c.next = func(at place, old []byte, exists bool) ([]byte, error) {
		content, n, err := edited(at, old, exists, args)
		replaced = n
		return content, err
	}
	defer c.release()
	if err := c.apply(ctx); err != nil {
		return events.Result{}, err
	}
	return c.result(c.edited(replaced), replaced, true), nil
}

// edited says what an Edit did.
func (c *change) edited(replaced int) string {
	if !c.existed {
		return "made " + c.given
	}
	return fmt.Sprintf("edited %s: %d replaced", c.given, replaced)
}

// relativeOnly refuses absolute paths where they would lock, under another
// name, a file that somebody else holds.
func relativeOnly(workspace, given string) error {
	name, bad := clean(workspace, given)
	switch {
	case bad != nil:
		return bad
	case path.IsAbs(given):
		return invalid("/path", "a file that is changed is named relative to the workspace: %q", name)
	case name == ".":
		return isDirectory(given)
	}
	return nil
}

// edited is the new content of a file, and how many places were replaced.
func edited(at place, old []byte, exists bool, args editIn) ([]byte, int, error) {
	switch {
	case args.OldString == "" && exists:
		return nil, 0, invalid("/old_string", "%q exists already: give the text to replace, or write the whole file with Write", at.given)
	case args.OldString == "":
		return []byte(args.NewString), 0, nil
	case !exists:
		return nil, 0, errNeedsFile
	case hasNUL(old) || !utf8.Valid(old):
		return nil, 0, binaryError(at, int64(len(old)), old[:min(512, len(old))])
	}
	text, marked := bytes.CutPrefix(old, bom)
	e := lineEnds(string(text), args)
	n := strings.Count(e.text, e.old)
	switch {
	case n == 0:
		return nil, 0, invalid("/old_string", "%s", explainMiss(at.given, e.text, e.old))
	case n > 1 && !args.ReplaceAll:
		return nil, 0, invalid("/old_string", "old_string stands in %q %d times, at lines %s: add the lines around the one you mean, or set replace_all",
			at.given, n, placesOf(e.text, e.old))
	}
	out := strings.ReplaceAll(e.text, e.old, e.new)
	if out == e.text {
		return nil, 0, invalid("/new_string", "only line ends differ, and those stay: there is nothing to change")
	}
	if marked {
		out = string(bom) + out
	}
	return []byte(out), n, nil
}

// edition is a text with what to replace in it, in the file's own line ends.
type edition struct{ text, old, new string }

// lineEnds fits the arguments to the file's line ends: models write \n. In a
// file of both kinds, what they wrote is tried first.
func lineEnds(text string, args editIn) edition {
	e := edition{text, strings.TrimPrefix(args.OldString, string(bom)), strings.TrimPrefix(args.NewString, string(bom))}
	crlf, lf := strings.Count(text, "\r\n"), strings.Count(text, "\n")
	if crlf == 0 || e.old == "" || crlf < lf && strings.Contains(text, e.old) {
		return e
	}
	e.old, e.new = toCRLF(e.old), toCRLF(e.new)
	return e
}

func toCRLF(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}

// placesOf lists the lines where old stands.
func placesOf(text, old string) string {
	const most = 20
	var out []string
	line, from := 1, 0
	for {
		i := strings.Index(text[from:], old)
		if i < 0 {
			return strings.Join(out, ", ")
		}
		if len(out) == most {
			return strings.Join(out, ", ") + " …"
		}
		line += strings.Count(text[from:from+i], "\n")
		out = append(out, fmt.Sprint(line))
		line += strings.Count(old, "\n")
		from += i + len(old)
	}
}
