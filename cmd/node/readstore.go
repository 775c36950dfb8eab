package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/nodehttp"
	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/projections"
	"github.com/sluice-run/sluice/projections/readstore"
)

// storeOff is the read store of a node that has none.
const storeOff = "off"

// readStoreFlag says where the read store is.
func (s *settings) readStoreFlag(f *pflag.FlagSet) {
	f.StringVar(&s.readStore, "read-store", "", "`directory` of the read store, which searches are answered from; off: there is none.\n"+
		"Left out: readstore in --data, and with --nats none")
}

// storeDir is the directory of the read store; "" means that there is none.
func (s *settings) storeDir() string {
	switch {
	case s.readStore == storeOff, s.readStore == "false": // which is what YAML makes of a plain off
		return ""
	case s.readStore == "" && s.NATS != "":
		return "" // --data is nobody's then
	case s.readStore == "" && s.EncryptKey != "":
		return "" // it holds what the log holds, and is not encrypted
	case s.readStore == "":
		return filepath.Join(s.Data, readstore.DirName)
	}
	return s.readStore
}

// clearStore is the directory of a read store that an encrypted log has no use for: a
// node without --encrypt-key has kept it, in clear. "" where there can be none.
func (s *settings) clearStore() string {
	dir := filepath.Join(s.Data, readstore.DirName)
	if s.NATS != "" || s.EncryptKey == "" || s.storeDir() != "" && resolved(absOr(s.storeDir())) == resolved(absOr(dir)) {
		return ""
	}
	return dir
}

// dropClearStore removes the read store of before the log was encrypted. It is derived
// from the log, and holds its texts.
func (s *settings) dropClearStore(log *slog.Logger) error {
	dir := s.clearStore()
	if dir == "" {
		return nil
	}
	switch was, err := readstore.Remove(dir); {
	case err != nil:
		return exit.Unusable(fmt.Errorf("the log is encrypted, and the read store of before is not, and cannot be removed: %w", err),
			"end what uses it, and remove "+dir+": it holds the log's texts in clear")
	case was:
		log.Warn("the read store of before the log was encrypted held its texts in clear: it was removed. What was deleted may stay readable on the disk", "dir", dir)
	}
	return nil
}

// startStore begins to keep the read store; nil where there is none. What is wrong with
// it keeps no node from running turns.
func (s *settings) startStore(ctx context.Context, n *node, log *slog.Logger) *readstore.Store {
	dir := s.storeDir()
	if dir == "" {
		return nil
	}
	store, err := readstore.Open(ctx, readstore.Config{Dir: dir, Log: n.ses.Bus, Logger: log})
	if err != nil {
		log.Warn("this node has no read store: searches over HTTP are not answered, and approvals are read from the log", "dir", dir, "err", err)
		return nil
	}
	store.Start(context.WithoutCancel(ctx)) // it ends by Stop
	n.metrics.Store(func() (readstore.Status, error) {
		within, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		return store.Status(within)
	})
	n.metrics.Standing(func() (readstore.Standing, error) {
		within, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		return store.Standing(within)
	}, n.ses.Now)
	return store
}

// readstore is the verb that shows how the read store stands, and has it built anew.
func (a *app) readstore() *cobra.Command {
	cmd := &cobra.Command{
		Use: "readstore", Short: "Show how the read store stands, or build it anew", Args: command.Args(0, 0, "none, or one of status, rebuild"),
		Long: "Show how the read store stands, or build it anew. It is derived from the log: it can be removed at any time, and is\n" +
			"then built again by itself.",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.storeStatus(cmd.Context()) },
	}
	cmd.AddCommand(&cobra.Command{
		Use: "status", Short: "Show how the read store stands", Args: command.Args(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.storeStatus(cmd.Context()) },
	}, a.storeRebuild())
	a.set.readStoreFlag(cmd.PersistentFlags())
	return cmd
}

func (a *app) storeRebuild() *cobra.Command {
	wait := true
	cmd := &cobra.Command{
		Use: "rebuild", Short: "Build the read store anew from the log", Args: command.Args(0, 0, "none"),
		Long: "Build the read store anew from the log. A node that runs on --data does it while it serves, and answers from the old\n" +
			"one until the new one is whole; where none runs, this process does it.",
		Example: "  sluice-node readstore rebuild --data /var/lib/sluice",
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := a.set.nodeHTTP()
			switch {
			case err != nil:
				return err
			case at.HTTP != "":
				return a.rebuildThere(cmd.Context(), at, wait)
			}
			return a.rebuildHere(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", true, "until the new one is read")
	return cmd
}

// nodeHTTP is what the node on --data tells of itself: its HTTP is "" where none runs there.
func (s *settings) nodeHTTP() (jetlog.Running, error) {
	if s.NATS != "" {
		return jetlog.Running{}, nil
	}
	r, found, err := jetlog.Find(s.Data)
	switch {
	case err != nil:
		return r, exit.Unusable(err, "")
	case found && r.HTTP == "":
		return r, exit.Unusable(fmt.Errorf("process %d uses %s, and has no HTTP", r.PID, s.Data), "start the node without --http none, or stop it and run this again")
	}
	return r, nil
}

// nodeAnswer asks a node over HTTP, as this user, and reads its answer.
func nodeAnswer(ctx context.Context, at jetlog.Running, method, path string, into any) error {
	r, err := http.NewRequestWithContext(ctx, method, at.HTTP+path, nil)
	if err != nil {
		return err
	}
	resp, err := nodehttp.Client(at).Do(r)
	if err != nil {
		return exit.Unusable(err, "see that the node runs, and try again")
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		p := &gateway.Problem{Status: resp.StatusCode, Title: resp.Status}
		_ = json.Unmarshal(body, p) // what is no problem has a status at least
		return &exit.Failure{Err: p, Hint: p.Next, Code: exit.Failed}
	}
	return json.NewDecoder(bytes.NewReader(body)).Decode(into)
}

// mostAnswer is the size in bytes of the largest answer of a node that is read.
const mostAnswer = 256 << 20

// storeStatus shows how the read store stands, by the word of the node that keeps it
// or, where none runs, by its own.
func (a *app) storeStatus(ctx context.Context) error {
	at, err := a.set.nodeHTTP()
	if err != nil {
		return err
	}
	var s readstore.Status
	if at.HTTP != "" {
		err = nodeAnswer(ctx, at, http.MethodGet, "/v1/readstore", &s)
	} else {
		s, err = a.set.storeAlone(ctx)
	}
	if err != nil {
		return err
	}
	return a.tellStore(s)
}

// storeAlone is how the read store stands that no node keeps.
func (s *settings) storeAlone(ctx context.Context) (readstore.Status, error) {
	dir := s.storeDir()
	if dir == "" {
		return readstore.Status{}, exit.Misused(errors.New("there is no read store"), "name its directory with --read-store")
	}
	st, err := readstore.Look(ctx, dir)
	if errors.Is(err, readstore.ErrNone) || errors.Is(err, fs.ErrNotExist) {
		err = &exit.Failure{Err: err, Hint: "sluice-node serve makes it, or sluice-node readstore rebuild", Code: exit.Failed}
	}
	return st, err
}

func (a *app) tellStore(s readstore.Status) error {
	if a.json {
		return a.printJSON(s)
	}
	unreadable := ""
	if s.Unreadable > 0 {
		unreadable = fmt.Sprintf("%d commits, which are not in it: sluice-replay verify names them", s.Unreadable)
	}
	for _, line := range [][2]string{
		{"state", s.State},
		{"directory", s.Dir},
		{"file", s.File},
		{"bytes", fmt.Sprint(s.Bytes)},
		{"version", s.Version},
		{"position", s.Position},
		{"building", s.Building},
		{"head", s.Head},
		{"behind", behindText(s)},
		{"damaged", unreadable},
		{"error", show.Short(s.Error, 1000)},
	} {
		if line[1] != "" {
			a.print("%-9s  %s\n", line[0], line[1])
		}
	}
	return nil
}

// behindText is how far a store is behind, in words.
func behindText(s readstore.Status) string {
	switch {
	case s.Head == "":
		return ""
	case s.Behind == 0:
		return "nothing"
	}
	return fmt.Sprintf("%d commits, %v", s.Behind, (time.Duration(s.BehindMS) * time.Millisecond).Round(time.Millisecond))
}

// lookStore is how often it is looked how far a rebuild has come.
const lookStore = 200 * time.Millisecond

// rebuildThere has a node build its read store anew.
func (a *app) rebuildThere(ctx context.Context, at jetlog.Running, wait bool) error {
	var said struct {
		Status string `json:"status"`
	}
	if err := nodeAnswer(ctx, at, http.MethodPost, "/v1/readstore/rebuild", &said); err != nil {
		return err
	}
	if !wait {
		return a.say(said, "%s\n", said.Status)
	}
	tick := time.NewTicker(lookStore)
	defer tick.Stop()
	for {
		var s readstore.Status
		if err := nodeAnswer(ctx, at, http.MethodGet, "/v1/readstore", &s); err != nil {
			return err
		}
		if s.State == readstore.StateFollowing {
			return a.tellStore(s)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the node goes on building, and has come to %s of %s: %w", s.Building, s.Head, ctx.Err())
		}
	}
}

// rebuildHere builds the read store anew where no node keeps it.
func (a *app) rebuildHere(ctx context.Context) error {
	dir := a.set.storeDir()
	if dir == "" {
		return exit.Misused(errors.New("no directory for the read store"), "name it with --read-store")
	}
	log, err := a.set.quiet(a.err)
	if err != nil {
		return err
	}
	ses, err := a.set.open(ctx, log, false)
	if err != nil {
		return err
	}
	return errors.Join(a.rebuildFrom(ctx, ses, dir, log), ses.Close())
}

func (a *app) rebuildFrom(ctx context.Context, ses *session.Session, dir string, log *slog.Logger) error {
	store, err := readstore.Open(ctx, readstore.Config{Dir: dir, Log: ses.Bus, Rest: -1, Logger: log})
	if errors.Is(err, readstore.ErrInUse) {
		return exit.Unusable(err, "ask the node that keeps it: POST /v1/readstore/rebuild")
	}
	if err != nil {
		return err
	}
	err = store.Fill(ctx, true)
	var s readstore.Status
	if err == nil {
		s, err = store.Status(ctx)
	}
	if err = errors.Join(err, store.Stop()); err != nil {
		return err
	}
	return a.tellStore(s)
}

// askedNode is what waits for a person by the word of the node that runs on --data; ok
// is false where there is none that answers: then the log is read.
func (a *app) askedNode(ctx context.Context) (list []projections.Page, ok bool) {
	at, err := a.set.nodeHTTP()
	if err != nil || at.HTTP == "" {
		return nil, false
	}
	list = []projections.Page{}
	for cursor := ""; ; {
		var answer approvalsPage
		if err := nodeAnswer(ctx, at, http.MethodGet, "/v1/approvals?cursor="+url.QueryEscape(cursor), &answer); err != nil || answer.Approvals == nil {
			return nil, false
		}
		list = append(list, answer.Approvals...)
		if cursor = answer.Next; cursor == "" {
			return list, true
		}
	}
}
