package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// rule is what an entry of the file says.
func (e limitEntry) rule() (lifecycle.LimitRule, error) {
	r := lifecycle.LimitRule{ID: e.ID, Principal: e.Principal, Kind: e.Kind, Each: e.Each, Tool: events.ToolName(e.Tool)}
	if e.Concurrency != nil {
		if r.Concurrency = *e.Concurrency; r.Concurrency < 1 {
			return r, fmt.Errorf("concurrency %d: want 1 to %d; to let nothing run, deny it in the policy", r.Concurrency, lifecycle.MaxSlots)
		}
	}
	var err error
	if r.Rate, err = rateOf(e.Rate); err != nil {
		return r, err
	}
	switch {
	case e.Burst == nil:
	case r.Rate == lifecycle.Rate{}:
		return r, errors.New("a burst without a rate: say how many begin in a time, for example rate: 10/m")
	case *e.Burst < 1:
		return r, fmt.Errorf("burst %d: want 1 to %d", *e.Burst, lifecycle.MaxRateBurst)
	default:
		r.Rate.Burst = *e.Burst
	}
	if e.Wait != "" {
		if r.Wait, err = time.ParseDuration(e.Wait); err != nil {
			return r, fmt.Errorf("wait %q: want a duration, for example 30s", e.Wait)
		}
	}
	return r, r.Check()
}

// units are the times that a rate may be in.
var units = map[string]time.Duration{
	"s": time.Second, "second": time.Second, "m": time.Minute, "minute": time.Minute, "h": time.Hour, "hour": time.Hour,
}

// rateOf reads a rate: 10/m, or 10 per m.
func rateOf(text string) (lifecycle.Rate, error) {
	if text == "" {
		return lifecycle.Rate{}, nil
	}
	n, per, found := strings.Cut(text, "/")
	if !found {
		n, per, found = strings.Cut(text, " per ")
	}
	count, err := strconv.Atoi(strings.TrimSpace(n))
	unit := units[strings.TrimSpace(per)]
	if !found || err != nil || unit == 0 {
		return lifecycle.Rate{}, fmt.Errorf("rate %q: want a number and a time, for example 5/s, 10/m or 100/h", text)
	}
	if count < 1 {
		return lifecycle.Rate{}, fmt.Errorf("rate %q: want 1 or more; to let nothing begin, deny it in the policy", text)
	}
	return lifecycle.Rate{N: count, Per: unit}, nil
}
