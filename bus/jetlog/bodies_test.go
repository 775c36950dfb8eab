package jetlog_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/bus/jetlog/jettest"
	"github.com/sluice-run/sluice/events"
)

// withField is a stored commit with a member that no release knows: its map has one
// more, at the end.
func withField(t *testing.T, c events.Commit) []byte {
	t.Helper()
	b, err := events.Encode(c)
	if err != nil {
		t.Fatal(err)
	}
	if b[0]&0xf0 != 0x80 || b[0] == 0x8f {
		t.Fatalf("a commit begins with %x: want a small map", b[0])
	}
	b[0]++
	return append(b, 0xa6, 'f', 'u', 't', 'u', 'r', 'e', 0x07)
}

// TestBodiesGoInAndComeOutAsTheyAre, those that cannot be decoded, too; what comes in
// must be a commit, at its place.
func TestBodiesGoInAndComeOutAsTheyAre(t *testing.T) {
	srv := jettest.Start(t)
	b := srv.Open(jetlog.Config{})
	k, other := turn("a", "t"), turn("b", "t")
	first, second := withField(t, note(k, "c1", 1)), withField(t, note(k, "c2", 2))
	s, err := b.AppendBody(t.Context(), first, 0)
	if err != nil || s.Seq != 1 || s.Commit.ID != "c1" {
		t.Fatalf("%+v, %v", s, err)
	}
	_, js := raw(t, srv.InProcess)
	if _, err := js.Publish(t.Context(), bus.EventSubject(other), []byte("no commit")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.AppendBody(t.Context(), second, 0); !errors.Is(err, bus.ErrConflict) {
		t.Errorf("at a place that is taken: %v", err)
	}
	if s, err = b.AppendBody(t.Context(), second, 1); err != nil || s.Seq != 3 {
		t.Fatalf("%+v, %v", s, err)
	}
	if s, err = b.AppendBody(t.Context(), second, 1); err != nil || s.Seq != 3 {
		t.Errorf("the same once more: %+v, %v", s, err)
	}
	all := map[uint64][]byte{1: first, 2: []byte("no commit"), 3: second}
	for f, want := range map[bus.Filter][]uint64{{}: {1, 2, 3}, {Trace: "a"}: {1, 3}, {Trace: "b", Turn: "t"}: {2}, {Trace: "c"}: nil} {
		var got []uint64
		err := b.ReadBodies(t.Context(), events.Position{}, f, func(at events.Position, turn events.TurnKey, body []byte) error {
			if got = append(got, at.Seq); !bytes.Equal(body, all[at.Seq]) || at.Generation != 1 || (turn == other) != (at.Seq == 2) {
				t.Errorf("%s of %s: %q", at, turn, body)
			}
			return nil
		})
		if err != nil || len(got) != len(want) {
			t.Errorf("%+v: %v, %v; want %v", f, got, err, want)
		}
	}
	enough := errors.New("enough")
	from := events.Position{Generation: 1, Seq: 3}
	err = b.ReadBodies(t.Context(), from, bus.Filter{}, func(at events.Position, _ events.TurnKey, _ []byte) error {
		if at != from {
			t.Errorf("from %s: %s", from, at)
		}
		return enough
	})
	if !errors.Is(err, enough) {
		t.Error(err)
	}
	refused(t, b)
}

// refused is what cannot be appended as it is.
func refused(t *testing.T, b *jetlog.Bus) {
	t.Helper()
	wide := note(turn("a", "t"), "c3", 3)
	wide.ID = strings.Repeat("x", 200)
	long, err := events.Encode(wide)
	if err != nil {
		t.Fatal(err)
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	for _, c := range []struct {
		name string
		ctx  context.Context
		body []byte
		want error
	}{
		{"no commit", t.Context(), []byte("no commit"), events.ErrFormat},
		{"a commit id that is no header", t.Context(), long, nil},
		{"nobody waits", ended, withField(t, note(turn("a", "t"), "c4", 3)), bus.ErrUnavailable},
	} {
		if _, err := b.AppendBody(c.ctx, c.body, 3); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := b.ReadBodies(t.Context(), events.Position{Generation: 9, Seq: 1}, bus.Filter{}, nil); !errors.Is(err, bus.ErrRewound) {
		t.Errorf("from a generation that is not this log's: %v", err)
	}
}
