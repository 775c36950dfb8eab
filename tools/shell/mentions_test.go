package shell

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Of a line that runs a file, all that it names is bound, since what it runs may be made
// of that.
func TestBound(t *testing.T) {
	for line, want := range map[string]string{
		"cp s12.txt r.sh && sh r.sh":              "r.sh s12.txt",
		"mv s13.txt r2.sh && sh r2.sh":            "r2.sh s13.txt",
		"cat s14.txt > r3.sh; sh r3.sh":           "r3.sh s14.txt",
		"cat a b | tee c; ./c":                    "c a b",
		"tee c < a; sh c":                         "c a",
		"sed -i s/x/y/ r.sh; sh r.sh":             "r.sh s/x/y",
		"dd if=a of=b; sh b":                      "b a if=a of=b",
		"cp --target-directory=d a; sh d/a":       "d/a d a",
		"tar -xfa.tar; ./configure":               "configure fa.tar a.tar .tar",
		"tar xf a.tar && ./configure":             "configure xf a.tar",
		"for f in a b; do cat $f; done > c; sh c": "c a b",
		"A=a; cp $A r.sh; sh r.sh":                "r.sh a",
		"L=(a b); cp ${L[0]} r.sh; sh r.sh":       "r.sh a b",
		"cd sub && cp a b && sh b":                "sub/b sub/a a b",
		"sh -c 'cp a b; sh b'":                    "b|a|cp a b; sh b",
		"ln -s a b; . ./b":                        "b a",
		"git apply p.patch && python x.py":        "x.py apply p.patch",
		"echo hello > r.sh; sh r.sh":              "r.sh hello",
		"cd no; sh s.sh":                          "no/s.sh s.sh",
		"cd a; cd b; cp c d; ./d":                 "a/b/d a/b/c c a/c d a/d",
		"pushd a; popd; sh s.sh":                  "s.sh a/s.sh",
		"cp a r.sh; sh *.sh":                      "a r.sh",
		"cp /w/a r.sh; sh r.sh":                   "r.sh /w/a",
		"cp a b":                                  "",
		"cat a | grep b":                          "",
		"find . -exec cp a {} ';'":                "",
		"cp a ../b; cp c ~/d; cp /etc/e f; sh f":  "f a c",
	} {
		sep := " "
		if strings.Contains(want, "|") {
			sep = "|"
		}
		if got := strings.Join(bound(line), sep); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
	tool, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	args := json.RawMessage(`{"command":"cp a b && sh b"}`)
	if got := tool.Operands(args); !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("the tool: %q", got)
	}
}

// What a line runs without naming it is said.
func TestUnbound(t *testing.T) {
	const none, some, much = "names are known only when it runs, and", "some names in the line", "more files than"
	many := "sh s.sh"
	for i := range maxOperands {
		many += fmt.Sprint(" f", i)
	}
	for line, want := range map[string]string{
		"sh *.sh": none, "./$x": none, `sh "$x"`: none, "$CMD": none, ". *.sh": none, "source $x": none, "sh < $x": none, "cat *.sh | sh": none, "ls *.sh | xargs sh": none,
		"find . -name '*.sh' -exec sh {} ';'": none, "find . -exec {} ';'": none, "cd $X && sh s.sh": none, `eval "$x"`: none, `sh -c "$x"`: none, "bash <(cat $x)": none,
		"timeout 5 sh *.sh": none, "python $x": none, "make -f $X": none,
		"cp a/* b && sh b/x": some, "sh s.sh; ./$x": some, "cat $A > b; sh b": some, "cd $X && sh s.sh; cd /w && ./t": some, "sh s.sh && cp a $B": some,
		"printf 'evil\\n' | xargs cat > b; sh b": some, "cat $(echo evil) > b; sh b": some, "pushd a; popd; sh s.sh": none, "cd -; cp a b; sh b": none, strings.Repeat("cd a;", 20) + "sh b": some,
		many:      much,
		"sh s.sh": "", "cp a r.sh && sh r.sh": "", "cp $A b": "", "ls *.go": "", "grep $x f": "", "sed -n \"$x\" f": "", "echo 'rm x' | sh": "", "python x.py a b": "", "mv a b": "",
	} {
		got := unbound(line)
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%.60s: %q, want %q", line, got, want)
		}
	}
}

// However a line makes the file that it then runs, what it makes it of is bound.
func TestWhatIsMadeIsBound(t *testing.T) {
	makes := []string{
		"cp evil b", "mv evil b", "ln -s evil b", "install -m 755 evil b", "cat evil > b", "cat < evil > b", "tee b < evil", "cat evil | tee b", "sed -n p evil > b", "dd if=evil of=b",
		"patch b evil", "patch -ievil b", "rsync evil b", "env cp evil b", "find evil -exec cp evil b ';'", "sh -c 'cp evil b'", "X=evil; cp $X b", "for x in evil; do cp $x b; done",
		"awk 1 evil > b", "cp --target-directory=. evil", "cp -t . evil", "head -n 9 evil >> b", "{ cat evil; } > b", "(cat evil) > b", "x=(evil); cp ${x[0]} b", "cat evil >| b", "cat b <(cat evil)",
		"echo evil | xargs cat > b", "cat $(echo evil) > b", "cd none; cp evil b", "read x < evil; echo $x > b", "printf %s \"$(< evil)\" > b", "pushd a; popd; cp evil b",
	}
	runs := []string{"sh b", "./b", ". ./b", "bash -x b", "cat b | sh", "sh < b", "timeout 5 ./b", "sh *", "$X", "make", "python3 b"}
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SampledFrom(makes).Draw(t, "makes") + rapid.SampledFrom([]string{"; ", " && ", " & ", "\n", " || "}).Draw(t, "joint") + rapid.SampledFrom(runs).Draw(t, "runs")
		for range rapid.IntRange(0, 2).Draw(t, "depth") {
			line = strings.Replace(rapid.SampledFrom(aroundAny).Draw(t, "around"), "%", line, 1)
		}
		if !slices.Contains(bound(line), "evil") {
			t.Fatalf("%s: %q", line, bound(line))
		}
	})
}
