package policy

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy/shell"
)

// The gates that Verdict.Gate names.
const (
	GateAllow     = "allow"
	GateAuthorize = "authorize"
)

// Rule is one row of a table of rules.
type Rule struct {
	ID string // unique in its table
	// Version changes whenever a finding of Judge could.
	Version string
	// Judge is pure. A Finding with no Decision says that the rule does not apply.
	Judge func(Request) Finding
}

// Finding is what one rule says of a request.
type Finding struct {
	Decision Decision    // "" says nothing
	Code     events.Code // for deny; "" means PERMISSION_DENIED
	Reason   string      // one sentence
	Path     string      // JSON Pointer to the argument that decided, if one did
	Policies []string    // ids of finer rules; nil means the row's own
}

// Rules is an Authorizer: every row is asked, deny wins over ask, ask over
// allow, and where no row allows the answer is deny. It may be used from many
// goroutines as long as nobody changes it.
type Rules []Rule

// Config is what an operator may change of the default policy.
type Config struct {
	// Hosts may be reached although they are private or use another port: a
	// host, or host:port. nil means none.
	Hosts []string
}

// Default is the policy of a node that was given none.
func Default() Authorizer { return New(Config{}) }

// New is the default policy with changes.
func New(c Config) Rules {
	hosts := slices.Clone(c.Hosts)
	slices.Sort(hosts)
	host := hostRule{trusted: hosts}
	return Rules{
		{ID: "tool.unknown", Version: "1", Judge: unknownTool},
		{ID: "class.unknown", Version: "1", Judge: unknownClass},
		{ID: "mode.read_only", Version: "1", Judge: readOnly},
		{ID: "path.missing", Version: "1", Judge: pathMissing},
		{ID: "path.workspace", Version: "2", Judge: pathWorkspace},
		{ID: "path.repository", Version: "2", Judge: pathRepository},
		{ID: "path.programs", Version: "1", Judge: pathPrograms},
		{ID: "network.off", Version: "2", Judge: networkOff},
		{ID: "network.host", Version: "3 " + strings.Join(hosts, " "), Judge: host.judge},
		{ID: "shell", Version: "3 " + shell.Version, Judge: host.shellLine},
		{ID: "tier.approval", Version: "1", Judge: AskByTier},
		{ID: "delegate.ask", Version: "1", Judge: delegateAsk},
		{ID: "read.permit", Version: "1", Judge: permit(events.OpRead, "It only reads.")},
		{ID: "write.permit", Version: "1", Judge: permit(events.OpWrite, "It writes inside the workspace, in a mode that may.")},
		{ID: "network.permit", Version: "1", Judge: permit(events.OpNetwork, "The operator allows the network, and the host is public.")},
		{ID: "execute.permit", Version: "2", Judge: executePermit},
	}
}

// ruleDefault is the id behind a deny that no row gave.
const ruleDefault = "default.deny"

// Version is a digest of the rows' ids and versions.
func (rs Rules) Version() string {
	h := sha256.New()
	for _, r := range rs {
		h.Write([]byte(r.ID + "\x00" + r.Version + "\x00"))
	}
	return fmt.Sprintf("rules-%x", h.Sum(nil)[:6])
}

// Authorize judges the operation of a call, in each of its Readings. It never panics.
func (rs Rules) Authorize(r Request) Verdict { return Strictest(Readings(r), rs.authorize) }

func (rs Rules) authorize(r Request) Verdict {
	v := Verdict{Gate: GateAuthorize, Version: rs.Version()}
	for _, row := range rs {
		f := row.Judge(r)
		if f.Decision == "" || v.Decision != "" && rank(f.Decision) < rank(v.Decision) {
			continue
		}
		if rank(f.Decision) > rank(v.Decision) {
			v.Decision, v.Code, v.Reason, v.Path, v.Policies = f.Decision, f.Code, f.Reason, f.Path, nil
		}
		if f.Policies == nil {
			f.Policies = []string{row.ID}
		}
		v.Policies = append(v.Policies, f.Policies...)
	}
	return Settle(v, r)
}

// Floor are the rows that hold whatever else decides: nothing else could judge what
// they deny.
func Floor() Rules { return New(Config{})[:2] }

// Settle turns a collected verdict into one that can be acted upon: no decision is
// deny, ask is deny where nobody can be asked and nobody has agreed before, and ids are
// sorted.
func Settle(v Verdict, r Request) Verdict {
	switch {
	case v.Decision == "":
		v.Decision, v.Policies = Deny, []string{ruleDefault}
		v.Reason = "No rule permits this operation; use one of the tools that read or write files."
	case v.Decision == Ask && !r.CanAsk && !r.Agreed:
		v.Decision = Deny
		v.Reason = strings.TrimSuffix(v.Reason, ".") + " (a person would have to agree, and nobody can be asked)."
	}
	v.Code = cmp.Or(v.Code, events.PermissionDenied)
	if v.Decision != Deny {
		v.Code = ""
	}
	slices.Sort(v.Policies)
	v.Policies = slices.Compact(v.Policies)
	return v
}

// rank orders decisions from mild to strict; "" is below all.
func rank(d Decision) int {
	return slices.Index([]Decision{"", Allow, Ask, Deny}, d)
}
