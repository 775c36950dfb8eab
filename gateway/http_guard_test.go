package gateway

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestHTTPPathsAreReadInOneWay: a path that two programs could read differently is no path.
func TestHTTPPathsAreReadInOneWay(t *testing.T) {
	d := asked(t)
	for _, path := range []string{
		"//v1/turns/tr/sub", "/v1//turns/tr/sub", "/v1/turns/tr//sub", "/v1/../v1/turns/tr/sub", "/v1/./turns/tr/sub", "/v1/turns/tr/sub/.", "/v1/turns/tr/sub/..",
		"/v1/turns/tr%2fsub/messages", "/v1/turns/tr%2Fsub", "/v1%2fturns/tr/sub", "/v1/turns/%74r/sub", "/v1/turns/tr/su%62", "/v1/turns/tr/%2e%2e", "/v1/turns/tr/%2e",
		"/v1/turns/tr/sub%00", "/v1/turns/tr/sub%0d%0aX-A:%201", "/v1/turns/tr/sub%5c..", "/v1/turns/tr/sub%25%30%30", "/v1/turns/tr/sub%2500", "/v1/turns/tr/%c0%ae", "/v1/turns/tr/sub%7f",
		"/v1/turns/tr/%d1%95ub", "/v1/turns/tr/sub/calls/%30/cancel", "/%2e%2e/healthz", "/./healthz", "/healthz%2f", "/v1/" + strings.Repeat("a", 3000),
	} {
		r := request(t, "GET", "http://localhost/", nil)
		u, err := url.Parse("http://localhost" + path)
		must(t, err)
		r.URL = u
		for _, id := range []string{"", "adm"} {
			r.Header.Del("Authorization")
			if id != "" {
				r.Header.Set("Authorization", "Bearer "+tokenOf(id))
			}
			resp := served(d.api.Handler(), r)
			if resp.StatusCode != 400 || resp.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s by %q: %d as %s", path, id, resp.StatusCode, resp.Header.Get("Content-Type"))
			}
		}
	}
	d.want(404, "no-route", "GET", "/v1/turns/tr/sub/", "", as("adm")...)
	d.want(400, "bad-id", "GET", "/v1/turns/tr/sub;x=1", "", as("adm")...)
	d.want(404, "not-found", "GET", "/v1/blobs/sha256%3A"+strings.Repeat("0", 64), "", as("adm")...) // as many clients write it
}

func TestHTTPQueriesAreReadInFull(t *testing.T) {
	d := newGuarded(t, nil)
	for path, part := range map[string]string{
		"/v1/whoami?x=1":                                        "there are none here",
		"/v1/turns/tr/tu?format=openai":                         "known here: wait_ms",
		"/v1/events?access_token=x":                             "known here: from, trace",
		"/v1/tools?format=openai;drop=1":                        "cannot be read",
		"/v1/tools?%zz":                                         "cannot be read",
		"/v1/tools?format=%00":                                  "no text",
		"/v1/tools?format=a%0d%0ab":                             "no text",
		"/v1/tools?format=%ff":                                  "no text",
		"/v1/tools?" + strings.Repeat("format=a&", 300):         "values, at most",
		"/v1/tools?format=" + strings.Repeat("a", maxQueryText): "bytes, at most",
	} {
		d.want(400, part, "GET", path, "", as("adm")...)
	}
	d.want(400, "there are none here", "POST", "/v1/turns?trace=x", `{"calls":[{"tool":"echo"}]}`, as("sub")...)
	d.want(400, "there are none here", "POST", "/v1/turns/tr/tu/cancel?principal=adm", "", as("adm")...)
}

// TestHTTPBodiesSayWhatTheyAre: what a form of another site's page can send is no JSON.
func TestHTTPBodiesSayWhatTheyAre(t *testing.T) {
	d := newDoor(t, nil)
	const body = `{"trace":"tr","turn":"tu","calls":[{"tool":"echo"}]}`
	for _, headers := range [][]string{
		{"Content-Type", "text/plain"},
		{"Content-Type", "text/plain;charset=UTF-8"},
		{"Content-Type", "application/x-www-form-urlencoded", "Referer", "http://localhost/form"},
		{"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin"},
		{"Content-Type", "application/x-www-form-urlencoded; charset=utf-8"},
		{"Content-Type", "multipart/form-data; boundary=x"},
		{"Content-Type", "application/json; charset=utf-16"},
		{"Content-Type", "application/jsonx"},
		{"Content-Type", "text/plain, application/json"},
		{"Content-Type", "application/octet-stream"},
		{"Content-Type", ";"},
		{"Content-Type", "application/json", "Content-Encoding", "gzip"},
		{"Sec-Fetch-Mode", "no-cors"},
		{"Sec-Fetch-Site", "same-origin"},
	} {
		d.want(415, "application/json", "POST", "/v1/turns", body, headers...)
		if out := d.want(415, "", "POST", "/v1/turns/tr/tu/cancel", `{"reason":"x"}`, headers...); strings.Contains(out, "no-turn") {
			t.Errorf("%v: %s", headers, out)
		}
	}
	d.want(404, "no-turn", "GET", "/v1/turns/tr/tu", "")
	for _, media := range []string{"application/json", "application/json; charset=utf-8", "Application/JSON;charset=UTF-8"} {
		d.want(202, "", "POST", "/v1/turns", body, "Content-Type", media)
	}
	d.want(202, "", "POST", "/v1/turns", body)                                                      // a program need not say it
	d.want(202, "", "POST", "/v1/turns", body, "Content-Type", "application/x-www-form-urlencoded") // nor need curl be told
	d.want(202, "", "POST", "/v1/turns/tr/tu/cancel", "", "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors")
	d.want(400, "has no body here", "GET", "/v1/tools", "{}")
}

// TestHTTPHeadersOnEveryAnswer: errors, too, and to nobody.
func TestHTTPHeadersOnEveryAnswer(t *testing.T) {
	d := newGuarded(t, nil)
	for _, c := range [][]string{
		{"GET", "/healthz"},
		{"GET", "/v1/tools"},
		{"GET", "/nowhere"},
		{"PUT", "/v1/turns"},
		{"GET", "//"},
		{"GET", "/healthz", "Host", "evil.example"},
		{"GET", "/healthz", "Origin", "http://evil.example"},
		{"GET", "/v1/whoami", "Authorization", "Bearer " + tokenOf("adm")},
		{"GET", "/v1/events?follow=false&from=start", "Authorization", "Bearer " + tokenOf("adm")},
		{"GET", "/metrics", "Authorization", "Bearer " + tokenOf("adm")},
		{"OPTIONS", "/v1/turns", "Origin", "http://localhost", "Access-Control-Request-Method", "POST"},
		{"TRACE", "/", "Authorization", "Bearer " + tokenOf("adm")},
		{"DELETE", "/v1/turns/tr/tu", "Authorization", "Bearer " + tokenOf("adm")},
		{"HEAD", "/v1/events", "Authorization", "Bearer " + tokenOf("adm")},
		{strings.Repeat("X", 300), "/v1/turns", "Authorization", "Bearer " + tokenOf("adm")},
	} {
		r := request(t, c[0], "http://localhost/", nil)
		u, err := url.Parse("http://localhost" + c[1])
		must(t, err)
		r.URL = u
		for i := 2; i+1 < len(c); i += 2 {
			if r.Header.Set(c[i], c[i+1]); c[i] == "Host" {
				r.Host = c[i+1]
			}
		}
		resp := served(d.api.Handler(), r)
		for _, s := range securityHeaders {
			if got := resp.Header.Get(s[0]); got != s[1] {
				t.Errorf("%v: %d with %s %q", c, resp.StatusCode, s[0], got)
			}
		}
		for name := range resp.Header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%v: %s", c, name)
			}
		}
		if resp.StatusCode >= 400 {
			var p Problem
			if err := json.NewDecoder(resp.Body).Decode(&p); err != nil || p.Status != resp.StatusCode {
				t.Errorf("%v: %d, %+v, %v", c, resp.StatusCode, p, err)
			}
		}
	}
}

// TestHTTPNamesOfThisMachine: an address that a request came to is this machine's; one
// that a name leads to for a moment is not.
func TestHTTPNamesOfThisMachine(t *testing.T) {
	d := newGuarded(t, func(c *APIConfig) { c.Hosts = []string{"sluice.internal"} })
	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST.:80": true, "127.0.0.1:1": true, "[::1]:1": true, "sluice.internal": true, "sluice.internal.:443": true, "192.0.2.7:8383": true, "192.0.2.7": true,
		"192.0.2.8": false, "evil.example": false, "": false, "localhost.evil.example": false, "127.0.0.1.nip.io": false, "[::1%25eth0]": false, "0.0.0.0": false, "2130706433": false,
		"127.1": false, "0x7f.0.0.1": false, "sluice.internal.evil.example": false, "evil.example:127.0.0.1": false, "user@localhost": false, "[::ffff:127.0.0.1]": true, "[::ffff:192.0.2.7]:1": true,
		"a b": false, "localhost/evil": false, "localhost,evil": false,
	} {
		r := request(t, "GET", "http://localhost/v1/whoami", nil)
		r.Host = host
		r.Header.Set("Authorization", "Bearer "+tokenOf("adm"))
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 8383})))
		if resp := served(d.api.Handler(), r); (resp.StatusCode == 200) != want {
			t.Errorf("Host %q: %d, want it known: %v", host, resp.StatusCode, want)
		}
	}
	r := request(t, "GET", "http://localhost/healthz", nil)
	r.Header["Origin"] = []string{"http://localhost", "http://evil.example"}
	if resp := served(d.api.Handler(), r); resp.StatusCode != 403 {
		t.Errorf("two origins: %d", resp.StatusCode)
	}
}
