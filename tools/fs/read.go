package fs

import (
	"context"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

type readIn struct {
	Path   string `json:"path" jsonschema:"the file, relative to the workspace"`
	Offset int    `json:"offset,omitempty" jsonschema:"description=number of the first line to show; 1 if left out,minimum=1"`
	Limit  int    `json:"limit,omitempty" jsonschema:"description=how many lines to show; 2000 if left out,minimum=1,maximum=2000"`
}

// Read is the tool that shows a text file, with line numbers.
func Read() (tools.Tool, error) {
	return tools.Typed(tools.Spec{
		Name: ReadName,
		Description: "Shows a text file of the workspace with line numbers (number, tab, line). It shows up to 2000 lines or 51200 bytes, " +
			"and says where to read on. Read a file before you change it: then a change by somebody else is noticed. " +
			"It shows no binary files and no directories.",
		Tier: events.Readonly, Limits: limits(), Operation: operation(events.OpRead, ""),
	}, read)
}

func read(ctx context.Context, in tools.Invocation, args readIn) (events.Result, error) {
	root, err := openRoot(in)
	if err != nil {
		return events.Result{}, err
	}
	defer root.Close()
	at, err := lookUp(root, in.Workspace, args.Path)
	if err == nil {
		err = permit(in, events.OpRead, at)
	}
	if err != nil {
		return events.Result{}, err
	}
	if at.missing() {
		return events.Result{}, notFound(ctx, root, at)
	}
	s, info, err := scan(ctx, root, at, max(args.Offset, 1), min(max(args.Limit, 0), maxLines))
	if err != nil {
		return events.Result{}, err
	}
	if s.total > 0 && s.first > s.total {
		return events.Result{}, invalid("/offset", "%q has %d lines: there is no line %d", at.given, s.total, s.first)
	}
	r := events.Result{
		Status: events.Success, Text: events.Body{Text: s.text(at.given)},
		Stats: events.Stats{Bytes: s.size, Lines: s.total},
		Seen:  seenAs(at, s.digest(), s.size, info),
	}
	if s.left() && (args.Limit == 0 || s.shown() < int64(args.Limit)) {
		r.Status = events.Partial
	}
	return r, nil
}

// seenAs is what was learnt of a file, under its real name and, where a link
// led to it, under the name that was asked for, so that either is found again.
func seenAs(at place, digest string, size int64, info os.FileInfo) []events.Seen {
	seen := []events.Seen{{Path: at.name, Digest: digest, Size: size, Mtime: info.ModTime().UTC()}}
	if at.clean != at.name {
		alias := seen[0]
		alias.Path = at.clean
		seen = append(seen, alias)
	}
	return seen
}

// Look is what a file of the workspace is now: its digest is "" where there is
// none. Its Path is the real name; see Resolve. It returns a *tools.Error for
// what is no regular file, too large to be read, or lies outside.
func Look(ctx context.Context, workspace, given string) (events.Seen, error) {
	root, err := Open(workspace)
	if err != nil {
		return events.Seen{}, err
	}
	defer root.Close()
	at, err := lookUp(root, workspace, given)
	if err != nil || at.missing() {
		return events.Seen{Path: at.name}, err
	}
	f, info, err := openFile(root, at)
	if err != nil {
		return events.Seen{}, err
	}
	defer f.Close()
	if info.Size() > maxReadFile {
		return events.Seen{}, refusal(events.TooLarge, events.ClassTool, "/path", "%q has %d bytes, and at most %d are looked through", given, info.Size(), maxReadFile)
	}
	digest, size, err := digestOf(ctx, f, info.Size())
	if err != nil {
		return events.Seen{}, pathError(given, err)
	}
	return seenAs(at, digest, size, info)[0], nil
}

// text renders what was scanned, with what is left and how to see it.
func (s *scanner) text(given string) string {
	switch {
	case s.size == 0:
		return fmt.Sprintf("[%s is empty]", given)
	case s.total == 0:
		return fmt.Sprintf("[%s holds a byte order mark and nothing else]", given)
	}
	var b strings.Builder
	b.WriteString(s.out.String())
	switch {
	case s.left():
		fmt.Fprintf(&b, "[lines %d-%d of %d; read on with offset %d]\n", s.first, s.last, s.total, s.last+1)
	case s.first > 1:
		fmt.Fprintf(&b, "[lines %d-%d of %d, the end]\n", s.first, s.last, s.total)
	}
	if s.crlf > 0 {
		fmt.Fprintf(&b, "[%d of %d lines end with CRLF; Edit keeps line ends]\n", s.crlf, s.total)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// binaryError describes a file that is no text.
func binaryError(at place, size int64, head []byte) *tools.Error {
	media := mediaType(path.Ext(at.name), head)
	what := "is binary"
	if strings.HasPrefix(media, "text/") || media == "application/octet-stream" && !hasNUL(head) {
		what = "is no UTF-8 text"
	}
	return refusal(events.BinaryFile, events.ClassTool, "/path",
		"%q %s (%s, %d bytes): its content is not shown or edited as text; use a program that knows the format", at.given, what, media, size)
}
