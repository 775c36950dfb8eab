package main

import "testing"

const answer = `{"osv":{"id":"GO-1","summary":"one"}}
{"osv":{"id":"GO-2","summary":"two"}}
{"finding":{"osv":"GO-1","fixed_version":"v1.2.0","trace":[{"module":"example.org/a","version":"v1.1.0"}]}}
{"finding":{"osv":"GO-1","fixed_version":"v1.2.0","trace":[{"module":"example.org/a","version":"v1.1.0","function":"F"},{"module":"us","function":"main","position":{"filename":"main.go","line":3}}]}}
{"finding":{"osv":"GO-2","fixed_version":"v1.26.9","trace":[{"module":"stdlib","version":"v1.26.8","function":"G"}]}}
`

func TestRead(t *testing.T) {
	found, err := read([]byte(answer))
	if err != nil || len(found) != 2 {
		t.Fatalf("%v, %v", found, err)
	}
	want := finding{ID: "GO-1", Module: "example.org/a", Has: "v1.1.0", Mended: "v1.2.0", Summary: "one", Called: "main.go:3"}
	if found[0] != want {
		t.Errorf("%+v, want %+v", found[0], want)
	}
	if !found[1].standard() || found[0].standard() {
		t.Error("only stdlib comes with Go")
	}
	if _, err := read([]byte("{")); err == nil {
		t.Error("half an answer was read")
	}
}

func TestReport(t *testing.T) {
	called := finding{ID: "GO-1", Module: "example.org/a", Mended: "v1.2.0", Called: "main.go:3"}
	std := finding{ID: "GO-2", Module: "stdlib", Mended: "v1.26.9", Called: "main.go:3"}
	quiet := finding{ID: "GO-3", Module: "example.org/b", Mended: "v2.0.0"}
	for _, c := range []struct {
		found []finding
		want  int
	}{{nil, 0}, {[]finding{called}, 1}, {[]finding{std, quiet}, 0}, {[]finding{std, called}, 1}} {
		if got := report(c.found); got != c.want {
			t.Errorf("%v: status %d, want %d", c.found, got, c.want)
		}
	}
}
