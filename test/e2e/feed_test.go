package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// feed reads server-sent events of a node until enough says so, and returns
// their ids in order, and the types that have none.
func (a *api) feed(query, last string, enough func(ids []string) bool) (ids, notices []string) {
	a.t.Helper()
	ctx, stop := context.WithTimeout(a.t.Context(), patience)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+"/v1/events"+query, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		a.t.Fatalf("GET /v1/events%s: %s", query, resp.Status)
	}
	in := bufio.NewScanner(resp.Body)
	in.Buffer(nil, 16<<20)
	kind, id := "", ""
	for !enough(ids) && in.Scan() {
		switch line := in.Text(); {
		case strings.HasPrefix(line, "id: "):
			id = line[len("id: "):]
		case strings.HasPrefix(line, "event: "):
			kind = line[len("event: "):]
		case line == "" && id != "":
			ids, kind, id = append(ids, id), "", ""
		case line == "" && kind != "":
			notices, kind = append(notices, kind), ""
		}
	}
	return ids, notices
}

// TestAnObserverGoesOnWhereItWas: nothing twice, nothing left out, in order,
// whatever was missed in between, and over a restart.
func TestAnObserverGoesOnWhereItWas(t *testing.T) {
	p := newPlace(t)
	n := p.serve()
	some := func(name string, k int) {
		for i := range k {
			n.run(turn{Trace: name, Turn: fmt.Sprint("t", i), Calls: []call{{Tool: "echo", Args: args{"v": i}}, charge(fmt.Sprint(name, i), 1)}})
		}
	}
	some("one", 5)
	never := func([]string) bool { return false }
	first, _ := n.feed("?from=start", "", func(ids []string) bool { return len(ids) == 20 })
	some("two", 5) // while nobody looks
	if code := n.stop(); code != 0 {
		t.Errorf("exit %d", code)
	}
	n = p.serve()
	some("three", 2)
	rest, notices := n.feed("?follow=false", first[len(first)-1], never)
	all, _ := n.feed("?from=start&follow=false", "", never)
	if got := slices.Concat(first, rest); !slices.Equal(got, all) || len(all) < 100 {
		t.Errorf("%d and %d events, of %d: %v", len(first), len(rest), len(all), got)
	}
	if len(notices) != 0 {
		t.Errorf("notices %v", notices)
	}
	for i := 1; i < len(all); i++ {
		if !before(t, all[i-1], all[i]) {
			t.Errorf("%s stands behind %s", all[i], all[i-1])
		}
	}
	if from, _ := n.feed("?follow=false&from="+all[40], "", never); !slices.Equal(from, all[40:]) {
		t.Errorf("from %s on: %d events, want %d", all[40], len(from), len(all)-40)
	}
	if kinds, _ := n.feed("?follow=false&from=start&kind=completed&tool=charge&trace=two", "", never); len(kinds) != 5 {
		t.Errorf("filtered: %v", kinds)
	}
}

// TestAnObserverHearsOfEveryEventAtOnce, while turns run.
func TestAnObserverHearsOfEveryEventAtOnce(t *testing.T) {
	n := newPlace(t).serve()
	heard := make(chan []string, 1)
	begun := make(chan struct{})
	go func() {
		once := false
		ids, _ := n.feed("?from=start&kind=turn_completed", "", func(ids []string) bool {
			if !once {
				once = true
				close(begun)
			}
			return len(ids) == 10
		})
		heard <- ids
	}()
	<-begun
	for i := range 10 {
		n.submit(turn{Trace: "many", Turn: fmt.Sprint("t", i), Calls: []call{{Tool: "echo", Args: args{"v": i}}}})
	}
	if ids := <-heard; len(ids) != 10 {
		t.Errorf("%v", ids)
	}
}
