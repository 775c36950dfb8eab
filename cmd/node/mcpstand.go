package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/nodehttp"
	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/gateway/mcp"
	"github.com/sluice-run/sluice/lifecycle"
)

// standing gives the door of the verb mcp a node, and another one whenever that one has
// gone. It never takes the place of a node that was started in its own right: what that
// one was held to would be gone with it.
type standing struct {
	*app
	door  *mcp.Door
	log   *slog.Logger
	told  *speaking
	waits bool // a node has to come by itself: none is run here
}

// behind returns nil once ctx has ended.
func (s *standing) behind(ctx context.Context) error {
	for {
		err := s.one(ctx)
		_, misused := errors.AsType[*exit.Failure](err)
		switch {
		case ctx.Err() != nil && (!misused || errors.Is(err, context.Canceled)): // it was on its way as the agent left
			return nil
		case err != nil && !errors.Is(err, errGone):
			return err
		case s.waits:
			s.log.Warn("the node has gone: calls wait for it to come back")
		default:
			s.log.Info("the node has gone: another one takes its place")
		}
	}
}

// one gives the door the node that runs on the data directory, or one in this process, for
// as long as there is that node.
func (s *standing) one(ctx context.Context) error {
	if s.set.NATS == "" {
		found, err := s.found(ctx)
		switch {
		case err != nil:
			return err
		case !found:
			return s.ownBehind(ctx, s.door, s.log)
		}
	}
	ses, err := s.set.open(ctx, s.log, true)
	if err != nil {
		return err
	}
	if ses.Server != nil { // the other node went between two looks
		return errors.Join(errGone, ses.Close())
	}
	err = s.set.untilGone(ctx, ses, func(within context.Context, ses *session.Session) error {
		desk, stop, err := s.desk(within, ses, false, s.log)
		if err != nil {
			return err
		}
		err = s.door.Use(within, mcp.Backend{Desk: desk, Tools: s.farTools(ses), Where: s.set.whereAsked()})
		if err == nil {
			<-within.Done()
			err = within.Err()
		}
		return errors.Join(err, stop())
	})
	if errors.Is(err, bus.ErrUnavailable) {
		err = errGone
	}
	return errors.Join(err, ses.Close())
}

// found says whether a node runs on the data directory that the door may stand behind; it
// waits for one where none is to be run here, and until one that begins has told what it is.
func (s *standing) found(ctx context.Context) (bool, error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var seen time.Time // since when it is there and says nothing: one of an earlier release never does
	for {
		r, found, err := jetlog.Find(s.set.Data)
		switch {
		case err != nil:
			return true, nil // the opening says what is wrong
		case found && (r.More[toldVerb] != "" || !seen.IsZero() && time.Since(seen) > s.set.patience):
			return true, s.fits(r)
		case found && seen.IsZero():
			seen = time.Now()
		case !found && !s.waits:
			if err := s.mayRun(); err != nil || !s.waits {
				return false, err
			}
		case !found:
			seen = time.Time{}
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-tick.C:
		}
	}
}

// mayRun notes where no node may run here: one that was started on the directory in its own
// right was held to something else. Calls name their workspace, so that it need not be the same.
func (s *standing) mayRun() error {
	unlike, err := s.set.standsIn()
	unlike = slices.DeleteFunc(unlike, func(name string) bool { return name == "workspace" })
	if err != nil || len(unlike) == 0 || s.told.here {
		return err
	}
	s.waits = true
	s.log.Warn("no node runs on the data directory, and the one that did had other settings: calls wait for it; start it, or give this command its settings, or --here",
		"data", s.set.Data, "settings", strings.Join(unlike, ", "))
	return nil
}

// Verbs that run a node, as they tell others.
const (
	verbServe  = "serve"
	verbMCP    = "mcp"
	verbSubmit = "submit" // for one turn
)

// Names of what a node tells others of itself.
const (
	toldVerb = "verb"
	toldWays = "settings"     // see alikeOf
	toldSits = "mcp-approver" // who sits at which agent's client, as the setting has it
)

// fits says whether this door may stand behind a node, and notes whether another one may
// run here once that one has gone.
func (s *standing) fits(r jetlog.Running) error {
	verb := r.More[toldVerb]
	if verb == verbMCP && r.More[toldWays] != s.set.alike {
		return exit.Misused(fmt.Errorf("the node on %s runs in another agent's sluice-node mcp, which was started with other settings", s.set.Data),
			"give both the same settings, or run sluice-node serve with them, and mcp with none")
	}
	s.waits = s.told.join || verb != verbMCP && verb != verbSubmit
	persons, err := mcpDoorSettings{approvers: strings.FieldsFunc(r.More[toldSits], func(r rune) bool { return r == ',' })}.approversOf()
	if err != nil {
		return err
	}
	s.told.persons.Store(&persons)
	if verb == verbMCP {
		return nil
	}
	if err = s.set.noNodeFlags(); err != nil {
		return err
	}
	ownDoor := func(name string) bool { return strings.HasPrefix(name, "mcp-") } // the one at the streams
	if vain := s.set.givenFlags((*settings).doorFlags, ownDoor); len(vain) > 0 {
		return exit.Misused(fmt.Errorf("%s: the node on %s has doors of its own", strings.Join(vain, ", "), s.set.Data), "leave that out, or give it to that node: sluice-node serve")
	}
	if r.More[nodehttp.Token] != "" && (s.told.approver != "" || s.set.from["mcp-approver"] == "flag") {
		return exit.Misused(errors.New("the node knows who comes, and whose word counts at an agent is its operator's to say, not the agent's command line's"),
			"leave the approver out, and give it to the node: sluice-node serve --mcp-approver")
	}
	return nil
}

// alikeOf is a digest of the settings by which a node would run and answer at its doors: of
// two that are alike, one may take the other's place behind an agent. What is each
// process's own, or each turn's, is no part of it.
func alikeOf(f, known *pflag.FlagSet) string {
	var all strings.Builder
	f.VisitAll(func(flag *pflag.Flag) {
		if known.Lookup(flag.Name) == nil || slices.Contains([]string{"data", "http", "workspace", "log-level", "log-format", "config"}, flag.Name) {
			return
		}
		fmt.Fprintf(&all, "%s=%q\n", flag.Name, placed(flag.Value.String()))
	})
	return lifecycle.Digest([]byte(all.String()))
}
