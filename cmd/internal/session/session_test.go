package session

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/exit"

	"github.com/sluice-run/sluice/test/leaks"
)

func TestMain(m *testing.M) {
	leaks.Main(m, leaks.OfServers...)
}

// embedded keeps a log as a node does, until the test ends.
func embedded(t *testing.T, dir string) *Session {
	t.Helper()
	ses, err := OpenEmbedded(t.Context(), jetlog.ServerConfig{Dir: dir, Port: -1, Token: "secret"}, jetlog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ses.Close(); err != nil {
			t.Error(err)
		}
	})
	return ses
}

// find is what the node of a directory has told.
func find(t *testing.T, dir string) jetlog.Running {
	t.Helper()
	running, found, err := jetlog.Find(dir)
	if err != nil || !found || running.URL == "" {
		t.Fatalf("found %t, %+v, %v", found, running, err)
	}
	return running
}

// TestTheBarrierIsLent: what waits in another process waits for the one that keeps
// the log.
func TestTheBarrierIsLent(t *testing.T) {
	dir := t.TempDir()
	node := embedded(t, dir)
	mode := node.Bus.Barrier().Mode()
	if err := node.Server.Announce(func(r *jetlog.Running) { r.More = map[string]string{"sync": mode} }); err != nil {
		t.Fatal(err)
	}
	node.LendBarrier(t.Context(), slog.New(slog.DiscardHandler))
	other, err := Place{Data: dir, Creds: "is not looked at"}.OpenRunning(t.Context(), find(t, dir), jetlog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}()
	if got := other.Bus.Barrier().Mode(); got != mode || other.Server != nil {
		t.Errorf("mode %q, want %q; server %v", got, mode, other.Server)
	}
	if err := eventually(t.Context(), other.Bus.Barrier()); err != nil {
		t.Errorf("%v", err)
	}
}

// eventually waits for a barrier that may not be lent yet: until somebody answers.
func eventually(ctx context.Context, b bus.Barrier) error {
	ctx, stop := context.WithTimeout(ctx, farLimit)
	defer stop()
	for ctx.Err() == nil {
		if err := b.Wait(ctx); !errors.Is(err, bus.ErrUnavailable) {
			return err
		}
	}
	return ctx.Err()
}

// notes answer each question with the same.
type notes struct {
	bus.Notes
	answer string
	err    error
}

func (n notes) Ask(_ context.Context, boot string, _ []byte) ([]byte, error) {
	if boot != barrierName {
		return nil, bus.ErrUnavailable
	}
	return []byte(n.answer), n.err
}

func TestFarBarrier(t *testing.T) {
	for _, c := range []struct {
		notes bus.Notes
		want  string
	}{
		{nil, ""}, // the bus is being opened
		{notes{}, ""},
		{notes{answer: "a sync failed"}, "a sync failed"},
		{notes{err: bus.ErrUnavailable}, bus.ErrUnavailable.Error()},
	} {
		err := (&farBarrier{notes: c.notes}).Wait(t.Context())
		if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
			t.Errorf("%+v: %v, want %q", c.notes, err, c.want)
		}
	}
}

func TestDialSaysWhatToDo(t *testing.T) {
	_, err := Place{NATS: "nats://127.0.0.1:1", Hint: "start it"}.Dial(t.Context(), jetlog.Config{})
	if err == nil || exit.Hint(err) != "start it" || exit.Code(err, false) != exit.Unavailable || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("%v, hint %q", err, exit.Hint(err))
	}
}

func TestFlagsFillThePlace(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", "/home/data")
	var p Place
	f := pflag.NewFlagSet("place", pflag.ContinueOnError)
	p.Flags(f)
	if p.Data != "/home/data/sluice" {
		t.Errorf("data is %q where none is named", p.Data)
	}
	err := f.Parse([]string{
		"--data=d", "--nats=n", "--creds=c", "--nkey=k", "--tls-ca=a", "--tls-cert=e", "--tls-key=y", "--tls",
	})
	if want := (Place{Data: "d", NATS: "n", Creds: "c", NKey: "k", CA: "a", Cert: "e", Key: "y", TLS: true}); err != nil || p != want {
		t.Errorf("%+v, %v, want %+v", p, err, want)
	}
	if got := EnvName("tls-ca"); got != "SLUICE_TLS_CA" {
		t.Errorf("%q", got)
	}
}
