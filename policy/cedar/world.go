package cedar

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
)

// facets are what the context says of a request beside what is its own.
type facets struct {
	reads, canAsk, network, line, named bool
	tier                                events.Tier
}

var tiers = []events.Tier{events.Readonly, events.Reversible, events.Irreversible, events.Approval}

// contexts are those of all requests, as long as nobody looks at what is a request's own.
func contexts() map[facets]types.Record {
	out := make(map[facets]types.Record)
	yesno := []bool{false, true}
	for _, t := range tiers {
		for _, reads := range yesno {
			for _, canAsk := range yesno {
				for _, network := range yesno {
					for _, line := range yesno {
						for _, named := range yesno {
							f := facets{reads, canAsk, network, line, named, t}
							out[f] = f.record(own{})
						}
					}
				}
			}
		}
	}
	return out
}

var (
	modeWrite = types.EntityUID{Type: typeMode, ID: events.ModeWrite}
	modeRead  = types.EntityUID{Type: typeMode, ID: events.ModeRead}
	allText   = types.EntityUID{Type: typeText, ID: "args"}
	allNumber = types.EntityUID{Type: typeNumbers, ID: "args"}
)

// own is what the context has of a request alone.
type own struct {
	workspace string
	class     classification
	session   policy.Session
	time      time.Time
}

func ownOf(r policy.Request, f *policy.Facts) own {
	return own{r.Workspace, classify(r, f), r.Session, r.Time.UTC()}
}

// record is the context of a request.
func (f facets) record(o own) types.Record {
	mode := modeWrite
	if f.reads {
		mode = modeRead
	}
	return types.NewRecord(types.RecordMap{
		"mode":      mode,
		"tier":      types.EntityUID{Type: typeTier, ID: types.String(f.tier)},
		"can_ask":   types.Boolean(f.canAsk),
		"network":   types.Boolean(f.network),
		"line":      types.Boolean(f.line),
		"named":     types.Boolean(f.named),
		"workspace": types.String(o.workspace),
		"args":      allText,
		"numbers":   allNumber,

		"classification": o.class.record(),
		"session": types.NewRecord(types.RecordMap{
			"trace": types.String(o.session.Trace), "turn": types.String(o.session.Turn), "placement": types.String(o.session.Placement),
		}),
		"time":    types.NewDatetime(o.time),
		"weekday": types.Long((o.time.Weekday()+6)%7 + 1),
	})
}

// facetsOf reads a request. A mode that is not known only reads, and no tier is readonly.
func facetsOf(r policy.Request, f policy.Facts) facets {
	return facets{
		reads:  r.Mode != events.ModeWrite && r.Mode != "",
		canAsk: r.CanAsk, network: r.Network, line: f.Line, named: f.Named,
		tier: cmp.Or(r.Tier, events.Readonly),
	}
}

// resource is one thing that a call touches, and that is asked about.
type resource struct {
	uid  types.EntityUID
	kind int
	nth  int         // of its kind in the Facts
	why  string      // what was found of it; "" nothing
	code events.Code // with why
	at   string      // JSON Pointer to the argument, with why; "" is looked up by text
	text string      // as the call gave it

	above  []types.EntityUID // what it is in, of what policies name
	made   bool              // entity is there
	entity types.Entity
	free   bool // a policy permits it to everybody
}

// resources are what a call touches: its tool, then paths, addresses and deeds.
func (s *Set) resources(r policy.Request, f policy.Facts) []resource {
	out := make([]resource, 1, 1+len(f.Paths)+len(f.Hosts)+len(f.Deeds))
	out[0] = resource{
		uid: types.EntityUID{Type: typeTool, ID: types.String(r.Tool)}, kind: kindTool, text: r.Tool,
		why: f.Worst.Reason, code: f.Worst.Code, at: f.Worst.Path,
	}
	for i, p := range f.Paths {
		uid := types.EntityUID{Type: typePath, ID: types.String(p.Clean)}
		out = append(out, resource{uid: uid, kind: kindPath, nth: i, why: p.Why, at: p.Path, text: p.Text, above: s.above(uid, p.Inside)})
	}
	for i, h := range f.Hosts {
		uid := types.EntityUID{Type: typeHost, ID: types.String(h.Name)}
		out = append(out, resource{uid: uid, kind: kindHost, nth: i, why: h.Why, at: h.Path, text: h.Text, above: s.above(uid, true)})
	}
	for i, d := range f.Deeds {
		uid := types.EntityUID{Type: typeShell, ID: types.String(strings.TrimPrefix(d.Rule, "shell."))}
		out = append(out, resource{uid: uid, kind: kindShell, nth: i, why: d.Reason, code: d.Code, at: d.Path, text: d.Rule})
	}
	return out
}

// build makes the entity of a resource.
func (s *Set) build(t *resource, f *policy.Facts) types.Entity {
	e := types.Entity{UID: t.uid}
	if len(t.above) > 0 {
		e.Parents = types.NewEntityUIDSet(t.above...)
	}
	id := t.uid.ID
	switch t.kind {
	case kindTool:
		e.Attributes = types.NewRecord(types.RecordMap{"name": id})
	case kindPath:
		p := f.Paths[t.nth]
		if !s.wants.names {
			e.Attributes = s.paths[kindOf(p)]
			break
		}
		e.Attributes = pathRecord(id, kindOf(p))
	case kindHost:
		h := f.Hosts[t.nth]
		port, _ := strconv.ParseUint(h.Port, 10, 16) // 0 where there is none that can be read
		e.Attributes = types.NewRecord(types.RecordMap{
			"name": id, "port": types.Long(port), "scheme": types.String(h.Scheme), "public": types.Boolean(h.Public),
		})
	}
	return e
}

// pathKind is what a policy sees of a path beside its name.
type pathKind struct{ inside, git, starts bool }

func kindOf(p policy.PathFact) pathKind { return pathKind{p.Inside, p.Git, p.Starts} }

func pathRecord(id types.String, k pathKind) types.Record {
	return types.NewRecord(types.RecordMap{
		"path": id, "name": id[strings.LastIndexByte(string(id), '/')+1:],
		"inside": types.Boolean(k.inside), "git": types.Boolean(k.git), "starts": types.Boolean(k.starts),
	})
}

// plainPaths are the attributes of paths where nobody looks at their names.
func plainPaths() map[pathKind]types.Record {
	out := make(map[pathKind]types.Record)
	for i := range 8 {
		k := pathKind{inside: i&1 != 0, git: i&2 != 0, starts: i&4 != 0}
		out[k] = pathRecord("", k)
	}
	return out
}

// above are the entities that a path or host is in, of those that some policy names:
// no other one can be asked for. What is not inside is in nothing.
func (s *Set) above(uid types.EntityUID, inside bool) (out []types.EntityUID) {
	if !inside {
		return nil
	}
	add := func(id types.String) {
		if up := (types.EntityUID{Type: uid.Type, ID: id}); s.named[up] && up != uid {
			out = append(out, up)
		}
	}
	switch id := uid.ID; uid.Type {
	case typePath:
		for i := strings.LastIndexByte(string(id), '/'); i > 0; i = strings.LastIndexByte(string(id[:i]), '/') {
			add(id[:i])
		}
		add(".")
	case typeHost:
		if strings.Contains(string(id), ":") || strings.Trim(string(id), "0123456789.") == "" {
			return nil // an address is in no domain
		}
		for _, rest, ok := strings.Cut(string(id), "."); ok; _, rest, ok = strings.Cut(rest, ".") {
			add(types.String(rest))
		}
	}
	return out
}

// maxLeaves is how many values of a call's arguments policies can look at.
const maxLeaves = 4096

// arguments are those of a call as policies see them.
type arguments struct{ text, numbers types.Entity }

// argumentsOf reads the arguments. ok is false where not all of them can be seen.
func argumentsOf(raw json.RawMessage) (out arguments, ok bool) {
	text, numbers := types.RecordMap{}, types.RecordMap{}
	if len(raw) > 0 {
		leaves, whole := policy.Leaves(raw, maxLeaves)
		if !whole {
			return out, false
		}
		for _, l := range leaves {
			at := types.String(l.Path)
			_, seen := text[at]
			if _, also := numbers[at]; seen || also {
				return out, false // which of two of one name counts, is not known
			}
			switch c := l.Raw[0]; {
			case c == '"':
				var s string
				if json.Unmarshal(l.Raw, &s) != nil {
					return out, false
				}
				text[at] = types.String(s)
			case c == '-' || c >= '0' && c <= '9':
				numbers[at] = whole64(string(l.Raw))
			default:
				text[at] = types.String(l.Raw)
			}
		}
	}
	out.text = types.Entity{UID: allText, Tags: types.NewRecord(text)}
	out.numbers = types.Entity{UID: allNumber, Tags: types.NewRecord(numbers)}
	return out, true
}

// whole64 is a JSON number as a whole one, away from zero, so that a limit that it
// exceeds it exceeds here, too.
func whole64(n string) types.Long {
	if v, err := strconv.ParseInt(n, 10, 64); err == nil {
		return types.Long(v)
	}
	f, _ := strconv.ParseFloat(n, 64) // beyond its range it is an infinity, with an error
	switch {
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	case f > 0:
		return types.Long(math.Ceil(f))
	case f < 0:
		return types.Long(math.Floor(f))
	}
	mantissa, _, _ := strings.Cut(strings.ToLower(n), "e")
	switch {
	case !strings.ContainsAny(mantissa, "123456789"):
		return 0
	case strings.HasPrefix(n, "-"):
		return -1
	}
	return 1
}

// maxChain is how many principals a call may be judged for: who acts, and the others.
const maxChain = 64

// chainOf is who acts, and each of those it acts for. A parent comes as a name alone, and
// names are unique: it is a person or a service if policies name it as one, and else an
// agent. whole is false where there are more than maxChain.
func (s *Set) chainOf(p events.Principal) (chain []types.EntityUID, whole bool) {
	t := typeAgent
	switch p.Kind {
	case "person":
		t = typePerson
	case "service":
		t = typeService
	}
	out := []types.EntityUID{{Type: t, ID: types.String(p.ID)}}
	add := func(uid types.EntityUID) {
		if !slices.Contains(out, uid) {
			out = append(out, uid)
		}
	}
	for _, id := range p.Parents {
		if len(out) > maxChain {
			return out[:maxChain], false
		}
		known := false
		for _, t := range []types.EntityType{typeAgent, typePerson, typeService} {
			if uid := (types.EntityUID{Type: t, ID: types.String(id)}); s.named[uid] {
				add(uid)
				known = true
			}
		}
		if !known {
			add(types.EntityUID{Type: typeAgent, ID: types.String(id)})
		}
	}
	return out, len(out) <= maxChain
}
