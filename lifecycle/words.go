package lifecycle

import (
	"errors"
	"fmt"

	"github.com/sluice-run/sluice/events"
)

// Bounds in bytes of what people and callers write into events. Whatever they
// say, each event must fit a commit, also where it is repeated for 256 calls.
const (
	MaxWords   = 4 << 10 // a reason or a note
	MaxActor   = 256     // the id or the kind of a principal
	MaxParents = 16      // of a principal
	MaxPath    = 4 << 10 // a workspace
	MaxAllow   = 1024    // names in a turn's allowlist
)

// ErrWords says that somebody said too much. Nothing was kept.
var ErrWords = errors.New("too long")

// checkWords returns nil for words of an act within the bounds.
func checkWords(by events.Principal, words string) error {
	if len(words) > MaxWords {
		return fmt.Errorf("%w: %d bytes of words, at most %d: say it shorter", ErrWords, len(words), MaxWords)
	}
	return checkActor(by)
}

func checkActor(p events.Principal) error {
	if len(p.Parents) > MaxParents {
		return fmt.Errorf("%w: a principal with %d parents, at most %d", ErrWords, len(p.Parents), MaxParents)
	}
	for _, id := range append([]string{p.ID, p.Kind}, p.Parents...) {
		if len(id) > MaxActor {
			return fmt.Errorf("%w: a principal's name of %d bytes, at most %d", ErrWords, len(id), MaxActor)
		}
	}
	return nil
}

// wordsOf are the words that a command brings, and whose they are.
func wordsOf(cmd Command) (by events.Principal, words string) {
	switch c := cmd.(type) {
	case Approve:
		return c.By, c.Note
	case Reject:
		return c.By, c.Note
	case Answer:
		return c.By, c.Note
	case CancelCall:
		return c.By, c.Reason
	case CancelTurn:
		return c.By, c.Reason
	case Resolve:
		return c.By, c.Note
	case Undone:
		return c.By, ""
	}
	return events.Principal{}, ""
}

// checkCaller bounds what a submission says beside its calls.
func checkCaller(s events.TurnSubmitted) error {
	if err := checkActor(s.Principal); err != nil {
		return err
	}
	switch {
	case len(s.Workspace) > MaxPath:
		return fmt.Errorf("%w: a workspace of %d bytes, at most %d", ErrWords, len(s.Workspace), MaxPath)
	case len(s.Allow) > MaxAllow:
		return fmt.Errorf("%w: an allowlist of %d names, at most %d", ErrWords, len(s.Allow), MaxAllow)
	case len(s.Traceparent) > MaxActor || len(s.Format) > MaxActor || len(s.Imported) > MaxPath:
		return fmt.Errorf("%w: traceparent, format or source", ErrWords)
	}
	for _, name := range s.Allow {
		if len(name) > MaxName {
			return fmt.Errorf("%w: a name of %d bytes in the allowlist, at most %d", ErrWords, len(name), MaxName)
		}
	}
	return nil
}
