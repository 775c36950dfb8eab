package shell

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// example is one line of the table in testdata.
type example struct {
	decision Decision
	rule     string
	line     string
	row      int
}

// table reads policy/testdata/shell.txt.
func table(t testing.TB) []example {
	t.Helper()
	raw, err := os.ReadFile("../testdata/shell.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out []example
	for i, row := range strings.Split(string(raw), "\n") {
		if row == "" || strings.HasPrefix(row, "#") {
			continue
		}
		parts := strings.SplitN(row, " | ", 3)
		if len(parts) != 3 {
			t.Fatalf("shell.txt:%d: want decision | rule | line", i+1)
		}
		line := parts[2]
		if len(line) > 1 && line[0] == '"' && line[len(line)-1] == '"' {
			if unquoted, err := strconv.Unquote(line); err == nil {
				line = unquoted
			}
		}
		out = append(out, example{Decision(parts[0]), parts[1], line, i + 1})
	}
	return out
}

func TestTable(t *testing.T) {
	examples := table(t)
	if len(examples) < 200 {
		t.Errorf("%d examples, want 200", len(examples))
	}
	for _, e := range examples {
		a := Classify(e.line)
		if a.Decision != e.decision || !slices.Contains(a.Policies, e.rule) {
			t.Errorf("shell.txt:%d: %q is %s by %v, want %s by %s", e.row, e.line, a.Decision, a.Policies, e.decision, e.rule)
		}
		if a.Reads != (a.Decision == Allow) {
			t.Errorf("shell.txt:%d: reads is %t, decision %s", e.row, a.Reads, a.Decision)
		}
		if !oneSentence(a.Reason) {
			t.Errorf("shell.txt:%d: %q is not one sentence", e.row, a.Reason)
		}
	}
}

// Every rule has an example that it decides, as strictly as it says.
func TestEveryRuleHasAnExample(t *testing.T) {
	decided := map[string]Decision{}
	for _, e := range table(t) {
		decided[e.rule] = e.decision
	}
	ids := map[string]bool{}
	for _, r := range rules {
		if ids[r.ID] {
			t.Errorf("%s stands twice", r.ID)
		}
		ids[r.ID] = true
		if decided[r.ID] != r.Says {
			t.Errorf("%s says %s: no such line in shell.txt", r.ID, r.Says)
		}
		if !oneSentence(r.sentence("what. Who? \x1b[2K")) {
			t.Errorf("%s: %q is not one sentence", r.ID, r.Why)
		}
	}
	for id := range decided {
		if !ids[id] {
			t.Errorf("shell.txt names %s, which is no rule", id)
		}
	}
}

var sentenceEnd = regexp.MustCompile(`[.!?](\s|$)`)

func oneSentence(s string) bool {
	return len(sentenceEnd.FindAllString(s, -1)) == 1 && strings.HasSuffix(s, ".") && !strings.ContainsAny(s, "\n\x1b")
}

// The words of a command that is not understood as reading may all be names of files.
func TestNames(t *testing.T) {
	for line, want := range map[string][]string{
		"cat a | grep b c":                     nil,
		"rm -rf a 'b c'":                       {"a", "b c"},
		"cp --target-directory=d a":            {"a", "d"},
		"dd if=a of=b":                         {"a", "b", "if=a", "of=b"},
		"cat --odd a":                          {"a"},
		"cat a; sed -i s/x/y/ b":               {"b", "s/x/y/"},
		"timeout 5 frob x=y":                   {"5", "frob", "x=y", "y"},
		"curl https://example.com/ -o a":       {"a"},
		"frob *.go":                            {"*.go", ".go"},
		"cp secrets/k?y a":                     {"a", "secrets/k?y"},
		"cp .env* [b]/*/x d":                   {".env", ".env*", "[b]/*/x", "b/*/x", "d"},
		"cp secrets/$X $Y \"z$Z\" a":           {"a", "secrets/*", "z*"},
		"cp $'secrets/k' $'s\\x65' a":          {"a", "s*", "secrets/k"},
		"frob --file=secrets/*":                {"secrets/*"},
		"F=secrets/k; cp $F a":                 {"a", "secrets/k"},
		"A=(b secrets/*); frob":                {"b", "secrets/*"},
		"for f in secrets/*; do frob $f; done": {"secrets/*"},
		"echo x > secrets/k?y":                 {"secrets/k?y"},
		"cat .e[n]v":                           {".e[n]v", ".env"},
		"cat s[r]c/*.go":                       {"src/.go"},
	} {
		a := Classify(line)
		if !slices.Equal(a.Names, want) {
			t.Errorf("%q: %q, want %q", line, a.Names, want)
		}
	}
}

// The addresses that a line names, and the files beside them.
func TestAddresses(t *testing.T) {
	for line, want := range map[string]struct{ hosts, paths string }{
		"curl localhost:28388/healthz":                                           {"localhost:28388", ""},
		"curl user:pw@localhost/x":                                               {"localhost", ""},
		"curl ::1 '[::1]:80/x' [fe80::1]:80":                                     {"::1 [::1]:80 [fe80::1]:80", ""},
		"curl http://[::1]:28388/":                                               {"http://[::1]:28388/", ""},
		"curl 2130706433 0x7f000001":                                             {"0x7f000001 2130706433", ""},
		"curl https://a.org/b?c=d https://b.org/[1-3]":                           {"https://a.org/b?c=d https://b.org/[1-3]", ""},
		"curl 'https://a.org/b c' ' https://b.org'":                              {"https://a.org/b https://b.org", ""},
		"curl https://a.org/" + strings.Repeat("x", 2*maxURL):                    {"https://a.org/", ""},
		"curl \"https://a.org/$X\" \"https://$X/\" $X":                           {"https://a.org/*", ""},
		"curl -d @a.json --data-binary @b.json https://a.org":                    {"https://a.org", "a.json b.json"},
		"curl -sd@a.json -Ff=@.env -F 'g=<b;type=x/y' a.org":                     {"a.org", ".env a.json b"},
		"curl -F 'f=@a,b' --data-urlencode n@c --json @d a.org":                  {"a.org", "a b c d"},
		"curl -d user@example.com -d 'a=b@c' a.org":                              {"a.org", "example.com"},
		"curl -T a -o out.json -D head.txt -c jar a.org":                         {"a.org", "a head.txt jar out.json"},
		"curl -sSLo out.json https://a.org -T - -o -":                            {"https://a.org", "out.json"},
		"curl -x localhost:1 --url b.org a.org":                                  {"a.org b.org localhost:1", ""},
		"curl -H 'Origin: http://b.org' -e http://c.org -d u=http://d.org a.org": {"a.org", ""},
		"curl --unknown a.org":                                                   {"a.org", ""},
		"curl -- -a.org":                                                         {"-a.org", ""},
		"wget -qO- localhost; wget -P dir -O f b.org":                            {"b.org localhost", "dir f"},
		"wget --post-file=a.json https://a.org/x":                                {"https://a.org/x", "a.json"},
		"nc localhost 80; nc -l 80; nc -zv a.org 20-30":                          {"a.org localhost", ""},
		"ping -c 3 localhost":                                                    {"localhost", ""},
		"dig @127.0.0.1 a.org MX +short":                                         {"127.0.0.1 a.org", ""},
		"ssh -p 22 -i key root@a.org ls b.org":                                   {"a.org", "key"},
		"scp -i key a root@a.org:b ./c:d [::1]:e":                                {"[::1] a.org", "key"},
		"rsync -av a b.org:c d@e.org::f":                                         {"b.org e.org", "a b.org:c d@e.org::f"},
		"http POST :3000/x a=b f@c":                                              {"localhost:3000", "c"},
		"socat - TCP:a.org:80,nodelay; socat - TCP6:[::1]:80":                    {"[::1]:80 a.org:80", ""},
		"git clone git@a.org:b/c":                                                {"a.org", ""},
		"git clone -b main --depth 1 a.org:b dir":                                {"a.org", ""},
		"git clone ./a:b; git clone ../a":                                        {"", ""},
		"git push origin HEAD:main; git fetch -j 4 a.org:x c:d":                  {"a.org", ""},
		"git push --repo=a.org:b; git archive --remote=b.org:c HEAD:d":           {"a.org b.org", ""},
		"git remote add x git@a.org:b; git submodule add b.org:c d":              {"a.org b.org", ""},
		"timeout 5 curl -o a.json -d u=http://d.org b.org":                       {"b.org", "a.json"},
		"env U=http://a.org/ frob u=http://b.org":                                {"http://a.org/ http://b.org", ""},
		"U=http://a.org; curl $U":                                                {"http://a.org", ""},
		"find . -exec curl {} http://a.org/{} \\;":                               {"http://a.org/{}", "."},
		"frob https://a.org/*":                                                   {"https://a.org/*", ""},
		"grep -rn https://a.org .":                                               {"", "."},
		"echo http://a.org > b; sed -i s#http://a#http://b# c":                   {"", "b"},
		"echo http://a.org > b; ./c b":                                           {"http://a.org", "b"},
		"timeout 5 grep -rn 'https://' . > b":                                    {"", ". b"},
		"pip install git+https://a.org/b":                                        {"https://a.org/b", ""},
		"echo http://a.org | xargs curl":                                         {"http://a.org", ""},
	} {
		a := Scope{Network: true}.Classify(line)
		if got := strings.Join(a.Hosts, " "); got != want.hosts {
			t.Errorf("%q: hosts %q, want %q", line, got, want.hosts)
		}
		if got := strings.Join(a.Paths, " "); got != want.paths {
			t.Errorf("%q: paths %q, want %q", line, got, want.paths)
		}
	}
}

// Where an address is known only when the line runs, or does not stand in it, a policy that
// allows the network gets to see that.
func TestAddressesThatAreNotSeen(t *testing.T) {
	for line, want := range map[string]string{
		"curl $X": "shell.expansion", "curl \"https://$X/\"": "shell.expansion", "curl -o a$X https://a.org": "shell.expansion", "curl https://a.org?x=1": "shell.expansion",
		"curl https://a.or?": "shell.expansion", "curl *": "shell.expansion", "curl [::1]": "shell.expansion", "curl -*": "shell.expansion", "xargs curl {}": "shell.expansion",
		"curl -K conf": "shell.flag", "curl --unix-socket s a.org": "shell.flag", "curl --resolve a.org:80:b a.org": "shell.flag", "wget -i list": "shell.flag",
		"wget -e http_proxy=a b.org": "shell.flag", "rsync -e ./x a b:c": "shell.flag", "socat - EXEC:id": "shell.flag",
		"curl https://a.org/b?c=d": "", "curl 'https://a.org?x=1'": "", "curl -sSL -o x https://a.org/*": "",
	} {
		var got string
		for _, f := range (Scope{Network: true}).Classify(line).Findings {
			if f.Rule == "shell.expansion" || f.Rule == "shell.flag" {
				got = f.Rule
			}
		}
		if got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// A reason shows what it speaks of as it stands in the line.
func TestReasonsQuote(t *testing.T) {
	for line, want := range map[string]string{
		`ls $'\x2d'l`: `"$'\x2d'l"`, `ls "$PATH"`: `'"$PATH"'`, `sed "1e\nls" a`: `"1e\nls"`, `ls "$A"'$'`: `"'$A''$'"`, `printf -v P x`: `"-v"`, "ls $A`": "", "frob! a": `"frob!"`,
	} {
		if a := Classify(line); !strings.Contains(a.Reason, want) {
			t.Errorf("%s: %s", line, a.Reason)
		}
	}
}

// Every finding is there once, in the order of the line, and the decision is the
// strictest of them.
func TestFindings(t *testing.T) {
	a := Scope{Network: true}.Classify("mv a b; rm c; mv d e; curl https://example.com/")
	var got []string
	for _, f := range a.Findings {
		got = append(got, f.Rule+" "+string(f.Decision))
	}
	if want := []string{"shell.move-copy ask", "shell.remove deny", "shell.network ask"}; !slices.Equal(got, want) || a.Decision != Deny || a.Reason != a.Findings[1].Reason {
		t.Errorf("%q, want %q: %+v", got, want, a)
	}
	for _, r := range Rules() {
		if r.Rule == "" || r.Decision == "" || r.Reason == "" {
			t.Errorf("%+v", r)
		}
	}
	if n := len(Rules()); n != len(rules) {
		t.Errorf("%d rules of %d", n, len(rules))
	}
}
