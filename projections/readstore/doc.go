// Package readstore keeps what readers of the log ask for in an SQL database of
// its own: which traces there are, their timelines, the calls and their texts, what
// waits for a person, what was used. It is derived: the log is the truth, and a
// store that is lost, damaged or of another version is built anew.
//
// A store is a directory. Its file current names the database that is read; another
// one may be in the making beside it, and takes its place once it has come as far.
//
//	Store      keeps one directory up to date with a log, and answers: a node has one
//	Reader     answers from a directory that another process may be writing
//	Matcher    is the filter of a Query over commits, for who has no store
//
// # Exactly once
//
// The place in the log up to which a database was filled is a row of that database,
// and is written in the transaction of what stands before it. So a process that is
// killed anywhere goes on with the commit behind, and nothing is counted twice or
// left out. Only what the barrier covers is read ([bus.Tail]), so in mode barrier a
// store is never ahead of what a power failure leaves. Where the log has lost its
// tail all the same ([bus.ErrRewound]) the turns that reached into it are taken out
// and folded again from what the log has now.
//
// # What is kept
//
// Folds are those of package projections, turn by turn. A commit that cannot be read
// is noted and passed over; events of a newer release are kept by their kind. Texts
// are those of the log: what was redacted there is redacted here. What the log has
// dropped by age is dropped here within a minute or so.
package readstore
