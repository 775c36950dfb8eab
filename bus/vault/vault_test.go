package vault

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy/secrets"
)

var (
	call  = events.CallKey{Trace: strings.Repeat("t", 64), Turn: strings.Repeat("u", 64), Offset: 255}
	value = secrets.StringValue("hunter2")
)

func keys(t *testing.T, which ...byte) *secrets.Keys {
	t.Helper()
	var list [][]byte
	for _, b := range which {
		list = append(list, bytes.Repeat([]byte{b}, secrets.KeySize))
	}
	k, err := secrets.NewKeys(list...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func made(t *testing.T, c Config) *Vault {
	t.Helper()
	v, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestValuesAreKept runs over both ways to keep them.
func TestValuesAreKept(t *testing.T) {
	cells := memlog.New(memlog.Config{}).View("a").Cells()
	for name, v := range map[string]*Vault{"sealed": made(t, Config{Cells: cells, Keys: keys(t, 1)}), "in memory": made(t, Config{})} {
		t.Run(name, func(t *testing.T) {
			if v.Shared() != (name == "sealed") {
				t.Errorf("shared: %t", v.Shared())
			}
			ref := events.SecretRef{ID: v.ID(value), Path: "/token"}
			for range 2 { // the same again changes nothing
				if err := v.Put(t.Context(), call, []events.SecretRef{ref}, []secrets.Value{value}); err != nil {
					t.Fatal(err)
				}
			}
			got, err := v.Open(t.Context(), call, []events.SecretRef{ref})
			if err != nil || got[ref.ID] != value {
				t.Errorf("got %q, %v", got, err)
			}
			other := call
			other.Offset = 1
			for what, where := range map[string]struct {
				call events.CallKey
				ref  events.SecretRef
			}{"another call": {other, ref}, "another place": {call, events.SecretRef{ID: ref.ID, Path: "/other"}}, "another id": {call, events.SecretRef{ID: strings.Repeat("0", 32), Path: ref.Path}}} {
				if _, err := v.Open(t.Context(), where.call, []events.SecretRef{where.ref}); !errors.Is(err, ErrGone) {
					t.Errorf("%s: %v, want ErrGone", what, err)
				}
			}
			for range 2 {
				if err := v.Drop(t.Context(), call, []events.SecretRef{ref}); err != nil {
					t.Error(err)
				}
			}
			if _, err := v.Open(t.Context(), call, []events.SecretRef{ref}); !errors.Is(err, ErrGone) {
				t.Errorf("after Drop: %v", err)
			}
		})
	}
}

func TestSealedValues(t *testing.T) {
	cells := memlog.New(memlog.Config{}).View("a").Cells()
	v := made(t, Config{Cells: cells, Keys: keys(t, 1)})
	ref := events.SecretRef{ID: v.ID(value), Path: "/token"}
	refs := []events.SecretRef{ref}
	if err := v.Put(t.Context(), call, refs, []secrets.Value{value}); err != nil {
		t.Fatal(err)
	}
	cell, err := cells.Get(t.Context(), bus.BucketSecrets, cellOf(call, ref))
	if err != nil || bytes.Contains(cell.Value, []byte("hunter2")) {
		t.Errorf("the cell: %q, %v", cell.Value, err)
	}
	if _, err := made(t, Config{Cells: cells, Keys: keys(t, 2)}).Open(t.Context(), call, refs); !errors.Is(err, secrets.ErrSealed) {
		t.Errorf("another key: %v, want ErrSealed", err)
	}
	if got, err := made(t, Config{Cells: cells, Keys: keys(t, 2, 1)}).Open(t.Context(), call, refs); err != nil || got[ref.ID] != value {
		t.Errorf("a newer key in front: %q, %v", got, err)
	}
	// A cell that was moved, or overwritten by somebody without the key, does not open.
	other := call
	other.Offset = 0
	if _, err := cells.Put(t.Context(), bus.BucketSecrets, cellOf(other, ref), cell.Value, 0, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Open(t.Context(), other, refs); !errors.Is(err, secrets.ErrSealed) {
		t.Errorf("a cell of another call: %v, want ErrSealed", err)
	}
	if err := v.Put(t.Context(), other, refs, []secrets.Value{value}); err != nil {
		t.Fatal(err)
	}
	if got, err := v.Open(t.Context(), other, refs); err != nil || got[ref.ID] != value {
		t.Errorf("kept over it: %q, %v", got, err)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	now := time.Unix(0, 0)
	v := made(t, Config{Now: func() time.Time { return now }, TTL: time.Hour})
	big := secrets.StringValue(strings.Repeat("x", secrets.MaxValue-2))
	put := func(i int) error {
		c := call
		c.Offset = i
		return v.Put(t.Context(), c, []events.SecretRef{{ID: "a", Path: "/b"}}, []secrets.Value{big})
	}
	n := 0
	for ; n <= maxHeldBytes/secrets.MaxValue+1; n++ {
		if err := put(n); err != nil {
			if !errors.Is(err, bus.ErrUnavailable) {
				t.Errorf("%v, want ErrUnavailable", err)
			}
			break
		}
	}
	if n > maxHeldBytes/len(big)+1 {
		t.Errorf("%d values of %d bytes were kept", n, len(big))
	}
	now = now.Add(2 * time.Hour)
	if _, err := v.Open(t.Context(), call, []events.SecretRef{{ID: "a", Path: "/b"}}); !errors.Is(err, ErrGone) {
		t.Errorf("after its time: %v", err)
	}
	if err := put(n); err != nil || len(v.held) != 1 || v.bytes != len(big) {
		t.Errorf("after all have expired: %v, %d values, %d bytes", err, len(v.held), v.bytes)
	}
}
