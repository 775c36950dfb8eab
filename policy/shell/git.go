package shell

import "strings"

// gitCommand is a subcommand that may be allowed.
type gitCommand struct {
	flags flagSet
	// verbs are words of which one must come first, before any flag; bare says that there
	// may be none, and then nothing but flags.
	verbs  map[string]bool
	bare   bool
	most   int  // operands behind the verb
	pretty bool // its formats are those of log
	// operands says what may follow; nil means revisions and paths, any number.
	operands func(p *parsed) bool
}

const (
	gitFormat = " --pretty= --format: --oneline --abbrev-commit --no-abbrev-commit --abbrev= --date: --decorate= --no-decorate --color= --no-color "
	gitDiff   = "-pubwaBDRz M= C= U: G: S: X= l: --patch --no-patch --unified: --raw --minimal --patience --histogram --diff-algorithm: --anchored: " +
		"--stat= --numstat --shortstat --dirstat= --cumulative --summary --name-only --name-status --color= --no-color --color-moved= " +
		"--word-diff= --word-diff-regex: --color-words= --no-renames --check --full-index --binary --abbrev= --break-rewrites= --find-renames= " +
		"--find-copies= --find-copies-harder --irreversible-delete --diff-filter: --pickaxe-all --pickaxe-regex --relative= --no-relative --text " +
		"--ignore-cr-at-eol --ignore-space-at-eol --ignore-space-change --ignore-all-space --ignore-blank-lines --ignore-matching-lines: " +
		"--inter-hunk-context: --function-context --exit-code --quiet --no-ext-diff --no-textconv --ignore-submodules " +
		"--src-prefix: --dst-prefix: --no-prefix --default-prefix --compact-summary --patch-with-stat --patch-with-raw " +
		"--stat-width: --stat-name-width: --stat-graph-width: --stat-count: --ws-error-highlight: --color-moved-ws: --no-color-moved " +
		"--indent-heuristic --no-indent-heuristic --rename-empty --no-rename-empty --find-object: --skip-to: --rotate-to: --line-prefix: "
	gitLog = gitDiff + gitFormat + "-igEFPcmnqst# L: n: --max-count: --skip: --since: --after: --until: --before: --author: --committer: --grep: " +
		"--all-match --invert-grep --regexp-ignore-case --extended-regexp --fixed-strings --perl-regexp --merges --no-merges " +
		"--first-parent --not --all --branches= --tags= --remotes= --glob: --exclude: --reflog --walk-reflogs --graph --follow --full-diff " +
		"--source --left-right --cherry --cherry-mark --cherry-pick --left-only --right-only --boundary --reverse --topo-order --date-order " +
		"--author-date-order --simplify-by-decoration --full-history --ancestry-path= --show-pulls --children --parents --no-notes " +
		"--mailmap --no-mailmap --use-mailmap --log-size --no-walk= --root --cc --relative-date --min-parents: --max-parents: --merge " +
		"--notes= --show-notes= --expand-tabs= --no-expand-tabs --encoding: --decorate-refs: --decorate-refs-exclude: --clear-decorations " +
		"--no-graph --show-linear-break= --since-as-filter: --exclude-first-parent-only --remove-empty --basic-regexp "
)

func gitRead(notation string) gitCommand {
	return gitCommand{flags: flags(notation), pretty: strings.Contains(notation, gitFormat)}
}

func (g gitCommand) only(operands func(*parsed) bool) gitCommand {
	g.operands = operands
	return g
}

// listing says whether operands are patterns to list by, not names to create.
func listing(flags ...string) func(*parsed) bool {
	return func(p *parsed) bool { return len(p.operands) == 0 || p.has(flags...) }
}

// verb says which words must come first, and how many operands may follow. Git
// looks for its own verbs behind flags too, and what is the value of one here may be
// a verb there.
func (g gitCommand) verb(most int, words string) gitCommand {
	g.verbs, g.most = names(words), most
	return g
}

func (g gitCommand) orNone() gitCommand { g.bare = true; return g }

// begins judges the words in the place of a verb, and gives what is behind it.
func (g gitCommand) begins(args []word) (rest []word, ok bool) {
	switch {
	case g.verbs == nil:
		return args, true
	case len(args) > 0 && args[0].plain() && g.verbs[args[0].text]:
		return args[1:], true
	case !g.bare:
		return nil, false
	}
	for _, w := range args {
		if !w.flag() && (!w.plain() || w.text == "" || !numeral(w.text)) {
			return nil, false
		}
	}
	return args, true
}

var gitCommands = map[string]gitCommand{
	"status": gitRead("-sbvz u= M= --short --branch --show-stash --porcelain= --long --verbose --untracked-files= --ignore-submodules --ignored= " +
		"--column= --no-column --ahead-behind --no-ahead-behind --renames --no-renames --find-renames="),
	"diff":      gitRead(gitDiff + "-0123 --cached --staged --merge-base --no-index --base --ours --theirs --cc"),
	"diff-tree": gitRead(gitDiff + gitFormat + "-rtmcsv --no-commit-id --root --cc --always --merge-base"),
	"log":       gitRead(gitLog),
	"show":      gitRead(gitLog),
	"shortlog":  gitRead(gitFormat + "-nsec w= --numbered --summary --email --committer --group: --since: --until: --all --no-merges"),
	"ls-files": gitRead("-cdmoiskuztvf x: --cached --deleted --modified --others --ignored --stage --killed --unmerged --directory " +
		"--no-empty-directory --eol --exclude: --exclude-standard --error-unmatch --full-name --abbrev= --deduplicate"),
	"ls-tree": gitRead("-drtlz --long --name-only --name-status --object-only --full-name --full-tree --abbrev= --format:"),
	"blame": gitRead("-bceflnpstw M= C= L: --root --show-stats --porcelain --line-porcelain --incremental --date: --score-debug " +
		"--show-name --show-number --show-email --abbrev= --since: --first-parent --color-lines --color-by-age"),
	"annotate": gitRead("-l L:"),
	"describe": gitRead("--all --tags --contains --abbrev= --candidates: --exact-match --debug --long --match: --exclude: --always " +
		"--first-parent"),
	"rev-parse": gitRead("--show-toplevel --show-prefix --show-cdup --git-dir --absolute-git-dir --git-common-dir --is-inside-work-tree " +
		"--is-inside-git-dir --is-bare-repository --is-shallow-repository --abbrev-ref= --short= --verify --quiet --symbolic " +
		"--symbolic-full-name --all --branches= --tags= --remotes= --revs-only --no-revs --not"),
	"rev-list": gitRead(gitFormat + "-n# n: --max-count: --count --all --branches= --tags= --remotes= --since: --until: --author: " +
		"--grep: --merges --no-merges --first-parent --left-right --objects --parents --reverse --topo-order --date-order --not --skip:"),
	"branch": gitRead("-arvi --list --all --remotes --verbose --show-current --color= --no-color --column= --no-column --sort: " +
		"--merged= --no-merged= --contains= --no-contains= --points-at: --format: --abbrev= --no-abbrev --ignore-case").only(
		listing("--list", "--merged", "--no-merged", "--contains", "--no-contains", "--points-at")),
	"tag": gitRead("-li n= --list --sort: --format: --contains= --no-contains= --merged= --no-merged= --points-at: --color= --column= --no-column " +
		"--ignore-case").only(
		listing("-l", "--list", "-n", "--merged", "--no-merged", "--contains", "--no-contains", "--points-at")),
	"remote":        gitRead("-v --verbose").verb(1, "get-url").orNone(),
	"stash":         gitRead(gitDiff+gitFormat+"n: -#").verb(1, "list show"),
	"worktree":      gitRead("-v --porcelain --verbose").verb(0, "list"),
	"reflog":        gitRead(gitFormat+"n: -# --all").verb(1, "show").orNone(),
	"cat-file":      gitRead("-etps"),
	"merge-base":    gitRead("-a --all --octopus --independent --is-ancestor --fork-point"),
	"name-rev":      gitRead("--tags --name-only --always"),
	"cherry":        gitRead("-v --verbose --abbrev="),
	"show-ref":      gitRead("-dq --head --heads --branches --tags --dereference --verify --quiet --abbrev= --hash="),
	"for-each-ref":  gitRead("--count: --sort: --format: --color= --points-at: --merged= --no-merged= --contains= --no-contains= --ignore-case"),
	"count-objects": gitRead("-vH --verbose --human-readable"),
	"check-ignore":  gitRead("-qvn --quiet --verbose --non-matching --no-index"),
	"check-attr":    gitRead("-a --all --cached"),
	"version":       gitRead("--build-options"),
	"grep": gitRead("-aIirwvhHEGPFnlLzocpWq# A: B: C: e: f@ m: --cached --untracked --no-index --text --ignore-case --recursive " +
		"--no-recursive --word-regexp " +
		"--invert-match --full-name --extended-regexp --basic-regexp --perl-regexp --fixed-strings --line-number --column " +
		"--files-with-matches --name-only " +
		"--files-without-match --null --only-matching --count --color= --no-color --break --heading --show-function --context: --after-context: " +
		"--before-context: --function-context --max-depth: --max-count: --and --or --not --all-match --quiet"),
}

// gitGlobal are the flags before the subcommand that only change the output.
var gitGlobal = names("--no-pager -P --no-optional-locks --literal-pathspecs --no-replace-objects --icase-pathspecs --glob-pathspecs --noglob-pathspecs")

// subcommand finds git's subcommand. clean says that nothing before it matters.
func subcommand(args []word) (sub string, rest []word, clean bool) {
	clean = true
	for i := 0; i < len(args); i++ {
		w := args[i]
		switch {
		case !w.plain():
			clean = false
		case gitGlobal[w.text]:
		case w.is("-C") || w.is("-c") || w.is("--git-dir") || w.is("--work-tree") || w.is("--namespace") || w.is("--exec-path") ||
			w.is("--config-env") || w.is("--super-prefix") || w.is("--attr-source"):
			clean = false
			i++
		case w.flag():
			clean = false
		default:
			return w.text, args[i+1:], clean
		}
	}
	return "", nil, clean
}

// gitNever judges what git may never do here.
func (c *classifier) gitNever(args []word) bool {
	sub, rest, _ := subcommand(args)
	sub = strings.ToLower(sub)
	switch sub {
	case "restore":
		if unstages(rest) {
			return false
		}
		c.add(ruleDiscard, "git restore")
	case "switch":
		if !forces(rest) {
			return false
		}
		c.add(ruleDiscard, "git switch by force")
	case "checkout", "reset", "clean":
		c.add(ruleDiscard, "git "+sub)
	case "rm":
		c.add(ruleRemove, "git rm")
	case "stash":
		if anyIs(rest, "drop", "clear", "pop") {
			c.add(ruleDiscard, "git stash")
			return true
		}
		if len(rest) > 0 && anyIs(rest[:1], "show", "list") {
			return false
		}
		return c.interactive(sub, rest, "p", "--patch", "--interactive")
	case "rebase":
		return c.interactive(sub, rest, "i", "--interactive", "--edit-todo")
	case "add", "stage":
		return c.interactive(sub, rest, "ipe", "--interactive", "--patch", "--edit")
	case "commit":
		return c.interactive(sub, rest, "p", "--interactive", "--patch")
	case "mergetool", "difftool", "gui", "citool", "instaweb", "gitk":
		c.add(ruleInteractive, "git "+sub)
	default:
		return false
	}
	return true
}

// unstages says whether git restore takes paths from the index alone, and leaves the
// files as they are: by nothing but flags that are known for that.
func unstages(args []word) bool {
	staged := false
	for _, w := range args {
		switch {
		case w.is("--"):
			return staged
		case w.is("--staged"), w.is("-S"):
			staged = true
		case w.is("-q"), w.is("--quiet"):
		case w.flag() || w.opaque || w.free:
			return false
		}
	}
	return staged
}

// forces says whether git switch throws changes away, also by flags that are put together
// or cut short.
func forces(args []word) bool {
	for _, w := range args {
		switch {
		case !w.flag():
		case w.opaque:
			return true
		case !strings.HasPrefix(w.text, "--"):
			cluster, _, _ := strings.Cut(w.text[1:], "c")
			if strings.Contains(cluster, "f") {
				return true
			}
		case len(w.text) > 3 && (strings.HasPrefix("--force-create", w.text) || strings.HasPrefix("--discard-changes", w.text)):
			return true
		}
	}
	return false
}

// interactive finds flags that ask somebody at a terminal, also in clusters and
// abbreviated.
func (c *classifier) interactive(sub string, args []word, letters string, long ...string) bool {
	for _, w := range args {
		if !w.flag() {
			continue
		}
		if !strings.HasPrefix(w.text, "--") {
			cluster := w.text[1:]
			if i := strings.IndexAny(cluster, "mFCcts"); sub == "commit" && i >= 0 {
				cluster = cluster[:i] // what follows is a value
			}
			if strings.ContainsAny(cluster, letters) {
				c.add(ruleInteractive, "git "+sub+" "+w.text)
				return true
			}
			continue
		}
		for _, l := range long {
			if len(w.text) > 3 && strings.HasPrefix(l, w.text) {
				c.add(ruleInteractive, "git "+sub+" "+w.text)
				return true
			}
		}
	}
	return false
}

// git judges a git command that is not one of those that may never run.
func (c *classifier) git(args []word) {
	if len(args) == 1 && args[0].is("--version") {
		return
	}
	c.asksGit = true
	sub, rest, clean := subcommand(args)
	c.gitRemotes(sub, rest)
	g, known := gitCommands[sub]
	if !known {
		c.add(ruleUnknown, strings.TrimSpace("git "+sub))
		return
	}
	if !clean {
		c.add(ruleFlag, args[0].text)
		return
	}
	words := rest
	rest, ok := g.begins(rest)
	if !ok {
		c.add(ruleUnknown, spoken(sub, words))
		return
	}
	p, bad, ok := g.flags.parse(rest)
	if !ok {
		c.add(ruleFlag, bad.text)
		return
	}
	if g.operands != nil && !g.operands(&p) || g.verbs != nil && len(p.operands) > g.most {
		c.add(ruleUnknown, spoken(sub, words))
		return
	}
	for i, v := range p.values {
		if signatures(v.text) || g.pretty && (p.of[i] == "--format" || p.of[i] == "--pretty") && !builtin(v.text) {
			c.add(ruleFlag, v.text)
		}
	}
	c.gitOperands(sub, &p)
}

// spoken names what git is asked for: the subcommand and the first word behind it that is
// no flag.
func spoken(sub string, args []word) string {
	for _, w := range args {
		if !w.flag() {
			return "git " + sub + " " + w.text
		}
	}
	return "git " + sub
}

var builtins = names("oneline short medium full fuller reference email raw mboxrd")

// builtin reports whether a format is git's own or written out: others are looked up
// in the configuration, which may ask for signatures to be checked.
func builtin(format string) bool {
	return builtins[format] || strings.Contains(format, "%") || format == ""
}

// signatures reports whether a format asks for what the program that checks
// signatures says.
func signatures(format string) bool {
	for rest := range strings.SplitSeq(format, "%") {
		if strings.HasPrefix(strings.TrimLeft(rest, "+- "), "G") {
			return true
		}
	}
	return strings.Contains(strings.ToLower(format), "signature")
}
