package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"
	"golang.org/x/crypto/bcrypt"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/policy/access"
)

// nats is the verb for who may come in by NATS.
func (a *app) nats() *cobra.Command {
	cmd := &cobra.Command{
		Use: "nats", Short: "Make users for NATS, look at their file, and print permissions for servers of your own", Args: command.Args(0, 0, "one of user, check, permissions"),
		Long: "Who may come in by NATS stands in the file of --nats-users. An embedded server lets in those whom it names, each with\n" +
			"the smallest permissions; a server of your own is given the same permissions by what this verb prints:\n\n" +
			"  sluice-node nats user ann --kind person --role approver\n" +
			"  sluice-node nats check /etc/sluice/nats-users.yaml\n" +
			"  sluice-node nats permissions --users /etc/sluice/nats-users.yaml --format server > sluice-accounts.conf",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.natsUser(), a.natsCheck(), a.natsPermissions())
	return cmd
}

// roleNames are the roles, for a flag's help.
func roleNames() string {
	var all []string
	for _, r := range access.Roles() {
		if r != access.Monitor { // there are no metrics on NATS
			all = append(all, string(r))
		}
	}
	return strings.Join(all, ", ")
}

// newNATSUser are the flags of nats user.
type newNATSUser struct {
	roles, parents, tools []string
	kind                  string
	nkey                  bool
}

func (n newNATSUser) entry(name string) (natsUser, error) {
	u := natsUser{Name: name, Kind: n.kind, Parents: n.parents, Tools: n.tools}
	for _, r := range n.roles {
		u.Roles = append(u.Roles, access.Role(r))
	}
	if err := u.check(); err != nil { // BEFORE anything is printed: a node would refuse it
		return u, exit.Misused(err, "say --role, --kind person for somebody who approves, and --tool for each tool of a worker")
	}
	return u, nil
}

func (a *app) natsUser() *cobra.Command {
	var in newNATSUser
	cmd := &cobra.Command{
		Use: "user NAME", Short: "Make a user, and print the secret once with the entry for the file", Args: command.Args(1, 1, "a name"),
		Long: "Make a user with a password, or with an nkey, and print the secret with the entry for the file of --nats-users. Nothing\n" +
			"is kept here: put the entry into the file, and send the node SIGHUP. Prefer nkeys for nodes: a password is hashed anew for\n" +
			"each connection. The roles are " + roleNames() + ".",
		Example: "  sluice-node nats user planner --role submitter\n" +
			"  sluice-node nats user n1 --kind service --role node --nkey",
		RunE: func(_ *cobra.Command, args []string) error { return a.makeNATSUser(args[0], in) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&in.roles, "role", nil, "`roles` that the user gets: "+roleNames())
	f.StringVar(&in.kind, "kind", "", "what the user is: agent (left out), person or service")
	f.StringSliceVar(&in.parents, "parent", nil, "`ids` of the principals above, nearest first: the user may do no more than they")
	f.StringSliceVar(&in.tools, "tool", nil, "`names` of the tools that a worker may serve")
	f.BoolVar(&in.nkey, "nkey", false, "make an nkey instead of a password; its seed goes into the file that --nkey names")
	return cmd
}

// bcryptCost is what hashing a password costs, at each connection: some 100 ms.
const bcryptCost = 11

func (a *app) makeNATSUser(name string, in newNATSUser) error {
	u, err := in.entry(name)
	if err != nil {
		return err
	}
	secret, what := rand.Text(), "password"
	if in.nkey {
		public, seed, err := jetlog.NewNKey()
		if err != nil {
			return err
		}
		secret, what, u.NKey = string(seed), "seed", public
	} else {
		hash, err := bcrypt.GenerateFromPassword([]byte(secret), bcryptCost)
		if err != nil {
			return err
		}
		u.Password = string(hash)
	}
	if a.json {
		return a.printJSON(map[string]any{what: secret, "entry": u})
	}
	entry, err := yaml.Marshal(natsUsers{Users: []natsUser{u}})
	if err != nil {
		return err
	}
	a.print("%s\n\n# The %s stands above, this once. For the file of --nats-users:\n%s", secret, what, entry)
	return nil
}

func (a *app) natsCheck() *cobra.Command {
	return &cobra.Command{
		Use: "check FILE", Short: "Say whether a node would take a file of --nats-users, and who is in it", Args: command.Args(1, 1, "a file"),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := readNATSUsers(args[0])
			if err != nil {
				return err
			}
			if a.json {
				for i := range f.Users {
					f.Users[i].Password = "" // who looks needs no hashes
				}
				return a.printJSON(f)
			}
			for _, u := range f.Users {
				id := u.identity()
				a.print("%s  %s  %s  %v\n", u.Name, id.Principal.Kind, jetlog.PermissionsOf(u.user()).Publish[0], u.Roles)
			}
			return nil
		},
	}
}

// natsGrant are the flags of nats permissions.
type natsGrant struct {
	file, format, user string
	roles, tools       []string
}

func (a *app) natsPermissions() *cobra.Command {
	var in natsGrant
	cmd := &cobra.Command{
		Use: "permissions", Short: "Print NATS permissions for servers of your own", Args: command.Args(0, 0, "none"),
		Long: "Print the smallest permissions of users, for servers of your own: of all users of a file (--users), or of one (--user and\n" +
			"--role). The formats: server, for nats-server's configuration file; nsc, commands for servers whose accounts nsc keeps; json.\n" +
			"Of one user, server is the permissions block alone, which goes beside the user's password or nkey.",
		Example: "  sluice-node nats permissions --users nats-users.yaml --format server > sluice-accounts.conf\n" +
			"  sluice-node nats permissions --user ann --role approver --format nsc",
		RunE: func(*cobra.Command, []string) error { return a.printPermissions(in) },
	}
	f := cmd.Flags()
	f.StringVar(&in.file, "users", "", "`file` as --nats-users takes it")
	f.StringVar(&in.user, "user", "", "`name` of one user instead")
	f.StringSliceVar(&in.roles, "role", nil, "`roles` of that user: "+roleNames())
	f.StringSliceVar(&in.tools, "tool", nil, "`names` of the tools that that user may serve as a worker")
	f.StringVar(&in.format, "format", "server", "server, nsc or json")
	return cmd
}

func (a *app) printPermissions(in natsGrant) error {
	users, err := in.users()
	if err != nil {
		return err
	}
	switch {
	case in.format == "json" || a.json:
		type one struct {
			User string `json:"user"`
			jetlog.Permissions
		}
		var all []one
		for _, u := range users {
			all = append(all, one{u.Name, jetlog.PermissionsOf(u)})
		}
		return a.printJSON(map[string]any{"account": jetlog.LogAccount, "users": all})
	case in.format == "nsc":
		a.print("%s", jetlog.NSC(users))
	case in.format == "server" && in.file == "":
		a.print("%s", jetlog.PermissionConf(users[0]))
	case in.format == "server":
		a.print("%s", jetlog.ServerConf(users))
	default:
		return exit.Misused(fmt.Errorf("--format %q", in.format), "say server, nsc or json")
	}
	return nil
}

// users are those whose permissions are printed.
func (g natsGrant) users() ([]jetlog.User, error) {
	switch {
	case g.file != "" && (g.user != "" || len(g.roles) > 0 || len(g.tools) > 0):
		return nil, exit.Misused(errors.New("--users names all users, and --user one"), "give one of them")
	case g.file != "":
		f, err := readNATSUsers(g.file)
		return f.users(), err
	case g.user == "":
		return nil, exit.Misused(errors.New("whose permissions?"), "say --users FILE, or --user NAME and --role ROLE")
	}
	u, err := newNATSUser{roles: g.roles, tools: g.tools, kind: access.KindPerson}.entry(g.user)
	return []jetlog.User{u.user()}, err
}
