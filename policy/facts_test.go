package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events"
)

func TestLookAtPaths(t *testing.T) {
	for given, want := range map[string]PathFact{
		"":                   {Clean: ".", Inside: true},
		".":                  {Clean: ".", Inside: true},
		"./":                 {Clean: ".", Inside: true},
		"/w":                 {Clean: ".", Inside: true},
		"/w/":                {Clean: ".", Inside: true},
		"a//b/./c/":          {Clean: "a/b/c", Inside: true},
		"/w//a/b":            {Clean: "a/b", Inside: true},
		"../a":               {Clean: "../a"},
		"a/../b":             {Clean: "a/../b"},
		"%2e%2e/a":           {Clean: "%2e%2e/a"},
		"/etc/passwd":        {Clean: "/etc/passwd"},
		".git/hooks/post":    {Clean: ".git/hooks/post", Inside: true, Git: true},
		"a/.GIT /x":          {Clean: "a/.GIT /x", Inside: true, Git: true},
		"sub/HEAD":           {Clean: "sub/HEAD", Inside: true, Git: true},
		"a/GIT~1/config":     {Clean: "a/GIT~1/config", Inside: true, Git: true},
		".gitignore":         {Clean: ".gitignore", Inside: true},
		"a/./.claude/x":      {Clean: "a/.claude/x", Inside: true, Starts: true},
		"a\x00b":             {Clean: "a\x00b"},
		"secrets/\u202ea.go": {Clean: "secrets/\u202ea.go"},
	} {
		f := Look(Request{Workspace: "/w", Op: events.Operation{Class: events.OpRead, Paths: []string{given}}})
		if len(f.Paths) != 1 {
			t.Fatalf("%q: %+v", given, f)
		}
		got := f.Paths[0]
		if (got.Why == "") != got.Inside {
			t.Errorf("%q: inside is %v, and why is %q", given, got.Inside, got.Why)
		}
		if got.Clean != want.Clean || got.Inside != want.Inside || got.Git != want.Git || got.Starts != want.Starts || got.Text != given {
			t.Errorf("%q: %+v, want %+v", given, got, want)
		}
	}
}

func TestLookAtHosts(t *testing.T) {
	for given, want := range map[string]HostFact{
		"example.com":                     {Name: "example.com", Public: true},
		"EXAMPLE.com.:443":                {Name: "example.com", Port: "443", Public: true},
		"https://Example.com:443/a?b=c#d": {Name: "example.com", Port: "443", Scheme: "https", Public: true},
		"https://example.com/":            {Name: "example.com", Scheme: "https", Public: true},
		"example.com/path":                {Name: "example.com", Public: true},
		"example.com:8080":                {Name: "example.com", Port: "8080"},
		"http://[::1]:80/":                {Name: "::1", Port: "80", Scheme: "http"},
		"::1":                             {Name: "::1"},
		"localhost":                       {Name: "localhost"},
		"http://u@example.com/":           {Name: "http://u@example.com/"},
		"ftp://example.com/":              {Name: "ftp://example.com/"},
		"http://a b/":                     {Name: "http://a b/"},
		"":                                {Name: ""},
	} {
		f := Look(Request{Op: events.Operation{Class: events.OpRead, Hosts: []string{given}}})
		if len(f.Hosts) != 1 {
			t.Fatalf("%q: %+v", given, f)
		}
		got := f.Hosts[0]
		if (got.Why == "") != got.Public {
			t.Errorf("%q: public is %v, and why is %q", given, got.Public, got.Why)
		}
		if got.Name != want.Name || got.Port != want.Port || got.Scheme != want.Scheme || got.Public != want.Public {
			t.Errorf("%q: %+v, want %+v", given, got, want)
		}
	}
}

// Where an argument holds a URL, it is looked at as one; a host without a scheme is none.
func TestLookAtURLsInArguments(t *testing.T) {
	f := Look(Request{
		Args: []byte(`{"url":"example.com","more":{"endpoint":["https://a.example/","https://a.example/"]},"note":"https://b.example/"}`),
		Op:   events.Operation{Class: events.OpNetwork, Hosts: []string{"example.com"}},
	})
	var got []string
	for _, h := range f.Hosts {
		got = append(got, fmt.Sprint(h.Text, " ", h.Public, " ", h.Path))
	}
	if want := []string{"example.com false /url", "https://a.example/ true /more/endpoint/0", "example.com true "}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLookAtLines(t *testing.T) {
	f := Look(Request{
		Network: true, Workspace: "/w", Args: []byte(`{"command":"mv a b; rm /w/c; mv d e; curl https://example.com/","cmd":"sudo ls"}`),
		Op: events.Operation{Class: events.OpExecute, Commands: []string{"ignored"}},
	})
	var got []string
	for _, d := range f.Deeds {
		got = append(got, fmt.Sprint(d.Rule, " ", d.Decision, " ", d.Path))
	}
	want := []string{"shell.move-copy ask /command", "shell.remove deny /command", "shell.network ask /command", "shell.superuser deny /cmd"}
	if !slices.Equal(got, want) || !f.Line || f.Worst.Decision != Deny || f.Worst.Path != "/command" || !strings.HasPrefix(f.Worst.Reason, `"rm" deletes`) {
		t.Errorf("%q, want %q\n%+v", got, want, f)
	}
	if len(f.Hosts) != 1 || f.Hosts[0].Name != "example.com" || f.Hosts[0].Path != "/command" || !slices.ContainsFunc(f.Paths, func(p PathFact) bool { return p.Clean == "c" && p.Path == "/command" }) {
		t.Errorf("%+v", f)
	}
	if f := Look(shellRequest("ls -l")); len(f.Deeds) != 1 || f.Deeds[0].Rule != "shell.read" || f.Deeds[0].Unjudged() {
		t.Errorf("%+v", f.Deeds)
	}
	for line, unjudged := range map[string]bool{"echo 'x": true, "": true, "\x1b": true, "rm x": false, "$(ls)": false, "make": false} {
		f := Look(shellRequest(line))
		if got := slices.ContainsFunc(f.Deeds, Deed.Unjudged); got != unjudged {
			t.Errorf("%q: unjudged is %v: %+v", line, got, f.Deeds)
		}
	}
	if f := Look(Request{Op: events.Operation{Class: events.OpRead, Commands: []string{"rm x"}}}); f.Line || f.Deeds != nil {
		t.Errorf("a call that does not execute has a line: %+v", f)
	}
}

// More than can be looked at is said, and not left out.
func TestLookHasBounds(t *testing.T) {
	many := func(n int, format string) []string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf(format, i))
		}
		return out
	}
	if f := Look(Request{Op: events.Operation{Class: events.OpRead, Paths: many(MaxPaths, "a%d"), Hosts: many(MaxHosts, "a%d.example")}}); f.Excess.Decision != "" || len(f.Paths) != MaxPaths || len(f.Hosts) != MaxHosts {
		t.Errorf("%d paths, %d hosts: %+v", len(f.Paths), len(f.Hosts), f.Excess)
	}
	for name, op := range map[string]events.Operation{
		"paths": {Class: events.OpRead, Paths: many(MaxPaths+1, "a%d")},
		"hosts": {Class: events.OpRead, Hosts: many(MaxHosts+1, "a%d.example")},
	} {
		if f := Look(Request{Op: op}); f.Excess.Decision != Deny || f.Excess.Code != events.TooLarge || !oneSentence(f.Excess.Reason) || len(f.Excess.Policies) != 1 {
			t.Errorf("%s: %+v", name, f.Excess)
		}
	}
	urls := `{"urls":["` + strings.Join(many(MaxHosts+1, "https://a%d.example/"), `","`) + `"]}`
	if f := Look(Request{Args: []byte(urls), Op: events.Operation{Class: events.OpNetwork}}); f.Excess.Decision != Deny || len(f.Hosts) != MaxHosts {
		t.Errorf("%d hosts: %+v", len(f.Hosts), f.Excess)
	}
}

func TestLeaves(t *testing.T) {
	for args, want := range map[string]string{
		`{}`:                                "true",
		`[]`:                                "true",
		`{"a":1,"b":{"c":["x",null,true]}}`: "true /a=1 /b/c/0=\"x\" /b/c/1=null /b/c/2=true",
		`{"a/b":{"~":-1.5e3}}`:              "true /a~1b/~0=-1.5e3",
		`{"a":1,"a":2}`:                     "true /a=1 /a=2",
		` 5 `:                               "true =5",
		``:                                  "false",
		`{`:                                 "false",
		`{"a":1`:                            "false /a=1",
		`{"a":1} 2`:                         "false /a=1",
		`tru`:                               "false",
		`{"a":[1,2,3,4,5,6,7,8]}`:           "false /a/0=1 /a/1=2 /a/2=3 /a/3=4 /a/4=5 /a/5=6",
		strings.Repeat(`[`, 18) + `1` + strings.Repeat(`]`, 18): "false",
	} {
		leaves, ok := Leaves([]byte(args), 5)
		got := fmt.Sprint(ok)
		for _, l := range leaves {
			got += fmt.Sprintf(" %s=%s", l.Path, l.Raw)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}

func FuzzLook(f *testing.F) {
	f.Add("execute", `{"command":"ls"}`, "a", "b")
	f.Add("network", `{"url":["http://x"]}`, "", "h:1")
	f.Add("write", `{"path":`, "../a", "[::]")
	f.Fuzz(func(t *testing.T, class, args, path, host string) {
		r := Request{Network: true, Workspace: "/w", Args: []byte(args), Op: events.Operation{Class: events.OpClass(class), Paths: []string{path}, Hosts: []string{host}}}
		x := Look(r)
		if fmt.Sprintf("%+v", x) != fmt.Sprintf("%+v", Look(r)) {
			t.Fatalf("%+v says two things", r)
		}
		for _, p := range x.Paths {
			if p.Inside != (p.Why == "") || p.Inside && (p.Clean == "" || strings.HasPrefix(p.Clean, "/") || p.Clean == ".." || strings.HasPrefix(p.Clean, "../")) {
				t.Errorf("%+v", p)
			}
		}
		for _, h := range x.Hosts {
			if h.Public != (h.Why == "") {
				t.Errorf("%+v", h)
			}
		}
		if x.Line != (x.Deeds != nil) || x.Line != (x.Worst.Decision != "") {
			t.Errorf("%+v", x)
		}
		Leaves([]byte(args), 100)
	})
}
