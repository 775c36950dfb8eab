package jetlog

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
)

// serverLog passes on what the embedded server says of itself. Its notices are
// for those who look into it; what it calls fatal ends its start.
type serverLog struct {
	ctx   context.Context // the server's own lifetime
	log   *slog.Logger
	lose  func()                 // called where the server says that it cannot write; nil: nobody asks
	fatal atomic.Pointer[string] // the first one
}

func (l *serverLog) say(level slog.Level, format string, v []any) {
	if l.log.Enabled(l.ctx, level) {
		l.log.Log(l.ctx, level, "nats server", "says", fmt.Sprintf(format, v...))
	}
}

// The methods of the server's logger.

func (l *serverLog) Noticef(format string, v ...any) { l.say(slog.LevelDebug, format, v) }

func (l *serverLog) Warnf(format string, v ...any) {
	l.say(slog.LevelWarn, format, v)
	l.listen(fmt.Sprintf(format, v...))
}
func (l *serverLog) Debugf(format string, v ...any) { l.say(slog.LevelDebug, format, v) }
func (l *serverLog) Tracef(format string, v ...any) { l.say(slog.LevelDebug, format, v) }

func (l *serverLog) Errorf(format string, v ...any) {
	l.say(slog.LevelError, format, v)
	l.listen(fmt.Sprintf(format, v...))
}

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
