package bus

import "time"

// WorkerTools are the tools of workers as a node knows them. Its JSON form is what GET
// /v1/workers and sluice-node workers --json give.
type WorkerTools struct {
	At       time.Time    `json:"at"`
	Attempts int          `json:"attempts"` // that workers have in hand, of this node
	Tools    []WorkerView `json:"tools"`    // sorted by name
}

// WorkerView is a tool of workers.
type WorkerView struct {
	Tool       string `json:"tool"`
	Status     string `json:"status"`               // serving, waiting (for workers to come back) or refused
	Why        string `json:"why,omitempty"`        // it is refused
	Definition string `json:"definition,omitempty"` // digest of the one that stands; absent where none does
	Version    string `json:"version,omitempty"`    // as the workers call it
	Declared   string `json:"declared,omitempty"`   // tier by the workers' word
	Tier       string `json:"tier,omitempty"`       // tier that counts
	// Workers that announce the tool, sorted; at most 256.
	Workers []WorkerSeat `json:"workers"`
	Counts  WorkerCounts `json:"counts"`
}

// WorkerCounts are what became of a tool's attempts on the node that answers, since its
// workers came.
type WorkerCounts struct {
	Offers   int64 `json:"offers"`   // that were made, each as often as it was repeated
	Accepted int64 `json:"accepted"` // attempts that a worker was told to begin
	Refused  int64 `json:"refused"`  // offers that a worker has refused
	Lost     int64 `json:"lost"`     // attempts whose worker missed its signs of life, and was given up
	Running  int64 `json:"running"`  // attempts that are offered, or that a worker has in hand
}

// WorkerSeat is a worker of a tool.
type WorkerSeat struct {
	Worker     string    `json:"worker"`               // <user>.<instance>
	Status     string    `json:"status"`               // serving, silent (it serves, and has not been heard for too long) or refused
	Why        string    `json:"why,omitempty"`        // it is refused
	Definition string    `json:"definition,omitempty"` // digest of its own
	About      string    `json:"about,omitempty"`      // the worker's own words: who shows them escapes control characters
	Since      time.Time `json:"since,omitzero"`       // by its own word
	Heard      time.Time `json:"heard"`
	Running    int       `json:"running"` // attempts, of all nodes, by its own word
	Room       int       `json:"room,omitempty"`
}
