// Package sim tries to break the laws. It runs several real nodes, with their actors,
// hands, claims, leases and breakers, over one log in memory: one step at a time, on a
// virtual clock, with tools that hang, fail, answer late and kill their node, persons
// who approve and cancel at any moment, and every fault that the design names: writes
// lost or kept, nodes that die, stand still or are cut off at any step, take-overs,
// redeliveries, mirrors that lag, clocks that are wrong, power failures. All of it
// follows from one number.
//
//	go test ./test/sim -run Sim -seeds 100000    more of it
//	go test ./test/sim -run Sim -seed 4711       one of it, with everything that happens
//	go test ./test/sim -run Mutants -mutants     are the laws any good?
//
// Package sim/deciders does the same to the deciders alone, quicker.
package sim
