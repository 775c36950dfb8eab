package jetlog

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events"
)

func TestGenerationsAtAStart(t *testing.T) {
	marked := func(clean bool, last uint64, gens ...markedSpan) *marker {
		return &marker{Format: 1, Clean: clean, Last: last, Generations: gens}
	}
	one := markedSpan{1, 1}
	for name, c := range map[string]struct {
		history
		want  spans
		begun bool
	}{
		"a new directory":                   {history{}, spans{{1, 1}}, false},
		"closed, all there":                 {history{marked(true, 9, one), firstSpans, 9, 0}, spans{{1, 1}}, false},
		"closed, somebody appended since":   {history{marked(true, 9, one), firstSpans, 12, 0}, spans{{1, 1}}, false},
		"closed, but the tail is gone":      {history{marked(true, 9, one), firstSpans, 8, 0}, spans{{1, 1}, {2, 9}}, true},
		"closed, but the log is gone":       {history{marked(true, 9, one), nil, 0, 0}, spans{{1, 1}, {2, 1}}, true},
		"not closed":                        {history{marked(false, 0, one), firstSpans, 9, 0}, spans{{1, 1}, {2, 10}}, true},
		"not closed, before the first log":  {history{marked(false, 0, one), nil, 0, 0}, spans{{1, 1}, {2, 1}}, true},
		"not closed, twice":                 {history{marked(false, 0, one, markedSpan{2, 10}), firstSpans, 20, 0}, spans{{1, 1}, {2, 10}, {3, 21}}, true},
		"a generation lost whole":           {history{marked(false, 0, one, markedSpan{2, 10}), firstSpans, 5, 0}, spans{{1, 1}, {2, 6}, {3, 6}}, true},
		"the marker is gone, the log knows": {history{nil, spans{{1, 1}, {4, 7}}, 20, 0}, spans{{1, 1}, {4, 7}, {5, 21}}, true},
	} {
		gens, why := c.next()
		if !slices.Equal(gens, c.want) || (why != "") != c.begun {
			t.Errorf("%s: %v (%s), want %v", name, gens, why, c.want)
		}
		if err := checkSpans(gens); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMarkerRoundTrip(t *testing.T) {
	dir := t.TempDir()
	if m, err := readMarker(dir); m != nil || err != nil {
		t.Fatalf("a new directory holds %+v, %v", m, err)
	}
	m := &marker{Format: events.Format, Clean: true, Last: 42}
	m.set(spans{{1, 1}, {3, 17}})
	if err := m.write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := readMarker(dir)
	if err != nil || got.Last != 42 || !got.Clean || !slices.Equal(got.spans(), spans{{1, 1}, {3, 17}}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.new")); len(left) > 0 || err != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestMarkersThatAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		``:             "put it back",
		`{`:            "put it back",
		`{"format":1}`: "put it back",
		`{"generations":[{"generation":1,"first_sequence":1}]}`:                                                "put it back",
		`{"format":1,"generations":[{"generation":2,"first_sequence":1},{"generation":1,"first_sequence":4}]}`: "put it back",
		`{"format":2,"generations":"to be understood by that release"}`:                                        "upgrade",
		`{"format":999,"generations":[{"generation":1,"first_sequence":1}]}`:                                   "upgrade",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, markerName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := readMarker(dir)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), markerName) {
			t.Errorf("%s: got %+v, %v; want an error that says %q", text, m, err, want)
		}
		if want == "upgrade" && !errors.Is(err, events.ErrNewerFormat) {
			t.Errorf("%s: got %v", text, err)
		}
	}
}
