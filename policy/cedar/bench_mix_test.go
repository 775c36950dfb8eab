package cedar

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
)

// mix are calls as agents make them, and the largest that one may be.
func mix() map[string]policy.Request {
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprintf("src/pkg%d/file.go", i))
	}
	as := by("", "agent-1", "lead")
	in := func(edits ...func(*policy.Request)) policy.Request { return call(append(edits, as)...) }
	return map[string]policy.Request{
		"read":  in(paths("src/cmd/main.go")),
		"write": in(does(events.OpWrite, events.Reversible, `{"path":"src/a.go","text":"x"}`), func(r *policy.Request) { r.Tool, r.Op.Paths = "Write", []string{"src/a.go"} }),
		"line":  in(line("git log --oneline -5 && grep -rn 'func main' src/cmd | head -20 && wc -l src/cmd/main.go")),
		"fetch": in(hosts("api.example.com:443"), func(r *policy.Request) { r.Tool = "Fetch" }),
		"deny":  in(line("rm -rf build && git push")),
		"wide":  in(line("cat " + strings.Join(names, " "))),
		"long":  in(line("cat " + strings.Repeat("a", 300-4))),
	}
}

// BenchmarkMix says how long calls of a mix take to judge by the default policy with 200
// more, of which half look at the time or at arguments: the median, and one in a hundred.
func BenchmarkMix(b *testing.B) {
	var text strings.Builder
	for i := range 200 {
		when := []string{
			`resource in Path::"secret/%d" && principal.id like "agent-%d*"`, `context.args.hasTag("/order%d") && context.args.getTag("/order%[1]d") == "x%[2]d"`,
			`resource.name == "file%d.go" && context.session.trace == "t%d"`, `context.weekday == 7 && context.time.toTime() < duration("%dms") && resource.path == "x%d"`,
		}[i%4]
		fmt.Fprintf(&text, "@id(\"own.%d\") forbid (principal, action, resource is Path) when { %s };\n", i, fmt.Sprintf(when, i, i))
	}
	s, err := Load([]File{{DefaultFile, []byte(defaultText)}, {"own.cedar", []byte(text.String())}}, Options{})
	if err != nil {
		b.Fatal(err)
	}
	all := mix()
	for _, name := range []string{"read", "write", "line", "fetch", "deny", "wide", "long"} {
		r := all[name]
		r.Time = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
		for _, set := range []struct {
			name string
			s    *Set
		}{{"default", theDefault(b)}, {"default+200", s}} {
			b.Run(name+"/"+set.name, func(b *testing.B) {
				b.ReportAllocs()
				took := make([]time.Duration, 0, 1<<16)
				for b.Loop() {
					at := time.Now()
					set.s.Authorize(r)
					if d := time.Since(at); len(took) < cap(took) {
						took = append(took, d)
					}
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-µs")
				b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "p99-µs")
			})
		}
	}
}
