package access_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy/access"
)

func identity(id, kind string, roles ...access.Role) access.Identity {
	return access.Identity{Principal: events.Principal{ID: id, Kind: kind}, Roles: roles}
}

// TestGrants: what no role names, nobody has, and what is dangerous few have.
func TestGrants(t *testing.T) {
	for _, v := range access.Verbs() {
		who := []access.Role{}
		for _, r := range access.Roles() {
			if r.Reach(v) > access.None {
				who = append(who, r)
			}
		}
		if len(who) == 0 {
			t.Errorf("no role has %s", v)
		}
		want := map[access.Verb][]access.Role{
			access.Approve: {access.Approver, access.Admin}, access.Submit: {access.Submitter, access.Admin},
			access.Policy: {access.Operator, access.Admin}, access.Operate: {access.Operator, access.Admin}, access.Import: {access.Operator, access.Admin},
		}[v]
		if want != nil && !slices.Equal(who, want) {
			t.Errorf("%s: %v, want %v", v, who, want)
		}
		if access.Node.Reach(v) != access.None || access.Role("root").Reach(v) != access.None {
			t.Errorf("%s: a role has it that must have nothing", v)
		}
	}
	for _, r := range access.Roles() {
		if r.Reach(access.Submit) == access.All || r.Reach("fly") != access.None {
			t.Errorf("%s submits in others' names, or flies", r)
		}
	}
}

func TestMay(t *testing.T) {
	own, child, other := events.Principal{ID: "a"}, events.Principal{ID: "b", Parents: []string{"x", "a"}}, events.Principal{ID: "c"}
	for name, c := range map[string]struct {
		err  error
		want string // a part; "" is nil
	}{
		"submits":                     {access.May(identity("a", "", access.Submitter), access.Submit), ""},
		"nobody":                      {access.May(access.Identity{}, access.Read), "needs the role submitter or observer or approver or operator or admin"},
		"trusted":                     {access.May(access.Identity{Trusted: true}, access.Policy), ""},
		"observer approves":           {access.May(identity("a", "person", access.Observer), access.Approve), "it needs the role approver or admin"},
		"agent with the role":         {access.May(identity("a", "", access.Approver), access.Approve), "it is an agent"},
		"agent admin":                 {access.May(identity("a", "agent", access.Admin, access.Submitter), access.Policy), "it is an agent"},
		"agent admin reads its own":   {access.MayOn(identity("a", "agent", access.Admin, access.Submitter), access.Read, own), ""},
		"agent admin reads another's": {access.MayOn(identity("a", "agent", access.Admin, access.Submitter), access.Read, other), "it is an agent"},
		"own":                         {access.MayOn(identity("a", "", access.Submitter), access.Cancel, own), ""},
		"child":                       {access.MayOn(identity("a", "", access.Submitter), access.Cancel, child), ""},
		"parent":                      {access.MayOn(access.Identity{Principal: child, Roles: []access.Role{access.Submitter}}, access.Cancel, own), "for others' it needs the role operator or admin"},
		"other":                       {access.MayOn(identity("a", "", access.Submitter), access.Read, other), "for others' it needs the role observer"},
		"nobody's":                    {access.MayOn(identity("", "", access.Submitter), access.Read, events.Principal{}), "only its own"},
		"no such role on a turn":      {access.MayOn(identity("a", "", access.Submitter), access.Approve, own), "needs the role approver"},
		"unknown verb":                {access.May(identity("a", "person", access.Admin), "fly"), "no role allows it"},
		"node":                        {access.May(identity("a", "service", access.Node), access.Read), "needs the role"},
	} {
		if c.want == "" && c.err != nil || c.want != "" && (c.err == nil || !strings.Contains(c.err.Error(), c.want) || !errors.Is(c.err, access.ErrRole)) {
			t.Errorf("%s: %v, want %q", name, c.err, c.want)
		}
	}
}

func TestIdentitiesOfAFile(t *testing.T) {
	for name, c := range map[string]struct {
		id   access.Identity
		want string
	}{
		"fine":             {identity("ann@example.org", "person", access.Approver, access.Observer), ""},
		"an agent":         {identity("planner", "", access.Submitter), ""},
		"a node":           {identity("n", "", access.Node), ""},
		"no id":            {identity("", "person", access.Observer), "0 bytes"},
		"no role":          {identity("a", "person"), "no role"},
		"no such role":     {identity("a", "person", "root"), `role "root"`},
		"no such kind":     {identity("a", "robot", access.Observer), `kind "robot"`},
		"a deciding agent": {identity("a", "", access.Approver), "an agent may only be submitter and observer"},
		"an admin agent":   {identity("a", "agent", access.Admin), "an agent"},
		"blanks":           {identity("a b", "person", access.Observer), "byte 1"},
		"another's letter": {identity("\u0430nn", "person", access.Observer), "byte 0"},
		"a line":           {identity("a\nb", "person", access.Observer), "byte 1"},
		"long":             {identity(strings.Repeat("a", 129), "person", access.Observer), "129 bytes"},
		"its own parent":   {access.Identity{Principal: events.Principal{ID: "a", Parents: []string{"b", "a"}}, Roles: []access.Role{access.Submitter}}, "twice"},
		"a parent twice":   {access.Identity{Principal: events.Principal{ID: "a", Parents: []string{"b", "b"}}, Roles: []access.Role{access.Submitter}}, "twice"},
		"a workspace":      {access.Identity{Principal: events.Principal{ID: "a"}, Roles: []access.Role{access.Submitter}, Workspaces: []string{"/srv/a"}}, ""},
		"a relative one":   {access.Identity{Principal: events.Principal{ID: "a"}, Roles: []access.Role{access.Submitter}, Workspaces: []string{"srv"}}, `workspace "srv"`},
		"one that climbs":  {access.Identity{Principal: events.Principal{ID: "a"}, Roles: []access.Role{access.Submitter}, Workspaces: []string{"/srv/../etc"}}, "workspace"},
		"an empty one":     {access.Identity{Principal: events.Principal{ID: "a"}, Roles: []access.Role{access.Submitter}, Workspaces: []string{""}}, "workspace"},
		"bad parent":       {access.Identity{Principal: events.Principal{ID: "a", Parents: []string{"*"}}, Roles: []access.Role{access.Submitter}}, "byte 0"},
	} {
		if err := c.id.Check(); (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestNobodyActsAsAnother: whatever a body says, who acts is the identity, and who submits
// is the identity or a child of it with all that stands above it.
func TestNobodyActsAsAnother(t *testing.T) {
	name := rapid.SampledFrom([]string{"", "a", "b", "c", "d", "x y", "a\x00", "A"})
	principal := rapid.Custom(func(t *rapid.T) events.Principal {
		return events.Principal{ID: name.Draw(t, "id"), Kind: rapid.SampledFrom([]string{"", "agent", "person", "service", "god"}).Draw(t, "kind"), Parents: rapid.SliceOfN(name, 0, 4).Draw(t, "parents")}
	})
	rapid.Check(t, func(t *rapid.T) {
		id := access.Identity{Principal: principal.Draw(t, "identity"), Roles: []access.Role{access.Submitter}, Via: events.ViaToken}
		if id.Check() != nil {
			t.Skip("no file has it")
		}
		own, said := id.Principal, principal.Draw(t, "said")
		known := rapid.SliceOf(name).Draw(t, "known")
		by, err := id.Acts(said)
		switch {
		case err != nil && !errors.Is(err, access.ErrName):
			t.Fatal(err)
		case err == nil && (by.ID != own.ID || by.Kind == "" || by.Via != events.ViaToken || !slices.Equal(by.Parents, own.Parents)):
			t.Fatalf("%+v acts as %+v", own, by)
		}
		p, err := id.Submits(said, func(id string) bool { return slices.Contains(known, id) })
		switch {
		case err != nil && !errors.Is(err, access.ErrName):
			t.Fatal(err)
		case err != nil:
		case !id.Owns(p):
			t.Fatalf("%+v submits as %+v, which is not its own", own, p)
		case p.ID == own.ID:
			if p.Kind != own.Kind || !slices.Equal(p.Parents, own.Parents) {
				t.Fatalf("%+v submits as %+v", own, p)
			}
		default:
			at := slices.Index(p.Parents, own.ID)
			if at < 0 || !slices.Equal(p.Parents[at+1:], own.Parents) || p.Kind == "person" || access.CheckID(p.ID) != nil || slices.Contains(known, p.ID) {
				t.Fatalf("%+v submits as %+v", own, p)
			}
			for _, between := range p.Parents[:at] {
				if slices.Contains(known, between) {
					t.Fatalf("%+v submits below %s, which is somebody else", own, between)
				}
			}
		}
	})
}

func TestWhoeverIsBelieved(t *testing.T) {
	said := events.Principal{ID: "anybody at all", Kind: "god", Parents: []string{""}}
	id := access.Identity{Trusted: true, Via: events.ViaLoopback}
	if by, err := id.Acts(said); err != nil || by.ID != said.ID || by.Via != events.ViaLoopback {
		t.Errorf("%+v, %v", by, err)
	}
	if p, err := id.Submits(said, func(string) bool { return true }); err != nil || p.ID != said.ID {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestWhereTurnsRun: in the folders of the identity, and without any in the node's own.
func TestWhereTurnsRun(t *testing.T) {
	for _, c := range []struct {
		has             []string
		said, own, want string
		refused         bool
	}{
		{nil, "", "/srv", "", false},
		{nil, "/srv", "/srv", "/srv", false},
		{nil, "/srv/a", "/srv", "", true},
		{nil, "/", "/srv", "", true},
		{nil, "/", "", "", true},
		{nil, "/var/lib/sluice", "/srv", "", true},
		{[]string{}, "/etc", "/srv", "", true},
		{[]string{"/a", "/b"}, "", "/srv", "/a", false},
		{[]string{"/a", "/b"}, "/b", "/srv", "/b", false},
		{[]string{"/a", "/b"}, "/srv", "/srv", "", true},
		{[]string{"/a"}, "/a/x", "/srv", "", true},
		{[]string{access.Anywhere}, "/etc", "/srv", "/etc", false},
		{[]string{access.Anywhere}, "", "/srv", "", false},
		{[]string{access.Anywhere, "/a"}, "", "/srv", "/a", false},
		{[]string{access.Anywhere, "/a"}, "/b", "/srv", "/b", false},
	} {
		id := access.Identity{Principal: events.Principal{ID: "p"}, Roles: []access.Role{access.Submitter}, Workspaces: c.has}
		if err := id.Check(); err != nil {
			t.Errorf("%v: %v", c.has, err)
		}
		got, err := id.Works(c.said, c.own)
		if got != c.want || errors.Is(err, access.ErrPlace) != c.refused {
			t.Errorf("%v, %q at the door of %q: %q, %v", c.has, c.said, c.own, got, err)
		}
	}
	if got, err := (access.Identity{Trusted: true}).Works("/etc", "/srv"); got != "/etc" || err != nil {
		t.Errorf("believed: %q, %v", got, err)
	}
}
