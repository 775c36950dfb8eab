package main

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// pairs reads a list as OpenTelemetry's variables have it: name=value, with commas
// between, and what is special behind %.
func pairs(text string, into map[string]string) error {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return fmt.Errorf("a part without a name and = in it")
		}
		plain, err := url.PathUnescape(strings.TrimSpace(value))
		if err != nil {
			return fmt.Errorf("the value of %s: a %% that begins no escape", name)
		}
		into[name] = plain
	}
	return nil
}

// local says whether a host's name is this machine's own.
func local(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
