package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-run/sluice/cmd/internal/exit"
)

// whenForms are the ways in which a moment is written, all of them in UTC but for the
// first, which says its zone.
var whenForms = []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"}

// parseWhen reads a moment as a flag has it: a time, a date, or how long ago it was. ""
// is the zero time.
func parseWhen(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, form := range whenForms {
		if t, err := time.Parse(form, text); err == nil {
			return t.UTC(), nil
		}
	}
	if d, ok := parseAgo(text); ok {
		return now.Add(-d), nil
	}
	return time.Time{}, exit.Misused(fmt.Errorf("--%s %q is no moment", flag, text),
		"give a time (2026-11-30T08:15:00Z), a date (2026-11-30, in UTC), or how long ago it was (90m, 2h, 3d)")
}

// mostAgo is the longest time ago that is believed, in days.
const mostAgo = 100 * 366

// parseAgo reads a duration that may be in days, too.
func parseAgo(text string) (time.Duration, bool) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 32)
		return time.Duration(n) * 24 * time.Hour, err == nil && n <= mostAgo
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d >= 0
}
