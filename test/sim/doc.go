// Package sim tries to break the laws. It runs several nodes, each a thin shell
// around the deciders, over one log in memory: single-threaded, on a virtual
// clock, with tools that hang, fail, answer late and lie about nothing, persons
// who approve and cancel at any moment, and every fault that the design names:
// appends lost or kept, crashes at any step, take-overs, zombies, redeliveries,
// mirrors that lag, power failures. All of it follows from one number.
//
//	go test ./test/sim -seeds 100000     more of it
//	go test ./test/sim -seed 4711        one of it, with everything that happens
//	go test ./test/sim -run Mutants -mutants   are the laws any good?
package sim
