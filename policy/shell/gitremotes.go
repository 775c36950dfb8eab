package shell

import "strings"

// gitCaller is a subcommand of git that connects.
type gitCaller struct {
	flags flagSet
	most  int             // how many operands may be a repository; what follows are names in it
	hosts map[string]bool // flags whose value is a repository
}

// everyOperand is more operands than a command has.
const everyOperand = MaxWords + 1

var gitCallers = map[string]gitCaller{
	"clone": {flags: flags("-lnqsv b: c: j: o: u: --branch: --config: --depth: --filter: --jobs: --origin: --reference: --reference-if-able: --revision: " +
		"--separate-git-dir: --server-option: --shallow-exclude: --shallow-since: --template: --upload-pack: --bundle-uri:"), most: 1, hosts: names("--bundle-uri")},
	"fetch":     {flags: flags("-46aefkmnpPqtuv j: o: --depth: --deepen: --filter: --jobs: --refmap: --server-option: --shallow-exclude: --shallow-since: --upload-pack: --negotiation-tip:"), most: 1},
	"pull":      {flags: flags("-46aefknpqtv j: o: s: X: r= S= --depth: --deepen: --jobs: --strategy: --strategy-option: --upload-pack: --server-option: --shallow-since:"), most: 1},
	"push":      {flags: flags("-46dfnquv o: --exec: --push-option: --receive-pack: --repo:"), most: 1, hosts: names("--repo")},
	"ls-remote": {flags: flags("-hqt o: --exec: --server-option: --sort: --upload-pack:"), most: 1},
	"remote":    {flags: flags("-fv m: t: --master: --track:"), most: everyOperand},
	"submodule": {flags: flags("-fq b: --branch: --name: --depth: --reference:"), most: everyOperand},
	"archive":   {flags: flags("o: --exec: --format: --output: --prefix: --remote:"), hosts: names("--remote")},
}

// gitRemotes records the hosts of the repositories that a git line connects to, also
// written as user@host:path. That of a remote by its name is known to the repository alone.
func (c *classifier) gitRemotes(sub string, args []word) {
	g, ok := gitCallers[strings.ToLower(sub)]
	if !ok {
		return
	}
	seen := 0
	for i := 0; i < len(args); i++ {
		w := args[i]
		if len(w.name) < 2 || w.name[0] != '-' {
			if seen++; seen <= g.most {
				c.repository(w)
			}
			continue
		}
		name, given, kind, known := g.flags.split(w.name, map[string]bool{})
		if !known || kind == nothing || kind == optional {
			continue
		}
		v := w
		if given != nil {
			v.name = *given
		} else if i++; i < len(args) {
			v = args[i]
		}
		if g.hosts[name] {
			c.repository(v)
		}
	}
}

// repository records the host of a repository. A URL is recorded as those of any command.
func (c *classifier) repository(w word) {
	if !strings.Contains(w.name, "://") {
		c.remote(w)
	}
}
