// Package deciders tries to break the laws by the deciders alone. It runs several
// nodes, each a thin shell of this package's own around them, over one log in memory:
// single-threaded, on a virtual clock, with tools that hang, fail, answer late and lie about nothing, persons
// who approve and cancel at any moment, and every fault that the design names:
// appends lost or kept, crashes at any step, take-overs, zombies, redeliveries,
// mirrors that lag, power failures. All of it follows from one number.
//
// It is quicker than package sim, which runs the real nodes, and its shell takes turns
// that theirs never would.
//
//	go test ./test/sim/deciders -seeds 100000     more of it
//	go test ./test/sim/deciders -seed 4711        one of it, with everything that happens
package deciders
