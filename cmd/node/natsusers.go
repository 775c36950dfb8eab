package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/keys"
	"github.com/sluice-run/sluice/policy/access"
)

// natsUser is an entry of the file of --nats-users.
type natsUser struct {
	Name       string        `yaml:"name" json:"name"`                                // who acts, and what stands in subjects
	Kind       string        `yaml:"kind,omitempty" json:"kind,omitempty"`            // agent (left out), person or service
	Parents    []string      `yaml:"parents,omitempty,flow" json:"parents,omitempty"` // of the principal, nearest first
	Roles      []access.Role `yaml:"roles,flow" json:"roles"`
	Tools      []string      `yaml:"tools,omitempty,flow" json:"tools,omitempty"`      // that a worker may serve
	Workspaces []string      `yaml:"workspaces,omitempty" json:"workspaces,omitempty"` // where its turns may run; none: the node's own
	Password   string        `yaml:"password,omitempty" json:"password,omitempty"`     // its bcrypt hash
	NKey       string        `yaml:"nkey,omitempty" json:"nkey,omitempty"`             // the public key
}

// natsUsers is the file.
type natsUsers struct {
	Users []natsUser `yaml:"users" json:"users"`
}

// maxNATSUsers bounds the file.
const maxNATSUsers = 10_000

// identity is who a user is at the door.
func (u natsUser) identity() access.Identity {
	p := events.Principal{ID: u.Name, Kind: u.Kind, Parents: u.Parents}
	if p.Kind == "" {
		p.Kind = access.KindAgent
	}
	return access.Identity{Principal: p, Roles: u.Roles, Workspaces: u.Workspaces, Via: events.ViaNATS}
}

// node says whether a user runs turns.
func (u natsUser) node() bool { return slices.Contains(u.Roles, access.Node) }

// worker says whether a user serves tools.
func (u natsUser) worker() bool { return slices.Contains(u.Roles, access.Worker) }

// user is who the server lets in.
func (u natsUser) user() jetlog.User {
	return jetlog.User{
		Name: u.Name, Password: u.Password, NKey: u.NKey, Node: u.node(), Tools: u.Tools,
		Watch: u.identity().Reach(access.Watch) == access.All,
	}
}

// check returns what is wrong with an entry, but for its credentials.
func (u natsUser) check() error {
	switch {
	case slices.Contains(u.Roles, access.Monitor):
		return fmt.Errorf("%s has the role monitor, which is for HTTP: metrics are not told on NATS; sluice-node token makes its token", u.Name)
	case u.node() && len(u.Roles) > 1:
		return fmt.Errorf("%s has the role node and others: a node writes the log itself; give people and agents users of their own", u.Name)
	case u.worker() && len(u.Roles) > 1:
		return fmt.Errorf("%s has the role worker and others: who serves tools does nothing else; give people, agents and nodes users of their own", u.Name)
	case u.worker() != (len(u.Tools) > 0):
		return fmt.Errorf("%s: the role worker and the names of the tools that it may serve (tools: [a, b]) go together", u.Name)
	}
	return errors.Join(checkName(u.Name), u.identity().Check())
}

func (f natsUsers) users() []jetlog.User {
	var out []jetlog.User
	for _, u := range f.Users {
		out = append(out, u.user())
	}
	return out
}

// check returns what is wrong with the file, up to 20 faults.
func (f natsUsers) check() error {
	if len(f.Users) > maxNATSUsers {
		return fmt.Errorf("%d users: at most %d", len(f.Users), maxNATSUsers)
	}
	if len(f.Users) == 0 {
		return errors.New("it names no user, and nobody could come in: sluice-node nats user makes an entry")
	}
	var errs []error
	for i, u := range f.Users {
		if err := u.check(); err != nil {
			errs = append(errs, fmt.Errorf("user %d: %w", i+1, err))
		}
		if len(errs) == 20 {
			break // enough to begin with
		}
	}
	return errors.Join(append(errs, jetlog.CheckUsers(f.users()))...)
}

// readNATSUsers reads the file, all of it or nothing. It must be one that only its owner
// can change.
func readNATSUsers(path string) (natsUsers, error) {
	const next = "mend the file; sluice-node nats check reads one"
	fail := func(err error) (natsUsers, error) {
		return natsUsers{}, exit.Misused(fmt.Errorf("--nats-users: %w", err), next)
	}
	if err := keys.CheckFile(path); err != nil {
		return fail(err)
	}
	body, err := readSmall(path, maxSettings)
	if err != nil {
		return fail(err)
	}
	f, err := parseNATSUsers(body)
	if err == nil {
		err = f.check()
	}
	if err != nil {
		return fail(fmt.Errorf("%s: %w", path, err))
	}
	return f, nil
}

// parseNATSUsers reads the file's text. What is no member of an entry is an error.
func parseNATSUsers(text []byte) (natsUsers, error) {
	var f natsUsers
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return f, fmt.Errorf("no file of users: %w", err)
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return f, errors.New("a second document stands in it: write all users in one")
	}
	return f, nil
}
