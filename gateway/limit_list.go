package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/lifecycle"
)

// Limit is a rule that bounds what runs at once, or begins in a time, and how it stands in
// the cluster. Its JSON form is what GET /v1/limits and sluice-node limits --json give.
type Limit struct {
	ID          string        `json:"id"`
	Here        bool          `json:"here"`                // whoever answers has the rule; otherwise another node has it, or had
	Principal   string        `json:"principal,omitempty"` // the pattern; "" is everybody
	Kind        string        `json:"kind,omitempty"`
	Each        bool          `json:"each,omitempty"` // one bucket for each principal
	Tool        string        `json:"tool,omitempty"` // the pattern; "" is every tool
	Concurrency int           `json:"concurrency,omitempty"`
	Rate        string        `json:"rate,omitempty"`  // such as 10/m
	Burst       int           `json:"burst,omitempty"` // 0: as many as the rate has
	WaitMS      int64         `json:"wait_ms,omitempty"`
	Buckets     []LimitBucket `json:"buckets"` // that are in use, or were lately
	LeftOut     int           `json:"left_out,omitempty"`
}

// LimitBucket is what is used of a limit: by all that it counts, or by one principal.
type LimitBucket struct {
	Principal string        `json:"principal,omitempty"` // a long one is given as sha256:…
	Holders   []LimitHolder `json:"holders,omitempty"`   // of its slots
	Waiting   int           `json:"waiting,omitempty"`   // calls that are the next of their nodes
	Tokens    *int          `json:"tokens,omitempty"`    // that could begin now; left out where there is no rate, or the rule is not here
	Next      time.Time     `json:"next,omitzero"`       // with no token: when the next one is due
}

// LimitHolder is a call that has a slot.
type LimitHolder struct {
	Call  string    `json:"call"` // trace/turn/offset
	Boot  string    `json:"boot"`
	Until time.Time `json:"until"`          // its lease, by its node's clock
	Over  bool      `json:"over,omitempty"` // it was not renewed, by the clock of who answers: the slot is for whoever wants one next
}

// maxLimitBuckets bounds the buckets of a rule that are shown.
const maxLimitBuckets = 1000

// Limits are the rules of l and how they stand, and those that only the cluster's cells
// tell of, sorted by id. A rule that nobody uses has no buckets.
func (d *Desk) Limits(ctx context.Context, l lifecycle.Limits) ([]Limit, error) {
	rules, of := l.Rules(), make(map[string]*Limit)
	for _, r := range rules {
		of[r.ID] = &Limit{
			ID: r.ID, Here: true, Principal: r.Principal, Kind: r.Kind, Each: r.Each, Tool: r.Tool, Concurrency: r.Concurrency,
			Rate: r.Rate.String(), Burst: r.Rate.Burst, WaitMS: r.Wait.Milliseconds(), Buckets: []LimitBucket{},
		}
	}
	now := d.now()
	err := bus.EachBelow(ctx, d.bus.Cells(), bus.BucketLock, bus.LimitCells, func(c bus.Cell) {
		prefix, rule, principal, ok := bus.ParseLimitCell(c.Key)
		if !ok {
			return
		}
		if of[rule] == nil {
			of[rule] = &Limit{ID: rule, Buckets: []LimitBucket{}}
		}
		b := of[rule].bucket(principal)
		if b == nil {
			return
		}
		if prefix == bus.SlotCells {
			b.slots(c.Value, now)
			return
		}
		if i := slices.IndexFunc(rules, func(r lifecycle.LimitRule) bool { return r.ID == rule && r.Rate != lifecycle.Rate{} }); i >= 0 {
			b.tokens(c.Value, rules[i].Rate, now)
		}
	})
	out := make([]Limit, 0, len(of))
	for _, one := range of {
		slices.SortFunc(one.Buckets, func(a, b LimitBucket) int { return strings.Compare(a.Principal, b.Principal) })
		out = append(out, *one)
	}
	slices.SortFunc(out, func(a, b Limit) int { return strings.Compare(a.ID, b.ID) })
	return out, err
}

// bucket is the one of a principal; nil where there are too many.
func (l *Limit) bucket(principal string) *LimitBucket {
	i := slices.IndexFunc(l.Buckets, func(b LimitBucket) bool { return b.Principal == principal })
	if i >= 0 {
		return &l.Buckets[i]
	}
	if len(l.Buckets) >= maxLimitBuckets {
		l.LeftOut++
		return nil
	}
	l.Buckets = append(l.Buckets, LimitBucket{Principal: principal})
	return &l.Buckets[len(l.Buckets)-1]
}

// slots takes what the cell of slots says. One that cannot be read says nothing.
func (b *LimitBucket) slots(value []byte, now time.Time) {
	var s lifecycle.LockState
	if json.Unmarshal(value, &s) != nil {
		return
	}
	for _, h := range s.Holds {
		b.Holders = append(b.Holders, LimitHolder{h.Call, h.Boot, h.Until, !now.Before(h.Until)})
	}
	b.Waiting = len(s.Waiting)
}

// tokens takes what the cell of a rate says, as slots does.
func (b *LimitBucket) tokens(value []byte, r lifecycle.Rate, now time.Time) {
	var s lifecycle.RateState
	if json.Unmarshal(value, &s) != nil {
		return
	}
	left, next := s.Left(r, now.UTC())
	b.Tokens, b.Next = &left, next
}

// limitList answers GET /v1/limits.
type limitList struct {
	Limits []Limit `json:"limits"`
}

// getLimits is GET /v1/limits: the limits of the node behind this door, and how they
// stand in the cluster.
func (a *API) getLimits(w http.ResponseWriter, r *http.Request) error {
	var rules lifecycle.Limits
	if a.rules != nil {
		rules = a.rules()
	}
	list, err := a.desk.Limits(r.Context(), rules)
	if err != nil {
		return err
	}
	ok(w, limitList{list})
	return nil
}
