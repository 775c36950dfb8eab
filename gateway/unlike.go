package gateway

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-run/sluice/bus"
)

// Difference is something that the nodes of a log should have alike, and have not.
type Difference struct {
	What string // the name of a setting, or clock
	Node string // whose clock it is; "" for a setting
	Says string // who has what, and what to do
}

// differClock is what differs where it is a clock.
const differClock = "clock"

// alike are the settings that all nodes of a log should share. One that says "" does not
// tell.
var alike = []struct {
	name string
	of   func(bus.Status) string
}{
	{"ack-wait", func(s bus.Status) string { return span(s.AckWaitMS) }},
	{"presence", func(s bus.Status) string { return span(s.PresenceMS) }},
	{"key-retention", func(s bus.Status) string { return span(s.KeysMS) }},
	{"breaker-failures", func(s bus.Status) string { return fmt.Sprint(s.Failures) }},
	{"breaker-window", func(s bus.Status) string { return span(s.WindowMS) }},
	{"policy", func(s bus.Status) string { return since(s.Policy, s.PolicySince) }},
	{"limits", func(s bus.Status) string { return since(s.Limits, s.LimitsSince) }},
	{"principals", func(s bus.Status) string { return s.Principals }},
	{"secrets-key", func(s bus.Status) string { return s.SecretsKeys }},
	{"retention", func(s bus.Status) string { return s.Retention }},
}

// sinceMark is before the time in what a node has: when it got that does not make it differ.
const sinceMark = " since "

// since is what a node has, and from when on.
func since(what string, at time.Time) string {
	if what == "" || at.IsZero() {
		return what
	}
	return what + sinceMark + at.UTC().Format(time.RFC3339)
}

// Unlike says in what the nodes differ that should be alike: settings and clocks.
func (c *Crew) Unlike() []Difference {
	var out []Difference
	live := slices.DeleteFunc(slices.Clone(c.Nodes), func(n NodeView) bool { return n.Says == nil })
	for _, k := range alike {
		if said := differ(live, k.of); said != "" {
			out = append(out, Difference{What: k.name, Says: fmt.Sprintf("the nodes differ in %s (%s): give all of them the same", k.name, said)})
		}
	}
	for _, n := range live {
		says := ""
		switch {
		case math.Abs(*n.TimeMS) > n.ClockErrorMS+clockAlarm:
			says = fmt.Sprintf("node %s goes by a time that is %v off: deadlines, approvals and circuits are judged by it", n.Name, offBy(*n.TimeMS))
		case math.Abs(*n.ClockMS) > n.ClockErrorMS+clockAlarm:
			says = fmt.Sprintf("the machine of node %s has a clock that is %v off: the node goes by the log's time, but mend it", n.Name, offBy(*n.ClockMS))
		default:
			continue
		}
		out = append(out, Difference{What: differClock, Node: n.Boot, Says: says})
	}
	return out
}

// span is a duration of milliseconds; 0 is off.
func span(ms int64) string {
	if ms == 0 {
		return "off"
	}
	return (time.Duration(ms) * time.Millisecond).String()
}

// differ is what each says, where they do not all say the same; "" where they do.
func differ(nodes []NodeView, of func(bus.Status) string) string {
	var said, each []string
	for _, n := range nodes {
		v := of(*n.Says)
		is, _, _ := strings.Cut(v, sinceMark)
		if is == "" {
			continue
		}
		if !slices.Contains(said, is) {
			said = append(said, is)
		}
		each = append(each, n.Name+": "+v)
	}
	if len(said) < 2 {
		return ""
	}
	if len(each) > maxNamedNodes {
		each = append(each[:maxNamedNodes], "…")
	}
	return strings.Join(each, ", ")
}

// maxNamedNodes is how many nodes a warning names.
const maxNamedNodes = 8

// Differences remembers since when the nodes of a log differ, and what was said of it. Its
// methods may be used from many goroutines; the zero value is ready.
type Differences struct {
	mu    sync.Mutex
	since map[differs]*differing
}

type differs struct{ what, node string }

type differing struct {
	at   time.Time
	said bool
}

// See takes up in what the nodes differ now, and returns what has to be said: each
// difference once, when it has lasted for settles, and again only where it was over in
// between.
func (d *Differences) See(now time.Time, settles time.Duration, list []Difference) (say []Difference) {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := make(map[differs]*differing, len(list))
	for _, one := range list {
		key := differs{one.What, one.Node}
		was := d.since[key]
		if was == nil {
			was = &differing{at: now}
		}
		next[key] = was
		if !was.said && now.Sub(was.at) >= settles {
			was.said = true
			say = append(say, one)
		}
	}
	d.since = next
	return say
}

// For is for how long the nodes have differed in each of what they should have alike; 0
// where they do not.
func (d *Differences) For(now time.Time) map[string]time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string]time.Duration{differClock: 0}
	for _, k := range alike {
		out[k.name] = 0
	}
	for key, is := range d.since {
		out[key.what] = max(out[key.what], now.Sub(is.at), time.Millisecond) // not 0: that is alike
	}
	return out
}
