package actors

import (
	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/lifecycle"
)

// Messages between the actors of a turn. Those that answer for one incarnation
// carry its number, and any other drops them.

// appended answers a turn actor's append.
type appended struct {
	inc    uint64
	stored []bus.Stored // those that were kept, also beside an err
	err    error
}

// loaded answers a turn actor's reload.
type loaded struct {
	inc     uint64
	commits []bus.Stored
	err     error
}

// planned answers a turn actor's look-up for its plan.
type planned struct {
	inc uint64
	prepared
	err   error
	broke any // what the look-up panicked with
}

// fetched brings a turn actor arguments that stood outside the log.
type fetched struct {
	inc   uint64
	asked map[int]*Asked
}

// nudge says that somebody may have appended to the turn.
type nudge struct {
	seq   uint64
	heard func()
}

// flush commits what has been decided.
type flush struct{ inc uint64 }

// due says that a timer of the turn's has fired.
type due struct {
	inc    uint64
	effect lifecycle.Effect
	park   lifecycle.Park // with DoPark
	heard  uint64         // with DoPark: nudges acted on when the turn was about to be parked
	err    error          // of the timer that had to be written first
}

// keyHeld says that the call waits for a key that another call holds.
type keyHeld struct {
	inc   uint64
	call  int
	heard uint64 // nudges that its gate had heard of before it looked
}

// patience says that the turn has waited for a key long enough to be parked.
type patience struct{ inc uint64 }

// drain stops new starts, and gives the turn back once its attempts have ended.
type drain struct{}

// giveUp ends a drain whose grace time is over.
type giveUp struct{}

// settledDown says that the turn's last commit is past the barrier.
type settledDown struct{ inc uint64 }

// reopen makes an actor that has panicked read its turn anew.
type reopen struct{ inc uint64 }

// owe tells a call actor what is due for its call, all of it.
type owe struct {
	inc     uint64 // of the turn actor
	turn    lifecycle.Turn
	at      uint64 // sequence of the turn's last commit
	effects []lifecycle.Effect
	offset  int
	asked   *Asked
	heard   uint64 // nudges acted on
}

// answer is a call actor's reply to owe: what it could decide at once.
type answer struct {
	inc  uint64
	call int
	cmds []lifecycle.Command
}

// act is a command from a call's hands, gates or timers.
type act struct{ cmd lifecycle.Command }

// found brings a call actor what its gates found outside.
type found struct {
	effect lifecycle.Effect
	is     *errand
	cmd    lifecycle.Command // nil: wait and ask again
	key    bool              // with no cmd: another call holds the key
	held   holding           // what was taken for it
	broke  any               // what the look-up panicked with
}

// timed says that a call's timer has fired.
type timed struct {
	effect lifecycle.Effect
	is     *errand
}

// again asks a call actor to try once more what had to wait.
type again struct{ heard uint64 } // nudges that the turn's actor has acted on

// IgnoreDeadLetterLogging marks messages that are not worth a dead-letter log.
func (appended) IgnoreDeadLetterLogging()    {}
func (loaded) IgnoreDeadLetterLogging()      {}
func (planned) IgnoreDeadLetterLogging()     {}
func (fetched) IgnoreDeadLetterLogging()     {}
func (nudge) IgnoreDeadLetterLogging()       {}
func (flush) IgnoreDeadLetterLogging()       {}
func (due) IgnoreDeadLetterLogging()         {}
func (settledDown) IgnoreDeadLetterLogging() {}
func (answer) IgnoreDeadLetterLogging()      {}
func (act) IgnoreDeadLetterLogging()         {}
func (again) IgnoreDeadLetterLogging()       {}
func (found) IgnoreDeadLetterLogging()       {}
func (timed) IgnoreDeadLetterLogging()       {}
func (giveUp) IgnoreDeadLetterLogging()      {}
