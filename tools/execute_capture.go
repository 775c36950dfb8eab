package tools

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
)

// Capture keeps a bounded part of a stream of output and counts the rest. It is
// an io.Writer that never fails and never blocks; many goroutines may write.
type Capture struct {
	mu    sync.Mutex
	head  []byte
	tail  []byte // a ring once it is full
	at    int    // where the ring begins
	room  [2]int // most bytes of head and tail
	total int64
	lines int64
}

// captureNote is room for the line that says what was not kept.
const captureNote = 48

// NewCapture is a Capture of at most limit bytes, 0 meaning DefaultOutput, from
// the end or ends that keep names, "" meaning the head.
func NewCapture(limit int, keep Keep) *Capture {
	if limit <= 0 {
		limit = DefaultOutput
	}
	limit = max(limit-captureNote, 0)
	switch keep {
	case KeepTail:
		return &Capture{room: [2]int{0, limit}}
	case KeepBoth:
		return &Capture{room: [2]int{limit - limit/2, limit / 2}}
	}
	return &Capture{room: [2]int{limit, 0}}
}

// Write takes p. It returns len(p) and no error.
func (c *Capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(p)
	c.total += int64(n)
	c.lines += int64(bytes.Count(p, []byte{'\n'}))
	if free := c.room[0] - len(c.head); free > 0 {
		k := min(free, len(p))
		c.head, p = append(c.head, p[:k]...), p[k:]
	}
	c.keepTail(p)
	return n, nil
}

func (c *Capture) keepTail(p []byte) {
	room := c.room[1]
	if room == 0 {
		return
	}
	p = p[max(len(p)-room, 0):]
	if free := room - len(c.tail); free > 0 {
		k := min(free, len(p))
		c.tail, p = append(c.tail, p[:k]...), p[k:]
	}
	for len(p) > 0 {
		k := copy(c.tail[c.at:], p)
		c.at, p = (c.at+k)%room, p[k:]
	}
}

// Total is the number of bytes and of newlines that were written.
func (c *Capture) Total() (size, newlines int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total, c.lines
}

// Text is what was kept. Where something is missing in it, a line says how
// much, and no rune is cut there.
func (c *Capture) Text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	tail := string(c.tail[c.at:]) + string(c.tail[:c.at])
	missing := c.total - int64(len(c.head)+len(tail))
	if missing == 0 {
		return string(c.head) + tail
	}
	head := wholeRunes(string(c.head))
	for n := 0; n < utf8.UTFMax && tail != "" && !utf8.RuneStart(tail[0]); n++ {
		tail = tail[1:]
	}
	missing = c.total - int64(len(head)+len(tail))
	note := fmt.Sprintf("[%d bytes not kept]", missing)
	if head != "" {
		note = "\n" + note
	}
	if tail != "" {
		note += "\n"
	}
	return strings.Join([]string{head, tail}, note)
}

// wholeRunes is s without a rune at its end that was cut.
func wholeRunes(s string) string {
	for i := 1; i < utf8.UTFMax && i <= len(s); i++ {
		if c := s[len(s)-i]; utf8.RuneStart(c) {
			if !utf8.FullRuneInString(s[len(s)-i:]) {
				return s[:len(s)-i]
			}
			break
		}
	}
	return s
}
