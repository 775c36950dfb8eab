package tools

import "github.com/sluice-run/sluice/events"

// Visible is events.Visible, for tools that say what a person will read.
func Visible(s string) string { return events.Visible(s) }
