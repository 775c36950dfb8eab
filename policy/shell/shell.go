// Package shell judges shell lines by their syntax tree. A line is allowed only
// if every command in it is understood as reading; the text of the line is
// never matched against patterns. It is pure, and safe for many goroutines.
//
// What a syntax tree cannot show is left to whoever runs the line: links in the
// workspace that point out of it (Moves, Follows), names of files that a pattern
// turns into flags, and the configuration of programs, which can name other
// programs: the line must run in the environment of Quiet, and one that runs git
// only where GitConfig has nothing against the repository's configuration.
package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Version changes whenever the analysis of any line could.
const Version = "6"

// Bounds of a line that can be judged.
const (
	MaxLine     = 64 << 10 // bytes
	MaxCommands = 256      // simple commands
	MaxDepth    = 32       // compound commands inside one another
	MaxWords    = 1024     // words of one command
	maxSteps    = 1024     // commands looked at, those behind wrappers included
	maxOpen     = 64       // brackets open at once, counted before parsing
)

// Decision is what is found of a line.
type Decision string

// The decisions, from mild to strict.
const (
	Allow Decision = "allow" // every command is understood as reading
	Ask   Decision = "ask"   // a person must look at it
	Deny  Decision = "deny"  // never
)

func (d Decision) rank() int {
	switch d {
	case Allow:
		return 0
	case Ask:
		return 1
	}
	return 2
}

// Analysis is what is known of a line.
type Analysis struct {
	Decision Decision
	Reason   string   // one sentence: the first of the strictest findings, and what to do instead
	Policies []string // ids of the rules behind Decision, sorted
	Commands []string // the simple commands in the order of the line, quotes normalised; at most MaxCommands
	Paths    []string // files that the line names, as far as they are recognised, sorted
	Hosts    []string // URLs and hosts that the line names, as far as they are recognised, sorted
	Reads    bool     // the whole line is understood as reading; only if Decision is Allow
	Moves    []string // where the line goes with cd, in its order
	Follows  bool     // a command of the line follows links that it meets in folders
	Git      bool     // the line runs git, which obeys the configuration of the repository that it stands in: see GitConfig
	Names    []string // words that may name files besides Paths, and what stands behind = and : in them: operands of git, and words of what is not understood as reading; sorted
	Findings []Found  // one for each rule that applies, in the order of the line; never empty
}

// Found is what one rule says of a line.
type Found struct {
	Rule     string // its id, with the prefix shell.
	Decision Decision
	Reason   string // one sentence that names the first culprit, and what to do instead
}

// Scope is what a line may refer to. The zero Scope has no workspace of a known
// path, so that every absolute path is outside, and no network.
type Scope struct {
	Workspace string // absolute and clean; "" means not known
	Network   bool   // commands that use the network are asked about, not denied
}

// Classify judges a line in the zero Scope. It never panics, whatever the bytes.
func Classify(line string) Analysis { return Scope{}.Classify(line) }

// Classify judges a line. It never panics, whatever the bytes, and gives the
// same analysis every time.
func (s Scope) Classify(line string) Analysis {
	c := &classifier{scope: s, line: line}
	c.run()
	return c.analysis()
}

// classifier walks one line and collects what it finds.
type classifier struct {
	scope    Scope
	line     string
	found    []finding
	commands []string
	paths    []string
	hosts    []string
	texts    []string // addresses among the words of reading commands
	handed   bool     // a command that may be handed what others print, or leave
	names    []string
	moves    []string
	follows  bool
	calls    int // simple commands judged, those behind wrappers not counted
	depth    int
	steps    int
	inside   int  // wrappers around the command that is judged
	moved    bool // the line changes into another folder
	asksGit  bool // the line runs git
}

type finding struct {
	rule *rule
	what string
}

// add records that a rule applies. what names the culprit, for the reason.
func (c *classifier) add(r *rule, what string) {
	c.found = append(c.found, finding{r, what})
}

func (c *classifier) run() {
	if !c.lexical() {
		return
	}
	p := syntax.NewParser(syntax.Variant(syntax.LangBash))
	file, err := p.Parse(strings.NewReader(c.line), "")
	if err != nil {
		c.add(ruleSyntax, "")
		return
	}
	if len(file.Stmts) == 0 {
		c.add(ruleEmpty, "")
		return
	}
	calls := c.constructs(file)
	c.stmts(file.Stmts, false)
	if c.calls != calls {
		c.add(ruleConstruct, "") // a command stands where the walk does not look
	}
	if c.moved && c.asksGit {
		c.add(ruleGitFolder, "")
	}
	if len(c.commands) > MaxCommands {
		c.add(ruleLimit, "")
		c.commands = c.commands[:MaxCommands]
	}
}

func (c *classifier) analysis() Analysis {
	if c.handed {
		c.hosts = append(c.hosts, c.texts...)
	}
	a := Analysis{Decision: Allow, Commands: c.commands, Paths: set(c.paths), Hosts: set(c.hosts), Names: set(c.names), Moves: c.moves, Follows: c.follows, Git: c.asksGit}
	for _, f := range c.found {
		if !slices.ContainsFunc(a.Findings, func(o Found) bool { return o.Rule == f.rule.ID }) {
			a.Findings = append(a.Findings, f.rule.found(c.scope, f.what))
		}
		if d := f.rule.decision(c.scope); d.rank() > a.Decision.rank() {
			a.Decision, a.Reason, a.Policies = d, f.rule.sentence(f.what), nil
		}
		if f.rule.decision(c.scope) == a.Decision {
			a.Policies = append(a.Policies, f.rule.ID)
		}
	}
	if a.Decision == Allow {
		a.Reason, a.Policies, a.Reads = ruleRead.sentence(""), []string{ruleRead.ID}, true
		a.Findings = []Found{ruleRead.found(c.scope, "")}
	}
	a.Policies = set(a.Policies)
	return a
}

func set(s []string) []string {
	slices.Sort(s)
	return slices.Compact(s)
}
