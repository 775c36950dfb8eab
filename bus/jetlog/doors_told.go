package jetlog

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/sluice-run/sluice/bus"
)

// told is what a door tells those who look for NATS services: the library's protocol,
// without the library's way to answer, which publishes wherever a request asks it to.
type told struct {
	door bus.Door

	mu    sync.Mutex
	since time.Time
	verbs map[string]*micro.EndpointStats
}

func newTold(d bus.Door) *told {
	t := &told{door: d, since: time.Now().UTC(), verbs: make(map[string]*micro.EndpointStats)}
	for _, v := range d.Verbs {
		t.verbs[v] = &micro.EndpointStats{Name: v, Subject: bus.DoorPrefix + "*." + v, QueueGroup: doorQueue}
	}
	return t
}

// open answers those who look.
func (t *told) open(nc *nats.Conn) ([]*nats.Subscription, error) {
	var subs []*nats.Subscription
	for verb, tell := range map[micro.Verb]func() any{micro.PingVerb: t.ping, micro.InfoVerb: t.info, micro.StatsVerb: t.stats} {
		for _, who := range [][2]string{{"", ""}, {t.door.Name, ""}, {t.door.Name, t.door.ID}} {
			subject, err := micro.ControlSubject(verb, who[0], who[1])
			if err != nil {
				return subs, err
			}
			sub, err := nc.Subscribe(subject, func(m *nats.Msg) { reveal(nc, m.Reply, tell()) })
			if err != nil {
				return subs, err
			}
			subs = append(subs, sub)
		}
	}
	return subs, nil
}

// reveal answers who looks, in an inbox and nowhere else.
func reveal(nc *nats.Conn, reply string, v any) {
	if !bus.InInbox(reply, bus.InboxPrefix) {
		return
	}
	if body, err := json.Marshal(v); err == nil {
		_ = nc.Publish(reply, body) // who hears nothing looks again
	}
}

func (t *told) identity() micro.ServiceIdentity {
	return micro.ServiceIdentity{Name: t.door.Name, ID: t.door.ID, Version: t.door.Version, Metadata: map[string]string{}}
}

func (t *told) ping() any {
	return micro.Ping{ServiceIdentity: t.identity(), Type: micro.PingResponseType}
}

func (t *told) info() any {
	out := micro.Info{ServiceIdentity: t.identity(), Type: micro.InfoResponseType, Description: t.door.About}
	for _, v := range t.door.Verbs {
		out.Endpoints = append(out.Endpoints, micro.EndpointInfo{Name: v, Subject: bus.DoorPrefix + "*." + v, QueueGroup: doorQueue})
	}
	return out
}

func (t *told) stats() any {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := micro.Stats{ServiceIdentity: t.identity(), Type: micro.StatsResponseType, Started: t.since}
	for _, v := range t.door.Verbs {
		one := *t.verbs[v]
		if one.NumRequests > 0 {
			one.AverageProcessingTime = one.ProcessingTime / time.Duration(one.NumRequests)
		}
		out.Endpoints = append(out.Endpoints, &one)
	}
	return out
}

// count counts an answer. What an error said is for who asked alone.
func (t *told) count(verb string, a bus.Answer, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.verbs[verb]
	if s == nil {
		return
	}
	s.NumRequests++
	s.ProcessingTime += took
	if a.Error != "" {
		s.NumErrors++
	}
}
