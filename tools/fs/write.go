package fs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

type writeIn struct {
	Path string `json:"path" jsonschema:"the file, relative to the workspace; missing directories are made"`
	Text string `json:"text" jsonschema:"the whole new content"`
}

// Write is the tool that writes a whole file.
func Write() (tools.Tool, error) {
	spec := writing(tools.Spec{
		Name: WriteName,
		Description: "Writes a whole file of the workspace, new or not, and the directories it needs. An existing file keeps its mode. " +
			"It fails with CONFLICT where the file has changed since it was read. To change a part of a file, use Edit.",
	})
	spec.Asks = func(args json.RawMessage) string {
		var in writeIn
		if json.Unmarshal(args, &in) != nil {
			return WriteName + " " + tools.Visible(string(args))
		}
		return fmt.Sprintf("Write %s, %d bytes\n%s", tools.Visible(in.Path), len(in.Text), prefixed("+ ", in.Text))
	}
	spec.Probe = probeWrite
	spec.Preview = previewing(previewWrite)
	return tools.Typed(spec, write)
}

func write(ctx context.Context, in tools.Invocation, args writeIn) (events.Result, error) {
	if err := relativeOnly(in.Workspace, args.Path); err != nil {
		return events.Result{}, err
	}
	root, err := openRoot(in)
	if err != nil {
		return events.Result{}, err
	}
	defer root.Close()
	c := &change{root: root, in: in, given: args.Path}
	c.next = func(place, []byte, bool) ([]byte, error) { return append([]byte{}, args.Text...), nil }
	defer c.release()
	if err := c.apply(ctx); err != nil {
		return events.Result{}, err
	}
	return c.result(wrote(args), 0, false), nil
}

func wrote(args writeIn) string { return fmt.Sprintf("wrote %s, %d bytes", args.Path, len(args.Text)) }

// done is the machine-readable half of a change's result. With the way back it
// is the result's Undo.
type done struct {
	Path         string `json:"path"` // real name
	Digest       string `json:"digest"`
	Size         int64  `json:"size"`
	Replacements int    `json:"replacements,omitempty"`
	Created      bool   `json:"created,omitempty"`
	Dirs         string `json:"dirs,omitempty"` // first folder that was made for it
	Undo         *back  `json:"undo,omitempty"` // nil where the file was new: it is removed
}

// result is what a change that has happened tells.
func (c *change) result(verb string, replaced int, compare bool) events.Result {
	d := done{
		Path: c.at.name, Digest: Digest(c.content), Size: int64(len(c.content)),
		Replacements: replaced, Created: !c.existed, Dirs: c.dirs,
	}
	var text strings.Builder
	text.WriteString(verb)
	if c.links > 1 {
		fmt.Fprintf(&text, "\n[the file had %d names (hard links); the others keep the old content]", c.links)
	}
	if compare {
		text.WriteString(shortDiff(c.at.name, c.old, c.content))
	}
	shown := jsonOf(d)
	if c.existed {
		d.Undo = wayBack(c.old, c.content)
	}
	return events.Result{
		Status: events.Success, Text: events.Body{Text: text.String()}, Data: shown, Undo: jsonOf(d),
		Stats: events.Stats{Bytes: d.Size}, Seen: seenAs(c.at, d.Digest, d.Size, c.info),
	}
}

const (
	diffFile  = 1 << 20 // bytes of the largest file that is compared
	diffLines = 60      // lines shown of a comparison
	diffLine  = 300     // bytes shown of a line
)

// shortDiff is a unified diff behind a newline, cut where it is long; "" where
// there is none to show.
func shortDiff(name string, old, content []byte) string {
	if len(old) > diffFile || len(content) > diffFile || !utf8.Valid(old) || hasNUL(old) || hasNUL(content) {
		return ""
	}
	_, all, ok := bytes.Cut(diff.Diff("a/"+name, old, "b/"+name, content), []byte("\n"))
	if !ok {
		return ""
	}
	lines := strings.Split(strings.TrimSuffix(string(all), "\n"), "\n")
	more := len(lines) - diffLines
	if more > 0 {
		lines = lines[:diffLines]
	}
	for i, l := range lines {
		l = strings.TrimSuffix(l, "\r")
		if len(l) > diffLine {
			l = strings.ToValidUTF8(l[:diffLine], "") + " […]"
		}
		lines[i] = l
	}
	out := "\n" + strings.Join(lines, "\n")
	if more > 0 {
		out += fmt.Sprintf("\n[%d more lines of the change]", more)
	}
	return out
}

// jsonOf is the JSON of plain data, which cannot fail.
func jsonOf(v any) json.RawMessage {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(out.Bytes())
}
