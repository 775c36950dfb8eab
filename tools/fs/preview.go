package fs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// previewing is how a tool of this family says what a call would change: a unified
// diff against the file as it is now. It opens nothing for writing.
func previewing[In any](change func(In) (given string, next func(place, []byte, bool) ([]byte, error))) func(context.Context, tools.Invocation) (events.Preview, error) {
	return func(ctx context.Context, in tools.Invocation) (events.Preview, error) {
		var args In
		if err := json.Unmarshal(in.Args, &args); err != nil {
			return events.Preview{}, err
		}
		given, next := change(args)
		return previewOf(ctx, in, given, next)
	}
}

// previewOf reads the file, without a lock, and compares it with what would take its place.
func previewOf(ctx context.Context, in tools.Invocation, given string, next func(place, []byte, bool) ([]byte, error)) (events.Preview, error) {
	root, err := openRoot(in)
	if err != nil {
		return events.Preview{}, err
	}
	defer root.Close()
	c := &change{root: root, in: in, given: given}
	if c.at, err = lookUp(root, in.Workspace, given); err != nil {
		return events.Preview{}, err
	}
	if err := permit(in, events.OpWrite, c.at); err != nil { // BEFORE anything of it is read
		return events.Preview{}, err
	}
	if err := c.readOld(); err != nil {
		return events.Preview{}, err
	}
	p := events.Preview{Kind: events.PreviewDiff, Base: []events.Seen{{Path: c.at.name}}}
	if c.existed {
		p.Base = seenAs(c.at, Digest(c.old), int64(len(c.old)), c.info)[:1]
	}
	if c.at.name != c.at.clean {
		p.Note = tools.Visible(given) + " is a link to " + tools.Visible(c.at.name)
	}
	if c.links > 1 {
		p.Note = noted(p.Note, fmt.Sprintf("the file has %d names (hard links); the others keep the old content", c.links))
	}
	content, err := next(c.at, c.old, c.existed)
	if te := (*tools.Error)(nil); errors.As(err, &te) {
		if errors.Is(err, errNeedsFile) {
			te = notFoundNow(given)
		}
		p.Kind, p.Text.Text = events.PreviewText, "as the file is now, the call would fail and change nothing: "+te.Message
		return p, nil
	}
	if err != nil {
		return events.Preview{}, err
	}
	p.Text.Text = c.difference(content)
	return p, ctx.Err()
}

func notFoundNow(given string) *tools.Error {
	return refusal(events.NotFound, events.ClassTool, "/path", "there is no file %q", given)
}

func noted(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// difference is a unified diff of the old and the new content, each digest in its
// head. What is no text, or too large to compare, is described.
func (c *change) difference(content []byte) string {
	name := tools.Visible(c.at.name)
	old, was := "a/"+name, fmt.Sprintf("%d bytes, %s", len(c.old), Digest(c.old))
	if !c.existed {
		old, was = "/dev/null", "there is no such file: it would be made"
	}
	now := fmt.Sprintf("%d bytes, %s", len(content), Digest(content))
	head := fmt.Sprintf("--- %s\t(%s)\n+++ b/%s\t(%s)\n", old, was, name, now)
	switch {
	case c.existed && string(c.old) == string(content):
		return head + "the file has that content already: nothing would change"
	case !isText(c.old) || !isText(content):
		return head + "the content is no text, and is not compared: " + described(c.old) + " would become " + described(content)
	case len(c.old) > diffFile || len(content) > diffFile:
		return head + fmt.Sprintf("more than %d bytes are not compared", diffFile)
	}
	return head + hunks(diff.Diff("a", c.old, "b", content))
}

// hunks are what stands behind the three lines of a diff's own head.
func hunks(all []byte) string {
	for range 3 {
		for i, b := range all {
			if b == '\n' {
				all = all[i+1:]
				break
			}
		}
	}
	return string(all)
}

func isText(b []byte) bool { return utf8.Valid(b) && !hasNUL(b) }

func described(b []byte) string {
	if isText(b) {
		return fmt.Sprintf("text of %d bytes", len(b))
	}
	return fmt.Sprintf("binary data of %d bytes", len(b))
}

// previewEdit is what an Edit would change.
func previewEdit(args editIn) (string, func(place, []byte, bool) ([]byte, error)) {
	return args.Path, func(at place, old []byte, exists bool) ([]byte, error) {
		if args.OldString == args.NewString {
			return nil, invalid("/new_string", "old_string and new_string are the same: there is nothing to change")
		}
		content, _, err := edited(at, old, exists, args)
		return content, err
	}
}

// previewWrite is what a Write would change.
func previewWrite(args writeIn) (string, func(place, []byte, bool) ([]byte, error)) {
	return args.Path, func(place, []byte, bool) ([]byte, error) { return []byte(args.Text), nil }
}
