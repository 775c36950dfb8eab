package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/test/corpus"
)

// maker puts commits in a log.
type maker struct {
	log  bus.Log
	last map[events.TurnKey]uint64
	raw  func(subject string, body []byte) error // past all that the log checks
}

func (m *maker) add(commits ...events.Commit) error {
	for _, c := range commits {
		s, err := m.log.Append(context.Background(), c, m.last[c.Turn])
		if err != nil {
			return err
		}
		m.last[c.Turn] = s.Seq
	}
	return nil
}

// corpusLog are the commits of a log of the first release.
func corpusLog(name string) []events.Commit {
	l, err := corpus.Read("v1", name)
	if err != nil {
		panic(err)
	}
	commits, err := l.Commits()
	if err != nil {
		panic(err)
	}
	return commits
}

// put adds a log by its name: one of the corpus, or one that no release writes.
func (m *maker) put(name string) error {
	base := corpusLog("ends")
	key := events.TurnKey{Trace: "bad", Turn: "t1"}
	at := base[0].At
	commit := func(id string, by events.Owner, records ...events.Record) events.Commit {
		return events.Commit{ID: id, Turn: key, At: at, By: by, Records: records}
	}
	first := commit("bad-1", events.Owner{}, events.Record{Call: events.TurnEvent, Seq: 1, Event: &events.TurnSubmitted{
		Principal: events.Principal{ID: "agent"}, Calls: []events.RawCall{{ProviderID: "a", Tool: "Read", Args: events.Body{Text: "{}"}}},
	}})
	owner := events.Owner{Boot: "b1", Epoch: 1}
	claimed := commit("bad-2", owner, events.Record{Call: events.TurnEvent, Seq: 2, Event: &events.TurnClaimed{Owner: owner, Why: events.ClaimNew}})
	switch name {
	case "lawless": // a second terminal behind the first, of a turn that has ended
		last := base[len(base)-1]
		again := events.Commit{ID: "again", Turn: last.Turn, At: last.At, By: last.By, Records: []events.Record{
			{Call: 0, Seq: 3, Event: &events.Completed{Outcome: events.Outcome{Attempt: 1, Class: events.ClassOK, Effects: events.EffectsDone}}},
		}}
		return m.add(append(base, again)...)
	case "newer": // an event that only a newer release knows
		future := commit("bad-3", owner, events.Record{Call: 0, Seq: 1, Event: events.Foreign{Name: "teleported", Version: 1, Body: []byte{0x81, 0xa1, 'x', 0x01}}})
		return m.add(first, claimed, future)
	case "garbled": // what is no commit, and a commit of a newer format, amid others
		if err := m.add(base[:3]...); err != nil {
			return err
		}
		body, err := events.Encode(claimed)
		if err != nil {
			return err
		}
		body[bytes.IndexByte(body, 'f')+1] = 99 // the format's number
		for _, b := range [][]byte{[]byte("no commit"), body} {
			if err := m.raw(bus.EventSubject(key), b); err != nil {
				return err
			}
		}
		return m.add(base[3:]...)
	case "holes": // the first events of a call are missing
		started := commit("bad-3", owner, events.Record{Call: 0, Seq: 3, Event: &events.Started{Attempt: 1, Owner: owner, Deadline: at, Hash: "h"}})
		ended := commit("bad-4", owner,
			events.Record{Call: 0, Seq: 4, Event: &events.Completed{Outcome: outcome(1, events.ClassOK, "fine")}},
			events.Record{Call: events.TurnEvent, Seq: 4, Event: &events.TurnCompleted{Counts: map[events.Kind]int{events.KindCompleted: 1}}})
		planned := commit("bad-2b", owner, events.Record{Call: events.TurnEvent, Seq: 3, Event: &events.TurnPlanned{Batches: [][]int{{0}}}})
		return m.add(first, claimed, planned, started, ended)
	case "headless": // what retention leaves of a turn
		return m.add(claimed)
	case "unrefer": // an answer that is nowhere
		gone := events.BlobRef{Digest: "sha256:" + strings.Repeat("0", 64), Size: 70_000}
		first.Records[0].Event.(*events.TurnSubmitted).Calls[0].Args = events.Body{Ref: &gone}
		return m.add(first)
	}
	return m.add(corpusLog(name)...)
}

// makeLog DIR NAME… keeps logs in a data directory.
func makeLog(ts *testscript.TestScript, _ bool, args []string) {
	b, srv, err := jetlog.OpenEmbedded(context.Background(), jetlog.ServerConfig{Dir: ts.MkAbs(args[0])}, jetlog.Config{})
	ts.Check(err)
	ts.Check(fill(b, srv, args[1:]))
	ts.Check(b.Close())
	ts.Check(srv.Close())
}

func fill(b bus.Bus, srv *jetlog.Server, names []string) error {
	m := &maker{log: b, last: map[events.TurnKey]uint64{}, raw: func(subject string, body []byte) error {
		nc, err := srv.Connect("test")
		if err != nil {
			return err
		}
		defer nc.Close()
		_, err = nc.Request(subject, body, time.Minute)
		return err
	}}
	if _, err := b.Blobs().Put(context.Background(), []byte("the whole log"), ""); err != nil { // an answer of ends refers to it
		return err
	}
	for _, name := range names {
		if err := m.put(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// runNode DIR NAME… keeps a data directory as a running node does, to the end of
// the script.
func runNode(ts *testscript.TestScript, _ bool, args []string) {
	ses, err := session.OpenEmbedded(context.Background(),
		jetlog.ServerConfig{Dir: ts.MkAbs(args[0]), Port: -1, Token: "secret"}, jetlog.Config{})
	ts.Check(err)
	ses.LendBarrier(context.Background(), slog.New(slog.DiscardHandler))
	ts.Defer(func() { ts.Check(ses.Close()) })
	ts.Check(fill(ses.Bus, ses.Server, args[1:]))
}

// runNATS runs a NATS server with JetStream to the end of the script, and puts its
// address into NATS.
func runNATS(ts *testscript.TestScript, _ bool, _ []string) {
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: ts.MkAbs("nats"), NoLog: true, NoSigs: true})
	ts.Check(err)
	srv.Start()
	ts.Defer(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(time.Minute) {
		ts.Fatalf("the NATS server does not get ready")
	}
	ts.Setenv("NATS", srv.ClientURL())
}
