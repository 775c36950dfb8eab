package archive

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// long is an archive of one trace of so many commits, of one event of about 300 bytes.
func long(b *testing.B, commits int) []byte {
	b.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, Options{})
	if err == nil {
		err = w.Begin("long")
	}
	for i := 0; i < commits && err == nil; i++ {
		key := events.TurnKey{Trace: "long", Turn: fmt.Sprintf("t%d", i/8)}
		err = w.Add(b.Context(), Commit{at(uint64(3*i + 1)), key, commitOf(key, fmt.Sprint(i), events.Body{Text: fmt.Sprintf(`{"path":"src/file%d.go","text":%q}`, i, key)})}, nil)
	}
	if err == nil {
		_, err = w.Close()
	}
	if err != nil {
		b.Fatal(err)
	}
	return out.Bytes()
}

// BenchmarkWrite writes commits, a trace of 50 000.
func BenchmarkWrite(b *testing.B) {
	for b.Loop() {
		b.SetBytes(int64(len(long(b, 50_000))))
	}
}

// BenchmarkSeek reads the first commit from a random place in a trace of 50 000.
func BenchmarkSeek(b *testing.B) {
	file := long(b, 50_000)
	r, err := NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	rnd := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		err := r.Read(b.Context(), at(rnd.Uint64N(150_000)+1), bus.Filter{Trace: "long"}, false, func(bus.Stored) error { return errEnough })
		if err != nil && !errors.Is(err, errEnough) {
			b.Fatal(err)
		}
	}
}

// BenchmarkRead reads and decodes all commits of a trace of 50 000.
func BenchmarkRead(b *testing.B) {
	file := long(b, 50_000)
	r, err := NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	for b.Loop() {
		n := 0
		err := r.Read(b.Context(), events.Position{}, bus.Filter{}, false, func(bus.Stored) error { n++; return nil })
		if err != nil || n != 50_000 {
			b.Fatal(n, err)
		}
	}
}
