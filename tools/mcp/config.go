package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// ErrConfig says that a file of servers cannot be used, and why.
var ErrConfig = errors.New("the file of MCP servers cannot be used")

// Server is one server, as its operator describes it. It has a Command or a URL.
type Server struct {
	Name string // 1 to 32 of A-Za-z0-9_-, without "__", not ending in "_"

	// Command and what follows are for a server that is started.
	Command string // a path, or a name that is looked for in PATH
	Args    []string
	Env     map[string]string // beside PATH, HOME, LANG and TMPDIR, which are all that it gets otherwise
	Dir     string            // absolute; "" means Config.Workspace
	Read    []string          // absolute paths that it may read beside its directory and the system's programs
	Write   []string          // absolute paths that it may read and write
	Network bool              // it has the machine's network
	Open    bool              // nothing contains it

	// URL and Headers are for a server that is connected to over HTTP.
	URL     string
	Headers map[string]string

	Allow      []string               // its tools' own names; nil means all
	Deny       []string               // of those
	Tiers      map[string]events.Tier // by a tool's own name; "*" is all others
	HonoursKey []string               // tools that do one effect for one idempotency key
	Limits     tools.Limits           // of each tool; zero fields mean tools.Limits' defaults
	AtOnce     int                    // calls at once; 0 means 16
}

// maxServerName is the length in bytes of the longest name of a server.
const maxServerName = 32

// entry is a server as the file has it: what coding agents write, and what is ours.
type entry struct {
	Type     string            `json:"type"`
	Command  string            `json:"command"`
	Args     []string          `json:"args"`
	Env      map[string]string `json:"env"`
	Cwd      string            `json:"cwd"`
	URL      string            `json:"url"`
	Headers  map[string]string `json:"headers"`
	Disabled bool              `json:"disabled"`

	Tools struct {
		Allow *[]string `json:"allow"`
		Deny  []string  `json:"deny"`
	} `json:"tools"`
	Tiers      map[string]events.Tier `json:"tiers"`
	HonoursKey []string               `json:"honours_key"`
	Limits     struct {
		Wall    string     `json:"wall"`
		Text    int        `json:"text"`
		Lines   int        `json:"lines"`
		Keep    tools.Keep `json:"keep"`
		Retries *int       `json:"retries"`
		AtOnce  int        `json:"at_once"`
	} `json:"limits"`
	Sandbox struct {
		Read  []string `json:"read"`
		Write []string `json:"write"`
		Off   bool     `json:"off"`
	} `json:"sandbox"`
	Network bool `json:"network"`
}

// foreign are members that agents write for themselves. They mean nothing here: what
// may run unasked is for tiers and the policy to say.
var foreign = []string{"autoApprove", "alwaysAllow", "timeout", "description", "icon", "version", "disabledTools", "trust"}

// ParseServers reads a file of servers: {"mcpServers": {"name": {...}}}, the shape that
// coding agents use. ${NAME} and ${NAME:-default} in texts are taken from env, which
// looks up a variable. Servers that are disabled are left out. The list is sorted by
// name. notes are things that the operator should know and that are no errors. It
// returns an error that wraps ErrConfig for all that is wrong.
func ParseServers(file []byte, env func(string) (string, bool)) (list []Server, notes []string, err error) {
	var doc struct {
		Servers map[string]json.RawMessage `json:"mcpServers"`
	}
	dec := json.NewDecoder(bytes.NewReader(file))
	if err := dec.Decode(&doc); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, nil, fmt.Errorf("%w: there is more behind the JSON object", ErrConfig)
	}
	if doc.Servers == nil {
		return nil, nil, fmt.Errorf(`%w: it has no "mcpServers": write {"mcpServers": {"name": {"command": "…"}}}`, ErrConfig)
	}
	if len(doc.Servers) > maxServers {
		return nil, nil, fmt.Errorf("%w: %d servers, at most %d", ErrConfig, len(doc.Servers), maxServers)
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(doc.Servers)) {
		s, more, on, err := readServer(name, doc.Servers[name], env)
		notes = append(notes, more...)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%w: server %s: %w", ErrConfig, events.Visible(name), err))
		case on:
			list = append(list, s)
		}
	}
	return list, notes, errors.Join(errs...)
}

// readServer reads one entry. on is false for one that is disabled.
func readServer(name string, raw json.RawMessage, env func(string) (string, bool)) (s Server, notes []string, on bool, err error) {
	raw, notes, err = ours(name, raw)
	if err != nil {
		return s, nil, false, err
	}
	var e entry
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil {
		return s, nil, false, err
	}
	if e.Disabled {
		return s, notes, false, nil
	}
	x := expander{env: env}
	s = Server{
		Name: name, Command: x.text(e.Command), Args: x.list(e.Args), Env: x.values(e.Env), Dir: x.text(e.Cwd),
		Read: x.list(e.Sandbox.Read), Write: x.list(e.Sandbox.Write), Network: e.Network, Open: e.Sandbox.Off,
		URL: x.text(e.URL), Headers: x.values(e.Headers),
		Deny: e.Tools.Deny, Tiers: e.Tiers, HonoursKey: e.HonoursKey, AtOnce: e.Limits.AtOnce,
		Limits: tools.Limits{Text: e.Limits.Text, Lines: e.Limits.Lines, Keep: e.Limits.Keep},
	}
	if e.Tools.Allow != nil {
		s.Allow = append([]string{}, *e.Tools.Allow...)
	}
	if e.Limits.Retries != nil {
		if s.Limits.Retries = *e.Limits.Retries; s.Limits.Retries == 0 {
			s.Limits.Retries = -1 // none, and not the default
		}
	}
	if e.Limits.Wall != "" {
		s.Limits.Wall, err = time.ParseDuration(e.Limits.Wall)
		x.errs = append(x.errs, err)
	}
	return s, notes, true, errors.Join(append(x.errs, s.check(e.Type))...)
}

// ours takes out of an entry what is other programs', and says so.
func ours(name string, raw json.RawMessage) (json.RawMessage, []string, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return nil, nil, errors.New("want an object with command or url")
	}
	var notes []string
	for _, m := range slices.Sorted(maps.Keys(members)) {
		if slices.Contains(foreign, m) {
			delete(members, m)
			notes = append(notes, fmt.Sprintf("server %s: %s means nothing here and is not followed", events.Visible(name), m))
		}
	}
	out, err := json.Marshal(members)
	return out, notes, err
}

// ValidServerName says whether a server can have that name: 1 to 32 of A-Za-z0-9_-,
// without "__" and not ending in "_", so that the first "__" in a tool's name ends it.
func ValidServerName(name string) bool {
	return len(name) <= maxServerName && events.ValidToolName(name) && !strings.Contains(name, "__") && !strings.HasSuffix(name, "_")
}

// Bounds of what an operator may set.
const (
	maxWall   = 24 * time.Hour
	maxAtOnce = 1024
)

// check says all that is wrong with a server. kind is what the file calls it.
func (s Server) check(kind string) error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !ValidServerName(s.Name) {
		fail(`a server's name is 1 to %d of A-Z a-z 0-9 _ -, without "__" and not ending in "_": its tools are called <name>__<tool>`, maxServerName)
	}
	switch kind {
	case "", "stdio", "http", "streamable-http", "streamableHttp", "streamable_http":
	case "sse":
		fail(`type "sse" is the transport of 2024, which is not spoken: most such servers also answer at a streamable HTTP address; use "http"`)
	default:
		fail(`type %q: use "stdio" or "http"`, kind)
	}
	switch {
	case s.Command == "" && s.URL == "":
		fail("it has neither command nor url")
	case s.Command != "" && s.URL != "":
		fail("it has both command and url: leave one out")
	case kind == "stdio" && s.Command == "", kind != "" && kind != "stdio" && s.URL == "":
		fail("its type is %q, which does not fit what it has", kind)
	case s.Command != "" && len(s.Headers) > 0, s.URL != "" && (len(s.Args)+len(s.Env)+len(s.Read)+len(s.Write) > 0 || s.Dir != "" || s.Network || s.Open):
		fail("headers are for a url; args, env, cwd, sandbox and network for a command")
	}
	if s.URL != "" {
		errs = append(errs, checkEndpoint(s.URL, s.Headers))
	}
	errs = append(errs, s.checkProcess(), s.checkTools())
	return errors.Join(errs...)
}

func (s Server) checkProcess() error {
	for name, v := range s.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(v, 0) {
			return fmt.Errorf("env: %q cannot be a variable", name)
		}
	}
	for _, p := range slices.Concat(s.Read, s.Write, []string{s.Dir}) {
		if p != "" && !filepath.IsAbs(p) {
			return fmt.Errorf("%q is no absolute path", p)
		}
	}
	if slices.ContainsFunc(append(slices.Clone(s.Args), s.Command), func(a string) bool { return strings.ContainsRune(a, 0) }) {
		return errors.New("a NUL in its command")
	}
	return nil
}

func (s Server) checkTools() error {
	for tool, tier := range s.Tiers {
		switch tier {
		case events.Readonly, events.Reversible, events.Irreversible, events.Approval:
		default:
			return fmt.Errorf("tiers: %q: there is no tier %q: use readonly, reversible, irreversible or approval", tool, tier)
		}
	}
	l := s.Limits
	switch {
	case l.Wall < 0 || l.Wall > maxWall, l.Wall > 0 && l.Wall < time.Second:
		return fmt.Errorf("limits: wall %v: want 1s to %v", l.Wall, maxWall)
	case l.Text < 0 || l.Lines < 0 || l.Retries > 10 || s.AtOnce < 0 || s.AtOnce > maxAtOnce:
		return fmt.Errorf("limits: text and lines are 0 or more, retries at most 10, at_once 0 to %d", maxAtOnce)
	case !slices.Contains([]tools.Keep{"", tools.KeepHead, tools.KeepTail, tools.KeepBoth}, l.Keep):
		return fmt.Errorf("limits: keep %q: use head, tail or both", l.Keep)
	}
	return nil
}

// expander puts variables of the environment into texts.
type expander struct {
	env  func(string) (string, bool)
	errs []error
}

var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\}`)

func (x *expander) text(s string) string {
	return variable.ReplaceAllStringFunc(s, func(m string) string {
		part := variable.FindStringSubmatch(m)
		if v, ok := x.env(part[1]); ok && (v != "" || part[2] == "") {
			return v
		}
		if part[2] == "" {
			x.errs = append(x.errs, fmt.Errorf("the environment has no %s: set it, or write ${%s:-default}", part[1], part[1]))
		}
		return strings.TrimPrefix(part[2], ":-")
	})
}

func (x *expander) list(in []string) []string {
	var out []string
	for _, s := range in {
		out = append(out, x.text(s))
	}
	return out
}

func (x *expander) values(in map[string]string) map[string]string {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]string, len(in))
	for name, v := range in {
		out[name] = x.text(v)
	}
	return out
}
