package jetlog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/bus/jetlog/jettest"
	"github.com/sluice-run/sluice/events"
)

// A write whose answer was lost is known again by its own id.
func TestPutAnswerLost(t *testing.T) {
	srv := jettest.Start(t)
	_, js := raw(t, srv.InProcess)
	p := startProxy(t, srv.URL())
	b := srv.Open(jetlog.Config{Connect: p.dial})
	for rev := range uint64(2) { // a new cell, and a change of it
		p.mute.Store(true)
		done := make(chan error, 1)
		var got uint64
		go func() {
			var err error
			got, err = b.Cells().Put(t.Context(), bus.BucketLock, "key", []byte{byte(rev)}, rev, 0)
			done <- err
		}()
		poll(t, "the server has the write", func() bool { return lastSeq(t, js, "KV_SLUICE_lock") == rev+1 })
		p.cut()
		p.mute.Store(false)
		if err := <-done; err != nil || got != rev+1 {
			t.Fatalf("put at %d: revision %d, %v; want %d", rev, got, err, rev+1)
		}
	}
	if last := lastSeq(t, js, "KV_SLUICE_lock"); last != 2 {
		t.Errorf("the bucket ends at %d: a write was made twice", last)
	}
}

// The same bytes are stored once, whoever puts them and however often.
func TestBlobOnce(t *testing.T) {
	srv := jettest.Start(t)
	b := srv.Open(jetlog.Config{})
	_, js := raw(t, srv.InProcess)
	data := bytes.Repeat([]byte("0123456789abcdef"), 40_000)
	ref, err := b.Blobs().Put(t.Context(), data, "")
	if err != nil {
		t.Fatal(err)
	}
	before := lastSeq(t, js, "OBJ_"+jetlog.BucketBlobs)
	if again, err := b.Blobs().Put(t.Context(), data, ""); err != nil || again != ref {
		t.Errorf("put again: %+v, %v, want %+v", again, err, ref)
	}
	if after := lastSeq(t, js, "OBJ_"+jetlog.BucketBlobs); after != before {
		t.Errorf("the same bytes were stored again: the stream ends at %d, not %d", after, before)
	}
	store, err := js.ObjectStore(t.Context(), jetlog.BucketBlobs)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := store.GetBytes(t.Context(), ref.Digest[len("sha256:"):]); err != nil || !bytes.Equal(got, data) {
		t.Errorf("another client reads %d bytes, %v", len(got), err)
	}
	other := events.BlobRef{Digest: "sha256:" + fmt.Sprintf("%064x", 1)}
	if _, err := store.PutBytes(t.Context(), other.Digest[len("sha256:"):], []byte("not that")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Blobs().Get(t.Context(), other); err == nil || errors.Is(err, bus.ErrNotFound) {
		t.Errorf("get of damaged bytes: %v, want another error", err)
	}
}

// Of many who put the same bytes at once one prevails, nobody who reads them
// meanwhile is disturbed, and what the others wrote is taken back.
func TestBlobRace(t *testing.T) {
	srv := jettest.Start(t)
	buses := []*jetlog.Bus{srv.Open(jetlog.Config{}), srv.Open(jetlog.Config{})}
	_, js := raw(t, srv.InProcess)
	const rounds, chunks = 10, 5
	for round := range rounds {
		data := bytes.Repeat([]byte{byte(round)}, chunks*128<<10-1)
		var wg sync.WaitGroup
		for i := range 8 {
			b := buses[i%2]
			wg.Go(func() {
				ref, err := b.Blobs().Put(t.Context(), data, "")
				if err != nil {
					t.Errorf("put: %v", err)
					return
				}
				if got, err := b.Blobs().Get(t.Context(), ref); err != nil || !bytes.Equal(got, data) {
					t.Errorf("get: %d bytes, %v", len(got), err)
				}
			})
		}
		wg.Wait()
	}
	s, err := js.Stream(t.Context(), "OBJ_"+jetlog.BucketBlobs)
	if err != nil {
		t.Fatal(err)
	}
	if n := s.CachedInfo().State.Msgs; n != rounds*(chunks+1) {
		t.Errorf("%d messages are in the store, want %d", n, rounds*(chunks+1))
	}
}

// Where the server says that nobody listens, nothing is encoded or sent.
func TestLiveInterest(t *testing.T) {
	srv := jettest.Start(t)
	var asked atomic.Int64
	var listens atomic.Bool
	b := srv.Open(jetlog.Config{SubjectInterest: func(string) bool { asked.Add(1); return listens.Load() }})
	s, err := b.Append(t.Context(), note(turn("a", "1"), "c1", 1), 0)
	if err != nil {
		t.Fatal(err)
	}
	nc, _ := raw(t, srv.InProcess)
	sub, err := nc.SubscribeSync(bus.LivePrefix + ">")
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(t.Context(), s, nil); err != nil || asked.Load() != 1 {
		t.Fatalf("publish: %v, interest asked for %d times", err, asked.Load())
	}
	listens.Store(true)
	if err := b.Publish(t.Context(), s, nil); err != nil {
		t.Fatal(err)
	}
	m, err := sub.NextMsg(10 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var ce struct{ ID, Type, Subject string }
	if err := json.Unmarshal(m.Data, &ce); err != nil {
		t.Fatal(err)
	}
	if ce.ID != "1.1.0" || ce.Type != "run.sluice.model_started.v1" || ce.Subject != "a/1" {
		t.Errorf("heard %+v", ce)
	}
	if n, _, err := sub.Pending(); err != nil || n != 0 {
		t.Errorf("%d more were sent, %v", n, err)
	}
}

// A listener that falls behind loses events, and it is counted.
func TestListenSlow(t *testing.T) {
	srv := jettest.Start(t)
	b := srv.Open(jetlog.Config{})
	nc, _ := raw(t, srv.InProcess)
	ctx, stop := context.WithCancel(t.Context())
	hold, first := make(chan struct{}), make(chan struct{})
	var once sync.Once
	ended := make(chan error, 1)
	go func() {
		ended <- b.Listen(ctx, ">", func(string, []byte) {
			once.Do(func() { close(first) })
			<-hold
		})
	}()
	body := bytes.Repeat([]byte("x"), 512<<10)
	poll(t, "the listener hears", func() bool {
		if err := nc.Publish(bus.LivePrefix+"x", body); err != nil {
			t.Fatal(err)
		}
		select {
		case <-first:
			return true
		default:
			return false
		}
	})
	for range 200 { // more than a subscription holds
		if err := nc.Publish(bus.LivePrefix+"x", body); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	close(hold)
	poll(t, "the loss is counted", func() bool { return b.Missed() > 0 })
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("listen ends with %v", err)
	}
}

// A question that takes long does not keep others waiting.
func TestServeAtOnce(t *testing.T) {
	b := one(t, jetlog.Config{})
	ctx, stop := context.WithCancel(t.Context())
	slow, free := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- b.Serve(ctx, "boot", func(q []byte) []byte {
			if string(q) == "slow" {
				close(slow)
				<-free
			}
			return q
		})
	}()
	poll(t, "somebody answers", func() bool { _, err := b.Ask(t.Context(), "boot", []byte("?")); return err == nil })
	answered := make(chan error, 1)
	go func() { _, err := b.Ask(t.Context(), "boot", []byte("slow")); answered <- err }()
	<-slow
	if _, err := b.Ask(t.Context(), "boot", []byte("quick")); err != nil {
		t.Errorf("a quick question behind a slow one: %v", err)
	}
	close(free)
	if err := <-answered; err != nil {
		t.Errorf("the slow question: %v", err)
	}
	stop()
	<-ended
}
