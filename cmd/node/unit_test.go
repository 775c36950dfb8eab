package main

import (
	"bufio"
	"bytes"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/cmd/internal/exit"
)

// TestTheServicesUnit starts what there is, with flags that there are, waits for a drain,
// does not start a wrong setting again, and leaves commands their containment: what
// docs/sandbox.md says must be left out is.
func TestTheServicesUnit(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/systemd/sluice-node.service")
	if err != nil {
		t.Fatal(err)
	}
	is := make(map[string]string)
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), "="); ok && !strings.HasPrefix(name, "#") {
			is[name] = value
		}
	}
	words := strings.Fields(is["ExecStart"])
	if len(words) < 2 || !strings.HasSuffix(words[0], "/"+name) || words[1] != "serve" {
		t.Fatalf("it starts %q", words)
	}
	config := slices.Index(words, "--config")
	args := slices.Delete(words[1:], config-1, config+1)
	var out, said bytes.Buffer
	if code := run(t.Context(), append([]string{"config"}, args[1:]...), nil, &out, &said); code != 0 || !strings.Contains(out.String(), "/var/lib/sluice") {
		t.Errorf("its flags: exit %d, %s%s", code, &out, &said)
	}
	stop, err := strconv.Atoi(is["TimeoutStopSec"])
	set := newSettings()
	set.nodeFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	if err != nil || time.Duration(stop)*time.Second < 2*set.drain || set.drain == 0 {
		t.Errorf("it is killed after %q s, and drains for %v", is["TimeoutStopSec"], set.drain)
	}
	if is["RestartPreventExitStatus"] != strconv.Itoa(exit.Usage) || is["KillMode"] != "mixed" || is["NoNewPrivileges"] != "yes" {
		t.Errorf("%v", is)
	}
	doc, err := os.ReadFile("../../docs/sandbox.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| systemd \| leave (.*) out of`).FindSubmatch(doc)
	if row == nil {
		t.Fatal("docs/sandbox.md does not say what a unit must leave out")
	}
	for _, m := range regexp.MustCompile("`([A-Za-z]+)=").FindAllSubmatch(row[1], -1) {
		if _, has := is[string(m[1])]; has {
			t.Errorf("it sets %s", m[1])
		}
	}
}
