package cedar

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/policy/shell"
)

func load(texts ...string) (*Set, error) {
	var files []File
	for i, text := range texts {
		files = append(files, File{string(rune('a'+i)) + ".cedar", []byte(text)})
	}
	return Load(files, Options{})
}

const any3 = "(principal, action, resource);"

var tooDeep = strings.Repeat("(", MaxNested+1) + "true" + strings.Repeat(")", MaxNested+1)

// refused are texts that are no policy, and what must be said of them.
var refused = []struct{ name, text, want string }{
	{"nothing", "", "a.cedar: there is no policy"},
	{"only a comment", "// hello\n/* and */", "there is no policy"},
	{"no comma", "permit (principal, action resource);", "a.cedar:1:27: here is resource, where Cedar wants ,"},
	{"no end", "permit (principal, action, resource)", "a.cedar:1:37: here is the end of the file, where Cedar wants ;"},
	{"an open string", "permit" + any3 + "\nforbid (principal, action, resource) when { \"a };", "a.cedar:2:45: literal not terminated"},
	{"an open comment", "permit" + any3 + " /* a", "comment not terminated"},
	{"another language", "{\"effect\": \"permit\"}", "a.cedar:1:"},
	{"an effect there is not", "@id(\"a\") ask" + any3, "a.cedar:1:13: unexpected effect: ask"},

	{"an unknown annotation", "@aks(\"why\") permit" + any3, "a.cedar:1:2: there is no annotation @aks: those are @id, @ask, @reason, @code, @pointer, @doc; is ask meant?"},
	{"a capital annotation", "@Ask(\"why\") permit" + any3, "is ask meant?"},
	{"two of one annotation", "@ask(\"why\") @ask(\"why\") permit" + any3, "duplicate annotation: @ask"},
	{"an ask that says nothing", "@ask permit" + any3, "a.cedar:1:2: @ask: the sentence is empty"},
	{"an ask of a forbid", "@ask(\"why\") forbid" + any3, "@ask belongs on a permit"},
	{"two sentences", "@ask(\"why\") @reason(\"x\") permit" + any3, "@ask has the sentence already"},
	{"a place that nothing fills", "@reason(\"{who}\") permit" + any3, "nothing fills"},
	{"a place that does not end", "@reason(\"{why\") permit" + any3, "nothing fills"},
	{"a hidden sentence", "@reason(\"a\\u{202e}b\") permit" + any3, "control or invisible"},
	{"a line break in a sentence", "@reason(\"a\\nb\") permit" + any3, "control or invisible"},
	{"a long sentence", "@reason(\"" + strings.Repeat("a", maxSentence+1) + "\") permit" + any3, "at most 600"},
	{"an unknown code", "@code(\"NOPE\") forbid" + any3, "@code(\"NOPE\")"},
	{"a code of a permit", "@code(\"ACCESS_DENIED\") permit" + any3, "it belongs on a forbid"},
	{"a pointer that is none", "@pointer(\"path\") forbid" + any3, "want the JSON Pointer"},

	{"an id with a blank", "@id(\"a b\") permit" + any3, "a.cedar:1:2: the id \"a b\" is not 1 to 64"},
	{"an empty id", "@id(\"\") permit" + any3, "is not 1 to 64"},
	{"a long id", "@id(\"" + strings.Repeat("a", maxID+1) + "\") permit" + any3, "is not 1 to 64"},
	{"an id twice", "@id(\"a\") permit" + any3 + "\n@id(\"a\") permit" + any3, "a.cedar:2:2: the id a stands at a.cedar:1:1 already"},
	{"an id in three halves", "@id(\"a\") forbid" + any3 + "@id(\"a\") permit" + any3 + "@id(\"a\") forbid" + any3, "already"},
	{"halves apart", "@id(\"a\") forbid" + any3 + "permit" + any3 + "@id(\"a\") permit" + any3, "already"},
	{"a derived id twice", "@id(\"a.2\") forbid" + any3 + "permit" + any3, "the id a.2 stands at a.cedar:1:1 already"},
	{"an id of the program", "@id(\"tool.unknown\") forbid" + any3, "one of the program's own"},
	{"the default's id", "@id(\"default.deny\") forbid" + any3, "one of the program's own"},
	{"the allow gate's id", "@id(\"allow.list\") forbid" + any3, "one of the program's own"},

	{"an unknown action", "permit (principal, action == Action::\"reed\", resource);", "a.cedar:1:38: there is no Action::\"reed\": those are delegate, execute, network, read, write; is read meant?"},
	{"an unknown action in a list", "permit (principal, action in [Action::\"read\", Action::\"x\"], resource);", "a.cedar:1:55: there is no Action::\"x\""},
	{"an unknown action in a condition", "permit (principal, action, resource) when { action == Action::\"x\" };", "there is no Action::\"x\""},
	{"an unknown type", "permit (principal is Foo, action, resource);", "a.cedar:1:22: unrecognized entity type"},
	{"an unknown type of an entity", "permit (principal == Agnt::\"a\", action, resource);", "there is no entity type Agnt: those are"},
	{"a resource as a principal", "permit (principal is Tool, action, resource);", "no call fits this scope"},
	{"an action as a resource", "permit (principal, action, resource == Action::\"read\");", "no call fits this scope"},
	{"an unknown deed", "permit (principal, action, resource == Shell::\"remve\");", "is remove meant?"},
	{"an unknown mode", "permit (principal, action, resource) when { context.mode == Mode::\"readonly\" };", "is read_only meant?"},
	{"a mode as a text", "permit (principal, action, resource) when { context.mode == \"read_only\" };", "a String and a Mode are never equal: a Mode is written Mode::\"read_only\""},
	{"an unknown tier", "permit (principal, action, resource) when { context.tier == Tier::\"none\" };", "those are approval, irreversible, readonly, reversible"},
	{"an empty name", "permit (principal == Agent::\"\", action, resource);", "is never empty"},

	{"an unknown attribute", "permit (principal, action, resource is Path) when { resource.insde };", "a.cedar:1:62: nothing has an attribute \"insde\""},
	{"an attribute of some", "permit (principal, action, resource) when { resource.inside };", "only Path; ask first, for example: resource is Path && resource.inside"},
	{"an unknown attribute of the context", "permit (principal, action, resource) when { context.mod == context.mode };", "context has no attribute \"mod\""},
	{"a question that is always answered no", "forbid (principal, action, resource) when { context has clock };", "a.cedar:1:57: context never has \"clock\""},
	{"the same, quoted", "forbid (principal, action, resource) when { context has \"clock\" };", "context never has \"clock\""},
	{"the same, chained", "forbid (principal, action, resource) when { context has args.order };", "a.cedar:1:62: this never has \"order\""},
	{"the same, of a resource", "forbid (principal, action, resource) when { resource has owner };", "resource never has \"owner\""},
	{"the same, of a principal", "forbid (principal, action, resource) unless { principal has team };", "principal never has \"team\""},
	{"a tag that may not be there", "permit (principal, action, resource) when { context.args.getTag(\"/a\") == \"x\" };", "getTag of what may not be there"},
	{"another tag than asked for", "permit (principal, action, resource) when { context.args.hasTag(\"/b\") && context.args.getTag(\"/a\") == \"x\" };", "getTag of what may not be there"},
	{"a text as a number", "permit (principal, action, resource) when { context.args.hasTag(\"/a\") && context.args.getTag(\"/a\") > 5 };", "unexpected type"},
	{"an attribute of a name", "permit (principal, action, resource) when { Path::\"src\".inside };", "is asked of what has no attributes"},
	{"an attribute of a record", "permit (principal, action, resource) when { {a: true}.a };", "is asked of what has no attributes"},
	{"an attribute of an action", "permit (principal, action, resource) when { action.id == \"read\" };", "a.cedar:1:"},
	{"a tag that is no pointer", "permit (principal, action, resource) when { context.args.hasTag(\"order\") && context.args.getTag(\"order\") == \"x\" };", "write its JSON Pointer, \"/order\""},
	{"a number that is no pointer", "permit (principal, action, resource) when { context.numbers.hasTag(\"\") };", "write its JSON Pointer"},
	{"a deed of what is no line", "permit (principal, action == Action::\"write\", resource == Shell::\"remove\");", "no call fits this scope"},
	{"a tag of a resource", "permit (principal, action, resource) when { resource.hasTag(\"a\") };", "only context.args and context.numbers have tags"},
	{"a tag of a name", "permit (principal, action, resource) when { Text::\"args\".hasTag(\"a\") && Text::\"args\".getTag(\"a\") == \"b\" };", "only context.args and context.numbers have tags"},
	{"no yes or no", "permit (principal, action, resource) when { 1 };", "a.cedar:1:38: unexpected type: here a Long stands, where a Bool is wanted"},
	{"a number in quotes", "permit (principal, action, resource)\nwhen { context.weekday < \"3\" };", "a.cedar:2:26: unexpected type: here a String stands, where a Long is wanted: numbers are written without quotes"},
	{"a sum of other things", "permit (principal, action, resource) unless { context.weekday + true == 1 };", "a.cedar:1:65: unexpected type: here a Bool stands, where a Long is wanted"},
	{"a wrong comparison of several", "permit (principal, action, resource) when { context.weekday > 1 && context.mode > 2 };", "a.cedar:1:38: unexpected type: here a Mode stands"},
	{"a wrong type in one of several conditions", "permit (principal, action, resource) when { context.named } when { context.weekday };", "a.cedar:1:1: unexpected type"},
	{"tools in a list", "permit (principal, action, resource in [Tool::\"a\", Tool::\"b\"]);", "for example: when { resource in [Tool::\"a\", Tool::\"b\"] }"},
	{"principals in a list", "permit (principal in [Agent::\"a\"], action, resource);", "for example: when { principal in [Agent::\"a\", Agent::\"b\"] }"},
	{"a list that does not end", "permit (principal, action, resource in [", "a.cedar:1:"},
	{"nothing but the beginning of an annotation", "@a", "a.cedar:1:"},
	{"a list behind ==", "permit (principal, action == [Action::\"read\"], resource);", "a list stands behind in, not behind =="},
	{"an annotation without its text", "@ask() permit" + any3, "an annotation has a text, for example @ask("},
	{"a second annotation without its text", "@ask(\"x\") @reason( ) permit" + any3, "an annotation has a text, for example @ask("},

	{"a principal without its type", "forbid (principal == \"bob\", action, resource);", "a name stands behind its type, for example Agent::\"bob\""},
	{"an action without its type", "forbid (principal, action == \"read\", resource);", "a name stands behind its type, for example Action::\"read\""},
	{"a resource without its type", "forbid (principal, action, resource in \"src\");", "a name stands behind its type, for example Tool::\"src\""},
	{"a number with a point", "permit (principal, action, resource) when { context.weekday > 3.5 };", "numbers are whole"},
	{"a number beyond bounds", "permit (principal, action, resource)\nwhen { 9223372036854775808 > 1 };", "a.cedar:2:8: the number is beyond 64 bits"},
	{"no effect that there is", "allow (principal, action, resource);", "a policy begins with permit or forbid"},
	{"an empty condition", "permit (principal, action, resource) unless { };", "a condition is not empty"},
	{"an argument as an attribute", "forbid (principal, action, resource) when { context.args.command == \"x\" };", "an argument is asked for by its JSON Pointer, and only where there is one: context.args.hasTag(\"/command\") && context.args.getTag(\"/command\")"},

	{"an absolute path", "forbid (principal, action, resource in Path::\"/etc\");", "no path is called \"/etc\""},
	{"a path with a slash at its end", "forbid (principal, action, resource in Path::\"secrets/\");", "no path is called \"secrets/\""},
	{"a path with a dot", "forbid (principal, action, resource in Path::\"./secrets\");", "no path is called"},
	{"a path up", "forbid (principal, action, resource in Path::\"../secrets\");", "no path is called"},
	{"a host with a port", "forbid (principal, action, resource == Host::\"example.com:443\");", "no host is called"},
	{"a host in capitals", "forbid (principal, action, resource == Host::\"Example.com\");", "no host is called"},
	{"a host with a star", "forbid (principal, action, resource == Host::\"*.example.com\");", "no host is called"},
	{"a URL as a host", "forbid (principal, action, resource == Host::\"https://example.com\");", "no host is called"},

	{"a tool with a star", "forbid (principal, action, resource == Tool::\"mcp__*\");", "no tool is called \"mcp__*\": a name is 1 to 64 of A-Z a-z 0-9 _ -, and no pattern; for several tools write a condition, resource is Tool && resource.name like \"mcp__*\""},
	{"a tool with a dot", "forbid (principal, action, resource) when { resource in [Tool::\"github.issues\"] };", "no tool is called"},

	{"a byte order mark", "\xef\xbb\xbfpermit" + any3, "save it as plain UTF-8"},
	{"UTF-16", "\xff\xfep\x00e\x00", "save it as plain UTF-8"},
	{"UTF-16 without a mark", "p\x00e\x00r\x00", "a.cedar:1:2: the character U+0000 is not visible"},
	{"no UTF-8", "permit" + any3 + "\n// \xff", "a.cedar:2:4: this is not UTF-8"},
	{"a bidirectional override", "permit" + any3 + " // \u202e", "the character U+202E is not visible"},
	{"a zero-width letter in an id", "permit (principal == Agent::\"a\u200b\", action, resource);", "the character U+200B is not visible"},
	{"an escape code", "permit" + any3 + "// \x1b[2J", "U+001B"},

	{"too deep", "permit (principal, action, resource) when { " + tooDeep + " };", "more than 16 brackets are open here"},
	{"too long", "permit (principal, action, resource) when { " + strings.Repeat("true && ", MaxTokens/2) + "true };", "more than 2048 words and signs"},
	{"too many noes", "permit (principal, action, resource) when { " + strings.Repeat("!", MaxTokens) + "true };", "more than 2048 words and signs"},
	{"too many guards", "permit (principal, action, resource) when { " + strings.Repeat("context has mode && ", maxGuards+1) + "true };", "has and hasTag more than 32 times"},
	{"a long guard", "permit (principal, action, resource) when { context has args" + strings.Repeat(".mode", maxGuards+1) + " };", "has and hasTag more than 32 times"},
	{"too many guards in all", strings.Repeat("permit (principal, action, resource) when { "+strings.Repeat("context.args.hasTag(\"/a\") && ", maxGuards)+"true };", 31), "too often"},
	{"too many", strings.Repeat("permit"+any3, MaxPolicies+2), "more than 1000 policies"},
	{"too big", "permit" + any3 + strings.Repeat(" ", MaxFile), "at most 262144"},
}

// What is wrong is named with its place, and the next move.
func TestRefused(t *testing.T) {
	for _, c := range refused {
		t.Run(c.name, func(t *testing.T) {
			s, err := load(c.text)
			if err == nil || s != nil || !errors.Is(err, ErrPolicy) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q in it", err, c.want)
			}
			if len(err.Error()) > 20000 || !utf8.ValidString(err.Error()) || strings.ContainsAny(err.Error(), "\x1b\x00\u202e") {
				t.Errorf("the message is not for a person: %q", err)
			}
			if _, ok := errors.AsType[*Fault](err); !ok {
				t.Errorf("no Fault in %v", err)
			}
		})
	}
}

func TestFilesAreRefusedAsAWhole(t *testing.T) {
	good := "permit" + any3
	if _, err := load(good, "permit (", good); err == nil || !strings.Contains(err.Error(), "b.cedar:1:") {
		t.Errorf("%v", err)
	}
	if _, err := Load([]File{{"a", []byte(good)}, {"a", []byte(good)}}, Options{}); err == nil {
		t.Error("two files of one name are one")
	}
	if _, err := Load(nil, Options{}); err == nil {
		t.Error("no file at all is a policy")
	}
	many := make([]File, MaxFiles+1)
	for i := range many {
		many[i] = File{fmt.Sprintf("%03d.cedar", i), []byte(good)}
	}
	if _, err := Load(many, Options{}); err == nil {
		t.Error("there is no bound on files")
	}
	if _, err := Load(many[:MaxFiles], Options{}); err != nil {
		t.Errorf("%d files: %v", MaxFiles, err)
	}
	big := []byte(good + strings.Repeat(" ", MaxFile-len(good)))
	if _, err := Load([]File{{"a", big}, {"b", big}, {"c", []byte(good)}}, Options{}); err == nil {
		t.Error("there is no bound on all files")
	}
	if _, err := Load([]File{{"a", []byte("@id(\"undo\") permit" + any3)}}, Options{Rules: policy.Rules{{ID: "undo", Version: "1", Judge: func(policy.Request) policy.Finding { return policy.Finding{} }}}}); err == nil {
		t.Error("a policy may be called like a rule of the program")
	}
}

func TestAllFaultsAreNamedUpToABound(t *testing.T) {
	_, err := load(strings.Repeat("@aks(\"x\") permit"+any3+"\n", 30))
	if err == nil || strings.Count(err.Error(), "is ask meant") != maxFaults || !strings.Contains(err.Error(), "and 10 more") {
		t.Errorf("%v", err)
	}
}

func TestIDs(t *testing.T) {
	s, err := Load([]File{{"b team/odd näme.cedar", []byte("permit" + any3 + "@id(\"mine\") forbid" + any3 + "permit" + any3)}, {".cedar", []byte("permit" + any3)}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, p := range s.Policies() {
		ids = append(ids, p.ID)
	}
	if want := []string{"policy.1", "odd-n-me.1", "mine", "odd-n-me.3"}; !slices.Equal(ids, want) {
		t.Errorf("%v, want %v", ids, want)
	}
	if p := s.Find("mine"); len(p) != 1 || p[0].Text != "@id(\"mine\") forbid"+any3 || p[0].Line != 1 || p[0].Column != 37 || !p[0].Forbid {
		t.Errorf("%+v", p)
	}
	if p := s.Find("none"); p != nil {
		t.Errorf("%+v", p)
	}
}

func TestVersion(t *testing.T) {
	v := func(o Options, files ...File) string {
		s, err := Load(files, o)
		if err != nil {
			t.Fatal(err)
		}
		return s.Version()
	}
	a, b := File{"a.cedar", []byte("permit" + any3)}, File{"b.cedar", []byte("@id(\"x\") forbid" + any3)}
	row := policy.Rule{ID: "row", Version: "1", Judge: func(policy.Request) policy.Finding { return policy.Finding{} }}
	next := row
	next.Version = "2"
	all := []string{
		v(Options{}, a), v(Options{}, b), v(Options{}, a, b), v(Options{}, File{"c.cedar", a.Text}), v(Options{}, File{"a.cedar", []byte("permit " + any3)}),
		v(Options{Rules: policy.Rules{row}}, a), v(Options{Rules: policy.Rules{next}}, a),
	}
	if again := v(Options{}, b, a); again != all[2] {
		t.Errorf("%s, then %s: the order of the files as they are given decides", all[2], again)
	}
	for i, x := range all {
		if !strings.HasPrefix(x, "cedar-") || slices.Contains(all[:i], x) {
			t.Errorf("%d: %s in %v", i, x, all)
		}
	}
}

// The engine's name has the version of the library that is built in.
func TestEngineNamesTheLibrary(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	_, lib, _ := strings.Cut(Engine, " ")
	name, version, _ := strings.Cut(lib, " ")
	if !strings.Contains(string(mod), "github.com/cedar-policy/"+name+" "+version+"\n") {
		t.Errorf("Engine is %q, and go.mod has another version: give Engine the new one", Engine)
	}
}

// The schema names what the shell's judge can find, and what the events can hold.
func TestSchemaNamesWhatThereIs(t *testing.T) {
	var rules []string
	for _, r := range shell.Rules() {
		rules = append(rules, strings.TrimPrefix(r.Rule, "shell."))
	}
	slices.Sort(rules)
	k := theSchema()
	if !slices.Equal(rules, k.members[typeShell]) {
		t.Errorf("the shell's rules are\n%v, and the schema has\n%v", rules, k.members[typeShell])
	}
	want := map[string][]string{
		"Mode":   {events.ModeRead, events.ModeWrite},
		"Tier":   {string(events.Approval), string(events.Irreversible), string(events.Readonly), string(events.Reversible)},
		"Action": {"delegate", "execute", "network", "read", "write"},
	}
	for t2, list := range want {
		got := k.members[map[string]types.EntityType{"Mode": typeMode, "Tier": typeTier, "Action": typeAction}[t2]]
		slices.Sort(list)
		if !slices.Equal(got, list) {
			t.Errorf("%s: %v, want %v", t2, got, list)
		}
	}
}

// The default policy decides on its own about every deed that the shell's judge can
// find, and the same as it.
func TestDefaultKnowsEveryDeed(t *testing.T) {
	s := theDefault(t)
	for _, r := range shell.Rules() {
		list := s.Find(r.Rule)
		if len(list) == 0 {
			t.Errorf("%s: the default policy has none of that id", r.Rule)
			continue
		}
		p := list[0]
		if p.Forbid != (r.Decision == shell.Deny) || p.Ask != (r.Decision == shell.Ask) {
			t.Errorf("%s: %+v, want %s", r.Rule, p, r.Decision)
		}
	}
}

func FuzzLoad(f *testing.F) {
	for _, p := range theDefault(f).Policies()[:6] { // the whole of it is slow to make smaller
		f.Add(p.Text)
	}
	f.Add("permit" + any3)
	f.Add("@id(\"a\") @ask(\"{why}\") permit (principal in Agent::\"x\", action in [Action::\"read\"], resource is Path in Path::\"a\") when { if context.network then true else resource.inside } unless { context.numbers.hasTag(\"/a\") && -context.numbers.getTag(\"/a\") * 3 + 1 >= 4 };")
	f.Add("forbid (principal, action, resource) when { [1, 2].containsAll([context.numbers.getTag(\"/a\")]) || {a: {b: ip(\"1.2.3.4\").isInRange(ip(\"0.0.0.0/0\"))}}.a.b };")
	f.Add("permit (principal, action, resource) when { resource like \"a*\\*\" && !!!!true && decimal(\"1.0\").lessThan(decimal(\"2\")) };")
	f.Add("\xef\xbb\xbfpermit\x00 \"\\u{10ffff}\" /* */ @a(\"b\")")
	m := newMaker(f, 1)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := load(text)
		if err != nil {
			if s != nil || !errors.Is(err, ErrPolicy) || !utf8.ValidString(err.Error()) || strings.ContainsAny(err.Error(), "\x1b\x00") {
				t.Fatalf("%v: %q", s, err)
			}
			return
		}
		for range 3 { // what loads can be asked, and says the same every time
			r := m.request()
			v := s.Authorize(r)
			if w := s.Authorize(r); fmt.Sprint(v) != fmt.Sprint(w) {
				t.Fatalf("%+v: %+v, then %+v", r, v, w)
			}
			checkVerdict(t, v)
		}
	})
}

// checkVerdict looks at what every verdict must have.
func checkVerdict(t testing.TB, v policy.Verdict) {
	t.Helper()
	if (v.Code != "") != (v.Decision == policy.Deny) || v.Gate == "" || v.Version == "" || v.Reason == "" || len(v.Policies) == 0 || !slices.IsSorted(v.Policies) ||
		strings.ContainsAny(v.Reason, "\n\x1b\x00\u202e") || len(v.Reason) > 10000 {
		t.Errorf("incomplete: %+v", v)
	}
}
