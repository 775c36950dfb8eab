package bustest

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

var blobPromises = []Promise{
	{"P70 a blob comes back as it was", blobRoundTrip},
	{"P71 the same blob is stored once, whoever stores it", blobTwice},
	{"P72 a blob that does not exist is not found", blobMissing},
}

// noise is n bytes that no other test stores.
func noise(n int) []byte {
	out := make([]byte, n)
	_, _ = rand.Read(out) // it never fails
	return out
}

func blobRoundTrip(t *testing.T, b bus.Bus) {
	for _, n := range []int{0, 1, 127, 128 << 10, 128<<10 + 1, 1 << 20, 5 << 20} {
		data := noise(n)
		ref, err := b.Blobs().Put(within(t), data, "image/png")
		must(t, "put", err)
		sum := sha256.Sum256(data)
		want := events.BlobRef{Digest: "sha256:" + hex.EncodeToString(sum[:]), Size: int64(n), Media: "image/png"}
		if ref != want {
			t.Errorf("%d bytes: got reference %+v, want %+v", n, ref, want)
		}
		got, err := b.Blobs().Get(within(t), ref)
		must(t, "get", err)
		if !bytes.Equal(got, data) {
			t.Errorf("%d bytes come back as %d others", n, len(got))
		}
	}
}

func blobTwice(t *testing.T, b bus.Bus) {
	data := noise(300 << 10)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			ref, err := b.Blobs().Put(within(t), data, "")
			if err != nil {
				t.Errorf("put: %v", err)
				return
			}
			got, err := b.Blobs().Get(within(t), ref)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("get: %d bytes, %v", len(got), err)
			}
		})
	}
	wg.Wait()
	ref, err := b.Blobs().Put(within(t), data, "text/html")
	must(t, "put", err)
	if ref.Media != "text/html" {
		t.Errorf("the media type became %q", ref.Media)
	}
}

func blobMissing(t *testing.T, b bus.Bus) {
	sum := sha256.Sum256(noise(32))
	_, err := b.Blobs().Get(within(t), events.BlobRef{Digest: "sha256:" + hex.EncodeToString(sum[:]), Size: 3})
	wantIs(t, "get", err, bus.ErrNotFound)
	for _, bad := range []string{"", "sha256:", "sha256:../../x", "md5:00", "sha256:" + strings.Repeat("*", 64), ">"} {
		if got, err := b.Blobs().Get(within(t), events.BlobRef{Digest: bad}); err == nil {
			t.Errorf("digest %q gives %d bytes", bad, len(got))
		}
	}
}
