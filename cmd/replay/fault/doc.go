// Package fault plays a recorded turn once more with a fault put between two of its
// stages, and says what would have happened: what was durable, whether the tool had
// started, whether its result was whole; which law broke; how often each effect ran;
// and whether the model would have been told the same.
//
// The deciders and the actors are the product's own. What they run on is not: a
// memory log, a clock that only this package moves, and tools that do nothing but
// give the recorded outcome. No tool of any kind can be reached from here.
//
// A Script is what is known of one turn: what was asked, what policy said, how each
// attempt ended, what people did. Build makes the scripts of a trace. A Cell is one
// fault at one place of one script; Cells are all that a selection asks for, and Play
// plays them. Scripts are read only once built, and may be played from many
// goroutines at once.
package fault
