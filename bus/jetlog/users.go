package jetlog

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// User is somebody who may connect to a server. Exactly one of Password and NKey is
// there.
type User struct {
	// Name is what stands in the subjects on which the user asks, and what the user
	// gives with a password. 1 to 128 bytes.
	Name string
	// Password is the bcrypt hash of the password.
	Password string
	// NKey is the public key of an nkey pair, which begins with U.
	NKey string
	// Node is for who runs turns: the log, the queue and all that belongs to them,
	// and no door.
	Node bool
	// Watch is for who may hear the live events of everybody.
	Watch bool
	// Tools are those that a worker may serve; it may do nothing else, and no door is its.
	// nil: the user is no worker.
	Tools []string
}

// maxUserName is the size in bytes of the longest name.
const maxUserName = 128

// bcrypted is the form of a bcrypt hash, as the server knows it.
var bcrypted = regexp.MustCompile(`^\$2[abxy]\$\d{2}\$[./A-Za-z0-9]{53}$`)

func (u User) check() error {
	switch {
	case u.Name == "" || len(u.Name) > maxUserName:
		return fmt.Errorf("a user's name has 1 to %d bytes, not %d", maxUserName, len(u.Name))
	case (u.Password == "") == (u.NKey == ""):
		return fmt.Errorf("user %q: give either a password's hash or an nkey", u.Name)
	case u.Password != "" && !bcrypted.MatchString(u.Password):
		return fmt.Errorf("user %q: the password is no bcrypt hash; sluice-node nats user makes one", u.Name)
	case u.NKey != "" && !nkeys.IsValidPublicUserKey(u.NKey):
		return fmt.Errorf("user %q: the nkey is no public key of a user, which begins with U; the seed, which begins with S, is the user's secret", u.Name)
	case len(u.Tools) > 0 && (u.Node || u.Watch):
		return fmt.Errorf("user %q: a worker is nothing else: give the node, or who watches, a user of its own", u.Name)
	case len(u.Tools) > maxWorkerTools:
		return fmt.Errorf("user %q: %d tools, at most %d", u.Name, len(u.Tools), maxWorkerTools)
	}
	for _, name := range u.Tools {
		if !bus.WorkerTool(name) {
			return fmt.Errorf("user %q: no worker's tool can be called %.80q: 1 to %d of A-Za-z0-9_-, beginning with a letter or a digit, without __", u.Name, name, events.MaxToolName)
		}
	}
	return nil
}

// maxWorkerTools is how many tools one worker may serve.
const maxWorkerTools = 256

// CheckUsers returns nil for users that a server can tell apart, and let in.
func CheckUsers(users []User) error {
	var errs []error
	names, keys := map[string]bool{}, map[string]bool{}
	for _, u := range users {
		errs = append(errs, u.check())
		if names[u.Name] {
			errs = append(errs, fmt.Errorf("user %q is there twice", u.Name))
		}
		if u.NKey != "" && keys[u.NKey] {
			errs = append(errs, fmt.Errorf("user %q has the nkey of another one", u.Name))
		}
		names[u.Name], keys[u.NKey] = true, true
	}
	return errors.Join(errs...)
}

// Bounds of a server that knows its users: the rest are the server's own, among which
// are 1 MiB a message and 2 s to say who one is.
const (
	maxConnections   = 4096
	maxSubscriptions = 4096 // of one connection; a node's own has some 600
)

// let gives a server its users. The token stays: who has it may do everything.
func (c ServerConfig) let(o *server.Options) {
	if len(c.Users) == 0 {
		return
	}
	o.MaxConn, o.MaxSubs = maxConnections, maxSubscriptions
	for _, u := range c.Users {
		p := PermissionsOf(u)
		may := &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: p.Publish},
			Subscribe: &server.SubjectPermission{Allow: p.Subscribe},
		}
		if u.NKey != "" {
			o.Nkeys = append(o.Nkeys, &server.NkeyUser{Nkey: u.NKey, Permissions: may})
			continue
		}
		o.Users = append(o.Users, &server.User{Username: u.Name, Password: u.Password, Permissions: may})
	}
}

// SetUsers replaces the users of a running server, which had some from its start.
// Connections of who is gone, or has other permissions now, are ended; the token's stay.
// The certificate is read anew, too. With an error nothing has changed.
func (s *Server) SetUsers(users []User) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(s.cfg.Users) == 0 || len(users) == 0:
		return errors.New("a server gets users, or loses all of them, only at its start")
	case s.closing:
		return errClosed
	}
	next := s.cfg
	next.Users = users
	if err := CheckUsers(users); err != nil {
		return err
	}
	o := next.options()
	if err := next.secure(o); err != nil {
		return err
	}
	was := s.running.Pin
	s.running.Pin = pinOf(o)
	if err := s.nats.ReloadOptions(o); err != nil {
		s.running.Pin = was
		return fmt.Errorf("give the NATS server its users: %w", err)
	}
	s.cfg.Users = users
	if s.running.Pin == was {
		return nil
	}
	return tell(s.cfg.Dir, s.running)
}

// NewNKey makes an nkey pair: the public key for the users' file, and the seed, which
// is the user's secret.
func NewNKey() (public string, seed []byte, err error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return "", nil, err
	}
	defer pair.Wipe()
	if public, err = pair.PublicKey(); err != nil {
		return "", nil, err
	}
	if seed, err = pair.Seed(); err != nil {
		return "", nil, err
	}
	return public, bytes.Clone(seed), nil // the pair's own is wiped
}
