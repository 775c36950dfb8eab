package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/gateway/keys"
	"github.com/sluice-run/sluice/policy/access"
)

// token is the verb for who may come in by HTTP.
func (a *app) token() *cobra.Command {
	cmd := &cobra.Command{
		Use: "token", Short: "Make tokens for HTTP, and look at the file that knows them", Args: command.Args(0, 0, "one of new, check"),
		Long: "Make bearer tokens for HTTP, and look at the file of --http-auth that knows them. Of a token only its SHA-256 is kept:\n" +
			"who has lost one gets a new one. Several tokens of one principal count at the same time:\n\n" +
			"  sluice-node token new ann --kind person --role approver --expires 90d\n" +
			"  sluice-node token check /etc/sluice/access.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.tokenNew(), a.tokenCheck())
	return cmd
}

// newToken are the flags of token new.
type newToken struct {
	roles, parents      []string
	kind, expires, name string
}

func (a *app) tokenNew() *cobra.Command {
	var in newToken
	var roles []string
	for _, r := range keys.HTTPRoles() {
		roles = append(roles, string(r))
	}
	cmd := &cobra.Command{
		Use: "new PRINCIPAL", Short: "Make a token, and print it once with the entry for the file", Args: command.Args(1, 1, "the id of a principal"),
		Long: "Make a token for a principal, and print it with the entry for the file of --http-auth. Nothing is kept here: put the\n" +
			"entry into the file, or only its token below a principal that stands there, and send the node SIGHUP.\n" +
			"The roles are " + strings.Join(roles, ", ") + "; agents may be submitter and observer.",
		Example: "  sluice-node token new planner --role submitter --expires 30d\n" +
			"  sluice-node token new ann --kind person --role approver --role observer",
		RunE: func(_ *cobra.Command, args []string) error { return a.makeToken(args[0], in, time.Now()) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&in.roles, "role", nil, "`roles` that it gets: "+strings.Join(roles, ", "))
	f.StringVar(&in.kind, "kind", "", "what the principal is: agent (left out), person or service")
	f.StringSliceVar(&in.parents, "parent", nil, "`ids` of the principals above it, nearest first: it may do no more than they")
	f.StringVar(&in.expires, "expires", "", "until when it counts: a `time`, a day (2027-01-31, UTC), or for how long (12h, 90d); left out: for ever")
	f.StringVar(&in.name, "name", "", "what the token is called in the file, for whoever keeps it")
	return cmd
}

func (a *app) makeToken(id string, in newToken, now time.Time) error {
	expires, err := expiry(in.expires, now)
	if err != nil {
		return exit.Misused(err, "say until when the token counts, or leave --expires out for one that counts for ever")
	}
	secret := keys.New()
	p := keys.Principal{
		ID: id, Kind: in.kind, Parents: in.parents,
		Tokens: []keys.Token{{SHA256: keys.Digest(secret), Name: in.name, Expires: expires}},
	}
	for _, r := range in.roles {
		p.Roles = append(p.Roles, access.Role(r))
	}
	f := keys.File{Principals: []keys.Principal{p}}
	if err := p.Check(); err != nil { // BEFORE anything is printed: a node would refuse it
		return exit.Misused(err, "say --role, and --kind person for somebody who approves")
	}
	if err := checkName(id); err != nil {
		return exit.Misused(err, "take another one")
	}
	if a.json {
		return a.printJSON(map[string]any{"token": secret, "entry": p})
	}
	entry, err := yaml.Marshal(f)
	if err != nil {
		return err
	}
	a.print("%s\n\n# The token stands above, this once. For the file of --http-auth:\n%s", secret, entry)
	return nil
}

// expiry reads until when a token counts, as the file writes it; "" is for ever.
func expiry(s string, now time.Time) (string, error) {
	if s == "" {
		return "", nil
	}
	var span time.Duration
	if n, ok := strings.CutSuffix(s, "d"); ok {
		var days int
		if _, err := fmt.Sscanf(n, "%d", &days); err == nil && fmt.Sprint(days) == n && days < 1_000_000 {
			span = time.Duration(days) * 24 * time.Hour
		}
	} else if d, err := time.ParseDuration(s); err == nil {
		span = d
	}
	if span > 0 {
		return now.Add(span).UTC().Format(time.RFC3339), nil
	}
	at, err := keys.ParseExpiry(s)
	switch {
	case err != nil:
		return "", fmt.Errorf("--expires %q: want a time (2027-01-31T12:00:00Z), a day (2027-01-31), or for how long (12h, 90d)", s)
	case !at.After(now):
		return "", fmt.Errorf("--expires %s has passed already", s)
	}
	return s, nil
}

// checked is one principal of a file, for programs.
type checked struct {
	ID           string        `json:"id"`
	Kind         string        `json:"kind"`
	Parents      []string      `json:"parents,omitempty"`
	Roles        []access.Role `json:"roles"`
	Tokens       int           `json:"tokens"`  // that count now
	Expired      int           `json:"expired"` // tokens that count no more
	Next         string        `json:"next_expiry,omitempty"`
	Certificates int           `json:"certificates"`
}

func (a *app) tokenCheck() *cobra.Command {
	return &cobra.Command{
		Use: "check [FILE]", Short: "Say whether a file of principals would load, and whom it lets in", Args: command.Args(0, 1, "a file at most"),
		Long: "Say whether FILE, else that of --http-auth, would load, and whom it lets in. Exits 2 where it would not load.",
		RunE: func(_ *cobra.Command, args []string) error {
			path := a.set.entry.auth
			if len(args) == 1 {
				path = args[0]
			}
			if path == "" {
				return exit.Misused(errors.New("no file was named"), "name one, or set --http-auth")
			}
			return a.checkTokens(path, time.Now())
		},
	}
}

func (a *app) checkTokens(path string, now time.Time) error {
	f, err := readPrincipals(path)
	if err != nil {
		return exit.Misused(err, "mend the file; sluice-node token new prints an entry")
	}
	list := []checked{}
	for _, p := range f.Principals {
		list = append(list, checkedOf(p, now))
	}
	slices.SortFunc(list, func(x, y checked) int { return strings.Compare(x.ID, y.ID) })
	if a.json {
		return a.printJSON(map[string]any{"principals": list})
	}
	for _, c := range list {
		roles := make([]string, len(c.Roles))
		for i, r := range c.Roles {
			roles[i] = string(r)
		}
		line := fmt.Sprintf("%s  %s  %s  %d tokens, %d expired, %d certificates", c.ID, c.Kind, strings.Join(roles, ","), c.Tokens, c.Expired, c.Certificates)
		if c.Next != "" {
			line += ", the next expires " + c.Next
		}
		a.print("%s\n", show.Short(line, 500))
	}
	return nil
}

func checkedOf(p keys.Principal, now time.Time) checked {
	c := checked{ID: p.ID, Kind: p.Kind, Parents: p.Parents, Roles: p.Roles, Certificates: len(p.Certificates)}
	if c.Kind == "" {
		c.Kind = access.KindAgent
	}
	var next time.Time
	for _, t := range p.Tokens {
		at, _ := keys.ParseExpiry(t.Expires) // the file was read
		switch {
		case at.IsZero():
			c.Tokens++
		case !at.After(now):
			c.Expired++
		default:
			c.Tokens++
			if next.IsZero() || at.Before(next) {
				next = at
			}
		}
	}
	if !next.IsZero() {
		c.Next = next.UTC().Format(time.RFC3339)
	}
	return c
}
