package jetlog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/oklog/ulid/v2"

	"github.com/sluice-run/sluice/bus"
)

// cells keeps them in key-value buckets.
type cells struct{ bus *Bus }

// Cells are the cluster's.
func (b *Bus) Cells() bus.Cells { return cells{b} }

func (c cells) bucket(bucket, key string) (jetstream.KeyValue, error) {
	kv := c.bus.kv[bucket]
	if kv == nil {
		return nil, fmt.Errorf("no bucket %q", bucket)
	}
	return kv, checkKey(key)
}

func checkKey(key string) error {
	bad := len(key) == 0 || len(key) > bus.MaxCellKey || key[0] == '.' || key[len(key)-1] == '.' || strings.Contains(key, "..")
	for i := range len(key) {
		c := key[i]
		bad = bad || !(c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("_-=/.", c) >= 0)
	}
	if bad {
		return fmt.Errorf("key %q must be 1 to 200 of A-Z a-z 0-9 _ - = / . with no empty part between dots", clip([]byte(key)))
	}
	return nil
}

// Get is bus.Cells'.
func (c cells) Get(ctx context.Context, bucket, key string) (bus.Cell, error) {
	kv, err := c.bucket(bucket, key)
	if err != nil {
		return bus.Cell{}, fmt.Errorf("get cell: %w", err)
	}
	one, stop := context.WithTimeout(ctx, answerLimit) // a leader that goes may leave a question unanswered
	defer stop()
	e, err := kv.Get(one, key)
	if err != nil {
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			err = bus.ErrNotFound
		}
		return bus.Cell{}, fmt.Errorf("get cell %s/%s: %w", bucket, key, readError(ctx, err))
	}
	cell := bus.Cell{Key: key, Value: nonNil(e.Value()), Revision: e.Revision()}
	if cell.Revision <= c.bus.left[bucket] {
		cell.Left = e.Created()
	}
	return cell, nil
}

func nonNil(v []byte) []byte {
	if v == nil {
		return []byte{}
	}
	return v
}

// Put is bus.Cells'. The server counts a TTL in whole seconds; it is rounded up.
func (c cells) Put(ctx context.Context, bucket, key string, value []byte, rev uint64, ttl time.Duration) (uint64, error) {
	if _, err := c.bucket(bucket, key); err != nil {
		return 0, fmt.Errorf("put cell: %w", err)
	}
	h := nats.Header{}
	if ttl < 0 || ttl > 0 && ttl < time.Second {
		return 0, fmt.Errorf("put cell %s/%s: a time to live of %v cannot be kept: use 1s at least, or 0 for ever", bucket, key, ttl)
	}
	if ttl > 0 {
		h[headerTTL] = []string{seconds(ttl)}
	}
	got, err := c.swap(ctx, bucket, key, value, h, rev)
	if err != nil {
		return 0, fmt.Errorf("put cell %s/%s at revision %d: %w", bucket, key, rev, err)
	}
	return got, nil
}

func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10) + "s"
}

// Delete is bus.Cells'. The marker that it leaves for watchers goes by itself.
func (c cells) Delete(ctx context.Context, bucket, key string, rev uint64) error {
	if _, err := c.bucket(bucket, key); err != nil {
		return fmt.Errorf("delete cell: %w", err)
	}
	if rev == 0 {
		return fmt.Errorf("delete cell %s/%s: %w", bucket, key, bus.ErrConflict)
	}
	h := nats.Header{headerKVOperation: {"PURGE"}, headerRollup: {"sub"}, headerTTL: {seconds(markerTTL)}}
	if _, err := c.swap(ctx, bucket, key, nil, h, rev); err != nil {
		return fmt.Errorf("delete cell %s/%s at revision %d: %w", bucket, key, rev, err)
	}
	return nil
}

// swap writes where the key's last revision is rev; with rev 0, also over the
// marker of a cell that was deleted or has expired. Each write has an id, so
// that a try whose answer was lost is known again.
func (c cells) swap(ctx context.Context, bucket, key string, value []byte, h nats.Header, rev uint64) (uint64, error) {
	w := write{stream: c.bus.cells[bucket], id: ulid.Make().String(), rev: rev, expect: rev}
	h[headerWrite] = []string{w.id}
	m := &nats.Msg{Subject: cellSubject(bucket, key), Data: value, Header: h}
	pause := backoff{time.Millisecond, 100 * time.Millisecond}
	for {
		h[headerExpect] = []string{strconv.FormatUint(w.expect, 10)}
		a, err := c.bus.puts.try(ctx, m)
		if err == nil {
			return a.seq, nil
		}
		if seq, done, err := w.judge(ctx, m.Subject, err); done {
			return seq, err
		}
		if late := pause.wait(ctx); late != nil {
			return 0, w.giveUp(errors.Join(err, late))
		}
	}
}

func cellSubject(bucket, key string) string { return "$KV." + bucketPrefix + bucket + "." + key }

// headerWrite tells one write to a cell from another.
const headerWrite = "Sluice-Write"

// write is a compare-and-swap on a cell that is under way.
type write struct {
	stream jetstream.Stream
	id     string
	rev    uint64 // what the caller expects
	expect uint64 // what the server is told to expect: rev, or the revision of a marker
	unsure bool   // a try may have been kept
}

// judge says what a failed try means: done, or to be tried again.
func (w *write) judge(ctx context.Context, subject string, err error) (seq uint64, done bool, out error) {
	var refused *apiError
	if !errors.As(err, &refused) {
		w.unsure = w.unsure || !errors.Is(err, errNotSent) && !errors.Is(err, errNobody)
		return 0, errors.Is(err, nats.ErrConnectionClosed), w.giveUp(err)
	}
	if refused.passes() {
		return 0, false, nil
	}
	last, ok := refused.wrongLast()
	if !ok {
		return 0, true, refused
	}
	if !w.unsure && w.rev != 0 {
		return 0, true, &bus.Conflict{Last: last}
	}
	one, stop := context.WithTimeout(ctx, answerLimit)
	defer stop()
	m, err := w.stream.GetLastMsgForSubject(one, subject)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		w.expect = 0 // the marker has just gone
		return 0, w.rev != 0, &bus.Conflict{}
	case err != nil: // what is there cannot be seen now: the next try is refused again, and asks again
		return 0, ctx.Err() != nil || errors.Is(err, nats.ErrConnectionClosed), w.giveUp(err)
	case m.Header.Get(headerWrite) == w.id:
		return m.Sequence, true, nil
	case w.rev == 0 && isMarker(m.Header):
		w.expect = m.Sequence
		return 0, false, nil
	}
	return 0, true, &bus.Conflict{Last: m.Sequence}
}

// giveUp is the error of a write that nothing has settled in time.
func (w *write) giveUp(err error) error {
	if w.unsure {
		return fmt.Errorf("%w: %w", bus.ErrUncertain, err)
	}
	return fmt.Errorf("%w: %w", bus.ErrUnavailable, err)
}

// isMarker says whether a message stands for a cell that is no more.
func isMarker(h nats.Header) bool {
	op := h.Get(headerKVOperation)
	return op == "DEL" || op == "PURGE" || h.Get(jetstream.MarkerReasonHeader) != ""
}

// Watch is bus.Cells'. Where the server cannot be reached for a while, changes
// that were overtaken in between may not be told one by one, and what has not
// changed may be told again.
func (c cells) Watch(ctx context.Context, bucket, prefix string, yield func(bus.Cell) error) error {
	kv := c.bus.kv[bucket]
	if kv == nil {
		return fmt.Errorf("watch cells: no bucket %q", bucket)
	}
	ctx, stop := c.bus.ctxOf(ctx)
	defer stop()
	w := watch{kv: kv, link: c.bus.scan, prefix: prefix, yield: yield}
	pause := backoff{10 * time.Millisecond, time.Second}
	for {
		err := w.run(ctx)
		switch {
		case w.refused:
			return err
		case ctx.Err() != nil:
			return readError(ctx, err)
		}
		if err = readError(ctx, err); !w.begun || !errors.Is(err, bus.ErrUnavailable) {
			return fmt.Errorf("watch bucket %s: %w", bucket, err)
		}
		if late := pause.wait(ctx); late != nil {
			return context.Cause(ctx)
		}
	}
}

// watch is a watch over more than one subscription: the client's own would notice
// only after twenty seconds that its server was started again.
type watch struct {
	kv      jetstream.KeyValue
	link    *link
	prefix  string
	yield   func(bus.Cell) error
	begun   bool // yield was told that it has seen all that there was
	refused bool // yield has returned an error
}

// run watches until the connection is lost, or yield or ctx ends it.
func (w *watch) run(ctx context.Context) error {
	loss := w.link.loss()
	open, stop := endless(ctx)
	defer stop()
	sub, err := w.kv.Watch(open, watchPattern(w.prefix))
	if err != nil {
		return err
	}
	defer func() { _ = sub.Stop() }() // fails only on a closed connection
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-loss:
			return errLinkLost
		case e, ok := <-sub.Updates():
			if !ok {
				return fmt.Errorf("%w: the subscription ended", errLinkLost)
			}
			if e == nil && w.begun {
				continue // said before
			}
			cell, tell := cellOf(e, w.prefix, w.begun)
			w.begun = w.begun || e == nil
			if !tell {
				continue
			}
			if err := w.yield(cell); err != nil {
				w.refused = true
				return err
			}
		}
	}
}

// endless ends with ctx and has no deadline: the client gives up a request by itself then,
// and otherwise waits for as long as the caller does where nobody answers.
func endless(ctx context.Context) (context.Context, func()) {
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	return own, func() { stop(); cancel(nil) }
}

// cellOf is what a watcher is told of an entry; nil is the end of what there was.
func cellOf(e jetstream.KeyValueEntry, prefix string, begun bool) (c bus.Cell, tell bool) {
	switch {
	case e == nil:
		return bus.Cell{}, true
	case !strings.HasPrefix(e.Key(), prefix):
		return bus.Cell{}, false
	case e.Operation() != jetstream.KeyValuePut:
		return bus.Cell{Key: e.Key(), Revision: e.Revision()}, begun
	}
	return bus.Cell{Key: e.Key(), Value: nonNil(e.Value()), Revision: e.Revision()}, true
}

// watchPattern is the narrowest pattern of whole parts that covers a prefix.
func watchPattern(prefix string) string {
	i := strings.LastIndexByte(prefix, '.')
	if checkKey(prefix[:max(i, 0)]) != nil {
		return ">"
	}
	return prefix[:i+1] + ">"
}
