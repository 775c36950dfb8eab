package bus

import (
	"encoding/json"
	"time"
)

// Who asks a node, by Notes.Ask with its boot id, who it is and what it has in
// memory. The answer is a Status.
type Who struct {
	Turns bool `json:"turns,omitempty"` // with its turns and its running attempts, one by one
	Tools bool `json:"tools,omitempty"` // with the names of the tools that it knows

	// Of a node that has just begun, and introduces itself: others can then tell that
	// it is set otherwise than they are.
	Name      string `json:"name,omitempty"`
	AckWaitMS int64  `json:"ack_wait_ms,omitempty"`
}

// whoNote is the note that carries a Who, told from other notes by its member.
type whoNote struct {
	Who *Who `json:"who"`
}

// maxWho is the size in bytes of the largest Who.
const maxWho = 4 << 10

// Encode is the note that asks.
func (w Who) Encode() []byte {
	b, err := json.Marshal(whoNote{&w})
	if err != nil {
		return nil // a struct of plain members always has a JSON form
	}
	return b
}

// ParseWho reads what Encode wrote. ok is false for every other note.
func ParseWho(note []byte) (w Who, ok bool) {
	var n whoNote
	if len(note) > maxWho || json.Unmarshal(note, &n) != nil || n.Who == nil {
		return Who{}, false
	}
	return *n.Who, true
}

// MaxStatusList is how many turns, and how many attempts, a Status names: with it
// the note stays within the server's limit of 1 MiB.
const MaxStatusList = 2048

// Status is what a node says of itself. Its JSON form is part of what nodes of
// different releases say to each other: members may be added, none changes.
type Status struct {
	Boot       string    `json:"boot"`
	Name       string    `json:"name"`
	Version    string    `json:"version,omitempty"` // of the program
	Placements []string  `json:"placements"`        // that it serves
	Since      time.Time `json:"since,omitzero"`    // it runs; zero: not known
	Draining   bool      `json:"draining,omitempty"`
	Room       int       `json:"room"`     // turns that it can have in memory
	Turns      int       `json:"turns"`    // that it has
	Attempts   int       `json:"attempts"` // that run
	Now        time.Time `json:"now"`      // the time that it goes by
	Machine    time.Time `json:"machine"`  // its machine's own clock, at the same moment

	AckWaitMS  int64 `json:"ack_wait_ms"`  // of the queue, as it believes
	PresenceMS int64 `json:"presence_ms"`  // TTL of its presence; 0: switched off
	KeysMS     int64 `json:"key_ms"`       // how long it remembers an idempotency key
	Failures   int   `json:"breaker_open"` // consecutive failures that open a circuit
	WindowMS   int64 `json:"breaker_ms"`   // how long it then stays open

	Setup

	InMemory []string  `json:"in_memory,omitempty"` // trace/turn, sorted; at most MaxStatusList
	Running  []Running `json:"running,omitempty"`   // sorted; at most MaxStatusList
	Tools    []string  `json:"tools,omitempty"`     // sorted; at most MaxStatusList. None from a release that does not tell
}

// Setup is what a node tells of the files that it goes by, and that all nodes of a log
// should have alike. Each is "" where the node is of a release that does not tell.
type Setup struct {
	Policy      string    `json:"policy,omitempty"`       // version of the policy in force
	PolicySince time.Time `json:"policy_since,omitzero"`  // when that came into force there
	Limits      string    `json:"limits,omitempty"`       // digest of the limits in force, or none
	LimitsSince time.Time `json:"limits_since,omitzero"`  // when these came into force there
	Principals  string    `json:"principals,omitempty"`   // digest of the allowlists, or none
	SecretsKeys string    `json:"secrets_keys,omitempty"` // ids of the keys for secrets, the one that seals first, or none. A key cannot be had from its id
	Retention   string    `json:"retention,omitempty"`    // of the log, as it was in force when the node began: a duration, or for ever
}

// Running is an attempt that runs.
type Running struct {
	Call    string `json:"call"` // trace/turn/offset
	Attempt int    `json:"attempt"`
}

// ParseStatus reads the answer to a Who. ok is false where it is none: a node of
// an earlier release answers the question that it knows.
func ParseStatus(note []byte) (s Status, ok bool) {
	err := json.Unmarshal(note, &s)
	return s, err == nil && s.Boot != ""
}
