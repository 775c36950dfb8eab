package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// recorded starts a node that writes down how much of its log is durable.
func (p *place) recorded(record string, more ...string) *node {
	p.t.Helper()
	if err := faultsBuilt(); err != nil {
		p.t.Fatal(err)
	}
	args := append([]string{"SLUICE_TEST_SYNCED=" + record, faultsPath()}, p.args(more...)...)
	return p.startAs("/usr/bin/env", args...)
}

// image is what a machine leaves whose power failed: a copy of a dead node's files.
type image struct {
	*place
	durable map[string]int64 // bytes of each block that a sync had covered, by path below data
	cuts    []string         // what was lost, in words
}

// leftBy copies what a killed node has left, with its ledger and workspace.
func (p *place) leftBy(record string) *image {
	p.t.Helper()
	im := &image{place: newPlace(p.t), durable: map[string]int64{}}
	for from, to := range map[string]string{p.data: im.data, p.work: im.work} {
		if err := os.CopyFS(to, os.DirFS(from)); err != nil && !os.IsExist(err) {
			p.t.Fatal(err)
		}
	}
	if key := filepath.Join(im.data, "secrets.key"); os.Chmod(key, 0o600) != nil { // a copy is not as closed as what it is made from
		p.t.Log("no secrets.key was there yet")
	}
	ledger, err := os.ReadFile(p.ledger)
	if err == nil {
		err = os.WriteFile(im.ledger, ledger, 0o644)
	}
	if err != nil && !os.IsNotExist(err) {
		p.t.Fatal(err)
	}
	text, err := os.ReadFile(record)
	if err != nil {
		p.t.Fatal(err)
	}
	for in := bufio.NewScanner(bytes.NewReader(text)); in.Scan(); {
		var s struct {
			Path  string
			Inode uint64
			Size  int64
		}
		if json.Unmarshal(in.Bytes(), &s) != nil {
			continue // the process was killed while it wrote this one down: nobody has heard of that sync
		}
		rel, err := filepath.Rel(p.data, s.Path)
		if err != nil {
			p.t.Fatal(err)
		}
		info, err := os.Stat(s.Path)
		if err != nil {
			continue // removed since, with all that was in it
		}
		if st := info.Sys().(*syscall.Stat_t); st.Ino != s.Inode {
			im.durable[rel] = info.Size() // the server has put another file there, and syncs such files itself
			continue
		}
		im.durable[rel] = max(im.durable[rel], s.Size)
	}
	return im
}

// blocks are the blocks of all streams but the mirror, or of the mirror, by path below data.
func (im *image) blocks(mirror bool) (out []string) {
	im.t.Helper()
	root := filepath.Join(im.data, "jetstream", "$G", "streams")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(im.data, path)
		if strings.HasSuffix(path, ".blk") && strings.Contains(rel, "/SLUICE_READ/") == mirror {
			out = append(out, rel)
		}
		return err
	})
	if err != nil {
		im.t.Fatal(err)
	}
	return out
}

// way is how the tail of a block is lost.
type way string

const (
	wayCut   way = "cut"   // the file ends earlier
	wayZeros way = "zeros" // its length is known, its content never came
	wayTorn  way = "torn"  // a sector in the middle never came: disks write in any order
)

// lose takes away what stands behind a place of a block; where there is nothing, nothing.
func (im *image) lose(r *rand.Rand, rel string, from int64, how way) {
	im.t.Helper()
	path := filepath.Join(im.data, rel)
	text, err := os.ReadFile(path)
	if err != nil {
		im.t.Fatal(err)
	}
	size := int64(len(text))
	if from >= size {
		return
	}
	switch how {
	case wayCut:
		text = text[:from]
	case wayZeros:
		clear(text[from:])
	case wayTorn:
		clear(text[from:min(size, from+1+r.Int64N(512))])
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		im.t.Fatal(err)
	}
	im.cuts = append(im.cuts, fmt.Sprintf("%s %s at %d of %d", strings.TrimPrefix(rel, "jetstream/$G/streams/"), how, from, size))
}

// powerFails takes away what no sync had covered, all of it or from a random place on;
// of the mirror, which no barrier covers, any tail; and of what the server can find
// out anew, anything.
func (im *image) powerFails(r *rand.Rand, how way, all bool) {
	im.t.Helper()
	for _, rel := range im.blocks(false) {
		from := im.durable[rel]
		info, err := os.Stat(filepath.Join(im.data, rel))
		if err != nil {
			im.t.Fatal(err)
		}
		if more := info.Size() - from; more > 0 && !all {
			from += r.Int64N(more + 1)
		}
		im.lose(r, rel, from, how)
	}
	for _, rel := range im.blocks(true) {
		if info, err := os.Stat(filepath.Join(im.data, rel)); err == nil && r.IntN(2) == 0 {
			im.lose(r, rel, r.Int64N(info.Size()+1), how)
		}
	}
	im.forget(r)
}

// cutBefore is a disk that lied: the log, or all streams, lose a part of what a sync
// had covered.
func (im *image) cutBefore(r *rand.Rand, logOnly bool) {
	im.t.Helper()
	for _, rel := range im.blocks(false) {
		if d := im.durable[rel]; d > 0 && (!logOnly || strings.Contains(rel, "/SLUICE/")) {
			im.lose(r, rel, d-1-r.Int64N(d/2+1), wayCut)
		}
	}
	im.forget(r)
}

// forget removes indexes, and what consumers had noted, now and then.
func (im *image) forget(r *rand.Rand) {
	im.t.Helper()
	err := filepath.WalkDir(im.data, func(path string, d fs.DirEntry, err error) error {
		if name := filepath.Base(path); err == nil && (name == "index.db" || name == "o.dat") && r.IntN(2) == 0 {
			im.cuts = append(im.cuts, strings.TrimPrefix(path, filepath.Join(im.data, "jetstream", "$G", "streams"))+" removed")
			return os.Remove(path)
		}
		return err
	})
	if err != nil {
		im.t.Fatal(err)
	}
}

func (im *image) String() string { return strings.Join(im.cuts, "\n\t") }

// powerSeed is the seed of a test's cuts, printed.
func powerSeed(t *testing.T, run string) *rand.Rand {
	t.Helper()
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("reproduce: go test ./test/e2e -run %s -seed=%d", run, s)
	return rand.New(rand.NewPCG(s, 4))
}
