package fs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path"
	"strings"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// errAlready ends an undo that finds its work done.
var errAlready = errors.New("undone already")

// undo puts the content back that a completed Edit or Write replaced, but only
// where the file is still as that call left it. Undone twice is undone once.
func undo(ctx context.Context, in tools.Invocation, was events.Result) (events.Result, error) {
	var d done
	if err := json.Unmarshal(was.Undo, &d); err != nil || d.Path == "" || d.Digest == "" || d.Created == (d.Undo != nil) {
		return events.Result{}, refusal(events.InvalidParam, events.ClassInvalid, "", "the call's result does not say what it changed: it cannot be undone")
	}
	root, err := openRoot(in)
	if err != nil {
		return events.Result{}, err
	}
	defer root.Close()
	in.Expect = nil // what the call expected is not what its undo finds
	c := &change{root: root, in: in, given: d.Path}
	c.next = func(_ place, now []byte, exists bool) ([]byte, error) {
		switch {
		case d.Created && !exists, !d.Created && exists && Digest(now) == d.Undo.Digest:
			return nil, errAlready
		case !exists || Digest(now) != d.Digest:
			return nil, c.conflict("%q has changed since the call that is to be undone: it is left as it is", d.Path)
		case d.Created:
			return nil, nil
		}
		before, err := d.Undo.from(now)
		if err != nil {
			return nil, refusal(events.ExecutionError, events.ClassTool, "", "%v", err)
		}
		return before, nil
	}
	defer c.release()
	err = c.apply(ctx)
	switch {
	case errors.Is(err, errAlready):
		return events.Result{Status: events.Success, Text: events.Body{Text: d.Path + " is undone already"}}, nil
	case err != nil:
		return events.Result{}, err
	case d.Created:
		removeFolders(root, path.Dir(c.at.name), d.Dirs)
		return events.Result{
			Status: events.Success, Text: events.Body{Text: "removed " + d.Path + ", which was new"},
			Seen: []events.Seen{{Path: d.Path}},
		}, nil
	}
	return c.result("put back the earlier content of "+d.Path, 0, true), nil
}

// removeFolders removes the folders from dir up to first, as long as they are empty.
func removeFolders(root *os.Root, dir, first string) {
	for first != "" && (dir == first || strings.HasPrefix(dir, first+"/")) {
		if root.Remove(dir) != nil {
			return // somebody uses it
		}
		dir = path.Dir(dir)
	}
}

// probeWrite finds the effect of a Write where the file has the content that it would have.
func probeWrite(ctx context.Context, in tools.Invocation) (tools.Finding, error) {
	var args writeIn
	if err := json.Unmarshal(in.Args, &args); err != nil {
		return tools.Finding{}, err
	}
	return probe(ctx, in, args.Path, func(c *change) (events.Result, bool) {
		r := c.result(wrote(args), 0, false)
		r.Undo = jsonOf(done{
			Path: c.at.name, Digest: Digest(c.content), Size: int64(len(c.content)),
			Undo: &back{None: "the attempt's own answer, with the earlier content, was lost"},
		})
		return r, string(c.content) == args.Text
	})
}

// probeEdit finds the effect of an Edit where taking it back gives the content
// that the attempt expected. Without an expectation nobody can tell: the text
// may have stood there before.
func probeEdit(ctx context.Context, in tools.Invocation) (tools.Finding, error) {
	var args editIn
	if err := json.Unmarshal(in.Args, &args); err != nil {
		return tools.Finding{}, err
	}
	return probe(ctx, in, args.Path, func(c *change) (events.Result, bool) {
		for _, e := range in.Expect {
			switch old, n := takenBack(string(c.content), args, e); {
			case !c.speaksOf(e.Path):
			case e.Digest == "" && args.OldString == "" && string(c.content) == args.NewString:
				return c.result(c.edited(0), 0, true), true
			case n > 0:
				c.old, c.existed = []byte(old), true
				return c.result(c.edited(n), n, true), true
			}
		}
		return events.Result{}, false
	})
}

// probe lets judge look at the file as it is now, and say what the call would
// have answered and whether it did its work. What is no file to edit tells nothing.
func probe(ctx context.Context, in tools.Invocation, given string, judge func(*change) (events.Result, bool)) (tools.Finding, error) {
	root, err := openRoot(in)
	if err != nil {
		return tools.Finding{}, err
	}
	defer root.Close()
	c := &change{root: root, in: in, given: given}
	if c.at, err = lookUp(root, in.Workspace, given); err == nil {
		err = c.readOld()
	}
	if _, told := errors.AsType[*tools.Error](err); told || err == nil && !c.existed {
		return tools.Finding{}, ctx.Err()
	}
	if err != nil {
		return tools.Finding{}, err
	}
	c.content, c.old, c.existed, c.links = c.old, nil, false, 1
	r, found := judge(c)
	if !found {
		return tools.Finding{}, nil
	}
	return tools.Finding{Found: true, Result: r}, nil
}

// Bounds of taking an edit back: places tried, and bytes of a file whose every
// place is tried, as a deletion needs.
const (
	maxPlaces  = 2000
	maxDeleted = 16 << 10
)

// takenBack is the content that an edit led from, if it is the expected one, and
// how many places were replaced; 0 if it is not.
func takenBack(content string, args editIn, e events.Expectation) (string, int) {
	text, marked := strings.CutPrefix(content, string(bom))
	ed := edition{text, args.OldString, args.NewString}
	if crlf := strings.Count(text, "\r\n"); crlf > 0 && crlf == strings.Count(text, "\n") {
		ed.old, ed.new = toCRLF(ed.old), toCRLF(ed.new)
	}
	mark := ""
	if marked {
		mark = string(bom)
	}
	if ed.old == "" {
		return "", 0
	}
	if args.ReplaceAll && ed.new != "" {
		all := mark + strings.ReplaceAll(text, ed.new, ed.old)
		if n := strings.Count(text, ed.new); n > 0 && Digest([]byte(all)) == e.Digest {
			return all, n
		}
	}
	for _, i := range placesFor(text, ed.new) {
		before, after := text[:i], text[i+len(ed.new):]
		if digestParts(mark, before, ed.old, after) == e.Digest {
			return mark + before + ed.old + after, 1
		}
	}
	return "", 0
}

// placesFor are the offsets where piece may have been put in.
func placesFor(text, piece string) []int {
	var out []int
	if piece == "" {
		for i := 0; len(text) <= maxDeleted && i <= len(text); i++ {
			out = append(out, i)
		}
		return out
	}
	most := min(maxPlaces, maxWork/max(len(text), 1)) // the whole text is read for each
	for from := 0; len(out) < most; {
		i := strings.Index(text[from:], piece)
		if i < 0 {
			break
		}
		out = append(out, from+i)
		from += i + 1
	}
	return out
}

func digestParts(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = h.Write([]byte(p)) // a hash never fails
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
