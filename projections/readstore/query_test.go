package readstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

func drawQuery(t *rapid.T) Query {
	some := func(name string, list []string) []string {
		n := rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, name+"s")
		var out []string
		for range n {
			out = append(out, rapid.SampledFrom(list).Draw(t, name))
		}
		return out
	}
	texts := []string{
		"", "", "", "customer", "CHARGED twice", `"charged twice"`, `"twice charged"`, "a.txt", "order A-17", "cust*", "1200", "ошибка", "界", "failed 面",
		`"rm -rf build/"`, "gone", "nobody-says-this", "Read", "call_1", "long long", "approved NOT x", "a*b", `un"closed phrase`,
	}
	q := Query{
		Tools: some("tool", append([]string{"none such"}, toolNames...)), Statuses: some("status", Statuses()), Principals: some("who", append([]string{"nobody"}, people...)),
		Text: rapid.SampledFrom(texts).Draw(t, "text"), Oldest: rapid.Bool().Draw(t, "oldest"), Limit: rapid.IntRange(0, 3).Draw(t, "limit"),
	}
	if rapid.IntRange(0, 3).Draw(t, "bounds") == 0 {
		q.Since = noon.Add(time.Duration(rapid.IntRange(-10, 200).Draw(t, "since")) * time.Minute)
	}
	if rapid.IntRange(0, 3).Draw(t, "bounds") == 0 {
		q.Until = noon.Add(time.Duration(rapid.IntRange(201, 400).Draw(t, "until")) * time.Minute)
	}
	return q
}

// allOf are all pages of a query.
func allOf(t tb, r *Reader, q Query) []Trace {
	t.Helper()
	var out []Trace
	for {
		page := must(r.Traces(context.Background(), q))(t)
		out = append(out, page.Traces...)
		if page.Next == "" {
			return out
		}
		if len(page.Traces) != q.limit() {
			t.Fatalf("%d traces of %d, and another page", len(page.Traces), q.limit())
		}
		q.Cursor = page.Next
	}
}

// scanned is what a query gives by a scan of the log.
func scanned(t tb, log Source, q Query) []string {
	t.Helper()
	m := must(NewMatcher(q))(t)
	sum := map[string]*sums{}
	var order []string
	err := log.Read(context.Background(), events.Position{}, bus.Filter{}, false, func(s bus.Stored) error {
		m.Add(s)
		name := s.Commit.Turn.Trace
		if sum[name] == nil {
			sum[name] = &sums{}
			order = append(order, name)
		}
		sum[name].add(s)
		return nil
	})
	check(t, err)
	var out []string
	for _, name := range order {
		in := sum[name]
		if m.Matches(name) && (q.Since.IsZero() || in.last >= q.Since.UnixMicro()) && (q.Until.IsZero() || in.first < q.Until.UnixMicro()) {
			out = append(out, name)
		}
	}
	if !q.Oldest {
		slices.Reverse(out)
	}
	return out
}

// TestStoreFindsWhatAScanFinds: every page of every query is what a scan of the log
// gives, in its order.
func TestStoreFindsWhatAScanFinds(t *testing.T) {
	dir, few := dirs(t), fewCalls
	defer func() { fewCalls = few }()
	rapid.Check(t, func(t *rapid.T) {
		fewCalls = rapid.SampledFrom([]int{0, 2, few}).Draw(t, "few")
		log := newPaper()
		for _, c := range drawCommits(t, rapid.Bool().Draw(t, "odd")) {
			log.put(c)
		}
		w := newWriter(t, dir(), "store-1.db")
		fill(t, w, log)
		check(t, w.close())
		r := must(openReader(w.path))(t)
		defer func() { check(t, r.Close()) }()
		for range 25 {
			q := drawQuery(t)
			var got []string
			for _, tr := range allOf(t, r, q) {
				got = append(got, tr.Trace)
			}
			if want := scanned(t, log, q); !slices.Equal(got, want) {
				t.Fatalf("%+v: %v, want %v", q, got, want)
			}
		}
	})
}

// TestTextIsNeverASyntaxError: whatever is asked for, SQL and the scan understand it
// alike. (It is no fuzz test: to look into translated C takes minutes to build.)
func TestTextIsNeverASyntaxError(t *testing.T) {
	odd := append(slices.Clone(phrases), `"`, `""`, `"*`, `*`, `a"b`, "NOT", "a AND", "(", "col:x", "^a", "a+b", "\x00", "\xff\xfe", "{a b}", "é", "ｆｕｌｌ", "ǅ İ ß", "a\u0301")
	log := newPaper()
	w := newWriter(t, t.TempDir(), "store-1.db")
	defer func() { check(t, w.close()) }()
	r := must(openReader(w.path))(t)
	defer r.Close()
	text := rapid.OneOf(rapid.SampledFrom(odd), rapid.String(), rapid.StringMatching(`[a-c "*.界(]{0,12}`))
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		said := text.Draw(t, "said")
		key := events.TurnKey{Trace: fmt.Sprint("t", n), Turn: "1"}
		log.put(events.Commit{ID: fmt.Sprint(n), Turn: key, At: noon, Records: []events.Record{{Call: -1, Seq: 1, Event: &events.TurnSubmitted{Calls: []events.RawCall{{Args: events.Body{Text: said}}}}}}})
		fill(t, w, log)
		for range 10 {
			asked := rapid.OneOf(text, rapid.Just(said)).Draw(t, "asked")
			terms := termsOf(asked)
			if len(terms) == 0 || len(terms) > maxTerms || len(asked) > maxText {
				continue
			}
			page := must(r.Traces(context.Background(), Query{Text: asked, Limit: 1}))(t)
			got := len(page.Traces) == 1 && page.Traces[0].Trace == key.Trace
			if want := holdAll(terms, addText(nil, said)); got != want {
				t.Errorf("%q in %q: SQL says %t, the scan %t", asked, said, got, want)
			}
		}
	})
}

func TestWordsAndTerms(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"Hello, World!", " hello world"},
		{`{"path":"src/a_b.txt"}`, " path src a b txt"},
		{"界面x", " 界 面 x"},
		{"ÄÖ-é", " äö é"},
		{strings.Repeat("x", 100), " " + strings.Repeat("x", maxWord-3)},
		{"a\xffb", " a b"},
	} {
		if got := string(appendWords(nil, c.in)); got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
	for _, c := range []struct{ in, want string }{
		{`one "two three" four*`, `"one" AND "two three" AND "four" *`},
		{`a.txt`, `"a txt"`},
		{`"never closed`, `"never closed"`},
		{`"x y"* -z OR NOT`, `"x y" * AND "z" AND "or" AND "not"`},
		{` - `, ``},
	} {
		if got := match(termsOf(c.in)); got != c.want {
			t.Errorf("%q: %s, want %s", c.in, got, c.want)
		}
	}
}

// TestPhrasesDoNotReachFromOneTextIntoTheNext of the same call.
func TestPhrasesDoNotReachFromOneTextIntoTheNext(t *testing.T) {
	words := addText(addText(nil, "the end"), "begins here")
	if !holdAll(termsOf(`"the end" "begins here"`), words) || holdAll(termsOf(`"end begins"`), words) {
		t.Errorf("%s", words)
	}
}

func TestQueriesThatAreNone(t *testing.T) {
	for _, q := range []Query{
		{Statuses: []string{"gone"}},
		{Limit: -1},
		{Limit: MaxLimit + 1},
		{Cursor: "x"},
		{Cursor: "1"},
		{Cursor: "1.0.0"},
		{Cursor: "1.-1.0"},
		{Cursor: "1.18446744073709551615.0"},
		{Text: "---"},
		{Text: strings.Repeat("a ", 400)},
		{Text: strings.Repeat("a", maxText+1)},
		{Tools: make([]string, maxValues+1)},
		{Tools: []string{strings.Repeat("x", maxValue+1)}},
		{Since: noon, Until: noon},
	} {
		if err := q.Check(); !errors.Is(err, ErrQuery) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	for _, q := range []TimelineQuery{{Limit: -1}, {Limit: MaxLimit + 1}, {Cursor: "x"}, {Cursor: "1.18446744073709551615.0"}} {
		if err := q.Check(); !errors.Is(err, ErrQuery) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	for _, q := range []UsageQuery{{By: []string{"week"}}, {Limit: -1}} {
		if err := q.Check(); !errors.Is(err, ErrQuery) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if err := (Query{Statuses: Statuses(), Cursor: "1.7", Limit: MaxLimit, Text: "x"}).Check(); err != nil {
		t.Error(err)
	}
}

// TestPagesStayAsTheyAreWhileTracesCome: a page that was begun is not shifted by what
// is new.
func TestPagesStayAsTheyAreWhileTracesCome(t *testing.T) {
	log := newPaper()
	put := func(i int) {
		log.put(events.Commit{ID: fmt.Sprint(i), Turn: events.TurnKey{Trace: fmt.Sprint("t", i), Turn: "1"}, At: noon, Records: []events.Record{
			{Call: -1, Seq: 1, Event: &events.TurnSubmitted{Calls: []events.RawCall{{Tool: "Read"}}}},
		}})
	}
	for i := range 5 {
		put(i)
	}
	w := newWriter(t, t.TempDir(), "store-1.db")
	defer func() { check(t, w.close()) }()
	fill(t, w, log)
	r := must(openReader(w.path))(t)
	defer r.Close()
	for _, q := range []Query{{Limit: 2}, {Limit: 2, Tools: []string{"Read"}}, {Limit: 2, Text: "read"}} {
		one := must(r.Traces(t.Context(), q))(t)
		put(len(log.entries))
		fill(t, w, log)
		q.Cursor = one.Next
		two := must(r.Traces(t.Context(), q))(t)
		n := len(log.entries) - 2
		want := []string{fmt.Sprint("t", n), fmt.Sprint("t", n-1), fmt.Sprint("t", n-2), fmt.Sprint("t", n-3)}
		var got []string
		for _, tr := range slices.Concat(one.Traces, two.Traces) {
			got = append(got, tr.Trace)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: %v, want %v", q, got, want)
		}
	}
}

// TestATraceThatIsNot has no timeline.
func TestATraceThatIsNot(t *testing.T) {
	w := newWriter(t, t.TempDir(), "store-1.db")
	defer func() { check(t, w.close()) }()
	r := must(openReader(w.path))(t)
	defer r.Close()
	if _, err := r.Timeline(t.Context(), "nobody", TimelineQuery{}); !errors.Is(err, ErrNoTrace) {
		t.Error(err)
	}
	if _, err := r.Trace(t.Context(), "nobody"); !errors.Is(err, ErrNoTrace) {
		t.Error(err)
	}
}
