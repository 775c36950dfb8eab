package jetlog

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"
)

// probeStream is made and deleted at every start.
const probeStream = "SLUICE_PROBE"

const (
	probeBytes = 12_000 // of a message
	probeRoom  = 90_000 // bytes of the stream: its blocks are then as small as the server makes them
	probeMsgs  = 12     // enough to fill the room and drop old blocks
)

// proveLayout returns an error unless the server keeps its streams as the
// barrier believes: each message is in the newest block of the files that the
// barrier would sync, whole, when it is acknowledged; blocks follow each other by
// number; and no stream of ours is kept in another way. sealed says that the store is
// encrypted: a message then cannot be seen, but that it was written can.
func proveLayout(ctx context.Context, js jetstream.JetStream, store string, sealed bool) (err error) {
	if err := provePlain(ctx, js); err != nil {
		return err
	}
	if err := js.DeleteStream(ctx, probeStream); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return streamError(probeStream, err)
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{
		Name: probeStream, Subjects: []string{"sluice.probe"}, Description: "Sluice: a look at how files are written",
		Storage: jetstream.FileStorage, MaxBytes: probeRoom, Discard: jetstream.DiscardOld, Replicas: 1, Duplicates: logWindow,
	})
	if err != nil {
		return streamError(probeStream, err)
	}
	f := newFiles(store, []string{probeStream})
	defer func() {
		f.close()
		if late := js.DeleteStream(ctx, probeStream); late != nil {
			err = errors.Join(err, streamError(probeStream, late))
		}
	}()
	for range probeMsgs {
		if err := proveWrite(ctx, js, f, sealed); err != nil {
			return err
		}
	}
	if s := f.streams[0]; s.index < 2 {
		return fmt.Errorf("%d messages of %d bytes are all in %s: no new block was begun", probeMsgs, probeBytes, s.path(s.index))
	}
	return nil
}

// proveWrite publishes a token and looks for it where a barrier would sync.
func proveWrite(ctx context.Context, js jetstream.JetStream, f *files, sealed bool) error {
	s := f.streams[0]
	wasIn, wasSize := s.index, s.flushed.size
	token := []byte(rand.Text() + rand.Text())
	body := append(make([]byte, probeBytes), token...)
	if _, err := js.Publish(ctx, "sluice.probe", body); err != nil {
		return streamError(probeStream, err)
	}
	if err := f.sync(); err != nil { // the barrier's own way of finding the newest block
		return err
	}
	if s.block == nil {
		return fmt.Errorf("%s has no block after an acknowledged message", s.folder)
	}
	path := s.path(s.index)
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("look for an acknowledged message: %w", err)
	}
	if s.index != wasIn {
		wasSize = 0
	}
	switch clear := bytes.Contains(text, token); {
	case sealed && clear:
		return fmt.Errorf("a message is in %s in clear, though the store is encrypted", path)
	case sealed && int64(len(text))-wasSize < probeBytes:
		return fmt.Errorf("an acknowledged message of %d bytes has made %s longer by %d: it was not written whole", len(body), path, int64(len(text))-wasSize)
	case !sealed && !clear:
		return fmt.Errorf("an acknowledged message is not in %s, which the barrier would sync", path)
	}
	return proveOpen(path)
}

// proveOpen sees that this process has the file open for writing, where the
// machine can tell: another file of that name would be another server's.
func proveOpen(path string) error {
	const fds = "/proc/self/fdinfo"
	entries, err := os.ReadDir(fds)
	if err != nil {
		return nil // no such thing on this machine
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("look for an open block: %w", err)
	}
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && target == real && writable(fds+"/"+e.Name()) {
			return nil
		}
	}
	return fmt.Errorf("the server has not opened %s for writing", path)
}

// writable reads the access mode from a descriptor's description.
func writable(fdinfo string) bool {
	text, err := os.ReadFile(fdinfo)
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(text, []byte("flags:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	flags, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 8, 64)
	return err == nil && flags&int64(os.O_WRONLY|os.O_RDWR) != 0
}

// provePlain sees that the streams of ours that exist are written at once, as
// they are.
func provePlain(ctx context.Context, js jetstream.JetStream) error {
	for _, name := range Streams() {
		s, err := js.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return streamError(name, err)
		}
		switch c := s.CachedInfo().Config; {
		case c.Storage != jetstream.FileStorage:
			return fmt.Errorf("stream %s is kept in memory", name)
		case c.Compression != jetstream.NoCompression:
			return fmt.Errorf("stream %s is compressed (%s)", name, c.Compression)
		case c.PersistMode != jetstream.DefaultPersistMode:
			return fmt.Errorf("stream %s is written late (persist mode %s)", name, c.PersistMode)
		}
	}
	return nil
}
