package policy

import (
	"errors"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPaths(t *testing.T) {
	rows := table(t, "paths.txt")
	if len(rows) < 60 {
		t.Errorf("%d examples, want 60", len(rows))
	}
	for _, row := range rows {
		checkExample(t, row, CheckPath(row.value), ErrPath)
	}
	for name, p := range map[string]string{
		"too long":        strings.Repeat("a/", MaxPath/2) + "a",
		"too long a name": strings.Repeat("a", MaxSegment+1),
	} {
		if err := CheckPath(p); !errors.Is(err, ErrPath) || !strings.Contains(err.Error(), "longer") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := CheckPath(strings.Repeat("a", MaxSegment) + "/" + strings.Repeat("b", MaxSegment)); err != nil {
		t.Errorf("the longest names: %v", err)
	}
}

func checkExample(t *testing.T, row row, err, base error) {
	t.Helper()
	switch {
	case row.decision == "allow" && err != nil:
		t.Errorf("%s: %q is refused: %v", row.at, row.value, err)
	case row.decision == "deny" && (!errors.Is(err, base) || !strings.Contains(err.Error(), row.want)):
		t.Errorf("%s: %q: %v, want a refusal with %q", row.at, row.value, err, row.want)
	case err != nil && !oneSentence(sentence(err)):
		t.Errorf("%s: %q is not one sentence", row.at, sentence(err))
	}
}

func TestURLs(t *testing.T) {
	rows := table(t, "urls.txt")
	if len(rows) < 60 {
		t.Errorf("%d examples, want 60", len(rows))
	}
	for _, row := range rows {
		host, err := CheckURL(row.value)
		checkExample(t, row, err, ErrHost)
		if row.decision == "allow" && host != row.want {
			t.Errorf("%s: host %q, want %q", row.at, host, row.want)
		}
	}
	if _, err := CheckURL("https://example.com/" + strings.Repeat("a", MaxURL)); !errors.Is(err, ErrHost) {
		t.Errorf("too long: %v", err)
	}
}

func TestHosts(t *testing.T) {
	for host, ok := range map[string]bool{
		"example.com": true, "EXAMPLE.com.": true, "[2606:4700::1111]": true, "2606:4700::1111": true, "9.9.9.9": true,
		"": false, ".": false, "localhost": false, "example.com:80": false, "::1": false, "[::1]": false, "127.0.0.1": false, "a b.com": false,
		strings.Repeat("a", 64) + ".com": false, strings.Repeat("abcdefg.", 32) + "com": false,
	} {
		if err := CheckHost(host); (err == nil) != ok {
			t.Errorf("%q: %v, want accepted %t", host, err, ok)
		}
	}
}

// However a way up is written, it is refused.
func TestEveryCodingOfTheWayUp(t *testing.T) {
	dots := []string{".", "%2e", "%2E", "%252e", "%u002e", "\uff0e", "\u2024"}
	slashes := []string{"/", "\\", "%2f", "%5c", "%252F", "\u2215", "\uff0f"}
	rapid.Check(t, func(t *rapid.T) {
		dot, slash := rapid.SampledFrom(dots), rapid.SampledFrom(slashes)
		p := rapid.SampledFrom([]string{"", "a/", "a/b\\"}).Draw(t, "before") +
			dot.Draw(t, "dot") + dot.Draw(t, "dot") + slash.Draw(t, "slash") + rapid.SampledFrom([]string{"", "etc", "a/b"}).Draw(t, "after")
		if err := CheckPath(p); !errors.Is(err, ErrPath) {
			t.Fatalf("%q is accepted", p)
		}
	})
}

// No spelling of a private IPv4 address is accepted.
func TestEverySpellingOfPrivateAddresses(t *testing.T) {
	private := []string{"127.0.0.1", "10.0.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"}
	rapid.Check(t, func(t *rapid.T) {
		a := netip.MustParseAddr(rapid.SampledFrom(private).Draw(t, "address")).As4()
		keep := rapid.IntRange(0, 3).Draw(t, "whole bytes")
		var parts []string
		rest := uint64(0)
		for i, b := range a {
			if i < keep {
				parts = append(parts, number(t, uint64(b)))
				continue
			}
			rest = rest<<8 | uint64(b)
		}
		host := strings.Join(append(parts, number(t, rest)), ".")
		if err := CheckHost(host); !errors.Is(err, ErrHost) {
			t.Fatalf("%q is accepted", host)
		}
	})
}

func number(t *rapid.T, n uint64) string {
	const digits = "0123456789abcdef"
	base := rapid.SampledFrom([]uint64{10, 8, 16}).Draw(t, "base")
	s := ""
	for {
		s = string(digits[n%base]) + s
		if n /= base; n == 0 {
			break
		}
	}
	return map[uint64]string{10: "", 8: "0", 16: "0x"}[base] + s
}

func FuzzCheckPath(f *testing.F) {
	for _, row := range table(f, "paths.txt") {
		f.Add(row.value)
	}
	f.Fuzz(func(t *testing.T, p string) {
		err := CheckPath(p)
		if err != nil {
			if !errors.Is(err, ErrPath) || !oneSentence(sentence(err)) {
				t.Fatalf("%q: %v", p, err)
			}
			return
		}
		for range 3 {
			for _, form := range []string{p, strings.ReplaceAll(p, `\`, "/")} {
				if !filepath.IsLocal(form) || strings.ContainsAny(form, "\x00\n\x1b") {
					t.Fatalf("%q is accepted", form)
				}
			}
			next, err := url.PathUnescape(p)
			if err != nil || next == "" {
				return
			}
			p = next
		}
	})
}

func FuzzCheckURL(f *testing.F) {
	for _, row := range table(f, "urls.txt") {
		f.Add(row.value)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		host, err := CheckURL(raw)
		if err != nil {
			if !errors.Is(err, ErrHost) || host != "" || !oneSentence(sentence(err)) {
				t.Fatalf("%q: %q, %v", raw, host, err)
			}
			return
		}
		u, err := url.Parse(raw)
		if err != nil || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
			t.Fatalf("%q is accepted: %v", raw, err)
		}
		if plainHost(u.Hostname()) != host || !strings.ContainsAny(host, ".:") {
			t.Fatalf("%q: host %q", raw, host)
		}
		if a, err := netip.ParseAddr(host); err == nil && (!a.IsGlobalUnicast() || a.IsPrivate() || a.Is4In6()) {
			t.Fatalf("%q is accepted", raw)
		}
	})
}
