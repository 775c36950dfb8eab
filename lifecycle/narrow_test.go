package lifecycle

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/events"
)

func TestNarrow(t *testing.T) {
	all := events.Inherited{
		Session: []events.SessionYes{{Tool: "Bash", Hash: "a"}, {Tool: "Bash", Hash: "b"}},
		Seen:    []events.Seen{{Path: "x", Digest: "1"}, {Path: "y", Digest: "2"}},
	}
	got := Narrow(all, []string{"y", "z"}, []string{"Bash b", "Bash c"})
	want := events.Inherited{Session: []events.SessionYes{{Tool: "Bash", Hash: "b"}}, Seen: []events.Seen{{Path: "y", Digest: "2"}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got := Narrow(all, nil, nil); got.Session != nil || got.Seen != nil {
		t.Errorf("of nothing: %+v", got)
	}
}
