package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/sluice-run/sluice/events"
)

// ToolName is the name under which a server's tool is registered: the server's, "__",
// and the tool's own, which the first "__" gives back. Where the tool's own has other
// characters than A-Za-z0-9_-, or the whole would be too long, each such character is a
// '-', the rest is cut, and '-' with 10 hexadecimal digits of the SHA-256 of its own name
// ends it: the same name every time, and another for every tool. It is pure.
func ToolName(server, tool string) string {
	name := server + "__" + tool
	if events.ValidToolName(name) && tool != "" {
		return name
	}
	digest := sha256.Sum256([]byte(tool))
	tail := "-" + hex.EncodeToString(digest[:5])
	plain := strings.Map(func(r rune) rune {
		if r < 0x80 && events.ValidToolName(string(r)) {
			return r
		}
		return '-'
	}, tool)
	return server + "__" + plain[:min(len(plain), events.MaxToolName-len(server)-2-len(tail))] + tail
}

// SplitName is a registered name's server, and what follows it; ok is false for a name
// without one.
func SplitName(name string) (server, tool string, ok bool) {
	server, tool, ok = strings.Cut(name, "__")
	return server, tool, ok && ValidServerName(server) && tool != ""
}

// shown is a stranger's word for people: bounded, with what is hidden made visible.
func shown(name string) string { return clip(events.Visible(name), 200) }

// shownLine is a line of a stranger's log.
func shownLine(line string) string { return clip(events.Visible(line), maxLogLine) }

// clip is s, of which at most n bytes are left, on a boundary of runes.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
