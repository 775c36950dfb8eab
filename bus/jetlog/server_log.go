package jetlog

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// serverLog passes on what the embedded server says of itself. Its notices are
// for those who look into it; what it calls fatal ends its start.
type serverLog struct {
	ctx   context.Context // the server's own lifetime
	log   *slog.Logger
	lose  func()                 // called where the server says that it cannot write; nil: nobody asks
	fatal atomic.Pointer[string] // the first one

	clients sparing // what is said of clients
}

// ofClient are the lines that the server says of one connection. They hold what its other
// side has chosen, such as its name.
var ofClient = regexp.MustCompile(`^\S+ - [a-z]id(_ws)?:\d+ - `)

// sparing bounds what is logged of clients: who is refused can ask without end.
type sparing struct {
	mu    sync.Mutex
	since time.Time
	said  int
	left  int
}

// So many lines in so long a time.
const (
	sparingLines = 20
	sparingSpan  = 10 * time.Second
)

func (l *serverLog) say(level slog.Level, format string, v []any) {
	if l.log.Enabled(l.ctx, level) {
		l.log.Log(l.ctx, level, "nats server", "says", fmt.Sprintf(format, v...))
	}
}

// complain passes on what the server warns of.
func (l *serverLog) complain(level slog.Level, format string, v []any) {
	text := fmt.Sprintf(format, v...)
	if !ofClient.MatchString(text) {
		l.say(level, "%s", []any{text})
		l.listen(text)
		return
	}
	if l.clients.may(l.log) {
		l.say(slog.LevelWarn, "%s", []any{text})
	}
}

// may says whether another line is logged, and logs how many were not.
func (s *sparing) may(log *slog.Logger) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.since) > sparingSpan {
		if s.left > 0 {
			log.Warn("lines about clients of NATS were left out", "lines", s.left)
		}
		s.since, s.said, s.left = now, 0, 0
	}
	if s.said++; s.said > sparingLines {
		s.left++
		return false
	}
	return true
}

// The methods of the server's logger.

func (l *serverLog) Noticef(format string, v ...any) { l.say(slog.LevelDebug, format, v) }

func (l *serverLog) Warnf(format string, v ...any) { l.complain(slog.LevelWarn, format, v) }

func (l *serverLog) Debugf(format string, v ...any) { l.say(slog.LevelDebug, format, v) }
func (l *serverLog) Tracef(format string, v ...any) { l.say(slog.LevelDebug, format, v) }

func (l *serverLog) Errorf(format string, v ...any) { l.complain(slog.LevelError, format, v) }

// unwritable are the server's words for a store that it cannot write any more. It
// then answers nobody.
var unwritable = []string{"no space left on device", "critical write error", "read-only file system", "input/output error"}

func (l *serverLog) listen(text string) {
	text = strings.ToLower(text)
	if l.lose != nil && slices.ContainsFunc(unwritable, func(w string) bool { return strings.Contains(text, w) }) {
		l.lose()
	}
}

func (l *serverLog) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.fatal.CompareAndSwap(nil, &text)
	l.say(slog.LevelError, format, v)
}
