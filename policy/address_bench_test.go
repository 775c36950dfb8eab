package policy

import (
	"strings"
	"testing"
)

// What it costs to judge a path, a URL and the strings of a call's arguments.
func BenchmarkCheckPath(b *testing.B) {
	for name, p := range map[string]string{"short": "src/main.go", "long": strings.Repeat("folder/", 20) + "file.go", "encoded": "%2e%2e/%2e%2e/etc/passwd", "unicode": "ünïcode/界/😀.txt"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_ = CheckPath(p)
			}
		})
	}
}

func BenchmarkCheckURL(b *testing.B) {
	for name, u := range map[string]string{"name": "https://pkg.go.dev/net/netip#Addr", "address": "http://1.1.1.1/", "private": "http://10.0.0.1/", "long": "https://example.com/" + strings.Repeat("a", 4000)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, _ = CheckURL(u)
			}
		})
	}
}

func BenchmarkDecidesGit(b *testing.B) {
	for b.Loop() {
		DecidesGit("src/internal/server/handler.go")
	}
}
