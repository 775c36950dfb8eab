package jetlog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// Names of the streams and buckets. Everything that Sluice keeps is in them.
const (
	StreamLog    = "SLUICE"        // the truth
	StreamRead   = "SLUICE_READ"   // its mirror, for cold reads
	StreamTurns  = "SLUICE_TURNS"  // the queue: turns that wait, and wake-ups
	StreamTimers = "SLUICE_TIMERS" // messages with a time
	BucketBlobs  = "SLUICE_BLOBS"  // the object store
	bucketPrefix = "SLUICE_"       // of the buckets of cells
	streamBlobs  = "OBJ_" + BucketBlobs
)

// Streams are the names of all streams, those behind buckets included: what a
// barrier has to cover.
func Streams() []string {
	all := []string{StreamLog, StreamRead, StreamTurns, StreamTimers, streamBlobs}
	for _, b := range bus.Buckets {
		all = append(all, kvStream(b))
	}
	return all
}

func kvStream(bucket string) string { return "KV_" + bucketPrefix + bucket }

// Metadata of streams.
const (
	metaFormat      = "sluice-format"      // of the log
	metaGenerations = "sluice-generations" // see spans.String
)

const (
	dueSubjects = "sluice.due." // <trace>.<turn>: timers that have fired, on their way to the queue
	logWindow   = 100 * time.Millisecond
	turnsWindow = 2 * time.Second
	markerTTL   = time.Minute // how long a deleted cell's marker is seen by watchers
	firedTTL    = "1h"        // how long a fired timer waits to be sourced, which takes milliseconds
)

// logConfig and its siblings are what each stream should be. Fields that an
// operator may have changed on purpose are left alone; see drift.
func (c Config) logConfig(gens spans) jetstream.StreamConfig {
	s := c.stream(StreamLog, bus.EventPrefix+">")
	s.Description = "Sluice: the log, one subject a turn"
	s.MaxAge = c.Retention
	s.Duplicates = logWindow
	s.DenyDelete = true
	if gens != nil {
		s.Metadata[metaGenerations] = gens.String()
	}
	return s
}

func (c Config) readConfig() jetstream.StreamConfig {
	s := c.stream(StreamRead)
	s.Description = "Sluice: mirror of the log, for reading"
	s.MaxAge = c.Retention
	s.AllowDirect = true
	s.Mirror = &jetstream.StreamSource{Name: StreamLog}
	return s
}

func (c Config) timersConfig() jetstream.StreamConfig {
	s := c.stream(StreamTimers, bus.TimerPrefix+">", dueSubjects+">")
	s.Description = "Sluice: timers"
	s.MaxMsgsPerSubject = 1
	s.AllowMsgSchedules = true
	s.Discard = jetstream.DiscardOld // schedules allow no other; there is no limit to reach
	s.AllowMsgTTL = true
	s.AllowRollup = true
	s.Duplicates = logWindow
	return s
}

func (c Config) turnsConfig() jetstream.StreamConfig {
	s := c.stream(StreamTurns, bus.QueuePrefix+">", bus.WakePrefix+">")
	s.Description = "Sluice: turns that wait for a node, and wake-ups"
	s.Retention = jetstream.WorkQueuePolicy
	s.Duplicates = turnsWindow
	s.Sources = []*jetstream.StreamSource{{
		Name:              StreamTimers,
		SubjectTransforms: []jetstream.SubjectTransformConfig{{Source: dueSubjects + ">", Destination: bus.WakePrefix + ">"}},
	}}
	return s
}

// cellsConfig follows the conventions of a key-value bucket. A bucket that is
// replicated is read through its leader: a follower may be behind, and a lock
// that is read from it could be one that is no more.
func (c Config) cellsConfig(bucket string) jetstream.StreamConfig {
	name := bucketPrefix + bucket
	s := c.stream(kvStream(bucket), "$KV."+name+".>")
	s.Description = "Sluice: " + bucket
	s.MaxMsgsPerSubject = 1
	s.AllowRollup = true
	s.DenyDelete = true
	s.AllowDirect = c.replicas() == 1
	s.AllowMsgTTL = true
	s.SubjectDeleteMarkerTTL = markerTTL
	s.Duplicates = logWindow
	return s
}

func (c Config) blobsConfig() jetstream.StreamConfig {
	s := c.stream(streamBlobs, chunkPrefix+">", metaPrefix+">")
	s.Description = "Sluice: large bodies, by digest"
	s.AllowRollup = true
	s.AllowDirect = true // what a follower may not have yet is asked of the leader
	s.Duplicates = logWindow
	return s
}

func (c Config) stream(name string, subjects ...string) jetstream.StreamConfig {
	s := jetstream.StreamConfig{
		Name: name, Subjects: subjects, Replicas: c.replicas(),
		Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgsPerSubject: -1,
		Metadata: map[string]string{metaFormat: strconv.Itoa(events.Format)},
	}
	if c.Memory {
		s.Storage = jetstream.MemoryStorage
	}
	return s
}

// ensure makes what is missing, in the order of what depends on what, and
// returns the log's generations.
func ensure(ctx context.Context, js jetstream.JetStream, c Config) (spans, error) {
	info, err := ensureStream(ctx, js, c, c.logConfig(spans(c.Generations)))
	if err != nil {
		return nil, err
	}
	c.Retention = info.Config.MaxAge // the mirror keeps what the log keeps
	gens, err := parseSpans(info.Config.Metadata[metaGenerations])
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", StreamLog, err)
	}
	rest := []jetstream.StreamConfig{c.readConfig(), c.timersConfig(), c.turnsConfig(), c.blobsConfig()}
	for _, bucket := range bus.Buckets {
		rest = append(rest, c.cellsConfig(bucket))
	}
	for _, want := range rest {
		if _, err := ensureStream(ctx, js, c, want); err != nil {
			return nil, err
		}
	}
	return gens, nil
}

// ensureStream makes a stream, or sees that the one that exists will do. Several
// nodes may be at it at once.
func ensureStream(ctx context.Context, js jetstream.JetStream, c Config, want jetstream.StreamConfig) (info *jetstream.StreamInfo, err error) {
	return info, insist(ctx, func(one context.Context) error {
		info, err = ensureOnce(one, js, c, want)
		return err
	})
}

// electing is how long an opening waits for a cluster that elects.
const electing = 30 * time.Second

// insist repeats a request of an opening while the cluster is electing, when it may not
// be answered at all. Each try has a limit of its own.
func insist(ctx context.Context, try func(context.Context) error) error {
	ctx, stop := context.WithTimeoutCause(ctx, electing, fmt.Errorf("%w: it has no leader", bus.ErrUnavailable))
	defer stop()
	pause := backoff{20 * time.Millisecond, time.Second}
	for {
		one, end := context.WithTimeout(ctx, answerLimit)
		err := try(one)
		end()
		if err == nil || !busy(err) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrTimeout) {
			return err
		}
		if pause.wait(ctx) != nil {
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

func ensureOnce(ctx context.Context, js jetstream.JetStream, c Config, want jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	s, err := js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = js.CreateStream(ctx, want)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			s, err = js.Stream(ctx, want.Name) // another node was faster
		}
	}
	if err != nil {
		return nil, streamError(want.Name, err)
	}
	have := s.CachedInfo()
	if want.Name == StreamLog {
		if want.MaxAge, err = c.retain(have.Config.MaxAge); err != nil {
			return have, err
		}
	}
	next, changed, err := drift(have.Config, want)
	if err != nil || !changed {
		return have, err
	}
	if s, err = js.UpdateStream(ctx, next); err != nil {
		return nil, streamError(want.Name, err)
	}
	if want.Name == StreamLog {
		c.sayRetention(have, s.CachedInfo().Config.MaxAge)
	}
	return s.CachedInfo(), nil
}

// codeNoPeers is the server's error where fewer servers than replicas can be reached,
// which passes where one of them has only been slow.
const codeNoPeers = 10005

// busy says whether an error is of the moment: a cluster that elects, or that
// has not told everybody yet.
func busy(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return leaderless(err) || ok && api.ErrorCode == codeNoPeers || errors.Is(err, jetstream.ErrStreamNameAlreadyInUse)
}

// alone says whether the server has refused replicas since it is in no cluster.
func alone(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.ErrorCode == codeAlone
}

func streamError(name string, err error) error {
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount),
		errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("stream %s: %w: JetStream is not enabled: start the server with -js, and enable it for the account: %w",
			name, bus.ErrUnavailable, err)
	case alone(err):
		return fmt.Errorf("stream %s: %w: %w", name, errAlone, err)
	case errors.Is(err, jetstream.ErrStreamSubjectTransformNotSupported), errors.Is(err, jetstream.ErrStreamSourceNotSupported):
		return fmt.Errorf("stream %s: the server is too old: use nats-server 2.12 or newer: %w", name, err)
	}
	return fmt.Errorf("stream %s: %w", name, unavailable(err))
}

// drift compares a stream with what it should be. It returns the configuration
// to change it to, if it must change, or an error if it cannot serve.
func drift(have, want jetstream.StreamConfig) (jetstream.StreamConfig, bool, error) {
	fail := func(format string, args ...any) (jetstream.StreamConfig, bool, error) {
		return have, false, fmt.Errorf("stream %s exists, but "+format, append([]any{have.Name}, args...)...)
	}
	if f, err := strconv.Atoi(have.Metadata[metaFormat]); err == nil && f > events.Format {
		return fail("has format %d, and this release reads up to %d: %w", f, events.Format, events.ErrNewerFormat)
	}
	switch {
	case have.Storage != want.Storage:
		return fail("its storage is %s, not %s: delete it, or start a server with another store", have.Storage, want.Storage)
	case have.Retention != want.Retention:
		return fail("its retention is %s, not %s: is it another program's?", have.Retention, want.Retention)
	case !sameSet(have.Subjects, want.Subjects):
		return fail("its subjects are %q, not %q: is it another program's?", have.Subjects, want.Subjects)
	case (have.Mirror == nil) != (want.Mirror == nil) || have.Mirror != nil && have.Mirror.Name != want.Mirror.Name:
		return fail("it is not the mirror that it should be: delete it, it will be made anew from the log")
	case have.MaxMsgsPerSubject != want.MaxMsgsPerSubject:
		return fail("it keeps %d messages a subject, not %d: is it another program's?", have.MaxMsgsPerSubject, want.MaxMsgsPerSubject)
	}
	next := have
	next.Metadata = maps.Clone(have.Metadata)
	changed := mend(&next, want)
	for k, v := range want.Metadata {
		if have.Metadata[k] != v {
			if next.Metadata == nil {
				next.Metadata = map[string]string{}
			}
			next.Metadata[k] = v
			changed = true
		}
	}
	return next, changed, nil
}

// mend sets the fields that must be as we want them and can be changed later.
func mend(next *jetstream.StreamConfig, want jetstream.StreamConfig) (changed bool) {
	set := func(have *bool, want bool) {
		if want && !*have {
			*have, changed = true, true
		}
	}
	set(&next.AllowMsgTTL, want.AllowMsgTTL)
	set(&next.AllowRollup, want.AllowRollup)
	set(&next.AllowMsgSchedules, want.AllowMsgSchedules)
	if want.Name == StreamRead || want.Name == streamBlobs {
		set(&next.AllowDirect, true)
	}
	if next.Replicas < want.Replicas {
		next.Replicas, changed = want.Replicas, true
		next.AllowDirect = want.AllowDirect
	}
	if (want.Name == StreamLog || want.Name == StreamRead) && next.MaxAge != want.MaxAge {
		next.MaxAge, changed = want.MaxAge, true
	}
	if want.SubjectDeleteMarkerTTL != 0 && next.SubjectDeleteMarkerTTL == 0 {
		next.SubjectDeleteMarkerTTL, changed = want.SubjectDeleteMarkerTTL, true
	}
	if len(want.Sources) > 0 && len(next.Sources) == 0 {
		next.Sources, changed = want.Sources, true
	}
	if next.Name == StreamLog && next.AllowDirect {
		next.AllowDirect, changed = false, true // a direct get on the hot stream stops its appends
	}
	return changed
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
