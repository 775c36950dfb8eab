package family

import (
	"time"

	"github.com/sluice-run/sluice/tools/sandbox"
)

// keeperName is what a keeper is called in the table of processes, and how a
// binary that holds this package knows that it was started as one.
const keeperName = "sluice-keeper"

// controlFD is the keeper's end of the socket to the node that started it.
const controlFD = 3

// errand is the first message to a keeper: what it starts.
type errand struct {
	Path  string
	Args  []string
	Env   []string
	Dir   string
	Limit time.Duration // it ends everything after this by itself, should the node hang; 0 means never
	Grace time.Duration // from SIGTERM to SIGKILL, where it does so

	Contain sandbox.Policy
}

// order is a further message to a keeper.
type order string

// The orders. The end of the socket is one, too: the node is gone, so end everything.
const (
	orderTerm order = "term" // SIGTERM to everything, once
	orderKill order = "kill" // SIGKILL to everything, until nothing is left
	orderLook order = "look" // say what is left
)

// word is a message from a keeper.
type word struct {
	Starting bool    // the command is about to be started: from here on it may run
	Pid      int     // the command has been started
	Errno    int     // the command could not be started
	Fault    string  // and that is since it could not be contained: in words
	Place    bool    // which is the fault of the workspace that was asked for
	Status   *uint32 // the command has ended, with this status of wait(2)
	Look     bool    // Left answers an order to look
	Left     []int
	Empty    bool // nothing that descends from the command is left: the kernel says so
	Ended    []ended
	More     int // how many were ended beyond those in Ended
}

// ended is a process that had to be ended.
type ended struct {
	Pid  int
	Name string
}

// maxNamed is how many of the ended a keeper names.
const maxNamed = 8
