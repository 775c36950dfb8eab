package jetlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/sluice-run/sluice/bus"
)

// Headers that JetStream reads.
const (
	headerExpect      = "Nats-Expected-Last-Subject-Sequence"
	headerMsgID       = "Nats-Msg-Id"
	headerTTL         = "Nats-TTL"
	headerRollup      = "Nats-Rollup"
	headerSeq         = "Nats-Sequence"
	headerSubject     = "Nats-Subject"
	headerPending     = "Nats-Num-Pending"
	headerPrevious    = "Nats-Last-Sequence"
	headerSchedule    = "Nats-Schedule"
	headerTarget      = "Nats-Schedule-Target"
	headerScheduleTTL = "Nats-Schedule-TTL"
	headerNext        = "Nats-Schedule-Next"
	headerScheduler   = "Nats-Scheduler"
	headerKVOperation = "KV-Operation"
)

// Error codes of JetStream that mean something to us.
const (
	codeWrongLast       = 10071 // names the last sequence
	codeWrongLastUnsaid = 10164 // another write is in flight; says nothing
	codeDuplicateBusy   = 10158 // the same id is in flight; says nothing
	codeTooLarge        = 10054
	codeNoStream        = 10059
)

// answerLimit is how long one try waits before the message is sent again.
const answerLimit = 5 * time.Second

// ack is the server's answer to a message that is to be stored.
type ack struct {
	seq       uint64
	duplicate bool // its id was known: seq is that of the first
}

// apiError is the server's refusal to store a message.
type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *apiError) Error() string {
	return fmt.Sprintf("the server refused the message: %s (%d)", e.Description, e.ErrCode)
}

// wrongLast returns the last sequence that a 10071 names.
func (e *apiError) wrongLast() (uint64, bool) {
	if e.ErrCode != codeWrongLast {
		return 0, false
	}
	_, number, ok := strings.Cut(e.Description, "sequence: ")
	last, err := strconv.ParseUint(number, 10, 64)
	return last, ok && err == nil
}

// passes says whether the refusal is of the moment: the same message may be
// taken a little later.
func (e *apiError) passes() bool {
	return e.ErrCode == codeWrongLastUnsaid || e.ErrCode == codeDuplicateBusy || e.Code == 503
}

var (
	seqMark   = []byte(`"seq":`)
	errorMark = []byte(`"error":`)
	dupMark   = []byte(`"duplicate":`)
)

// parseAck reads an answer. The common one is a line of a few dozen bytes, and
// is not worth a decoder.
func parseAck(data []byte) (ack, error) {
	if i := bytes.Index(data, seqMark); i >= 0 && !bytes.Contains(data, errorMark) {
		rest := bytes.TrimLeft(data[i+len(seqMark):], " ")
		n := 0
		for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
			n++
		}
		seq, err := strconv.ParseUint(string(rest[:n]), 10, 64)
		if err == nil && seq > 0 {
			return ack{seq: seq, duplicate: bytes.Contains(data, dupMark)}, nil
		}
	}
	var body struct {
		Error *apiError `json:"error"`
	}
	if err := json.Unmarshal(data, &body); err != nil || body.Error == nil {
		return ack{}, fmt.Errorf("the answer %q is no acknowledgement", clip(data))
	}
	return ack{}, body.Error
}

func clip(b []byte) []byte { return b[:min(len(b), 100)] }

// clipped is the beginning of a stranger's text, for a log.
func clipped(s string) string { return string(clip([]byte(s))) }

// try sends a message once and waits for its acknowledgement.
func (s *slots) try(ctx context.Context, m *nats.Msg) (ack, error) {
	got, err := s.ask(ctx, m, answerLimit)
	if err != nil {
		return ack{}, err
	}
	return parseAck(got.Data)
}

// store sends a message until the server says that it has it, or refuses it for
// good. It is for messages that may be stored twice without harm.
func (s *slots) store(ctx context.Context, m *nats.Msg) (ack, error) {
	pause := backoff{time.Millisecond, 250 * time.Millisecond}
	for {
		a, err := s.try(ctx, m)
		var refused *apiError
		switch {
		case err == nil:
			return a, nil
		case errors.As(err, &refused) && !refused.passes(), errors.Is(err, nats.ErrConnectionClosed):
			return ack{}, err
		}
		if late := pause.wait(ctx); late != nil {
			return ack{}, fmt.Errorf("%w: %w: %w", bus.ErrUnavailable, err, late)
		}
	}
}

// sole stores a message behind the last one of its subject, which must be at a
// sequence, where nobody else writes that subject, or who does so first
// prevails. With shared false, a refusal that names a later sequence means that
// an earlier try was kept; with shared true it is bus.Conflict.
func (s *slots) sole(ctx context.Context, subject string, body []byte, at uint64, shared bool) (uint64, error) {
	m := &nats.Msg{Subject: subject, Data: body, Header: nats.Header{headerExpect: {strconv.FormatUint(at, 10)}}}
	if shared {
		m.Header[headerRollup] = []string{"sub"}
	}
	pause := backoff{time.Millisecond, 250 * time.Millisecond}
	for {
		a, err := s.try(ctx, m)
		var refused *apiError
		switch {
		case err == nil:
			return a.seq, nil
		case errors.Is(err, nats.ErrConnectionClosed):
			return 0, err
		case errors.As(err, &refused):
			last, named := refused.wrongLast()
			if named && last > at && !shared {
				return last, nil
			}
			if named && last > at {
				return 0, &bus.Conflict{Last: last}
			}
			if !named && !refused.passes() {
				return 0, refused
			}
		}
		if late := pause.wait(ctx); late != nil {
			return 0, fmt.Errorf("%w: %w: %w", bus.ErrUnavailable, err, late)
		}
	}
}
