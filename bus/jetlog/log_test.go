package jetlog_test

import (
	"errors"
	"testing"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
)

func TestAppendAndLoad(t *testing.T) {
	b := one(t, jetlog.Config{})
	k := turn("a", "1")
	first, err := b.Append(t.Context(), note(k, "c1", 1), 0)
	if err != nil {
		t.Fatal(err)
	}
	if first.Seq != 1 || first.Generation != 1 || first.Commit.ID != "c1" {
		t.Errorf("stored %+v, want sequence 1 of generation 1", first)
	}
	_, err = b.Append(t.Context(), note(k, "c2", 2), 0)
	var c *bus.Conflict
	if !errors.As(err, &c) || c.Last != first.Seq {
		t.Errorf("append at 0 again: %v, want a conflict at %d", err, first.Seq)
	}
	second, err := b.Append(t.Context(), note(k, "c2", 2), first.Seq)
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.Load(t.Context(), k, second.Seq)
	if err != nil || len(got) != 2 || got[1].Commit.ID != "c2" {
		t.Errorf("load: %+v, %v, want two commits", got, err)
	}
	if got, err := b.Load(t.Context(), turn("no", "such"), 0); err != nil || len(got) != 0 {
		t.Errorf("load of an unknown turn: %v, %v, want nothing", got, err)
	}
}
