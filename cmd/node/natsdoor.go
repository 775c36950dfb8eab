package main

import (
	"context"
	"encoding/json"
	"net"
	"sync/atomic"

	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/policy/access"
)

// roll is who may come in by NATS, by name. It is read anew at SIGHUP.
type roll struct {
	path string
	now  atomic.Pointer[map[string]access.Identity]
}

// roll is who may come in by NATS; nil where no file says it, and there is no door.
func (s *settings) roll() (*roll, error) {
	if s.bus.users == "" {
		return nil, nil
	}
	r := &roll{path: s.bus.users}
	f, err := readNATSUsers(r.path)
	r.take(f)
	return r, err
}

// take makes the users of a file those who may come in.
func (r *roll) take(f natsUsers) {
	all := make(map[string]access.Identity)
	for _, u := range f.Users {
		all[u.Name] = u.identity()
	}
	r.now.Store(&all)
}

// who is the identity of a user.
func (r *roll) who(name string) (access.Identity, bool) {
	id, ok := (*r.now.Load())[name]
	return id, ok
}

// serveNATS opens the NATS door for those of a roll, and heeds SIGHUP for it, until ctx
// ends.
func (s *serving) serveNATS(ctx context.Context, r *roll) {
	if host, _, err := net.SplitHostPort(s.set.listen); err == nil && everywhere(host) && s.ses.Server != nil && s.set.bus.cert == "" {
		s.log.Warn("NATS is open to the network, and speaks no TLS: passwords and all that is said can be read on the way; name a certificate with --nats-cert and --nats-key",
			"listen-nats", s.set.listen)
	}
	door := gateway.NewNATSDoor(gateway.NATSDoorConfig{
		Desk: s.node.desk, Doors: s.ses.Bus, Who: r.who, Known: s.knownByHTTP, ID: s.node.boot, Version: command.Version(), Tools: s.node.list(s.set.breaker()), Explain: s.node.explain, Log: s.log,
		Store: s.store, Rules: s.node.limits.get, Breaker: s.set.breaker(), Workers: s.node.workers(), Policy: policyByNATS{s},
	})
	s.wg.Go(func() {
		if err := door.Serve(ctx); err != nil {
			s.log.Error("the NATS door has ended", "error", err)
		}
	})
	s.onHangup(ctx, func() { s.rollAnew(r) })
}

// policyByNATS is the policy as the NATS door keeps it.
type policyByNATS struct{ *serving }

// ReloadPolicy is serving's, for whom the NATS door has let in.
func (p policyByNATS) ReloadPolicy(by events.Principal) (json.RawMessage, error) {
	return p.reloadPolicy(by, "nats")
}

// knownByHTTP says whether an id is somebody's whom the HTTP door knows.
func (s *serving) knownByHTTP(id string) bool {
	if s.door == nil {
		return false
	}
	ring := s.door.ring.Load()
	return ring != nil && ring.Known(id)
}

// rollAnew reads the users anew: the door's, and the embedded server's, which ends the
// connections of who is no user any more.
func (s *serving) rollAnew(r *roll) {
	f, err := readNATSUsers(r.path)
	if err == nil && s.ses.Server != nil {
		err = s.ses.Server.SetUsers(f.users())
	}
	if err != nil {
		s.node.metrics.Count("reload_refused", 1)
		s.log.Error("the users of NATS were not read anew: those of before stay", "file", r.path, "error", err)
		return
	}
	r.take(f)
	s.log.Info("the users of NATS were read anew", "file", r.path, "users", len(f.Users))
}
