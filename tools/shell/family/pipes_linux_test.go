package family

import (
	"bufio"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/sluice-run/sluice/tools/sandbox"
)

// TestAServerOnPipes: a program that lives long and is spoken to, as servers of tools
// are, contained or not. It ends when its input does, and otherwise when it is told to.
func TestAServerOnPipes(t *testing.T) {
	m, err := sandbox.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	landlock := m.Use
	landlock.Namespaces = false
	for name, use := range map[string]sandbox.Use{"bare": {}, "landlock": landlock, "all": m.Use} {
		t.Run(name, func(t *testing.T) {
			const server = `echo up >&2; while read -r line; do echo "got $line"; done; echo over >&2`
			s := serve(t, server, use)
			for i := range 20 {
				fmt.Fprintf(s.in, "%d\n", i)
				if got := s.line(t, s.out); got != fmt.Sprintf("got %d", i) {
					t.Fatalf("%q", got)
				}
			}
			s.in.Close()
			<-s.f.Exited()
			if exit, _ := s.f.Ending(); exit == nil || *exit != 0 || s.line(t, s.err) != "up" || s.line(t, s.err) != "over" {
				t.Errorf("exit %v", exit)
			}
			s.close(t)

			s = serve(t, server+"; sleep 60", use)
			fmt.Fprintln(s.in, "x")
			s.line(t, s.out)
			s.close(t) // while it runs
		})
	}
}

// served is a server with our ends of its pipes.
type served struct {
	f        *Family
	in       *os.File
	out, err *bufio.Reader
	files    []*os.File
}

func serve(t *testing.T, line string, use sandbox.Use) served {
	t.Helper()
	var s served
	var theirs [3]*os.File
	for i := range theirs {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		switch i {
		case 0:
			theirs[0], s.in = r, w
		case 1:
			theirs[1], s.out = w, bufio.NewReader(r)
		case 2:
			theirs[2], s.err = w, bufio.NewReader(r)
		}
		if s.files = append(s.files, r); i == 0 {
			s.files[0] = w
		}
	}
	var err error
	s.f, err = Start(t.Context(), Launch{
		Path: "/bin/bash", Args: []string{"bash", "-c", line}, Env: []string{"PATH=/usr/bin:/bin", "X=pipes"}, Mark: "X=pipes", Dir: t.TempDir(), Grace: 100 * time.Millisecond,
		Stdin: theirs[0], Stderr: theirs[2], Contain: sandbox.Policy{Workspace: os.TempDir(), Use: use},
	}, theirs[1], nil)
	for _, f := range theirs {
		f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// line reads one line, and does not wait for ever.
func (s served) line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	late := time.AfterFunc(time.Minute, func() {
		for _, f := range s.files {
			_ = f.SetDeadline(time.Unix(1, 0))
		}
	})
	defer late.Stop()
	text, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return text[:len(text)-1]
}

// close ends what still runs, and sees that nothing is left.
func (s served) close(t *testing.T) {
	t.Helper()
	s.f.Terminate(100 * time.Millisecond)
	if _, left := s.f.Sweep(20 * time.Second); len(left) > 0 || s.f.Lost() {
		t.Errorf("%v are left", left)
	}
	s.f.Release(20 * time.Second)
	for _, f := range s.files {
		f.Close()
	}
}

// TestANurseryThatIsKilled is started anew, and what it has started goes on.
func TestANurseryThatIsKilled(t *testing.T) {
	m, err := sandbox.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !m.Use.Namespaces {
		t.Skipf("NOT TESTED: this machine has no namespaces: %+v", m.Lacks())
	}
	first := serve(t, "read -r line; echo first $line", m.Use)
	theNursery.mu.Lock()
	err = theNursery.cmd.Process.Kill()
	theNursery.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	second := serve(t, "echo second", m.Use)
	if got := second.line(t, second.out); got != "second" {
		t.Errorf("%q", got)
	}
	fmt.Fprintln(first.in, "goes on")
	if got := first.line(t, first.out); got != "first goes on" {
		t.Errorf("%q", got)
	}
	first.close(t)
	second.close(t)
}
