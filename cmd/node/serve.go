package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/gateway/mcp"
	"github.com/sluice-run/sluice/gateway/otlp"
	"github.com/sluice-run/sluice/projections/readstore"
)

// serve is the verb that runs a node.
func (a *app) serve() *cobra.Command {
	cmd := &cobra.Command{
		Use: "serve", Short: "Run a node: take turns, run their calls, answer over HTTP", Args: command.Args(0, 0, "none"),
		Long: "Run a node: take turns, run their calls, answer over HTTP. The log is kept by a NATS server inside this\n" +
			"process, in --data, unless --nats names another one. The first SIGTERM or SIGINT drains: nothing new\n" +
			"starts, running attempts may end within --drain, and what is open goes to another node or the next start.\n\n" + exitHelp,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runServe(cmd.Context()) },
	}
	a.set.nodeFlags(cmd.Flags())
	a.set.doorFlags(cmd.Flags())
	return cmd
}

func (a *app) runServe(ctx context.Context) error {
	log, err := a.set.logger(a.err)
	if err != nil {
		return err
	}
	if err := a.set.unused(); err != nil {
		return err
	}
	if err := a.set.loads(ctx); err != nil {
		return err
	}
	l, err := a.set.door() // a busy port is found out before anything is opened
	if err != nil {
		return err
	}
	s, err := a.set.startServing(ctx, l, log)
	if err != nil {
		if l != nil {
			err = errors.Join(err, l.Close())
		}
		return err
	}
	if err := a.greet(s); err != nil {
		return errors.Join(err, s.close(ctx))
	}
	return errors.Join(s.wait(ctx), s.close(ctx))
}

// unused says who uses the data directory. Who takes it after this look is found
// out when the log is opened.
func (s *settings) unused() error {
	if s.NATS != "" {
		return nil
	}
	r, found, err := jetlog.Find(s.Data)
	if err != nil || !found {
		return nil // the opening says what is wrong
	}
	who := fmt.Sprintf("process %d", r.PID)
	if at := cmp.Or(r.HTTP, r.URL); at != "" {
		who += ", which answers at " + at
	}
	return exit.Unusable(fmt.Errorf("%s is in use by %s", s.Data, who), "submit to that one, or stop it, or use another directory with --data")
}

// serving is a node with its door.
type serving struct {
	set     *settings
	log     *slog.Logger
	ses     *session.Session
	node    *node
	store   *readstore.Store // nil: there is none
	mcp     *mcp.Door        // nil: there is none
	door    *doorway         // of HTTP; nil: there is none
	address string           // of HTTP; "" where there is none

	leaving atomic.Bool        // it drains
	shut    context.CancelFunc // closes the door, and ends the look around
	ended   chan error         // what the door's end was
	wg      sync.WaitGroup     // the look around, and who heeds signals
	hook    *gateway.Webhook   // nil: nobody is told
	spans   *otlp.Exporter     // nil: nobody is told of spans
	telling sync.Mutex         // held while others are told: the last to tell knows the most
}

// startServing opens the log, starts a node and opens the door, which may be nil.
func (s *settings) startServing(ctx context.Context, d *doorway, log *slog.Logger) (*serving, error) {
	users, err := s.roll()
	if err != nil {
		return nil, err
	}
	hook, err := s.webhook()
	if err != nil {
		return nil, err
	}
	spans, err := s.spans.config()
	if err != nil {
		return nil, err
	}
	var ses *session.Session
	if s.NATS != "" {
		ses, err = s.openNATS(ctx, log)
	} else {
		ses, err = s.openEmbedded(ctx, false, log) // where a node runs already, it says which one
	}
	if err != nil {
		return nil, err
	}
	s.warn(log)
	s.warnLog(ses, log)
	if err := s.dropClearStore(log); err != nil {
		return nil, errors.Join(err, ses.Close())
	}
	if err := s.keepWays(); err != nil {
		return nil, errors.Join(err, ses.Close())
	}
	n, err := s.startNode(ctx, ses, log)
	if err != nil {
		return nil, errors.Join(err, ses.Close())
	}
	out := &serving{set: s, log: log, ses: ses, node: n, ended: make(chan error, 1)}
	if d != nil && s.mcpDoor.open {
		if out.mcp, err = s.startMCP(context.WithoutCancel(ctx), n, log); err != nil {
			return nil, errors.Join(err, n.stop(context.WithoutCancel(ctx)), ses.Close())
		}
	}
	own, shut := context.WithCancel(context.WithoutCancel(ctx))
	out.shut = shut
	if err := out.startOTLP(ctx, spans); err != nil {
		return nil, errors.Join(err, out.close(ctx))
	}
	out.wg.Go(func() {
		s.lookAround(own, n, log)
		n.watchAlike(own, log)
	})
	out.store = s.startStore(ctx, n, log)
	if d != nil {
		out.door, out.address = d, d.address()
		api := d.into(gateway.APIConfig{
			Desk: n.desk, MCP: out.mcpHandler(), Workers: n.workers(), Tools: n.list(s.breaker()), Explain: n.explain, Metrics: n.metrics, Store: out.store, Rules: n.limits.get, Breaker: s.breaker(), Policy: out, Known: users.knows, Log: log, Ready: out.ready,
		})
		go func() { out.ended <- api.Serve(own, d, s.drain) }()
	}
	if users != nil {
		out.serveNATS(own, users)
	}
	out.startWebhook(own, hook)
	out.heedFiles(own) // BEFORE anybody is told that the node has a policy to read anew
	return out, out.announce()
}

// loads says what is wrong with the files and folders that a node works with, BEFORE a
// data directory is made.
func (s *settings) loads(ctx context.Context) error {
	_, err := s.directory()
	for _, load := range []func() error{
		func() error { _, err := s.contained(ctx); return err },
		func() error { _, err := newJudge(s.policy); return err },
		func() error { _, err := s.limits(); return err },
		func() error { _, err := s.mcpServers(slog.New(slog.DiscardHandler)); return err },
		func() error { _, err := s.remote.trust(); return err },
		func() error { _, err := s.mcpConfig(nil); return err },
	} {
		if err == nil {
			err = load()
		}
	}
	return err
}

// heedFiles reads what the settings name anew whenever the process gets SIGHUP, until ctx
// ends.
func (s *serving) heedFiles(ctx context.Context) {
	if s.door != nil && (s.set.entry.auth != "" || s.set.entry.cert != "") {
		s.heedDoor(ctx)
	}
	if s.set.servers.file != "" {
		s.heedServers(ctx)
	}
	if s.set.limit.file != "" {
		s.heedLimits(ctx)
	}
	if s.set.policy != "" {
		s.heed(ctx)
	}
}

// ready is why no turn would be run here now.
func (s *serving) ready(context.Context) error {
	if s.leaving.Load() {
		return errors.New("it is draining")
	}
	return s.node.actors.Writes()
}

// warn says what is risky about the settings.
func (s *settings) warn(log *slog.Logger) {
	workspace, err := s.directory()
	if err != nil {
		return // who starts a node says so
	}
	if s.NATS == "" && inside(s.Data, workspace) {
		log.Warn("the data directory is inside the workspace: tools are kept out of it by their own checks alone; choose another one of the two",
			"data", s.Data, "workspace", workspace)
	}
	s.warnOpen(log)
	s.warnDoor(log, workspace)
	s.warnPolicy(log, workspace)
	if s.EncryptKey != "" && s.storeDir() != "" {
		log.Warn("the log is encrypted on the disk, and the read store is not: it holds the same texts", "read-store", s.storeDir())
	}
	if dir := s.storeDir(); s.readStore != "" && dir != "" && inside(dir, workspace) {
		log.Warn("the read store is inside the workspace: tools are kept out of it by their own checks alone; choose another one of the two",
			"read-store", dir, "workspace", workspace)
	}
}

// inside says whether a directory is another one, or below it.
func inside(dir, top string) bool {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(top, dir)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// announce tells other processes how to reach this one.
func (s *serving) announce() error {
	if s.ses.Server == nil {
		return nil
	}
	s.telling.Lock()
	defer s.telling.Unlock()
	more, err := s.set.told()
	if err != nil {
		return err
	}
	more["boot"], more["sync"] = s.node.boot, s.ses.Bus.Barrier().Mode()
	if path, _ := s.set.keyFile(s.ses); path != "" {
		if more[toldKey], err = filepath.Abs(path); err != nil {
			return err
		}
	}
	if err := s.node.judge.tell(more); err != nil {
		return err
	}
	if s.door != nil {
		s.door.tell(more)
	}
	return s.ses.Server.Announce(func(r *jetlog.Running) { r.HTTP, r.More = s.address, more })
}

// wait returns when the node must end: nil where somebody asked for it.
func (s *serving) wait(ctx context.Context) error {
	var lost <-chan struct{}
	if s.ses.Server != nil {
		lost = s.ses.Server.Failed()
	}
	durability := func(err error) error {
		return &exit.Failure{Err: err, Hint: "look at the disk; after a restart the log says what survived", Code: exitDurability}
	}
	select {
	case <-ctx.Done():
		s.log.Info("draining; once more ends it at once")
		return nil
	case err := <-s.node.actors.Failed():
		return durability(err)
	case <-lost:
		return durability(errors.New("the log cannot be written any more: a sync failed, or the disk is full"))
	case err := <-s.ended:
		s.ended <- nil
		return fmt.Errorf("HTTP ended: %w", err)
	}
}

// close drains the node, closes the door, and gives the log back, in that order:
// who waits over HTTP hears what ended in time.
func (s *serving) close(ctx context.Context) error {
	s.leaving.Store(true)
	err := s.node.actors.Stop(context.WithoutCancel(ctx))
	s.shut()
	if s.address != "" {
		err = errors.Join(err, <-s.ended)
	}
	s.wg.Wait()
	if s.mcp != nil {
		s.mcp.Close()
	}
	if s.hook != nil {
		s.hook.Stop()
	}
	if s.spans != nil {
		s.spans.Stop() // what has ended now is in the log
	}
	s.node.forgoWorkers()
	s.node.servers.Stop()
	s.node.desk.Stop()
	if s.store != nil {
		err = errors.Join(err, s.store.Stop())
	}
	return errors.Join(err, s.ses.Close())
}

// greet says where everything is, once it is ready.
func (a *app) greet(s *serving) error {
	type greeting struct {
		Event      string   `json:"event"`
		HTTP       string   `json:"http,omitempty"`
		NATS       string   `json:"nats,omitempty"`
		Data       string   `json:"data,omitempty"`
		Sync       string   `json:"sync"`
		Retention  string   `json:"retention"` // of the log, as it is in force
		Replicas   int      `json:"replicas"`
		Boot       string   `json:"boot"`
		Workspace  string   `json:"workspace"`
		Placements []string `json:"placements"`
		Generation uint32   `json:"generation"`
		Version    string   `json:"version"`
	}
	workspace, err := a.set.directory()
	if err != nil {
		return err
	}
	g := greeting{
		Event: "ready", HTTP: s.address, Sync: s.ses.Bus.Barrier().Mode(), Boot: s.node.boot, Workspace: workspace,
		Retention: keptFor(s.ses.Bus.Retention()), Replicas: s.ses.Bus.Replicas(), Placements: a.set.placements, Generation: s.ses.Bus.Generation(), Version: command.Version(),
	}
	switch {
	case a.set.NATS != "":
		g.NATS = redacted(a.set.NATS)
	case a.set.listen != "" && s.ses.Server != nil: // otherwise its token is nobody else's business
		g.NATS = s.ses.Server.URL()
	}
	if s.ses.Server != nil {
		if g.Data, err = filepath.Abs(a.set.Data); err != nil {
			return err
		}
	}
	if a.json {
		return a.printJSON(g)
	}
	if s.door != nil {
		g.HTTP = s.door.shown()
	}
	keeps := ""
	if a.set.NATS != "" {
		keeps = fmt.Sprintf("kept %s, replicas: %d", g.Retention, g.Replicas)
	}
	for _, line := range [][2]string{{"http", g.HTTP}, {"nats", g.NATS}, {"data", g.Data}, {"workspace", g.Workspace}, {"sync", g.Sync}, {"log", keeps}} {
		if line[1] != "" {
			a.print("%-9s %s\n", line[0], line[1])
		}
	}
	a.print("ready\n")
	return nil
}

// redacted takes user and password out of an address.
func redacted(at string) string {
	u, err := url.Parse(at)
	if err != nil {
		return ""
	}
	u.User = nil
	return u.String()
}
