package jetlog

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-run/sluice/events"
)

// spans are the generations of a log, oldest first. There is at least one.
type spans []Span

// firstSpans are those of a log that never lost its tail.
var firstSpans = spans{{Generation: 1, FirstSeq: 1}}

// current is the generation that is written now.
func (s spans) current() uint32 { return s[len(s)-1].Generation }

// of is the generation that wrote a sequence.
func (s spans) of(seq uint64) uint32 {
	for i := len(s) - 1; i > 0; i-- {
		if seq >= s[i].FirstSeq {
			return s[i].Generation
		}
	}
	return s[0].Generation
}

// holds says whether everything before a position is still in the log, as it
// was when that position was seen. last is the log's last sequence.
func (s spans) holds(p events.Position, last uint64) bool {
	end, known := last+1, false
	for _, g := range s {
		if g.Generation > p.Generation {
			end = g.FirstSeq // where the next generation took over
			break
		}
		known = known || g.Generation == p.Generation
	}
	return known && (p.Seq < end || p.Seq == end && p.Index == 0)
}

// String is the stored form, for example "1:1,2:5301".
func (s spans) String() string {
	parts := make([]string, len(s))
	for i, g := range s {
		parts[i] = fmt.Sprintf("%d:%d", g.Generation, g.FirstSeq)
	}
	return strings.Join(parts, ",")
}

// parseSpans reads what String wrote; "" is a log that never lost its tail.
func parseSpans(text string) (spans, error) {
	if text == "" {
		return firstSpans, nil
	}
	var out spans
	for part := range strings.SplitSeq(text, ",") {
		generation, first, ok := strings.Cut(part, ":")
		g, err := strconv.ParseUint(generation, 10, 32)
		f, err2 := strconv.ParseUint(first, 10, 64)
		if !ok || err != nil || err2 != nil {
			return nil, fmt.Errorf("generations %q: want generation:first,…", text)
		}
		out = append(out, Span{uint32(g), f})
	}
	return out, checkSpans(out)
}
