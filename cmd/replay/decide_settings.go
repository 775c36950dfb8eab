package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/nodehttp"
	"github.com/sluice-run/sluice/cmd/internal/policyfile"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/cmd/replay/again"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/tools"
)

// deciding are the settings by which recorded calls are decided again: the policy, and
// what an operator has set and no log holds.
type deciding struct {
	policy     string
	network    tri
	canAsk     tri
	mode       string
	workspace  string
	principals string
	tiers      map[string]string
	inForce    string // version of the running node's policy, where that one is asked
}

// Words for a policy.
const (
	policyDefault  = "default"
	policyRecorded = "recorded"
)

func (d *deciding) flags(f *pflag.FlagSet, what string) {
	f.StringVar(&d.policy, "policy", d.policy, what)
	f.Var(&d.network, "network", "tools may use the network, or =false; left out: as the node on --data does, or as was so then")
	f.Lookup("network").NoOptDefVal = "true"
	f.Var(&d.canAsk, "can-ask", "somebody can be asked, or =false; left out: as each turn has it")
	f.Lookup("can-ask").NoOptDefVal = "true"
	f.StringVar(&d.mode, "mode", "", "read_only or write, for every turn; left out: as each turn has it")
	f.StringVar(&d.workspace, "workspace", "", "`directory` of turns that name none")
	f.StringToStringVar(&d.tiers, "tier", nil, "tiers of tools whose calls only they can read, `NAME=TIER`,…; * is any")
	f.StringVar(&d.principals, "principals", "", "YAML `file` with each principal's allowlist, as for sluice-node serve")
}

// tri is a flag that is true, false or not given.
type tri struct{ is *bool }

// Set is pflag.Value's.
func (t *tri) Set(s string) error {
	v, err := strconv.ParseBool(s)
	t.is = &v
	return err
}

// String is pflag.Value's.
func (t *tri) String() string {
	if t.is == nil {
		return ""
	}
	return strconv.FormatBool(*t.is)
}

// Type is pflag.Value's.
func (t *tri) Type() string { return "" }

// decidingBy is how calls are decided again. Where a node runs on the data directory, what
// it has told of its settings counts where no flag says otherwise.
func (a *app) decidingBy(ctx context.Context, d *deciding, r *reading) (again.Config, error) {
	c := again.Config{Settings: again.Settings{Registered: again.Readable}} // those of a node, where none can be asked
	if d.mode != "" && d.mode != events.ModeRead && d.mode != events.ModeWrite {
		return c, exit.Misused(fmt.Errorf("--mode %q", d.mode), "use read_only or write, or leave it out")
	}
	asked := *d
	if r.session != nil && r.session.Found != nil {
		asked.asNode(r.session.Found.More)
		if found := r.session.Found; found.HTTP != "" {
			names, err := toolNames(ctx, *found)
			if err != nil {
				a.note("%v: those that come with this release are taken for registered", err)
			} else {
				c.Registered = func(tool string) bool { return names[tool] || names[tools.ProviderName(tool)] }
			}
		}
	}
	var err error
	if c.Policy, err = openPolicy(asked.policy); err != nil {
		return c, err
	}
	if told := asked.inForce; told != "" && told != c.Policy.Version() {
		a.note("the node still runs by policy %s, and its files are %s now: sluice-node policy reload has it read them anew", show.Short(told, 60), c.Policy.Version())
	}
	if c.Allow, err = allowlists(asked.principals); err != nil {
		return c, err
	}
	if c.Tiers, err = tiersOf(d.tiers); err != nil {
		return c, err
	}
	c.Network, c.CanAsk, c.Mode, c.Workspace = asked.network.is, asked.canAsk.is, asked.mode, asked.workspace
	c.Redacted = r.redacted
	c.Body = func(ref events.BlobRef) (string, bool) {
		b, err := r.blobs.Get(ctx, ref)
		return string(b), err == nil
	}
	return c, nil
}

// tiersOf reads tiers by tool.
func tiersOf(given map[string]string) (map[string]events.Tier, error) {
	var out map[string]events.Tier
	for tool, word := range given {
		t := events.Tier(word)
		if !slices.Contains([]events.Tier{events.Readonly, events.Reversible, events.Irreversible, events.Approval}, t) {
			return nil, exit.Misused(fmt.Errorf("--tier %s=%s", tool, word), "use readonly, reversible, irreversible or approval")
		}
		if out == nil {
			out = make(map[string]events.Tier)
		}
		out[tool] = t
	}
	return out, nil
}

// asNode takes over what a node has told of its settings.
func (d *deciding) asNode(told map[string]string) {
	if d.policy == "" && told["policy"] != "" {
		d.inForce = told["policy_version"]
	}
	for name, into := range map[string]*string{"workspace": &d.workspace, "principals": &d.principals, "policy": &d.policy} {
		if *into == "" {
			*into = told[name]
		}
	}
	if v, err := strconv.ParseBool(told["network"]); err == nil && d.network.is == nil {
		d.network.is = &v
	}
}

// openPolicy is the policy that a flag names; nil where the recorded verdicts are to be
// taken.
func openPolicy(name string) (policy.Authorizer, error) {
	switch name {
	case policyRecorded:
		return nil, nil
	case policyDefault, "":
		name = ""
	}
	p, err := policyfile.Open(name)
	if err != nil {
		return nil, err
	}
	return breakable{p}, nil
}

// breakable is a Cedar policy that can tell a deny of its own breaking from others.
type breakable struct{ policy.Authorizer }

// Faulted is again.Faulter's. Package cedar says it in the sentence alone.
func (breakable) Faulted(v policy.Verdict) bool {
	return v.Decision == policy.Deny && strings.HasPrefix(v.Reason, "The policy ") && strings.Contains(v.Reason, " cannot be evaluated for this call (")
}

// mostSettings is the size in bytes of the largest file of settings that is read.
const mostSettings = 4 << 20

// allowlists reads each principal's allowlist, as sluice-node does: one that is not in
// the file has that of "*", and without one of "*" may call nothing. nil: everybody may
// call every tool.
func allowlists(path string) (func(principal string) []string, error) {
	if path == "" {
		return nil, nil
	}
	const next = "write a name and a list of tools a line, for example: reviewer: [Read, Grep]"
	body, err := readSmall(path, mostSettings)
	if err != nil {
		return nil, exit.Misused(fmt.Errorf("principals: %w", err), next)
	}
	var lists map[string][]string
	if err := yaml.Unmarshal(body, &lists); err != nil {
		return nil, exit.Misused(fmt.Errorf("principals %s: %w", path, err), next)
	}
	return func(principal string) []string {
		list, ok := lists[principal]
		if !ok {
			list = lists["*"]
		}
		return append([]string{}, list...) // not nil: nil would not narrow
	}, nil
}

// readSmall reads a file of at most so many bytes.
func readSmall(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(f, most+1))
	if err = errors.Join(err, f.Close()); err == nil && int64(len(body)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return body, err
}

// Bounds of asking a node for its tools.
const (
	mostToolList = 16 << 20 // bytes
	toolListWait = 10 * time.Second
)

// toolNames asks the node that runs on the data directory which tools it has, those
// that are switched off now left out.
func toolNames(ctx context.Context, running jetlog.Running) (map[string]bool, error) {
	at := running.HTTP
	ctx, stop := context.WithTimeout(ctx, toolListWait)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at+"/v1/tools?format=anthropic", nil)
	if err != nil {
		return nil, err
	}
	resp, err := nodehttp.Client(running).Do(req)
	if err != nil {
		return nil, fmt.Errorf("the node at %s does not tell its tools: %w", at, err)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostToolList))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	var list []struct {
		Name string `json:"name"`
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the node at %s does not tell its tools: %s", at, resp.Status)
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("the node at %s does not tell its tools: %w", at, err)
	}
	names := map[string]bool{"compensate": true} // it is shown to no model
	for _, t := range list {
		names[t.Name] = true
	}
	return names, nil
}
