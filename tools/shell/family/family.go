// Package family starts a command and ends it with everything that descends from
// it. On Linux nothing of that is lost sight of: see Family. The package needs
// little, so that a keeper, which is the same program once more, starts quickly.
package family

import (
	"os"
	"time"

	"github.com/sluice-run/sluice/tools/sandbox"
)

// Launch is what a family is started with.
type Launch struct {
	Path, Dir string
	Args, Env []string
	Mark      string        // an element of Env that no other family has: what is looked for if all else is lost
	Limit     time.Duration // it ends by then, also where this process hangs; 0 means never. Linux only
	Grace     time.Duration // from SIGTERM to SIGKILL, where it ends so
	Stdin     *os.File      // nil: there is no input
	Stderr    *os.File      // nil: standard errors go where the output goes

	// Contain is what it may do. The zero value contains nothing. Linux only.
	Contain sandbox.Policy
}

// Swept is what had to be ended once the command itself had.
type Swept struct {
	N     int      // at least
	Names []string // of some, where they are known
}

// settle is how long a pipe, or a word of a keeper's, may take that is on its way.
const settle = 100 * time.Millisecond

// Pipe is our end of a pipe that a command holds.
type Pipe struct {
	file *os.File
	eof  chan struct{}
}

// NewPipe is a pipe whose other end is for the command. It fails where there are
// no descriptors left.
func NewPipe() (ours *Pipe, theirs *os.File, err error) {
	r, w, err := os.Pipe()
	return &Pipe{file: r, eof: make(chan struct{})}, w, err
}

// Read takes what comes until nothing holds the other end, or it is released. It
// is called once, on a goroutine of its own.
func (p *Pipe) Read(take func([]byte)) {
	defer close(p.eof)
	buf := make([]byte, 32<<10)
	for {
		n, err := p.file.Read(buf)
		take(buf[:n])
		if err != nil {
			return
		}
	}
}

// EOF is closed once nothing holds the other end, or it was released.
func (p *Pipe) EOF() <-chan struct{} { return p.eof }

// Release ends Read, whatever still holds the other end, waits for that and frees
// the descriptor.
func (p *Pipe) Release() {
	_ = p.file.SetReadDeadline(time.Unix(1, 0))
	<-p.eof
	_ = p.file.Close()
}

// Close frees the descriptor of a pipe that nobody reads.
func (p *Pipe) Close() { _ = p.file.Close() }

// Within waits for done, but no longer than d, and says whether it came.
func Within(d time.Duration, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}
