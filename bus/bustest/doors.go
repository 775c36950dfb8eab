package bustest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
)

var doorPromises = []Promise{
	{"P84 a door hears who asks, for what and with which words, and is heard", doorsAnswer},
	{"P85 a door that nobody serves is unavailable", doorsNobody},
	{"P86 each request is answered by one of those who serve", doorsShare},
	{"P87 an answer that no message can hold is replaced by one that says so", doorsLarge},
	{"P88 one who answers much answers the rest, too", doorsBusy},
}

// doors are those of a keeper; each has them.
func doors(t *testing.T, b bus.Bus) bus.Doors {
	t.Helper()
	d, ok := b.(bus.Doors)
	if !ok {
		t.Fatalf("%T has no doors", b)
	}
	return d
}

// open serves a door, and returns once a request of a user of its own is answered.
func open(t *testing.T, b bus.Bus, answer func(context.Context, bus.Knock) bus.Answer) (stop func() error) {
	t.Helper()
	d := doors(t, b)
	ctx, cancel := context.WithCancel(within(t))
	probe, met := "probe-"+rand.Text(), make(chan struct{})
	var once sync.Once
	ended := make(chan error, 1)
	go func() {
		ended <- d.ServeDoor(ctx, bus.Door{
			Name: "test", ID: rand.Text(), Version: "1.0.0", Verbs: []string{"say"},
			Answer: func(ctx context.Context, k bus.Knock) bus.Answer {
				if strings.HasPrefix(k.User, "probe-") { // ours, or of another door that opens
					if k.User == probe {
						once.Do(func() { close(met) })
					}
					return bus.Answer{Status: 200}
				}
				return answer(ctx, k)
			},
		})
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := d.Knock(lasting(t, 5*time.Second), bus.Knock{User: probe, Verb: "say"}); err != nil && ctx.Err() != nil {
			t.Fatal("nobody answers")
		}
		select {
		case <-met:
			return func() error {
				cancel()
				return <-ended
			}
		case <-tick.C:
		}
	}
}

func doorsAnswer(t *testing.T, b bus.Bus) {
	type heard struct{ user, verb, body, parent string }
	got := make(chan heard, 8)
	stop := open(t, b, func(_ context.Context, k bus.Knock) bus.Answer {
		got <- heard{k.User, k.Verb, string(k.Body), k.Traceparent}
		if k.Verb == "fail" {
			return bus.Answer{Status: 404, Error: "it is not there", Body: []byte(`{"status":404}`)}
		}
		return bus.Answer{Status: 202, Body: []byte(`{"said":true}`)}
	})
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, user := range []string{"ann", "_ann", "an.n", "a>*n n", "ännchen", "a=41"} {
		a, err := doors(t, b).Knock(within(t), bus.Knock{User: user, Verb: "say", Body: []byte(`{"a":1}`), Traceparent: parent})
		must(t, "knock", err)
		if a.Status != 202 || a.Error != "" || string(a.Body) != `{"said":true}` {
			t.Errorf("%q was answered %+v", user, a)
		}
		if h := <-got; h != (heard{user, "say", `{"a":1}`, parent}) {
			t.Errorf("the door heard %+v of %q", h, user)
		}
	}
	a, err := doors(t, b).Knock(within(t), bus.Knock{User: "ann", Verb: "fail"})
	must(t, "knock", err)
	if a.Status != 404 || a.Error != "it is not there" || string(a.Body) != `{"status":404}` {
		t.Errorf("the refusal came as %+v", a)
	}
	wantIs(t, "a door that was told to close", stop(), context.Canceled)
}

func doorsNobody(t *testing.T, b bus.Bus) {
	_, err := doors(t, b).Knock(within(t), bus.Knock{User: "ann", Verb: "say"})
	wantIs(t, "a request that nobody serves", err, bus.ErrUnavailable)
	if err := open(t, b, func(context.Context, bus.Knock) bus.Answer { return bus.Answer{} })(); err == nil {
		t.Error("a door that was told to close returns no error")
	}
	_, err = doors(t, b).Knock(within(t), bus.Knock{User: "ann", Verb: "say"})
	wantIs(t, "a request to a door that was closed", err, bus.ErrUnavailable)
	for _, verb := range []string{"", "two.tokens"} {
		if _, err := doors(t, b).Knock(within(t), bus.Knock{User: "ann", Verb: verb}); err == nil {
			t.Errorf("verb %q was sent", verb)
		}
	}
}

func doorsShare(t *testing.T, b bus.Bus) {
	var mu sync.Mutex
	seen := map[string]int{}
	count := func(_ context.Context, k bus.Knock) bus.Answer {
		mu.Lock()
		defer mu.Unlock()
		seen[string(k.Body)]++
		return bus.Answer{Status: 200}
	}
	one, two := open(t, b, count), open(t, b, count)
	for range 20 {
		_, err := doors(t, b).Knock(within(t), bus.Knock{User: "ann", Verb: "say", Body: []byte(rand.Text())})
		must(t, "knock", err)
	}
	wantIs(t, "the first door", one(), context.Canceled)
	_, err := doors(t, b).Knock(within(t), bus.Knock{User: "ann", Verb: "say", Body: []byte("last")})
	must(t, "knock with one door left", err)
	wantIs(t, "the second door", two(), context.Canceled)
	mu.Lock()
	defer mu.Unlock()
	for body, n := range seen {
		if n != 1 {
			t.Errorf("request %s was answered %d times", body, n)
		}
	}
	if len(seen) != 21 {
		t.Errorf("%d of 21 requests were answered", len(seen))
	}
}

func doorsLarge(t *testing.T, b bus.Bus) {
	stop := open(t, b, func(_ context.Context, k bus.Knock) bus.Answer {
		n := bus.MaxAnswer
		if k.Verb == "more" {
			n++
		}
		return bus.Answer{Status: 200, Body: bytes.Repeat([]byte("1"), n)}
	})
	a, err := doors(t, b).Knock(within(t), bus.Knock{User: "ann", Verb: "most"})
	must(t, "knock", err)
	if a.Status != 200 || len(a.Body) != bus.MaxAnswer {
		t.Errorf("the largest answer came as %d with %d bytes", a.Status, len(a.Body))
	}
	a, err = doors(t, b).Knock(within(t), bus.Knock{User: "ann", Verb: "more"})
	must(t, "knock", err)
	if a.Status != 413 || a.Error == "" || !json.Valid(a.Body) {
		t.Errorf("a larger answer came as %d %q %.100s", a.Status, a.Error, a.Body)
	}
	_, err = doors(t, b).Knock(within(t), bus.Knock{User: "ann", Verb: "say", Body: make([]byte, 9<<20)})
	wantIs(t, "a request that no message can hold", err, bus.ErrTooLarge)
	wantIs(t, "a door that was told to close", stop(), context.Canceled)
}

func doorsBusy(t *testing.T, b bus.Bus) {
	free, held := make(chan struct{}), make(chan struct{}, bus.DoorsAtOnce)
	stop := open(t, b, func(ctx context.Context, _ bus.Knock) bus.Answer {
		held <- struct{}{}
		select {
		case <-free:
		case <-ctx.Done():
		}
		return bus.Answer{Status: 200}
	})
	ctx := within(t)
	ended := make(chan bus.Answer, bus.DoorsAtOnce)
	for range bus.DoorsAtOnce {
		go func() {
			a, _ := doors(t, b).Knock(ctx, bus.Knock{User: "ann", Verb: "say"}) // no answer has status 0
			ended <- a
		}()
	}
	for range bus.DoorsAtOnce {
		<-held
	}
	a, err := doors(t, b).Knock(ctx, bus.Knock{User: "ann", Verb: "say"})
	must(t, "knock at a busy door", err)
	if a.Status != 503 || !json.Valid(a.Body) {
		t.Errorf("a busy door answers %d %.100s", a.Status, a.Body)
	}
	close(free)
	for range bus.DoorsAtOnce {
		if a := <-ended; a.Status != 200 {
			t.Errorf("one who waited was answered %d", a.Status)
		}
	}
	wantIs(t, "a door that was told to close", stop(), context.Canceled)
}
