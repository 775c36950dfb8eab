package fs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sluice-run/sluice/events"
)

// bom is the byte order mark that some editors put before UTF-8 text.
var bom = []byte("\xef\xbb\xbf")

// errBinary ends a scan at the first byte that no text has.
var errBinary = errors.New("binary")

// chunk is how much is read between two looks at the context.
const chunk = 256 << 10

// scanner looks through a file once: it keeps the lines asked for, counts the
// rest, and takes the digest of exactly the bytes it has seen, so that what was
// shown and what is expected later cannot differ.
type scanner struct {
	first int64 // number of the first line shown
	most  int64 // lines shown at most

	out   strings.Builder
	last  int64 // number of the last line shown; 0 for none
	total int64 // lines ended so far
	crlf  int64
	size  int64
	full  bool // no more lines fit

	line    []byte // beginning of the line that has not ended
	lineLen int64  // bytes of it, shown or not
	endsCR  bool   // its last byte is \r
	utf8    utf8Checker
	sum     hash.Hash
	head    []byte // first 512 bytes, to tell the media type
}

// scan reads the file at a place: limit lines from offset on; 0 means maxLines.
func scan(ctx context.Context, root *os.Root, at place, offset, limit int) (*scanner, os.FileInfo, error) {
	f, info, err := openFile(root, at)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if info.Size() > maxReadFile {
		return nil, nil, refusal(events.TooLarge, events.ClassTool, "/path",
			"%q has %d bytes, and at most %d are looked through: find the part that matters with a program such as grep or sed -n", at.given, info.Size(), maxReadFile)
	}
	if limit == 0 {
		limit = maxLines
	}
	s := &scanner{first: int64(offset), most: int64(limit), sum: sha256.New()}
	_, err = copyBounded(ctx, s, f, maxReadFile, info.Size())
	if err == nil {
		err = s.finish()
	}
	switch {
	case errors.Is(err, errBinary):
		return nil, nil, binaryError(at, info.Size(), s.head)
	case err != nil && ctx.Err() != nil:
		return nil, nil, err
	case err != nil:
		return nil, nil, pathError(at.given, err)
	}
	return s, info, nil
}

// copyBounded copies at most most bytes of about size, looking at ctx between chunks.
func copyBounded(ctx context.Context, w io.Writer, r io.Reader, most, size int64) (int64, error) {
	buf := make([]byte, min(chunk, max(size+1, 512))) // one more, to meet the end at once
	var n int64
	for n < most {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		k, err := r.Read(buf[:min(int64(len(buf)), most-n)])
		n += int64(k)
		if _, werr := w.Write(buf[:k]); werr != nil {
			return n, werr
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				return n, nil
			}
			return n, err
		}
	}
	return n, nil
}

// digestOf is the digest and the size of what r gives, about size bytes, up to maxReadFile.
func digestOf(ctx context.Context, r io.Reader, size int64) (string, int64, error) {
	h := sha256.New()
	n, err := copyBounded(ctx, h, r, maxReadFile, size)
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), n, err
}

// Write takes the next bytes of the file.
func (s *scanner) Write(p []byte) (int, error) {
	n := len(p)
	if room := 512 - len(s.head); room > 0 {
		s.head = append(s.head, p[:min(room, n)]...)
	}
	if hasNUL(p) || !s.utf8.ok(p) {
		return 0, errBinary
	}
	s.sum.Write(p)
	if s.size == 0 {
		p = bytes.TrimPrefix(p, bom)
	}
	s.size += int64(n)
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			s.more(p)
			break
		}
		s.more(p[:i])
		s.endLine(true)
		p = p[i+1:]
	}
	return n, nil
}

// more adds bytes to the line that has not ended.
func (s *scanner) more(p []byte) {
	if len(p) == 0 {
		return
	}
	if room := maxLine + utf8.UTFMax - len(s.line); room > 0 {
		s.line = append(s.line, p[:min(room, len(p))]...)
	}
	s.lineLen += int64(len(p))
	s.endsCR = p[len(p)-1] == '\r'
}

func (s *scanner) endLine(newline bool) {
	s.total++
	if s.endsCR && newline {
		s.crlf++
		s.lineLen--
		s.line = s.line[:min(int64(len(s.line)), s.lineLen)]
	}
	if s.total >= s.first && s.total < s.first+s.most && !s.full {
		s.show()
	}
	s.line, s.lineLen, s.endsCR = s.line[:0], 0, false
}

const (
	noteRoom    = 300 // bytes left for the notes behind the lines
	numberWidth = 6
)

func (s *scanner) show() {
	number := strconv.FormatInt(s.total, 10)
	text := shownLine(s.line, s.lineLen)
	if s.out.Len()+max(len(number), numberWidth)+len(text)+2 > maxText-noteRoom {
		s.full = true
		return
	}
	for range numberWidth - len(number) {
		s.out.WriteByte(' ')
	}
	s.out.WriteString(number)
	s.out.WriteByte('\t')
	s.out.WriteString(text)
	s.out.WriteByte('\n')
	s.last = s.total
}

// shownLine is a line of n bytes that begins with line, cut where it is long.
func shownLine(line []byte, n int64) string {
	if n <= maxLine {
		return string(line)
	}
	cut := line[:maxLine]
	for len(cut) > 0 && !utf8.Valid(cut) {
		cut = cut[:len(cut)-1]
	}
	return fmt.Sprintf("%s [%d bytes of this line are not shown; find inside it with Grep]", cut, n-int64(len(cut)))
}

// finish ends the last line, which need not end with a newline.
func (s *scanner) finish() error {
	if !s.utf8.done() {
		return errBinary
	}
	if s.lineLen > 0 {
		s.endLine(false)
	}
	return nil
}

func (s *scanner) digest() string { return "sha256:" + hex.EncodeToString(s.sum.Sum(nil)) }

// left says whether lines stand behind the last one shown.
func (s *scanner) left() bool { return s.last < s.total && s.first <= s.total }

// shown is how many lines are shown.
func (s *scanner) shown() int64 { return max(0, s.last-s.first+1) }

func hasNUL(p []byte) bool { return bytes.IndexByte(p, 0) >= 0 }

// utf8Checker checks text that comes in pieces, which may part a rune.
type utf8Checker struct{ rest []byte }

func (c *utf8Checker) ok(p []byte) bool {
	if len(c.rest) > 0 {
		n := min(utf8.UTFMax, len(p))
		joined := append(c.rest, p[:n]...)
		if !utf8.FullRune(joined) {
			c.rest = joined
			return true
		}
		r, size := utf8.DecodeRune(joined)
		if r == utf8.RuneError && size == 1 {
			return false
		}
		p = p[size-len(c.rest):]
		c.rest = nil
	}
	for i := 1; i <= min(utf8.UTFMax-1, len(p)); i++ {
		if tail := p[len(p)-i:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				c.rest = bytes.Clone(tail)
				p = p[:len(p)-i]
			}
			break
		}
	}
	return utf8.Valid(p)
}

func (c *utf8Checker) done() bool { return len(c.rest) == 0 }

// mediaType tells what kind of content a file has, by its first bytes or else its name.
func mediaType(ext string, head []byte) string {
	media := http.DetectContentType(head)
	if known := mime.TypeByExtension(ext); media == "application/octet-stream" && known != "" && !strings.HasPrefix(known, "text/") {
		return known
	}
	return media
}
