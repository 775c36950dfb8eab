package access

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/sluice-run/sluice/events"
)

// The kinds of principals. No kind means agent.
const (
	KindAgent   = "agent"
	KindPerson  = "person"
	KindService = "service"
)

// Bounds of a principal that a door lets through.
const (
	MaxID      = 128 // bytes of an id
	MaxParents = 16  // above a principal

	maxDir  = 4 << 10 // bytes of a workspace
	maxDirs = 256     // workspaces of one identity
)

// CheckID returns nil for an id that a door can know somebody by: 1 to MaxID of A-Z a-z
// 0-9 . _ @ / : + = ~ -. Nothing else: a name is shown to people who decide, and stands
// in subjects, headers and logs, so that two that look alike must be the same.
func CheckID(id string) error {
	if id == "" || len(id) > MaxID {
		return fmt.Errorf("the id of a principal has %d bytes: want 1 to %d", len(id), MaxID)
	}
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '.', c == '_', c == '@', c == '/', c == ':', c == '+', c == '=', c == '~', c == '-':
		default:
			return fmt.Errorf("the id %q of a principal: byte %d is none of A-Z a-z 0-9 . _ @ / : + = ~ -", id, i)
		}
	}
	return nil
}

// Check returns nil for an identity that a file may give to somebody: an id, a known
// kind, parents that have ids and are not the principal itself, roles that there are and
// that suit the kind, and workspaces that are paths.
func (id Identity) Check() error {
	p := id.Principal
	errs := []error{CheckID(p.ID), checkParents(p)}
	if !slices.Contains([]string{"", KindAgent, KindPerson, KindService}, p.Kind) {
		errs = append(errs, fmt.Errorf("kind %q of %s: want agent, person or service", p.Kind, p.ID))
	}
	if len(id.Roles) == 0 {
		errs = append(errs, fmt.Errorf("%s has no role: want some of %s", p.ID, listed(Roles())))
	}
	for _, r := range id.Roles {
		switch {
		case !slices.Contains(Roles(), r):
			errs = append(errs, fmt.Errorf("%s has the role %q, which there is not: want some of %s", p.ID, r, listed(Roles())))
		case agent(p) && !forAgents(r) && r != Node && r != Worker:
			errs = append(errs, fmt.Errorf("%s has the role %s, and is an agent: an agent may only be submitter and observer; if it is none, say kind: person or kind: service", p.ID, r))
		}
	}
	for _, dir := range id.Workspaces {
		if dir == Anywhere {
			continue
		}
		if !path.IsAbs(dir) || path.Clean(dir) != dir || len(dir) > maxDir || strings.ContainsFunc(dir, unicode.IsControl) {
			errs = append(errs, fmt.Errorf("workspace %q of %s: want an absolute path, without . and .. and // and a / at its end, or %q for any", dir, p.ID, Anywhere))
		}
	}
	if len(id.Workspaces) > maxDirs {
		errs = append(errs, fmt.Errorf("%s has %d workspaces: at most %d", p.ID, len(id.Workspaces), maxDirs))
	}
	return errors.Join(errs...)
}

func listed(roles []Role) string {
	out := make([]string, len(roles))
	for i, r := range roles {
		out[i] = string(r)
	}
	return strings.Join(out, ", ")
}

func checkParents(p events.Principal) error {
	if len(p.Parents) > MaxParents {
		return fmt.Errorf("%s has %d parents: at most %d", p.ID, len(p.Parents), MaxParents)
	}
	for i, parent := range p.Parents {
		if err := CheckID(parent); err != nil {
			return err
		}
		if parent == p.ID || slices.Contains(p.Parents[:i], parent) {
			return fmt.Errorf("%s is twice among %s and its parents", parent, p.ID)
		}
	}
	return nil
}

// named says that an act was wanted in another's name.
func named(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrName, fmt.Sprintf(format, args...))
}

// Acts is who does an act (approves, cancels, resolves, switches, reloads): always the
// identity itself. What a body says of it may be missing or the same, and is an ErrName
// otherwise. The kind is always told: one without could be taken for a person. Where
// everybody is believed it is what the body says. How the identity is known goes with it.
func (id Identity) Acts(said events.Principal) (events.Principal, error) {
	by := id.Principal
	by.Kind = kindOf(by)
	err := id.same(said)
	if id.Trusted {
		by, err = said, nil
	}
	by.Via = id.Via
	return by, err
}

// same returns nil for a body that names nobody, or the identity itself.
func (id Identity) same(said events.Principal) error {
	own := id.Principal
	switch {
	case said.ID == "" && said.Kind == "" && len(said.Parents) == 0:
	case said.ID != own.ID:
		return named("%s acts, and the body says %q: leave the principal out", own.ID, said.ID)
	case said.Kind != "" && said.Kind != kindOf(own):
		return named("%s is of kind %s, and the body says %q: leave it out", own.ID, kindOf(own), said.Kind)
	case len(said.Parents) > 0 && !slices.Equal(said.Parents, own.Parents):
		return named("the parents of %s are %q, and the body says %q: leave them out", own.ID, own.Parents, said.Parents)
	}
	return nil
}

// Submits is the principal of a submission: the identity's own, or a child of it that
// the body names. A child's parents are completed up to the identity's own and theirs,
// so that whatever narrows them narrows the child. known says whether an id is somebody
// else's whom the door knows, and may be nil: a child cannot have such a name. Everything
// else is an ErrName. Where everybody is believed it is what the body says.
func (id Identity) Submits(said events.Principal, known func(id string) bool) (events.Principal, error) {
	own := id.Principal
	switch {
	case id.Trusted:
		return said, nil
	case said.ID == "" || said.ID == own.ID:
		return own, id.same(said)
	}
	if err := CheckID(said.ID); err != nil {
		return own, fmt.Errorf("%w: %w", ErrName, err)
	}
	if said.Kind != "" && said.Kind != KindAgent && (said.Kind != KindService || own.Kind != KindService) {
		return own, named("%s is a child of %s, and cannot be of kind %q: leave the kind out", said.ID, own.ID, said.Kind)
	}
	above, err := id.above(said.Parents)
	if err != nil {
		return own, err
	}
	child := events.Principal{ID: said.ID, Kind: kindOf(said), Parents: append(above, own.Parents...)}
	if err := checkParents(child); err != nil {
		return own, fmt.Errorf("%w: %w", ErrName, err)
	}
	for _, name := range append([]string{child.ID}, above[:len(above)-1]...) {
		if known != nil && known(name) {
			return own, named("%s is somebody else, and no child of %s: submit with the credentials of %s", name, own.ID, name)
		}
	}
	return child, nil
}

// Works is the workspace of a submission: the one that it names, as it names it, or the
// first that the identity has, or "", the own one of the node that runs it. own is that of
// the node at whose door the identity stands; "" where it is not known. One that is not the
// identity's is an ErrPlace: names are compared as they are, and a folder below one of
// them is another one.
func (id Identity) Works(said, own string) (string, error) {
	has := slices.DeleteFunc(slices.Clone(id.Workspaces), func(dir string) bool { return dir == Anywhere })
	switch {
	case id.Trusted, said != "" && len(has) < len(id.Workspaces):
		return said, nil
	case said == "" && len(has) > 0:
		return has[0], nil
	case said == "", slices.Contains(has, said):
		return said, nil
	case len(has) == 0 && said == own:
		return said, nil
	case len(has) == 0:
		return "", fmt.Errorf("%w: turns of %s run in the node's own workspace, and the submission says %q: leave it out, or give %s workspaces", ErrPlace, id.Principal.ID, said, id.Principal.ID)
	}
	return "", fmt.Errorf("%w: turns of %s run in %q, and the submission says %q", ErrPlace, id.Principal.ID, has, said)
}

// above are the parents of a child up to the identity, it included.
func (id Identity) above(said []string) ([]string, error) {
	own := id.Principal
	i := slices.Index(said, own.ID)
	if i < 0 {
		return append(slices.Clone(said), own.ID), nil
	}
	if rest := said[i+1:]; len(rest) > 0 && !slices.Equal(rest, own.Parents) {
		return nil, named("the parents of %s are %q, and the body says %q: leave them out", own.ID, own.Parents, rest)
	}
	return slices.Clone(said[:i+1]), nil
}

func kindOf(p events.Principal) string { return cmp.Or(p.Kind, KindAgent) }
