package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/policyfile"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/policy/cedar"
)

// judge is the policy in force, which may be exchanged for another one at any time: as
// a whole, and never for one that does not load. It is a policy.Authorizer.
type judge struct {
	path string // "" is the program's own policy
	set  atomic.Pointer[cedar.Set]

	mu      sync.Mutex
	loaded  loading // of what is in force
	reloads int
	failed  *loadFailure // of the last try to load it anew; nil: it did not fail
}

// newJudge loads the policy at a path; "" is the program's own.
func newJudge(path string) (*judge, error) {
	set, err := policyfile.Load(path)
	if err != nil {
		return nil, err
	}
	j := &judge{path: path, loaded: loading{time.Now().UTC(), thisUser("start")}}
	j.set.Store(set)
	return j, nil
}

// Authorize is policy.Authorizer's. A call is judged by one set, whatever comes meanwhile.
func (j *judge) Authorize(r policy.Request) policy.Verdict { return j.set.Load().Authorize(r) }

// Version is policy.Authorizer's.
func (j *judge) Version() string { return j.set.Load().Version() }

// reload reads the policy anew, for who. Where it does not load, what was in force stays.
func (j *judge) reload(who actor) (version string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.reloads++
	now := time.Now().UTC()
	set, err := policyfile.Load(j.path)
	if err != nil {
		j.failed = &loadFailure{now, who, err.Error()}
		return j.Version(), err
	}
	j.set.Store(set)
	j.loaded, j.failed = loading{now, who}, nil
	return set.Version(), nil
}

// inForce is the version of what is in force, and since when.
func (j *judge) inForce() (version string, since time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.Version(), j.loaded.At
}

// tell adds what other processes may know of it.
func (j *judge) tell(more map[string]string) error {
	state, err := json.Marshal(j.state())
	j.mu.Lock()
	defer j.mu.Unlock()
	more["policy_state"] = string(state)
	more["policy_version"], more["policy_reloads"], more["policy_error"] = j.Version(), strconv.Itoa(j.reloads), ""
	if j.failed != nil {
		more["policy_error"] = j.failed.Error
	}
	return err
}

// heed reads the policy anew whenever the process gets SIGHUP, until ctx ends. The
// signal is heeded from the moment that this returns.
func (s *serving) heed(ctx context.Context) {
	s.onHangup(ctx, func() {
		_, _ = s.reload(s.set.sender(time.Now())) // how it went is in the log, and whoever asked is told
	})
}

// reload reads the policy anew, and tells of it.
func (s *serving) reload(who actor) (version string, err error) {
	before := s.node.judge.Version()
	version, err = s.node.judge.reload(who)
	if err != nil {
		s.node.metrics.Count("reload_refused", 1)
		s.log.Error("the policy does not load: the one before stays in force", "policy", s.set.policy, "version", version, "by", who, "error", err)
	} else {
		s.log.Info("the policy was read anew", "policy", s.set.policy, "version", version, "before", before, "by", who)
		warnLoaded(s.log, s.node.judge.set.Load())
	}
	if err := s.announce(); err != nil {
		s.log.Warn("other processes could not be told of the policy", "error", err)
	}
	return version, err
}

// reloadLimit is how long a node may take to read its policy anew.
const reloadLimit = 30 * time.Second

// policyReload is the verb that has a running node read its policy anew.
func (a *app) policyReload() *cobra.Command {
	return &cobra.Command{
		Use: "reload", Short: "Have the node on --data read its policy anew", Args: command.Args(0, 0, "none"),
		Long: "Have the node on --data read its --policy anew, as SIGHUP does. A policy that does not load is refused whole: the one\n" +
			"before stays in force, and this verb says what is wrong. Calls that were judged by the one before, and whose batch has\n" +
			"not begun, are judged again; a person's yes that was given under it is asked for again.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			version, err := a.set.reloadPolicy(cmd.Context())
			if err != nil {
				return err
			}
			return a.say(map[string]string{"policy": version}, "policy %s is in force\n", version)
		},
	}
}

func (s *settings) reloadPolicy(ctx context.Context) (version string, err error) {
	if s.NATS != "" {
		return "", exit.Misused(errors.New("a node on another server's log cannot be found through --nats"), "send its process SIGHUP, on its own machine")
	}
	r, found, err := jetlog.Find(s.Data)
	switch {
	case err != nil:
		return "", exit.Unusable(err, "")
	case !found:
		return "", exit.Unusable(fmt.Errorf("no node runs on %s", s.Data), "name its data directory with --data; a node reads its policy when it starts")
	case r.More["policy"] == "":
		return "", errNoPolicy()
	}
	if err := s.sign(); err != nil {
		return "", fmt.Errorf("say who asks: %w", err)
	}
	p, err := os.FindProcess(r.PID)
	if err == nil {
		err = p.Signal(syscall.SIGHUP)
	}
	if err != nil {
		return "", fmt.Errorf("tell process %d: %w", r.PID, err)
	}
	now, err := s.reloaded(ctx, r)
	if err != nil {
		return "", err
	}
	if text := now.More["policy_error"]; text != "" {
		return "", &exit.Failure{
			Err: errors.New(show.Lines(text)), Hint: "nothing has changed: policy " + now.More["policy_version"] + " is still in force; mend the file and reload again", Code: exit.Failed,
		}
	}
	return now.More["policy_version"], nil
}

// reloaded waits until the node has told of one more try than before.
func (s *settings) reloaded(ctx context.Context, before jetlog.Running) (jetlog.Running, error) {
	ctx, stop := context.WithTimeout(ctx, reloadLimit)
	defer stop()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		now, found, err := jetlog.Find(s.Data)
		if err == nil && found && now.PID == before.PID && now.More["policy_reloads"] != before.More["policy_reloads"] {
			tick.Stop()
			return now, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return now, exit.Unusable(errors.New("the node has not said that it read its policy"), "look at its log")
		}
	}
}
