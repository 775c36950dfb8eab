package bustest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/bus"
)

var workerPromises = []Promise{
	{"P90 an offer is heard by one of those who serve the tool, and answered to who made it alone", workersOffer},
	{"P91 an offer that nobody can hear is known at once", workersNobody},
	{"P92 only who was handed a job can answer it", workersHand},
	{"P93 announcements say of which tool and from whom", workersAnnounce},
	{"P94 what no message can hold is refused, and the rest is heard", workersLarge},
	{"P95 a job that is closed hears nothing, and one that is flooded hears on", workersFlood},
}

// WorkerUser is the user whose seats the promises of workers take; WorkerTools are all
// the tools that it serves.
const WorkerUser = "w"

// WorkerTools are what WorkerUser serves.
var WorkerTools = []string{"saw", "plane_2"}

// benchOf are a keeper's workers, and the way to be one.
func benchOf(t *testing.T, b bus.Bus) (bus.Workers, func(instance string, tools ...string) bus.Seat) {
	t.Helper()
	w, ok := b.(bus.Workers)
	if !ok {
		t.Fatalf("%T has no workers", b)
	}
	s, ok := b.(interface {
		Seat(ctx context.Context, w bus.Worker, tools ...string) (bus.Seat, error)
	})
	if !ok {
		t.Fatalf("%T has no seats for workers", b)
	}
	return w, func(instance string, tools ...string) bus.Seat {
		t.Helper()
		seat, err := s.Seat(within(t), bus.Worker{User: WorkerUser, Instance: instance}, tools...)
		must(t, "take a seat", err)
		t.Cleanup(seat.Close)
		return seat
	}
}

func openJob(t *testing.T, w bus.Workers) bus.Job {
	t.Helper()
	j, err := w.OpenJob(within(t), "boot-1")
	must(t, "open a job", err)
	t.Cleanup(j.Close)
	return j
}

func hear(t *testing.T, s bus.Seat) bus.Heard {
	t.Helper()
	h, err := s.Hear(within(t))
	must(t, "hear at a seat", err)
	return h
}

func answerTo(t *testing.T, j bus.Job) string {
	t.Helper()
	s, err := j.Hear(within(t))
	must(t, "hear a worker", err)
	return fmt.Sprintf("%s taken=%t nobody=%t", s.Body, s.Taken, s.Nobody)
}

func wantHeard(t *testing.T, j bus.Job, want string) {
	t.Helper()
	if got := answerTo(t, j); got != want {
		t.Fatalf("heard %q, want %q", got, want)
	}
}

func workersOffer(t *testing.T, b bus.Bus) {
	w, sit := benchOf(t, b)
	seats := []bus.Seat{sit("a", WorkerTools...), sit("b", WorkerTools...)}
	got := make(chan string, 64)
	ctx, stop := context.WithCancel(within(t))
	ended := make(chan struct{}, len(seats))
	for i, s := range seats {
		go func() {
			defer func() { ended <- struct{}{} }()
			for {
				h, err := s.Hear(ctx)
				if err != nil {
					return
				}
				got <- fmt.Sprintf("%s %s", h.Tool, h.Body)
				if err := s.Answer(h.Reply, fmt.Appendf(nil, "%s by %d", h.Body, i)); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	for i := range 20 {
		tool := WorkerTools[i%2]
		j := openJob(t, w)
		must(t, "offer", j.Offer(tool, fmt.Appendf(nil, "job %d", i)))
		if said := answerTo(t, j); !strings.HasPrefix(said, fmt.Sprintf("job %d by ", i)) || !strings.HasSuffix(said, "taken=false nobody=false") {
			t.Errorf("job %d was answered %q", i, said)
		}
		if h := <-got; h != fmt.Sprintf("%s job %d", tool, i) {
			t.Errorf("job %d was heard as %q", i, h)
		}
		j.Close()
	}
	stop()
	for range seats {
		<-ended
	}
	if len(got) != 0 {
		t.Errorf("an offer was heard twice: %s", <-got)
	}
}

func workersNobody(t *testing.T, b bus.Bus) {
	w, sit := benchOf(t, b)
	s := sit("a", "saw")
	j := openJob(t, w)
	must(t, "offer", j.Offer("plane_2", []byte("x")))
	wantHeard(t, j, " taken=false nobody=true")
	must(t, "offer", j.Offer("saw", []byte("x")))
	if h := hear(t, s); h.Tool != "saw" || string(h.Body) != "x" {
		t.Errorf("heard %+v", h)
	}
	s.Close()
	for { // what is offered while a worker goes may be lost with it
		must(t, "offer", j.Offer("saw", []byte("y")))
		said, err := j.Hear(lasting(t, short))
		if err == nil && said.Nobody {
			return
		}
		if err == nil || t.Context().Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("heard %+v, %v", said, err)
		}
	}
}

func workersHand(t *testing.T, b bus.Bus) {
	w, sit := benchOf(t, b)
	a, other := sit("a", "saw"), sit("b")
	j := openJob(t, w)
	must(t, "offer", j.Offer("saw", []byte("who?")))
	offer := hear(t, a)
	must(t, "accept", a.Answer(offer.Reply, []byte("I")))
	wantHeard(t, j, "I taken=false nobody=false")
	must(t, "hand", j.Hand(bus.Worker{User: WorkerUser, Instance: "a"}, []byte("go")))
	handed := hear(t, a)
	if handed.Tool != "" || string(handed.Body) != "go" || handed.Reply == "" || handed.Reply == offer.Reply {
		t.Fatalf("what was handed came as %+v", handed)
	}
	cut := strings.LastIndexByte(handed.Reply, '.') + 1
	must(t, "forge", other.Answer(handed.Reply[:cut]+"GUESSED", []byte("forged"))) // a place that nobody was told
	must(t, "claim", other.Answer(offer.Reply, []byte("I, too")))
	wantHeard(t, j, "I, too taken=false nobody=false")
	must(t, "answer", a.Answer(handed.Reply, []byte("done")))
	wantHeard(t, j, "done taken=true nobody=false")

	must(t, "tell one", w.TellWorker(within(t), bus.Worker{User: WorkerUser, Instance: "b"}, []byte("you")))
	must(t, "tell all", w.TellWorker(within(t), bus.Worker{}, []byte("all")))
	must(t, "tell nobody", w.TellWorker(within(t), bus.Worker{User: WorkerUser, Instance: "z"}, []byte("nobody")))
	for _, want := range []string{"you", "all"} {
		if h := hear(t, other); string(h.Body) != want || h.Tool != "" || h.Reply != "" {
			t.Errorf("b heard %+v, want %s", h, want)
		}
	}
	if h := hear(t, a); string(h.Body) != "all" {
		t.Errorf("a heard %+v", h)
	}
}

func workersAnnounce(t *testing.T, b bus.Bus) {
	w, sit := benchOf(t, b)
	s := sit("a-1", WorkerTools...)
	ctx, stop := context.WithCancel(within(t))
	got := make(chan bus.Announcement, 1<<12)
	ended := make(chan error, 1)
	go func() {
		ended <- w.HearWorkers(ctx, func(a bus.Announcement) { got <- a })
	}()
	if a := <-got; a.Tool != "" {
		t.Fatalf("heard %+v BEFORE anybody was said to listen", a)
	}
	for first := false; !first; { // on another server it may be known a moment later who listens
		must(t, "announce", s.Announce("saw", []byte("hello")))
		select {
		case a := <-got:
			first = true
			if want := (bus.Worker{User: WorkerUser, Instance: "a-1"}); a.Tool != "saw" || a.Worker != want || string(a.Body) != "hello" {
				t.Fatalf("heard %+v", a)
			}
		case <-lasting(t, short/10).Done():
		}
	}
	must(t, "announce", s.Announce("plane_2", []byte("last")))
	for a := range got {
		if a.Tool == "plane_2" {
			if string(a.Body) != "last" {
				t.Errorf("heard %+v", a)
			}
			break
		}
	}
	stop()
	wantIs(t, "who was told to stop", <-ended, context.Canceled)
}

func workersLarge(t *testing.T, b bus.Bus) {
	w, sit := benchOf(t, b)
	s := sit("a", "saw")
	j := openJob(t, w)
	big := make([]byte, 9<<20)
	wantIs(t, "an offer that no message can hold", j.Offer("saw", big), bus.ErrTooLarge)
	wantIs(t, "a job that no message can hold", j.Hand(bus.Worker{User: WorkerUser, Instance: "a"}, big), bus.ErrTooLarge)
	wantIs(t, "a word that no message can hold", w.TellWorker(within(t), bus.Worker{User: WorkerUser, Instance: "a"}, big), bus.ErrTooLarge)
	must(t, "offer", j.Offer("saw", big[:900<<10]))
	h := hear(t, s)
	if len(h.Body) != 900<<10 {
		t.Errorf("%d bytes were heard", len(h.Body))
	}
	if err := s.Answer(h.Reply, big); err == nil {
		t.Error("an answer that no message can hold was sent")
	}
	must(t, "answer", s.Answer(h.Reply, []byte("x")))
	wantHeard(t, j, "x taken=false nobody=false")
}

func workersFlood(t *testing.T, b bus.Bus) {
	w, sit := benchOf(t, b)
	s := sit("a", "saw")
	flooded, calm := openJob(t, w), openJob(t, w)
	must(t, "offer", flooded.Offer("saw", []byte("1")))
	must(t, "offer", calm.Offer("saw", []byte("2")))
	one, two := hear(t, s), hear(t, s)
	for range bus.MaxUnheard + 100 {
		must(t, "flood", s.Answer(one.Reply, []byte("drop")))
	}
	must(t, "answer", s.Answer(two.Reply, []byte("calm")))
	wantHeard(t, calm, "calm taken=false nobody=false")
	for range bus.MaxUnheard / 2 {
		wantHeard(t, flooded, "drop taken=false nobody=false")
	}
	must(t, "answer", s.Answer(one.Reply, []byte("after")))
	var last bus.Said
	for string(last.Body) != "after" {
		var err error
		last, err = flooded.Hear(within(t))
		must(t, "hear", err)
	}
	if last.Missed == 0 {
		t.Error("what was dropped of a flood is not told")
	}
	flooded.Close()
	must(t, "answer who is gone", s.Answer(one.Reply, []byte("late")))
	if _, err := flooded.Hear(lasting(t, short)); !errors.Is(err, bus.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a job that is closed hears: %v", err)
	}
}
