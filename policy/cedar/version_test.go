package cedar

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/sluice-run/sluice/policy"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/version.txt anew")

// A verdict may change only together with the version of the policy.
func TestVersionChangesWithVerdicts(t *testing.T) {
	h := sha256.New()
	s := theDefault(t)
	for _, row := range table(t, "requests.txt") {
		v := policy.Judge(s, request(t, row.at, row.value))
		fmt.Fprintf(h, "%s %s %s %v\n", row.value, v.Decision, v.Code, v.Policies)
	}
	for _, row := range table(t, "shell.txt") {
		v := s.Authorize(call(line(row.value)))
		fmt.Fprintf(h, "%q %s %s %v\n", row.value, v.Decision, v.Code, v.Policies)
	}
	for _, c := range verdicts {
		v := policies(t, c.text).Authorize(c.r)
		fmt.Fprintf(h, "%s %s %s %v\n", c.name, v.Decision, v.Code, v.Policies)
	}
	got := fmt.Sprintf("%s %x\n", s.Version(), h.Sum(nil)[:8])
	if *rewrite {
		if err := os.WriteFile("testdata/version.txt", []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/version.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("version and verdicts are %swere %sif a verdict changed and no text did, change Engine; then run with -rewrite", got, want)
	}
}
