package shell

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// generator makes lines of a grammar that leans to what is allowed, and to what
// is nearly so.
type generator struct {
	rng   *rand.Rand
	names []string // of commands
	subs  []string // of git
}

func newGenerator(seed uint64) *generator {
	g := &generator{rng: rand.New(rand.NewPCG(seed, 7))}
	for n := range readers {
		if n != "sleep" {
			g.names = append(g.names, n)
		}
	}
	slices.Sort(g.names)
	g.subs = slices.Sorted(maps.Keys(gitCommands))
	return g
}

func pick[T any](g *generator, list []T) T { return list[g.rng.IntN(len(list))] }

func (g *generator) chance(percent int) bool { return g.rng.IntN(100) < percent }

var (
	genOperands = strings.Fields("a.txt b.txt main.go src src/lib.go go.mod . data.json sub link in out HEAD HEAD~1 main feature partial signed v1 stash@{0} " +
		"HEAD:a.txt main..feature a.txt b.txt {a.txt,b.txt} {-o,new} s{rc,ub}/l* {a} {new,x main@{u}..feature {a}b,new} new .gitattributes evil.sh ./evil.sh -o -R @opts --output=new -rf -l -- - * *.txt -* ?.txt [ab].txt s*")
	genValues = strings.Fields("1 2 x a.txt - -- -o new --output=new {} +1 1,5p w evil.sh ./evil.sh sh , : %s %G? %+G? HEAD e -1 always never =new full " +
		"%(signature) none all untracked log diff auto evil med name '' json local")
	genBad = strings.Fields("-o --output=new --output new --outp=new -i -i.bak --in-place -w --pre ./evil.sh --pre=./evil.sh -exec -execdir -ok -delete -fprint " +
		"-fls --compress-program=./evil.sh --compress-prog ./evil.sh -T -S -z --search-zip --ext-diff --textconv -O -O./evil.sh --open-files-in-pager=./evil.sh " +
		"--show-signature --remerge-diff --diff-merges=remerge --dirty --submodule=diff --ignore-submodules=none -s --set -C -l --paginate -r -R --filters " +
		"--exec=./evil.sh --upload-pack=./evil.sh -f -F --files0-from=a.txt --hostname-bin=./evil.sh -c --check -v --follow -p -d -D -m -M -n new")
	genJoin  = []string{" | ", " && ", "; ", " || ", " & ", "\n", "|", " |& ", " ; ! "}
	genShape = []string{"%", "%", "%", "%", "%", "%", "( % )", "{ %; }", "! %", "time %", "time -p %", "if %; then %; fi", "if %; then %; else %; fi", "cd . && %", "cd src; %"}
	genRedir = []string{" < a.txt", " 2>&1", " <<< x", " <<E\nx\nE", " <<'E'\n$(touch new)\nE", " >&2", " <&-", " 0< b.txt", " >/dev/null", " > new", " <<-E\n\tx\n\tE", " 2>&1 1>&2"}
	genWrap  = []string{"timeout 5 ", "nice ", "nice -n 5 ", "command ", "command -p ", "timeout -k 1 5 nice command ", "nice -5 timeout -s KILL 3 ", "command -v ", "env ", "timeout --foreground 4 "}
	genFind  = strings.Fields("-name a* -type f -maxdepth 2 -print -print0 -o -not ! ( ) -exec ./evil.sh ; -delete -newer a.txt -size +0 -ls -prune -printf %p -H -L -P " +
		"-fprintf new %p -path ./src -regex x -ok ./evil.sh ; -quit -empty -mtime 1 -perm 1 -user root -samefile a.txt -depth , -d -fprint0 new -fls new")
	genSed = []string{
		"1,2p", "p", "$=", "/a/p", "1q", "1e ./evil.sh", "w new", "1w new", "s/a/b/e", "s/a/b/w new", "/[/]/p", `/\//p`, "/a/I,+1p;2q", "1~2p", "r a.txt", "/x\\\n/p", "1!p", "{p}",
		"/[]]/w new", "/[^/]/p", "$!{w new\n}", "p;w new", "/a/,/b/p", "q5", "0,/a/p", "y/a/b/", "e", "W new", "#n\nw new", "\\,a,p", "/a\\", "b/p",
	}
	genJq   = []string{".", ".a", "env", "$ENV", ".items[]|.name", "input_filename", "import \"x\" as x; .", "@sh", "keys", "getpath([\"a\"])", "modulemeta", "debug", "input", "$__prog_args", "include \"x\"; ."}
	genSed2 = strings.Split("s/ / w_new e_touch_new ; p { } 1 , $ ! s y/ a b [ ] [^ [: :] [:alpha:] \\/ s, s# # g I d q n N = G x /a/ /[a]/ s/a/b/ y/a/b/ /]/ []/ ;w_new & ( ) + * .", " ")
	genAwk  = strings.Split("{ } ( ) print printf \"x\" \" / > >> \"new\" | getline system(\"touch_new\") /a/ /\"/ / a [1] a[1] if(1) else ; , ++ -- == $1 1 for( in ~ ! && "+
		"BEGIN END while(0) exit NF ? : - = += >= < print>\"new\" length [ ] /[/]/ substr( (1>\"new\") \n .5", " ")
	genTest  = strings.Fields("-f a.txt -d src -e new -n x -z x = != -eq 1 2 ! -v a[$(touch new)] -ef -nt a.txt ( ) -a -o -t 1 -r -w -x a[0] -lt -N -k")
	genTexts = []string{"%s", "%d\\n", "%n", "%(%F)T", "%b", "%q x", "hello", "'a b'", "-v", "a[$(touch new)]", "%*d", "-e", "a\\tb", "%%", "\\x2d"}
)

// line is a line of the grammar.
func (g *generator) line() string {
	shape := pick(g, genShape)
	var b strings.Builder
	for i, part := range strings.Split(shape, "%") {
		if i > 0 {
			b.WriteString(g.pipeline())
		}
		b.WriteString(part)
	}
	return b.String()
}

func (g *generator) pipeline() string {
	s := g.simple()
	for g.chance(25) {
		s += pick(g, genJoin) + g.simple()
	}
	return s
}

func (g *generator) simple() string {
	name := pick(g, g.names)
	if g.chance(35) {
		name = pick(g, []string{"git", "git", "git", "find", "sed", "awk", "sort", "uniq", "xxd", "date", "diff", "file", "jq", "tac", "test", "printf"})
	}
	args := g.args(name)
	if name == "[" && g.chance(90) {
		args = append(args, "]")
	}
	if name == "git" {
		name += " "
		if g.chance(10) {
			name += pick(g, []string{"--no-pager ", "-P ", "-C src ", "-c core.pager=./evil.sh ", "--no-optional-locks "})
		}
		sub := pick(g, g.subs)
		args = g.some(gitCommands[sub].flags, genOperands)
		name += sub
		if words := map[string]string{"stash": "list", "worktree": "list", "remote": "get-url", "reflog": "show"}; words[sub] != "" && g.chance(70) {
			args = slices.Insert(args, g.rng.IntN(len(args)+1), pick(g, []string{words[sub], words[sub], "show", "drop", "expire", "add", "prune"}))
		}
	}
	s := name
	for _, a := range args {
		s += " " + g.quoted(a)
	}
	if g.chance(12) {
		s = pick(g, genWrap) + s
	}
	if g.chance(12) {
		s += pick(g, genRedir)
	}
	return s
}

func (g *generator) args(name string) []string {
	switch name {
	case "find":
		return append(g.few([]string{".", "src", "a.txt", "sub"}, 2), g.few(genFind, 5)...)
	case "awk", "gawk", "mawk", "nawk":
		return append(append(g.few([]string{"-F:", "-F", ",", "-v", "x=1", "-f", "evil.sh"}, 1), "{"+g.program(genAwk)+"}"), g.few(genOperands, 2)...)
	case "sed":
		if g.chance(40) {
			return append([]string{g.program(genSed2)}, g.few(genOperands, 2)...)
		}
		return append(append(g.few([]string{"-n", "-n", "-n", "-e", "-E", "-i", "-s", "-f", "--quiet", "-ne", "--in-pl", "--expression=p", "-z", "-u", "--posix"}, 3), pick(g, genSed)), g.few(genOperands, 2)...)
	case "jq":
		return append(append(g.some(readers[name].flags, genJq), g.few([]string{"--arg", "a", "b", "--argjson", "n", "1", "-f", "a.txt"}, 1)...), "data.json")
	case "test", "[":
		return g.few(genTest, 4)
	case "printf", "echo":
		return g.few(genTexts, 4)
	}
	return g.some(readers[name].flags, genOperands)
}

// some are flags of a set, values for them, harmful flags and operands.
func (g *generator) some(set flagSet, operands []string) []string {
	shorts, longs := slices.Sorted(maps.Keys(set.short)), slices.Sorted(maps.Keys(set.long))
	var out []string
	for range g.rng.IntN(5) {
		switch n := g.rng.IntN(100); {
		case n < 30 && len(shorts) > 0:
			f := "-"
			for range 1 + g.rng.IntN(3) {
				f += string(pick(g, shorts))
			}
			if g.chance(15) {
				f += pick(g, genValues)
			}
			out = append(out, f)
		case n < 50 && len(longs) > 0:
			f := "--" + pick(g, longs)
			if g.chance(40) {
				f += "=" + pick(g, genValues)
			}
			out = append(out, f)
		case n < 60:
			out = append(out, pick(g, genBad))
		case n < 75:
			out = append(out, pick(g, genValues))
		default:
			out = append(out, pick(g, operands))
		}
	}
	return out
}

// program is a few tokens of a language, in any order.
func (g *generator) program(tokens []string) string {
	var b strings.Builder
	for range 1 + g.rng.IntN(10) {
		b.WriteString(strings.ReplaceAll(pick(g, tokens), "_", " ") + strings.Repeat(" ", g.rng.IntN(2)))
	}
	return b.String()
}

func (g *generator) few(list []string, most int) []string {
	var out []string
	for range g.rng.IntN(most + 1) {
		at := g.rng.IntN(len(list))
		out = append(out, list[at])
		for at+1 < len(list) && g.chance(50) { // what belongs together stands together
			at++
			out = append(out, list[at])
		}
	}
	return out
}

// quoted writes a word in one of the ways a shell reads.
func (g *generator) quoted(s string) string {
	switch n := g.rng.IntN(20); {
	case n < 10 && strings.IndexFunc(s, special) < 0 && s != "":
		return s
	case n < 11:
		return s // perhaps more than a word
	case n < 13 && s != "":
		return `\` + s
	case n < 15:
		return `"` + strings.NewReplacer(`"`, `\"`, `$`, `\$`, "`", "\\`").Replace(s) + `"`
	case n < 16 && len(s) > 1:
		return s[:1] + `""` + s[1:]
	case n < 17:
		return "$'" + s + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// mutate changes a line in a few places.
func (g *generator) mutate(line string, lines []string) string {
	for range 1 + g.rng.IntN(3) {
		at := g.rng.IntN(len(line) + 1)
		switch g.rng.IntN(5) {
		case 0:
			line = line[:at] + pick(g, pieces) + line[at:]
		case 1:
			end := min(len(line), at+1+g.rng.IntN(3))
			line = line[:at] + line[end:]
		case 2:
			line += pick(g, genJoin) + pick(g, lines)
		case 3:
			words := strings.Split(line, " ")
			words[g.rng.IntN(len(words))] = pick(g, genBad)
			line = strings.Join(words, " ")
		case 4:
			line = strings.Replace(line, " ", " "+pick(g, genBad)+" ", 1+g.rng.IntN(2))
		}
	}
	return line
}
