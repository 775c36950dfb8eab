package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/policy/secrets"
)

// noFile stands for the digest of a file that a node does not have.
const noFile = "none"

// setup is what a node tells others of the files that it goes by: see bus.Setup.
func (s *settings) setup(n *node) (func() bus.Setup, error) {
	lists, err := s.principalLists()
	if err != nil {
		return nil, err
	}
	own := bus.Setup{Principals: noFile, Retention: keptFor(n.ses.Bus.Retention())}
	if s.principals != "" {
		if own.Principals, err = digest(lists); err != nil {
			return nil, err
		}
	}
	if own.SecretsKeys, err = s.keyIDs(n.ses); err != nil {
		return nil, err
	}
	return func() bus.Setup {
		is := own
		is.Policy, is.PolicySince = n.judge.inForce()
		is.Limits, is.LimitsSince = n.limits.told()
		return is
	}, nil
}

// told is what a node tells of the limits in force, and from when on they are.
func (s *limitState) told() (string, time.Time) {
	is := s.is.Load()
	rules := is.Rules()
	if len(rules) == 0 {
		return noFile, is.since
	}
	sum, err := digest(rules)
	if err != nil {
		return "", is.since // rules are plain members, which always have a JSON form
	}
	return sum, is.since
}

// digest is short for a value: what differs has another one.
func digest(v any) (string, error) {
	b, err := json.Marshal(v)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6]), err
}

// keyIDs names the keys for secrets of a node, the one that seals first. An id is derived
// as keys are: nothing can be opened with it, and no key be had from it.
func (s *settings) keyIDs(ses *session.Session) (string, error) {
	path, _ := s.keyFile(ses)
	if path == "" {
		return noFile, nil
	}
	keys, err := session.KeyFile("secrets-key", path)
	if err != nil {
		return "", err
	}
	ids := make([]string, 0, len(keys))
	for _, k := range keys {
		id, err := secrets.Derive(k, "id of a key for secrets")
		if err != nil {
			return "", err
		}
		ids = append(ids, hex.EncodeToString(id[:4]))
	}
	return strings.Join(ids, "+"), nil
}

// keptFor says for how long a log keeps its events.
func keptFor(d time.Duration) string {
	if d == 0 {
		return "for ever"
	}
	return d.String()
}

// warnLog says what of the log is not as the settings have it, and what is risky.
func (s *settings) warnLog(ses *session.Session, log *slog.Logger) {
	if is := ses.Bus.Retention(); is != s.retention {
		if s.retention > 0 {
			log.Warn("the log keeps its events for a shorter time than --retention says, as it was told before: --change-retention changes that for all nodes",
				"retention", keptFor(is), "setting", s.retention)
		} else {
			log.Info("the log keeps its events as it was told before", "retention", keptFor(is))
		}
		for name, d := range map[string]time.Duration{"key-retention": s.keyRetention, "approval": s.approval} {
			if is > 0 && d >= is {
				log.Warn("the log forgets sooner than this node counts on", "setting", name, "value", d, "retention", is)
			}
		}
	}
	if n := ses.Bus.Replicas(); n < 3 && ses.Bus.Clustered() {
		log.Warn(fmt.Sprintf("the log is kept by %d of the servers of its cluster alone: where that one is lost, so is the log; start a node with --replicas 3, which has it copied", n))
	}
}
