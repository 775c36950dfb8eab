package client

import (
	"context"
	"time"
)

// Limit is a rule that bounds what runs at once, or begins in a time, and how it stands in
// the cluster.
type Limit struct {
	ID          string        `json:"id"`
	Here        bool          `json:"here"`        // the node that answers has the rule; otherwise another one has it, or had
	Principal   string        `json:"principal"`   // the pattern; "" is everybody
	Kind        string        `json:"kind"`        // agent, person or service; "" is any
	Each        bool          `json:"each"`        // one bucket for each principal
	Tool        string        `json:"tool"`        // the pattern; "" is every tool
	Concurrency int           `json:"concurrency"` // calls at once; 0: any number
	Rate        string        `json:"rate"`        // such as 10/m; "": any
	Burst       int           `json:"burst"`       // 0: as many as the rate has
	WaitMS      int64         `json:"wait_ms"`     // how long a call may wait; 0: it is denied at once
	Buckets     []LimitBucket `json:"buckets"`     // that are in use, or were lately
	LeftOut     int           `json:"left_out"`    // buckets beyond those that an answer can have
}

// LimitBucket is what is used of a limit: by all that it counts, or by one principal.
type LimitBucket struct {
	Principal string        `json:"principal"` // "" is all; a long one is given as sha256:…
	Holders   []LimitHolder `json:"holders"`   // of its slots
	Waiting   int           `json:"waiting"`   // calls that are the next of their nodes
	Tokens    *int          `json:"tokens"`    // that could begin now; nil where there is no rate, or the rule is not here
	Next      time.Time     `json:"next"`      // with no token: when the next one is due; zero otherwise
}

// LimitHolder is a call that has a slot.
type LimitHolder struct {
	Call  string    `json:"call"`  // trace/turn/offset
	Boot  string    `json:"boot"`  // the node that runs it
	Until time.Time `json:"until"` // its lease, by that node's clock
	Over  bool      `json:"over"`  // it was not renewed: the slot is for whoever wants one next
}

// Limits are the node's limits and how they stand in the cluster, sorted by id.
func (c *Client) Limits(ctx context.Context) ([]Limit, error) {
	var out struct {
		Limits []Limit `json:"limits"`
	}
	err := c.get(ctx, "/v1/limits", nil, &out)
	return out.Limits, err
}

// RemoteTools are the tools that workers serve over NATS, as the node knows them.
type RemoteTools struct {
	At       time.Time    `json:"at"`
	Attempts int          `json:"attempts"` // of this node, that workers have in hand
	Tools    []RemoteTool `json:"tools"`    // sorted by name
}

// RemoteTool is a tool of workers.
type RemoteTool struct {
	Tool       string         `json:"tool"`
	Status     string         `json:"status"`     // serving, waiting (for workers to come back) or refused
	Why        string         `json:"why"`        // it is refused
	Definition string         `json:"definition"` // digest of the one that stands; "" where none does
	Version    string         `json:"version"`    // as the workers call it
	Declared   string         `json:"declared"`   // tier by the workers' word
	Tier       string         `json:"tier"`       // that counts
	Workers    []RemoteWorker `json:"workers"`    // sorted; at most 256
	Counts     RemoteCounts   `json:"counts"`
}

// RemoteCounts are what became of a tool's attempts on the node that answers, since its
// workers came.
type RemoteCounts struct {
	Offers   int64 `json:"offers"`   // that were made, each as often as it was repeated
	Accepted int64 `json:"accepted"` // attempts that a worker was told to begin
	Refused  int64 `json:"refused"`  // offers that a worker has refused
	Lost     int64 `json:"lost"`     // attempts whose worker missed its signs of life, and was given up
	Running  int64 `json:"running"`  // attempts that are offered, or that a worker has in hand
}

// RemoteWorker is a worker of a tool.
type RemoteWorker struct {
	Worker     string    `json:"worker"`     // <user>.<instance>
	Status     string    `json:"status"`     // serving, silent or refused
	Why        string    `json:"why"`        // it is refused
	Definition string    `json:"definition"` // digest of its own
	About      string    `json:"about"`      // its own words: escape control characters before they are shown
	Since      time.Time `json:"since"`      // by its own word
	Heard      time.Time `json:"heard"`
	Running    int       `json:"running"` // attempts, of all nodes, by its own word
	Room       int       `json:"room"`    // 0: it does not say
}

// Workers tells who serves which tool over NATS, and who is refused. It returns NoWorkers
// where the node hears none.
func (c *Client) Workers(ctx context.Context) (out RemoteTools, err error) {
	return out, c.get(ctx, "/v1/workers", nil, &out)
}

// ReadStore is how the store stands that searches are answered from.
type ReadStore struct {
	State      string `json:"state"` // following; building: nothing can be read yet; rebuilding: a new one is in the making
	Dir        string `json:"dir"`
	File       string `json:"file"` // that is read
	Bytes      int64  `json:"bytes"`
	Version    string `json:"version"`
	Position   string `json:"position"`   // where reading goes on
	Head       string `json:"head"`       // of the log
	Building   string `json:"building"`   // how far the one in the making has come
	Behind     uint64 `json:"behind"`     // commits that cannot be read yet
	BehindMS   int64  `json:"behind_ms"`  // everything older can
	Unreadable int    `json:"unreadable"` // commits of the log that could not be read
	Errors     int    `json:"errors"`     // since the node's start
	Error      string `json:"error"`      // what keeps it now; "" otherwise
}

// ReadStore tells how the node's read store stands. It returns NoStore.
func (c *Client) ReadStore(ctx context.Context) (out ReadStore, err error) {
	return out, c.get(ctx, "/v1/readstore", nil, &out)
}

// RebuildReadStore has the node build its read store anew, beside the one that is read
// meanwhile. already says that one was in the making. Of a, the reason is not told. It
// returns NoStore.
func (c *Client) RebuildReadStore(ctx context.Context, a Act) (already bool, err error) {
	var out struct {
		Status string `json:"status"`
	}
	err = c.post(ctx, "/v1/readstore/rebuild", byBody{a.By}, &out)
	return out.Status == "already_rebuilding", err
}
