package jetlog_test

import (
	"errors"
	"testing"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/bus/jetlog/jettest"
	"github.com/sluice-run/sluice/events"
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

// An id that another commit has is told, not taken for a repeated try.
func TestAppendForeignID(t *testing.T) {
	b := one(t, jetlog.Config{})
	if _, err := b.Append(t.Context(), note(turn("a", "1"), "same", 1), 0); err != nil {
		t.Fatal(err)
	}
	if s, err := b.Append(t.Context(), note(turn("a", "2"), "same", 1), 0); err == nil && s.Seq == 1 {
		t.Errorf("stored as %+v: that is another turn's commit", s)
	}
}

func TestAppendRefuses(t *testing.T) {
	b := one(t, jetlog.Config{})
	for what, change := range map[string]func(*events.Commit){
		"id with a line end": func(c *events.Commit) { c.ID = "x\r\nNats-TTL: 1s" },
		"no id":              func(c *events.Commit) { c.ID = "" },
		"boot with a blank":  func(c *events.Commit) { c.By.Boot = "a b" },
		"kind with a line end": func(c *events.Commit) {
			c.Records[0].Event = events.Foreign{Name: "x\r\ny", Version: 1, Body: []byte{0x80}}
		},
		"wild turn": func(c *events.Commit) { c.Turn.Turn = "*" },
	} {
		c := note(turn("a", "1"), "c1", 1)
		change(&c)
		if _, err := b.Append(t.Context(), c, 0); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

// The headers say what the body holds, for those who cannot read it.
func TestAppendHeaders(t *testing.T) {
	srv := jettest.Start(t)
	b := srv.Open(jetlog.Config{})
	c := submitted(turn("a", "1"), "commit-1")
	c.By = events.Owner{Boot: "boot-1", Epoch: 7}
	if _, err := b.Append(t.Context(), c, 0); err != nil {
		t.Fatal(err)
	}
	_, js := raw(t, srv.InProcess)
	s, err := js.Stream(t.Context(), jetlog.StreamLog)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"Nats-Msg-Id": "commit-1", "Nats-Expected-Last-Subject-Sequence": "0",
		"Sluice-Kinds": "turn_submitted", "Sluice-Boot": "boot-1", "Sluice-Epoch": "7",
		"traceparent":  "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"Content-Type": "application/msgpack", "ce-datacontenttype": "application/msgpack",
		"ce-specversion": "1.0", "ce-id": "commit-1", "ce-source": "sluice/a",
		"ce-type": "run.sluice.commit.v1", "ce-subject": "a/1", "ce-time": "2026-01-02T03:04:05Z",
	} {
		if got := m.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}
