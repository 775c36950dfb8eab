package jetlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

const (
	pageSize  = 256     // messages of one batched get
	pageBytes = 4 << 20 // of one batched get, about
	pageSlots = pageSize + 8
	directGet = "$JS.API.DIRECT.GET."
	streamGet = "$JS.API.STREAM.MSG.GET."
)

// raw is a message of the log as stored.
type raw struct {
	seq     uint64
	subject string
	body    []byte
}

// pageRequest asks for messages from a sequence on.
type pageRequest struct {
	Seq     uint64 `json:"seq"`
	NextFor string `json:"next_by_subj,omitempty"`
	Batch   int    `json:"batch"`
	Bytes   int    `json:"max_bytes"`
}

// page reads the next messages of a stream with one request, which any of its
// replicas may answer. more says that there are others behind them.
func (b *Bus) page(ctx context.Context, s *slots, stream string, from uint64, filter string) (got []raw, more bool, err error) {
	body, err := json.Marshal(pageRequest{from, filter, pageSize, pageBytes})
	if err != nil {
		return nil, false, err
	}
	sl, err := s.take(ctx)
	if err != nil {
		return nil, false, err
	}
	clean := false
	defer func() { s.give(sl, clean) }()
	loss := s.link.loss()
	if err := s.send(sl, &nats.Msg{Subject: directGet + stream, Data: body}); err != nil {
		return nil, false, err
	}
	previous := uint64(0)
	for {
		m, err := s.await(ctx, sl, loss, answerLimit)
		if err != nil {
			return nil, false, err
		}
		switch m.Header.Get("Status") {
		case "":
			r, before, err := rawMessage(m)
			if err != nil || before != previous {
				return nil, false, errors.Join(errTorn, err)
			}
			got, previous = append(got, r), r.seq
			continue
		case "404":
			clean = true
			return nil, false, nil
		case "204":
			clean = true
			if m.Header.Get(headerPrevious) != strconv.FormatUint(previous, 10) {
				return nil, false, errTorn
			}
			return got, m.Header.Get(headerPending) != "0", nil
		}
		return nil, false, fmt.Errorf("read stream %s: the server says %s %s", stream, m.Header.Get("Status"), m.Header.Get("Description"))
	}
}

// errTorn says that messages of a batch did not arrive. They are asked for again.
var errTorn = errors.New("some messages of a batch are missing")

func rawMessage(m *nats.Msg) (r raw, previous uint64, err error) {
	r = raw{subject: m.Header.Get(headerSubject), body: m.Data}
	if r.seq, err = strconv.ParseUint(m.Header.Get(headerSeq), 10, 64); err != nil {
		return r, 0, fmt.Errorf("a message of the mirror has no sequence: %w", err)
	}
	previous, err = strconv.ParseUint(m.Header.Get(headerPrevious), 10, 64)
	return r, previous, err
}

// passing says whether a read is worth repeating as it is.
func passing(err error) bool {
	return errors.Is(err, errTorn) || errors.Is(err, errLinkLost) || errors.Is(err, errNobody) || errors.Is(err, errNoAnswer) ||
		errors.Is(err, errNotSent) && !errors.Is(err, nats.ErrConnectionClosed)
}

// Load is bus.Log's. The common case, a short turn that the mirror has already,
// is one request.
func (b *Bus) Load(ctx context.Context, turn events.TurnKey, atLeast uint64) ([]bus.Stored, error) {
	if err := turn.Check(); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	ctx, stop := b.ctxOf(ctx)
	defer stop()
	out, err := b.loadFrom(ctx, turn, 1, atLeast)
	if err != nil {
		return nil, fmt.Errorf("load turn %s: %w", turn, readError(ctx, err))
	}
	return out, nil
}

// readError adds why ctx ended, and that the log was not reached if it was not.
func readError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return errors.Join(cause, err)
	}
	if ctx.Err() == nil && unreached(err) {
		return fmt.Errorf("%w: %w", bus.ErrUnavailable, err)
	}
	return unavailable(err)
}

// unreached says whether a server did not answer, while the caller still waits:
// the client gives up by itself after a while.
func unreached(err error) bool {
	return passing(err) || errors.Is(err, context.DeadlineExceeded)
}

// loadFrom reads a turn's commits from a sequence on, once those up to atLeast
// can be seen.
func (b *Bus) loadFrom(ctx context.Context, turn events.TurnKey, from, atLeast uint64) ([]bus.Stored, error) {
	var out []bus.Stored
	subject := bus.EventSubject(turn)
	pause := backoff{200 * time.Microsecond, 20 * time.Millisecond}
	stuck := time.Now().Add(stuckAfter)
	for tries := 0; ; tries++ {
		if time.Now().After(stuck) {
			rest, err := b.loadHot(ctx, turn, from)
			if err == nil || !passing(err) {
				return append(out, rest...), err
			}
			stuck = time.Now().Add(stuckAfter)
		}
		got, more, err := b.page(ctx, b.loads, StreamRead, from, subject)
		if err != nil && !passing(err) {
			return nil, err
		}
		for _, r := range got {
			s, err := b.commit(r, turn)
			if err != nil {
				return nil, err
			}
			out, from = append(out, s), r.seq+1
		}
		switch {
		case err == nil && more:
			continue
		case err == nil && from > atLeast:
			return out, nil
		case err == nil && tries > 0: // the mirror is behind, or there is nothing more of this turn
			if atLeast, err = b.reachable(ctx, subject, atLeast); err != nil && !passing(err) {
				return nil, err
			}
			if err == nil && from > atLeast {
				return out, nil
			}
		}
		if late := pause.wait(ctx); late != nil {
			return nil, errors.Join(late, err)
		}
	}
}

// stuckAfter is how long a load waits for the mirror. When the log's leader dies, the
// mirror may stand still for half a minute while the log goes on.
const stuckAfter = 2 * time.Second

// loadHot reads a turn's commits from a sequence on from the log itself, one by one,
// by its leader, which knows of all.
func (b *Bus) loadHot(ctx context.Context, turn events.TurnKey, from uint64) ([]bus.Stored, error) {
	var out []bus.Stored
	for {
		r, err := b.message(ctx, b.loads, StreamLog, messageRequest{Seq: from, Next: bus.EventSubject(turn)})
		if err != nil || r.seq == 0 {
			return out, err
		}
		s, err := b.commit(r, turn)
		if err != nil {
			return nil, err
		}
		out, from = append(out, s), r.seq+1
	}
}

// commit decodes a message that must be of the turn.
func (b *Bus) commit(r raw, turn events.TurnKey) (bus.Stored, error) {
	s, err := b.stored(r.seq, r.body)
	if err == nil && s.Commit.Turn != turn {
		err = fmt.Errorf("commit at sequence %d is of turn %s: the log is damaged", r.seq, s.Commit.Turn)
	}
	return s, err
}

// reachable is the last sequence of a subject that a reader need wait for: once
// the mirror has come to atLeast, it is the subject's own last one there. The
// mirror's leader answers, where a batched get may come from a follower.
func (b *Bus) reachable(ctx context.Context, subject string, atLeast uint64) (uint64, error) {
	one, stop := context.WithTimeout(ctx, answerLimit) // a leader that goes may never answer
	info, err := b.mirror.Info(one)
	stop()
	if err != nil {
		return atLeast, fmt.Errorf("%w: %w", errNobody, err)
	}
	if info.State.LastSeq < atLeast {
		return atLeast, nil
	}
	last, err := b.lastOf(ctx, subject)
	return min(last, atLeast), err
}

// lastOf is the last sequence of a subject, or of a pattern, in the mirror; 0 if
// there is none.
func (b *Bus) lastOf(ctx context.Context, subject string) (uint64, error) {
	r, err := b.lastMessage(ctx, b.loads, StreamRead, subject)
	return r.seq, err
}

// lastMessage is the last message of a subject, or of a pattern, as the stream's
// leader has it; with sequence 0 if there is none.
func (b *Bus) lastMessage(ctx context.Context, s *slots, stream, subject string) (raw, error) {
	return b.message(ctx, s, stream, messageRequest{Last: subject})
}

// messageRequest asks a stream's leader for one message: the last one of a subject, or
// the next one of it from a sequence on.
type messageRequest struct {
	Last string `json:"last_by_subj,omitempty"`
	Next string `json:"next_by_subj,omitempty"`
	Seq  uint64 `json:"seq,omitempty"`
}

// message is one message, with sequence 0 if there is none.
func (b *Bus) message(ctx context.Context, s *slots, stream string, ask messageRequest) (raw, error) {
	body, err := json.Marshal(ask)
	if err != nil {
		return raw{}, err
	}
	m, err := s.ask(ctx, &nats.Msg{Subject: streamGet + stream, Data: body}, answerLimit)
	if err != nil {
		return raw{}, err
	}
	var answer struct {
		Message *struct {
			Seq     uint64 `json:"seq"`
			Subject string `json:"subject"`
			Data    []byte `json:"data"`
		} `json:"message"`
		Error *apiError `json:"error"`
	}
	switch err := json.Unmarshal(m.Data, &answer); {
	case err != nil:
		return raw{}, fmt.Errorf("the answer %q is not JSON: %w", clip(m.Data), err)
	case answer.Message != nil:
		return raw{answer.Message.Seq, answer.Message.Subject, answer.Message.Data}, nil
	case answer.Error != nil && answer.Error.Code == 404 && answer.Error.ErrCode != codeNoStream:
		return raw{}, nil
	case answer.Error != nil && answer.Error.passes():
		return raw{}, fmt.Errorf("%w: %w", errNobody, answer.Error)
	}
	return raw{}, fmt.Errorf("read stream %s: the server answers %q", stream, clip(m.Data))
}

// find looks for a commit by its id among the turn's commits from one sequence
// to another, once the mirror has them.
func (b *Bus) find(ctx context.Context, turn events.TurnKey, from, to uint64, id string) (bus.Stored, bool, error) {
	found, err := b.loadFrom(ctx, turn, from, to)
	for _, s := range found {
		if s.Commit.ID == id {
			return s, true, nil
		}
	}
	return bus.Stored{}, false, err
}
