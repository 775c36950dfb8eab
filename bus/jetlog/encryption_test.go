package jetlog

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events"
)

// Keys of stores.
var (
	firstKey  = []byte("the first key of a test 32 bytes")
	secondKey = []byte("another key that has 32 bytes, 2")
)

// clearIn are the files below a directory that hold a text as it is.
func clearIn(t *testing.T, dir, text string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(text)) {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// visit opens the store, appends commits, and closes it. It returns the ids that the
// log then has.
func visit(t *testing.T, sc ServerConfig, prefix string, n int) string {
	t.Helper()
	b, s, err := OpenEmbedded(t.Context(), sc, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, b, s)
	if mode := s.Barrier().Mode(); mode != SyncBarrier {
		t.Errorf("durability is %s, want %s: the layout was not believed", mode, SyncBarrier)
	}
	last := uint64(0)
	head, err := b.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stored, err := b.Load(t.Context(), testTurn, head.Seq-1) // the mirror may have to catch up
	if err != nil {
		t.Fatal(err)
	}
	if len(stored) > 0 {
		last = stored[len(stored)-1].Seq
	}
	commits(t, b, prefix, n, last)
	if _, err := b.Blobs().Put(t.Context(), []byte(strings.Repeat("blob-in-clear ", 100)), ""); err != nil {
		t.Error(err)
	}
	if err := s.Barrier().Wait(t.Context()); err != nil {
		t.Error(err)
	}
	return heldIDs(t, b)
}

func TestEncryptedStore(t *testing.T) {
	sc := ServerConfig{Dir: t.TempDir(), Keys: [][]byte{firstKey}}
	visit(t, sc, "aaaa", 3)
	for _, text := range []string{strings.Repeat("aaaa", 4), "blob-in-clear", string(firstKey)} {
		if found := clearIn(t, sc.Dir, text); found != nil {
			t.Errorf("%q stands in clear in %v", text, found)
		}
	}
	for name, key := range map[string][][]byte{"no key": nil, "another key": {secondKey}} {
		before := clearIn(t, sc.Dir, "")
		_, _, err := OpenEmbedded(t.Context(), ServerConfig{Dir: sc.Dir, Keys: key}, Config{})
		if !errors.Is(err, ErrEncryption) || !strings.Contains(err.Error(), "--encrypt-key") {
			t.Errorf("%s: %v, want ErrEncryption and what to do", name, err)
		}
		if after := clearIn(t, sc.Dir, ""); len(after) != len(before) {
			t.Errorf("%s: files were %v, are %v", name, before, after)
		}
	}
	if got := visit(t, sc, "bbbb", 1); got != "aaaa0 aaaa1 aaaa2 bbbb0" {
		t.Errorf("the log has %q", got)
	}
}

func TestEncryptionIsSwitchedOn(t *testing.T) {
	sc := ServerConfig{Dir: t.TempDir()}
	visit(t, sc, "aaaa", 3)
	if clearIn(t, sc.Dir, strings.Repeat("aaaa", 4)) == nil {
		t.Fatal("nothing stands in clear in a store that is not encrypted: the test sees nothing")
	}
	sc.Keys, sc.KeepClear = [][]byte{firstKey}, true
	if _, _, err := OpenEmbedded(t.Context(), sc, Config{}); !errors.Is(err, ErrEncryption) {
		t.Errorf("who only looks: %v, want ErrEncryption", err)
	}
	if clearIn(t, sc.Dir, strings.Repeat("aaaa", 4)) == nil {
		t.Error("who only looks has encrypted it")
	}
	sc.KeepClear = false
	if got := visit(t, sc, "bbbb", 1); got != "aaaa0 aaaa1 aaaa2 bbbb0" {
		t.Errorf("the log has %q", got)
	}
	if found := clearIn(t, sc.Dir, strings.Repeat("aaaa", 4)); found != nil {
		t.Errorf("what was there before stands in clear in %v", found)
	}
}

func TestEncryptionKeyIsChanged(t *testing.T) {
	sc := ServerConfig{Dir: t.TempDir(), Keys: [][]byte{firstKey}}
	visit(t, sc, "aaaa", 2)
	sc.Keys = [][]byte{secondKey, firstKey}
	visit(t, sc, "bbbb", 1)
	sc.Keys = [][]byte{secondKey}
	if got := visit(t, sc, "cccc", 1); got != "aaaa0 aaaa1 bbbb0 cccc0" {
		t.Errorf("the log has %q", got)
	}
	_, _, err := OpenEmbedded(t.Context(), ServerConfig{Dir: sc.Dir, Keys: [][]byte{firstKey}}, Config{})
	if !errors.Is(err, ErrEncryption) {
		t.Errorf("the old key alone: %v, want ErrEncryption", err)
	}
}

func TestEncryptedStoreWithoutItsMark(t *testing.T) {
	sc := ServerConfig{Dir: t.TempDir(), Keys: [][]byte{firstKey}}
	visit(t, sc, "aaaa", 2)
	mark := filepath.Join(sc.Dir, encryptedName)
	was, err := os.ReadFile(mark)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range [][]byte{nil, []byte("{}")} {
		err := os.Remove(mark)
		if text != nil {
			err = os.WriteFile(mark, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := OpenEmbedded(t.Context(), sc, Config{}); !errors.Is(err, ErrEncryption) || !strings.Contains(err.Error(), "put it back") {
			t.Errorf("mark %q: %v, want ErrEncryption and what to do", text, err)
		}
		if err := os.WriteFile(mark, was, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := visit(t, sc, "bbbb", 1); got != "aaaa0 aaaa1 bbbb0" {
		t.Errorf("the log has %q", got)
	}
}

// TestEncryptedStoreAfterACrash opens a copy of the store as it was on the disk behind
// a barrier, while its server went on.
func TestEncryptedStoreAfterACrash(t *testing.T) {
	sc := ServerConfig{Dir: t.TempDir(), Keys: [][]byte{firstKey}}
	b, s := opened(t, sc)
	last := commits(t, b, "aaaa", 50, 0)
	if err := s.Barrier().Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	copied := ServerConfig{Dir: t.TempDir(), Keys: [][]byte{firstKey}}
	if err := os.CopyFS(filepath.Join(copied.Dir, "jetstream"), os.DirFS(filepath.Join(sc.Dir, "jetstream"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{encryptedName, markerName} {
		text, err := os.ReadFile(filepath.Join(sc.Dir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(copied.Dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	commits(t, b, "bbbb", 1, last)
	got := strings.Fields(visit(t, copied, "cccc", 1))
	if len(got) < 51 || got[49] != "aaaa49" {
		t.Errorf("the copy has %d commits: %v", len(got), got)
	}
}

func TestEncryptionKeysAreChecked(t *testing.T) {
	for name, sc := range map[string]ServerConfig{
		"short": {Keys: [][]byte{[]byte("short")}}, "short old": {Keys: [][]byte{firstKey, []byte("short")}},
	} {
		sc.Dir = t.TempDir()
		if _, err := StartServer(t.Context(), sc); err == nil || !strings.Contains(err.Error(), "key") {
			t.Errorf("%s: %v, want an error about the key", name, err)
		}
	}
}

func BenchmarkEncryptedAppend(b *testing.B) {
	for name, key := range map[string][][]byte{"clear": nil, "aes": {firstKey}} {
		b.Run(name, func(b *testing.B) {
			log, s, err := OpenEmbedded(b.Context(), ServerConfig{Dir: b.TempDir(), Keys: key}, Config{})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = errors.Join(log.Close(), s.Close()) }()
			body := strings.Repeat("x", 1500)
			at, n := uint64(0), 0
			for b.Loop() {
				n++
				stored, err := log.Append(b.Context(), events.Commit{
					ID: "c" + strings.Repeat("0", n%7), Turn: testTurn,
					Records: []events.Record{{Seq: uint32(n), Event: &events.Progress{Attempt: 1, Text: body}}},
				}, at)
				if err != nil {
					b.Fatal(err)
				}
				at = stored.Seq
			}
		})
	}
}
