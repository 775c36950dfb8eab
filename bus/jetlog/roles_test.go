package jetlog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"golang.org/x/crypto/bcrypt"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/bus/jetlog/jettest"
)

// hashed is the cheapest hash of a password that the server takes.
func hashed(t *testing.T, password string) string {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(h)
}

// people are users of every kind; each password is the name, and dot's is an nkey.
func people(t *testing.T) (users []jetlog.User, seed []byte) {
	t.Helper()
	public, seed, err := jetlog.NewNKey()
	if err != nil {
		t.Fatal(err)
	}
	return []jetlog.User{
		{Name: "ann", Password: hashed(t, "ann")},
		{Name: "bob", Password: hashed(t, "bob")},
		{Name: "eve@x.org", Password: hashed(t, "eve@x.org"), Watch: true},
		{Name: "node", Password: hashed(t, "node"), Node: true},
		{Name: "dot", NKey: public},
		{Name: "joiner", Password: hashed(t, "joiner"), Tools: []string{"saw", "plane_2"}},
	}, seed
}

// served is a server that has the users, started in one of the ways.
type served struct {
	url string
	bus bus.Doors // a node's
}

// embeddedWith is the server inside a node.
func embeddedWith(t *testing.T, users []jetlog.User) served {
	t.Helper()
	b, srv, err := jetlog.OpenEmbedded(t.Context(), jetlog.ServerConfig{Dir: t.TempDir(), Port: -1, Users: users}, jetlog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(b.Close(), srv.Close()); err != nil {
			t.Error(err)
		}
	})
	return served{srv.URL(), b}
}

// configured is a server that has read the configuration that is printed.
func configured(t *testing.T, users []jetlog.User) served {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats-server.conf")
	if err := os.WriteFile(file, []byte(jetlog.ServerConf(users)), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatalf("%v in\n%s", err, jetlog.ServerConf(users))
	}
	o.StoreDir, o.JetStream = t.TempDir(), true
	srv := jettest.StartWith(t, *o)
	connect, err := jetlog.Dial(t.Context(), jetlog.DialConfig{URL: strings.Replace(srv.URL(), "nats://", "nats://node:node@", 1)})
	if err != nil {
		t.Fatal(err)
	}
	b := openOn(t, connect, 1)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return served{srv.URL(), b.(bus.Doors)}
}

// client is somebody's connection, with a note of what was refused.
type client struct {
	t       *testing.T
	nc      *nats.Conn
	refused chan string
}

func connectAs(t *testing.T, url, user string, o ...nats.Option) *client {
	t.Helper()
	return connectWith(t, url, user, user, o...)
}

func connectWith(t *testing.T, url, user, password string, o ...nats.Option) *client {
	t.Helper()
	c := &client{t: t, refused: make(chan string, 64)}
	o = append([]nats.Option{
		nats.UserInfo(user, password), nats.CustomInboxPrefix(strings.TrimSuffix(bus.InboxOf(user), ".")), nats.NoReconnect(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { c.refused <- err.Error() }),
	}, o...)
	nc, err := nats.Connect(url, o...)
	if err != nil {
		t.Fatalf("connect as %s: %v", user, err)
	}
	t.Cleanup(nc.Close)
	c.nc = nc
	return c
}

// tried says whether the server has let everything pass so far. A refusal comes BEFORE
// the answer to a ping that is sent behind.
func (c *client) tried(do func(*nats.Conn) error) bool {
	c.t.Helper()
	if err := do(c.nc); err != nil {
		c.t.Fatal(err)
	}
	if err := c.nc.FlushTimeout(time.Minute); err != nil {
		c.t.Fatal(err)
	}
	err := c.nc.LastError()
	return err == nil || !strings.Contains(strings.ToLower(err.Error()), "permissions violation")
}

func publish(subject string) func(*nats.Conn) error {
	return func(nc *nats.Conn) error { return nc.Publish(subject, nil) }
}

func subscribe(subject string) func(*nats.Conn) error {
	return func(nc *nats.Conn) error {
		_, err := nc.SubscribeSync(subject)
		return err
	}
}

// TestRolesReachWhatTheyMay tries what each kind of user may and may not do, on the
// server inside a node and on one that has read the printed configuration.
func TestRolesReachWhatTheyMay(t *testing.T) {
	users, seed := people(t)
	forAll := []string{
		"sluice.api.*.submit", "sluice.api.>", "sluice.ev.t.t", "sluice.turns.default", "sluice.wake.t.t", "sluice.timer.x", "sluice.due.t.t",
		"sluice.ask.boot", "sluice.live.completed.echo.t.t.0", "$KV.SLUICE_presence.x", "$KV.SLUICE_lock.x", "$O.SLUICE_BLOBS.C.x", "$JS.API.INFO",
		"$JS.API.STREAM.INFO.SLUICE", "$JS.API.STREAM.DELETE.SLUICE", "$JS.API.STREAM.CREATE.MINE", "$JS.API.STREAM.PURGE.SLUICE",
		"$JS.API.STREAM.MSG.GET.SLUICE", "$JS.API.DIRECT.GET.SLUICE_READ", "$JS.API.CONSUMER.CREATE.SLUICE_READ.x", "$JS.API.STREAM.NAMES",
		"$JS.ACK.SLUICE_TURNS.turns_default.1.1.1.1.0", "$SYS.REQ.SERVER.PING", "$SYS.REQ.USER.INFO", "_INBOX.ann.x", "_INBOX._node.x", "_R_.x", "elsewhere",
	}
	nobodyHears := []string{
		">", "*.>", "_INBOX.>", "_INBOX.*.x", "_INBOX.*", "_INBOX._node.>", "sluice.>", "sluice.api.>", "sluice.api.*.*", "sluice.ev.>", "sluice.ask.>",
		"sluice.turns.>", "sluice.wake.>", "$JS.>", "$JS.EVENT.>", "$KV.>", "$O.>", "$SYS.>", "$SRV.>",
	}
	for name, start := range map[string]func(*testing.T, []jetlog.User) served{"embedded": embeddedWith, "configured": configured} {
		t.Run(name, func(t *testing.T) {
			s := start(t, users)
			for _, u := range users {
				if u.Node {
					continue // the suite's tests are its own
				}
				if len(u.Tools) > 0 {
					continue // see TestWorkersReachTheirTools
				}
				t.Run(u.Name, func(t *testing.T) {
					var how []nats.Option
					if u.NKey != "" {
						how = []nats.Option{signer(t, seed)}
					}
					c := func() *client { return connectAs(t, s.url, u.Name, how...) }
					mine := []string{bus.DoorSubject(u.Name, "submit"), bus.DoorSubject(u.Name, "approve")}
					heard := []string{bus.InboxOf(u.Name) + ">", bus.InboxOf(u.Name) + "x"}
					if u.Watch {
						mine = append(mine, "$SRV.PING", "$SRV.INFO.sluice", "$SRV.STATS.sluice.x")
						heard = append(heard, "sluice.live.>", "sluice.live.completed.>")
					} else {
						c().never(publish, "$SRV.PING")
						c().never(subscribe, "sluice.live.>", "sluice.live.completed.echo.t.t.0")
					}
					c().always(publish, mine...)
					c().always(subscribe, heard...)
					c().never(publish, append(forAll, otherDoors(u.Name)...)...)
					c().never(subscribe, append(nobodyHears, otherInboxes(u.Name)...)...)
				})
			}
		})
	}
}

// TestWorkersReachTheirTools: a worker hears what is offered of its own tools, with the
// others who serve them and not beside them, and answers; nothing else is within its reach.
func TestWorkersReachTheirTools(t *testing.T) {
	users, _ := people(t)
	for name, start := range map[string]func(*testing.T, []jetlog.User) served{"embedded": embeddedWith, "configured": configured} {
		t.Run(name, func(t *testing.T) {
			s := start(t, users)
			c := func() *client { return connectAs(t, s.url, "joiner") }
			c().always(publish, "sluice.here.saw.joiner.a", "sluice.here.plane_2.joiner.b-2", "sluice.answer.boot.JOB.offer", "sluice.answer.boot.JOB.PLACE")
			c().always(subscribe, "sluice.worker.joiner.a", "sluice.worker.joiner.*", "sluice.workers")
			c().always(share, "sluice.tool.saw", "sluice.tool.plane_2")
			c().never(publish,
				"sluice.here.other.joiner.a", "sluice.here.saw.ann.a", "sluice.here.saw.joiner", "sluice.here.saw.joiner.a.b", "sluice.here.Bash.joiner.a",
				"sluice.tool.saw", "sluice.tool.other", "sluice.worker.joiner.a", "sluice.worker.ann.a", "sluice.workers", "sluice.answer.boot.JOB", "sluice.answer.boot.JOB.PLACE.more",
				"sluice.api.joiner.submit", "sluice.api.ann.approve", "sluice.ev.t.t", "sluice.turns.default", "sluice.wake.t.t", "sluice.timer.x", "sluice.ask.boot",
				"sluice.live.completed.saw.t.t.0", "$KV.SLUICE_presence.x", "$O.SLUICE_BLOBS.C.x", "$JS.API.INFO", "$JS.API.STREAM.INFO.SLUICE", "$SYS.REQ.USER.INFO",
				"_INBOX._node.x", "_INBOX.ann.x", "_INBOX.joiner.x", "elsewhere")
			c().never(subscribe,
				"sluice.tool.saw", "sluice.tool.*", "sluice.tool.other", "sluice.worker.ann.a", "sluice.worker.>", "sluice.worker.*.*", "sluice.here.>", "sluice.here.saw.*.*",
				"sluice.answer.>", "sluice.answer.*.*.*", "sluice.live.>", "sluice.api.>", "sluice.ev.>", "sluice.>", ">", "_INBOX.>", "_INBOX._node.>", "$JS.>", "$KV.>", "$SYS.>")
			c().never(share, "sluice.tool.other", "sluice.tool.*", "sluice.tool.>", "sluice.answer.*.*.*")
		})
	}
	for _, u := range users[:3] { // nor do others reach what is between nodes and workers
		s := embeddedWith(t, users)
		c := func() *client { return connectAs(t, s.url, u.Name) }
		c().never(publish, "sluice.tool.saw", "sluice.here.saw.joiner.a", "sluice.worker.joiner.a", "sluice.workers", "sluice.answer.boot.JOB.PLACE")
		c().never(subscribe, "sluice.tool.saw", "sluice.worker.joiner.a", "sluice.here.>", "sluice.answer.>", "sluice.workers")
	}
}

// share subscribes in the queue group of workers.
func share(subject string) func(*nats.Conn) error {
	return func(nc *nats.Conn) error {
		_, err := nc.QueueSubscribeSync(subject, bus.WorkerQueue)
		return err
	}
}

func otherDoors(user string) []string {
	return []string{
		bus.DoorSubject("node", "whoami"), bus.DoorSubject(user+"x", "approve"), bus.DoorSubject("root", "approve"),
		bus.DoorPrefix + "*.approve", bus.DoorSubject(user, "approve") + ".more", bus.DoorPrefix + bus.Token(user),
	}
}

func otherInboxes(user string) []string {
	return []string{bus.InboxOf(user+"x") + ">", bus.InboxOf("root") + ">", "_INBOX." + bus.Token(user), "_INBOX_" + user + ".>"}
}

func (c *client) always(do func(string) func(*nats.Conn) error, subjects ...string) {
	c.t.Helper()
	for _, s := range subjects {
		if !c.tried(do(s)) {
			c.t.Errorf("%s is refused", s)
		}
	}
}

func (c *client) never(do func(string) func(*nats.Conn) error, subjects ...string) {
	c.t.Helper()
	for _, s := range subjects {
		if err := do(s)(c.nc); err != nil {
			continue // the client itself refuses it
		}
		if err := c.nc.FlushTimeout(time.Minute); err != nil {
			c.t.Fatal(err)
		}
		select {
		case <-c.refused:
		case <-time.After(time.Minute):
			c.t.Errorf("%s is let pass", s)
		}
	}
}

func signer(t *testing.T, seed []byte) nats.Option {
	t.Helper()
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return nats.Nkey(public, pair.Sign)
}

// TestStrangersStayOut: who is no user is not let in, whatever is given.
func TestStrangersStayOut(t *testing.T) {
	users, _ := people(t)
	_, other, err := jetlog.NewNKey()
	if err != nil {
		t.Fatal(err)
	}
	s := embeddedWith(t, users)
	for name, o := range map[string]nats.Option{
		"nothing":             nats.Name("nobody"),
		"a wrong password":    nats.UserInfo("ann", "bob"),
		"no password":         nats.UserInfo("ann", ""),
		"the hash":            nats.UserInfo("ann", users[0].Password),
		"another name":        nats.UserInfo("root", "root"),
		"a token":             nats.Token("ann"),
		"an empty token":      nats.Token(""),
		"another nkey":        signer(t, other),
		"an nkey as name":     nats.UserInfo(users[4].NKey, ""),
		"the nkey's own name": nats.UserInfo("dot", ""),
	} {
		if nc, err := nats.Connect(s.url, o, nats.NoReconnect()); err == nil {
			nc.Close()
			t.Errorf("%s lets somebody in", name)
		} else if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUsersAreChecked: a file that would let in whom it does not mean is refused.
func TestUsersAreChecked(t *testing.T) {
	public, seed, err := jetlog.NewNKey()
	if err != nil {
		t.Fatal(err)
	}
	good := hashed(t, "x")
	for name, users := range map[string][]jetlog.User{
		"no name":            {{Password: good}},
		"a long name":        {{Name: strings.Repeat("x", 129), Password: good}},
		"no credentials":     {{Name: "ann"}},
		"both":               {{Name: "ann", Password: good, NKey: public}},
		"a plain password":   {{Name: "ann", Password: "secret"}},
		"half a hash":        {{Name: "ann", Password: good[:40]}},
		"a hash and more":    {{Name: "ann", Password: good + "\n"}},
		"a seed":             {{Name: "ann", NKey: string(seed)}},
		"a name twice":       {{Name: "ann", Password: good}, {Name: "ann", NKey: public}},
		"an nkey twice":      {{Name: "ann", NKey: public}, {Name: "bob", NKey: public}},
		"no nkey of a user":  {{Name: "ann", NKey: "A" + public[1:]}},
		"an nkey with blank": {{Name: "ann", NKey: " " + public}},
		"a node that works":  {{Name: "ann", Password: good, Node: true, Tools: []string{"saw"}}},
		"a server's tool":    {{Name: "ann", Password: good, Tools: []string{"a__b"}}},
		"all tools":          {{Name: "ann", Password: good, Tools: []string{"*"}}},
		"a tool of a queue":  {{Name: "ann", Password: good, Tools: []string{"saw others"}}},
	} {
		if err := jetlog.CheckUsers(users); err == nil {
			t.Errorf("%s: is let pass", name)
		}
		if _, err := jetlog.StartServer(t.Context(), jetlog.ServerConfig{Dir: t.TempDir(), Users: users}); err == nil {
			t.Errorf("%s: a server starts with it", name)
		}
	}
	if err := jetlog.CheckUsers([]jetlog.User{{Name: "ann", Password: good}, {Name: "bob", NKey: public, Node: true}}); err != nil {
		t.Error(err)
	}
}

// TestNSCSaysTheSame: the commands for nsc carry the permissions of the configuration.
func TestNSCSaysTheSame(t *testing.T) {
	users, _ := people(t)
	users = append(users, jetlog.User{Name: "o'neill; rm -rf /", Password: users[0].Password})
	text := jetlog.NSC(users)
	for _, u := range users {
		p := jetlog.PermissionsOf(u)
		for flag, list := range map[string][]string{"--allow-pub": p.Publish, "--allow-sub": p.Subscribe} {
			if want := fmt.Sprintf("%s '%s'", flag, strings.Join(list, ",")); !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in\n%s", u.Name, want, text)
			}
		}
		for _, s := range append(p.Publish, p.Subscribe...) {
			if strings.ContainsAny(strings.TrimSuffix(s, " "+bus.WorkerQueue), "', \n") { // a subject and its queue group
				t.Errorf("subject %q of %s would end its word", s, u.Name)
			}
		}
	}
	if !strings.Contains(text, `--name 'o'\''neill; rm -rf /' `) {
		t.Errorf("a name is not one word in\n%s", text)
	}
}

// TestTheRunFilesTokenStays: who may read what a node tells in its directory does
// everything, with users too.
func TestTheRunFilesTokenStays(t *testing.T) {
	users, _ := people(t)
	dir := t.TempDir()
	b, srv, err := jetlog.OpenEmbedded(t.Context(), jetlog.ServerConfig{Dir: dir, Port: -1, Users: users}, jetlog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(b.Close(), srv.Close()); err != nil {
			t.Error(err)
		}
	}()
	r, found, err := jetlog.Find(dir)
	if err != nil || !found || r.Token == "" {
		t.Fatalf("found %t, %v", found, err)
	}
	connect := func(name string) (*nats.Conn, error) {
		return nats.Connect(r.URL, append(jetlog.Options(name, nil), nats.Token(r.Token))...)
	}
	other := openOn(t, connect, 1)
	defer func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if _, err := other.Append(ctx, note(turn("run", "file"), "one", 1), 0); err != nil {
		t.Error(err)
	}
}

// TestUsersAreReadAnew: who is taken out is cut off, and who comes gets in; the node's own
// connections and those of the token stay.
func TestUsersAreReadAnew(t *testing.T) {
	users, _ := people(t)
	b, srv, err := jetlog.OpenEmbedded(t.Context(), jetlog.ServerConfig{Dir: t.TempDir(), Port: -1, Users: users[:2]}, jetlog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(b.Close(), srv.Close()); err != nil {
			t.Error(err)
		}
	}()
	closed := make(chan struct{})
	ann := connectAs(t, srv.URL(), "ann", nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	bob := connectAs(t, srv.URL(), "bob")
	if err := srv.SetUsers(users[1:3]); err != nil {
		t.Fatal(err)
	}
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Error("who is no user any more keeps the connection")
	}
	if ann.nc.IsConnected() {
		t.Error("ann is still there")
	}
	bob.always(publish, bus.DoorSubject("bob", "whoami"))
	connectAs(t, srv.URL(), "eve@x.org").always(subscribe, "sluice.live.>")
	if nc, err := nats.Connect(srv.URL(), nats.UserInfo("ann", "ann"), nats.NoReconnect()); err == nil {
		nc.Close()
		t.Error("ann gets in again")
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if _, err := b.Append(ctx, note(turn("users", "anew"), "one", 1), 0); err != nil {
		t.Errorf("the node itself: %v", err)
	}
	for name, wrong := range map[string][]jetlog.User{"none": nil, "one without credentials": {{Name: "zoe"}}} {
		if err := srv.SetUsers(wrong); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	bob.always(publish, bus.DoorSubject("bob", "whoami"))
}
