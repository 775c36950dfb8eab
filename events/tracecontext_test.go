package events

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestParseTraceparent(t *testing.T) {
	for in, want := range map[string]string{
		parent:                      parent,
		strings.ToUpper(parent):     "",
		parent[:54]:                 "",
		parent + "-more":            "", // version 00 has no more
		"cc" + parent[2:] + "-more": parent,
		"cc" + parent[2:] + ".more": "",
		"cc" + parent[2:]:           parent,
		"ff" + parent[2:]:           "",
		"0g" + parent[2:]:           "",
		parent[:53] + "00":          parent[:53] + "00",
		parent[:53] + "ff":          parent[:53] + "03",
		parent[:53] + "fe":          parent[:53] + "02",
		"":                          "",
		strings.Repeat("-", 55):     "",
		strings.Repeat("0", 55):     "",
		"00-" + strings.Repeat("0", 32) + parent[35:]:       "",
		parent[:36] + strings.Repeat("0", 16) + parent[52:]: "",
		parent[:53] + "zz":              "",
		" " + parent:                    "",
		parent[:10] + "é" + parent[12:]: "",
	} {
		got, ok := ParseTraceparent(in)
		if got.String() != want || ok != (want != "") {
			t.Errorf("%q: %q, %t, want %q", in, got, ok, want)
		}
	}
	if c, _ := ParseTraceparent(parent); !c.Sampled() {
		t.Error("bit 0 says that it is recorded")
	}
}

func FuzzTraceparent(f *testing.F) {
	f.Add(parent)
	f.Add("cc" + parent[2:] + "-more")
	f.Fuzz(func(t *testing.T, s string) {
		c, ok := ParseTraceparent(s)
		if !ok {
			if c != (TraceContext{}) {
				t.Errorf("%q is none, and gives %v", s, c)
			}
			return
		}
		if again, ok := ParseTraceparent(c.String()); !ok || again != c {
			t.Errorf("%q: %v, and read again %v", s, c, again)
		}
	})
}

// TestSpanIDs: the same for everybody, and one for each thing.
func TestSpanIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := TurnKey{rapid.StringMatching(`[a-z]{1,3}`).Draw(t, "trace"), rapid.StringMatching(`[a-z]{1,3}`).Draw(t, "turn")}
		at := time.UnixMicro(rapid.Int64Range(0, 1e15).Draw(t, "at"))
		ids := SpansOf(key, at, "")
		if ids != SpansOf(key, at.In(time.FixedZone("x", 3600)), "not one") {
			t.Fatal("a zone, or what is no traceparent, changes the ids")
		}
		seen := map[SpanID]string{{}: "none"}
		add := func(what string, id SpanID) {
			if was, twice := seen[id]; twice {
				t.Fatalf("%s and %s have one id", what, was)
			}
			seen[id] = what
		}
		add("turn", ids.Turn())
		add("other key", SpansOf(TurnKey{key.Trace, key.Turn + "x"}, at, "").Turn())
		add("shifted key", SpansOf(TurnKey{key.Trace + "x", key.Turn}, at, "").Turn())
		add("other time", SpansOf(key, at.Add(time.Microsecond), "").Turn())
		for c := range 12 {
			add("call", ids.Call(c))
			for a := range 12 {
				add("attempt", ids.Attempt(c, a, Owner{Boot: "b", Epoch: 1}))
				add("attempt after a lost tail", ids.Attempt(c, a, Owner{Boot: "c", Epoch: 1}))
			}
		}
		mine := SpansOf(key, at, parent)
		if mine.Turn() != ids.Turn() || mine.Trace.String() != parent[3:35] || mine.Caller.String() != parent[36:52] || mine.Flags != 1 {
			t.Fatalf("a caller's trace: %v", mine)
		}
		if ids.Trace == (TraceID{}) || ids.Caller != (SpanID{}) || !ids.Context(ids.Turn()).Sampled() {
			t.Fatalf("no caller's trace: %v", ids)
		}
	})
}

func TestSpanIDsInJSON(t *testing.T) {
	c, _ := ParseTraceparent(parent)
	b, err := json.Marshal(c)
	if err != nil || !strings.Contains(string(b), `"4bf92f3577b34da6a3ce929d0e0e4736"`) {
		t.Fatalf("%s, %v", b, err)
	}
	var back TraceContext
	if err := json.Unmarshal(b, &back); err != nil || back != c {
		t.Errorf("%v, %v", back, err)
	}
	for _, bad := range []string{`{"Span":"00"}`, `{"Span":"00F067AA0BA902B7"}`, `{"Trace":"4bf92f3577b34da6a3ce929d0e0e473g"}`} {
		if json.Unmarshal([]byte(bad), &back) == nil {
			t.Errorf("%s is read", bad)
		}
	}
}
