package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"os/user"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/nodehttp"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/gateway/keys"
	"github.com/sluice-run/sluice/policy/access"
)

// doorway is what the HTTP door stands on: where it listens, and who may come in.
type doorway struct {
	net.Listener
	set   *settings
	ring  atomic.Pointer[keys.Ring] // nil: everybody is believed
	certs *keys.Certs               // nil: no TLS
	local string                    // this user's own token; "" where everybody is believed
}

// door listens for HTTP; nil where --http says none. Whatever it needs is read first: a
// node does not start behind a door that would not be what was asked for.
func (s *settings) door() (*doorway, error) {
	if s.http == "none" {
		return nil, nil
	}
	if err := s.checkDoor(); err != nil {
		return nil, err
	}
	d := &doorway{set: s}
	if s.entry.auth != "" {
		d.local = keys.New()
	}
	if err := d.read(); err != nil {
		return nil, err
	}
	var err error
	if d.Listener, err = net.Listen("tcp", s.http); err != nil {
		return nil, exit.Unusable(fmt.Errorf("HTTP: %w", err), "stop what listens there, or choose another port with --http (port 0 takes any free one)")
	}
	if at, ok := d.Addr().(*net.TCPAddr); ok {
		err = s.checkReach(!at.IP.IsLoopback()) // a name can lead elsewhere
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// read reads who may come in, and the certificates. With an error nothing has changed.
func (d *doorway) read() error {
	e := d.set.entry
	var ring *keys.Ring
	if e.auth != "" {
		var err error
		if ring, err = d.readRing(e.auth); err != nil {
			return exit.Misused(fmt.Errorf("--http-auth: %w", err), "mend the file; sluice-node token check reads one")
		}
	}
	if e.cert != "" {
		if err := d.readCerts(); err != nil {
			return exit.Misused(err, "mend the file that is named, or its mode: openssl x509 and openssl pkey read such files")
		}
	}
	d.ring.Store(ring)
	return nil
}

// readCerts reads the certificate, its key, and the authorities of clients.
func (d *doorway) readCerts() error {
	e := d.set.entry
	if err := keys.CheckFile(e.key); err != nil {
		return fmt.Errorf("--http-key: %w", err)
	}
	if d.certs != nil {
		if err := d.certs.Reload(); err != nil {
			return fmt.Errorf("--http-cert: %w", err)
		}
		return nil
	}
	certs, err := keys.LoadCerts(e.cert, e.key, e.clientCA)
	if err != nil {
		return fmt.Errorf("--http-cert: %w", err)
	}
	d.certs = certs
	return nil
}

// localName begins the id of the user whose node this is: no file gives it to anybody.
const localName = "local:"

// checkName returns nil for an id that a file may give to somebody.
func checkName(id string) error {
	if strings.HasPrefix(id, localName) {
		return fmt.Errorf("the id %s: ids that begin with %s are for this machine's own programs", id, localName)
	}
	return nil
}

// readPrincipals reads a file of principals, all of it or nothing.
func readPrincipals(path string) (keys.File, error) {
	f, err := keys.Read(path)
	if err != nil {
		return f, err
	}
	for _, p := range f.Principals {
		if err := checkName(p.ID); err != nil {
			return f, fmt.Errorf("%s: %w", path, err)
		}
	}
	if _, err := f.Ring(); err != nil {
		return f, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// readRing is the file's ring, with this user's own token: whoever can read the file where
// the node tells of itself can have the log itself, too.
func (d *doorway) readRing(path string) (*keys.Ring, error) {
	f, err := readPrincipals(path)
	if err != nil {
		return nil, err
	}
	f.Principals = append(f.Principals, keys.Principal{
		ID: localName + localUser(), Kind: access.KindPerson, Roles: []access.Role{access.Observer, access.Operator},
		Tokens: []keys.Token{{SHA256: keys.Digest(d.local)}},
	})
	return f.Ring()
}

var notInID = regexp.MustCompile(`[^A-Za-z0-9._@-]`)

// localUser is the name of this user as an id takes it.
func localUser() string {
	u, err := user.Current()
	if err != nil || u.Username == "" {
		return fmt.Sprint(os.Getuid())
	}
	name := notInID.ReplaceAllString(u.Username, "-")
	return name[:min(len(name), 64)]
}

// address is where programs of this machine reach the door.
func (d *doorway) address() string {
	scheme := "http"
	if d.certs != nil {
		scheme = "https"
	}
	return nodehttp.Address(scheme, d.Addr())
}

// shown is where people reach the door: by a name that its certificate may have, where it
// listens everywhere.
func (d *doorway) shown() string {
	at, ok := d.Addr().(*net.TCPAddr)
	if d.certs == nil || !ok || !at.IP.IsUnspecified() || len(d.set.hosts) == 0 {
		return d.address()
	}
	return "https://" + net.JoinHostPort(d.set.hosts[0], strconv.Itoa(at.Port))
}

// tell adds what this user's programs need to come in.
func (d *doorway) tell(more map[string]string) {
	if d.local != "" {
		more[nodehttp.Token] = d.local
	}
	if d.certs != nil {
		more[nodehttp.Cert] = d.certs.Digest()
	}
}

// into makes the door as it is asked for.
func (d *doorway) into(c gateway.APIConfig) *gateway.API {
	e := d.set.entry
	c.Hosts, c.Open, c.Proxy, c.Limits = d.set.hosts, e.open, e.proxy, gateway.Limits{Rate: float64(e.rate)}
	if e.proxy {
		c.Limits.PerAddress = -1
	}
	if e.auth != "" {
		c.Keys = d.ring.Load
	}
	if d.certs != nil {
		c.TLS = d.certs.Config()
	}
	return gateway.NewAPI(c)
}

// knows says whether an id is that of somebody who comes in by NATS; nobody does without
// a roll.
func (r *roll) knows(id string) bool {
	if r == nil {
		return false
	}
	_, ok := r.who(id)
	return ok
}

// heedDoor reads who may come in, and the certificates, anew whenever the process gets
// SIGHUP, until ctx ends. The signal is heeded from the moment that this returns.
func (s *serving) heedDoor(ctx context.Context) {
	s.onHangup(ctx, s.rereadDoor)
}

// onHangup does something whenever the process gets SIGHUP, until ctx ends. The signal
// is heeded from the moment that this returns.
func (s *serving) onHangup(ctx context.Context, do func()) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	s.wg.Go(func() {
		defer signal.Stop(hup)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hup:
				do()
			}
		}
	})
}

func (s *serving) rereadDoor() {
	if err := s.door.read(); err != nil {
		s.node.metrics.Count("reload_refused", 1)
		s.log.Error("who may come in by HTTP was not read anew: what was read before counts", "error", err)
		return
	}
	principals := 0
	if ring := s.door.ring.Load(); ring != nil {
		principals = ring.Len() - 1 // without this user
	}
	s.log.Info("who may come in by HTTP was read anew", "principals", principals)
	if err := s.announce(); err != nil {
		s.log.Warn("other processes could not be told of the door", "error", err)
	}
}

// warnDoor says what is risky about the door's files.
func (s *settings) warnDoor(log *slog.Logger, workspace string) {
	for name, path := range map[string]string{"http-auth": s.entry.auth, "http-key": s.entry.key} {
		if path != "" && inside(path, workspace) {
			log.Warn("a file that says who may come in is inside the workspace: tools can change it; choose another place", "setting", name, "file", path)
		}
	}
}
