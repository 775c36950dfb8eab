package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
)

// casesExt ends the names of files of cases.
const casesExt = ".test.yaml"

// Bounds of what is tested at once.
const (
	maxCaseFiles = 1000
	maxCaseFile  = 1 << 20 // bytes
	maxCases     = 20000   // of one file
)

// caseFile is a file of cases.
type caseFile struct {
	Defaults situation  `yaml:"defaults"` // of every case that does not say otherwise
	Cases    []testCase `yaml:"cases"`

	name  string
	lines []int // where each case begins
}

// situation is who calls, and how.
type situation struct {
	Principal *caller   `yaml:"principal"`
	Mode      *string   `yaml:"mode"`      // write (the default) or read_only
	CanAsk    *bool     `yaml:"can_ask"`   // true by default
	Network   *bool     `yaml:"network"`   // the node's by default
	Workspace *string   `yaml:"workspace"` // the node's by default
	Allow     *[]string `yaml:"allow"`     // the turn's allowlist
	Time      *string   `yaml:"time"`      // of the judgement, as 2026-01-31T08:00:00Z; a moment of 2026 by default
	Session   *place    `yaml:"session"`   // none by default
}

// place is where the call of a case belongs.
type place struct {
	Trace     string `yaml:"trace"`
	Turn      string `yaml:"turn"`
	Placement string `yaml:"placement"`
}

// caseTime is when a case is judged that does not say: a Monday noon. It is no today, so
// that a case says the same on any day.
const caseTime = "2026-06-01T12:00:00Z"

type caller struct {
	ID      string   `yaml:"id"`
	Kind    string   `yaml:"kind"`
	Parents []string `yaml:"parents"`
}

// testCase is one call, and what should be decided of it.
type testCase struct {
	Name      string `yaml:"name"`
	situation `yaml:",inline"`
	Tool      string     `yaml:"tool"`
	Args      any        `yaml:"args"`      // of the call; left out: none
	Tier      string     `yaml:"tier"`      // with operation: of a tool that this program does not have
	Operation *operation `yaml:"operation"` // what such a tool says that the call would do

	Expect   string   `yaml:"expect"`   // allow, ask or deny
	Policies []string `yaml:"policies"` // ids that must be among the deciding ones
	Code     string   `yaml:"code"`     // of a deny
	Reason   string   `yaml:"reason"`   // must be a part of the sentence
}

type operation struct {
	Class string   `yaml:"class"`
	Paths []string `yaml:"paths"`
	Hosts []string `yaml:"hosts"`
}

// findCases are the files of cases at the paths, in their order: files as they are, and
// of directories those that end in .test.yaml, also in the directories below.
func findCases(paths []string) ([]string, error) {
	var out []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			out = append(out, path)
			continue
		}
		before := len(out)
		err = filepath.WalkDir(path, func(p string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.HasSuffix(p, casesExt) {
				out = append(out, p)
			}
			if len(out) > maxCaseFiles {
				return fmt.Errorf("there are more than %d files of cases", maxCaseFiles)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(out) == before {
			return nil, fmt.Errorf("%s has no file *%s", path, casesExt)
		}
	}
	return out, nil
}

// readCases reads a file of cases.
func readCases(path string) (*caseFile, error) {
	body, err := readSmall(path, maxCaseFile)
	if err != nil {
		return nil, err
	}
	f := &caseFile{name: path}
	dec := yaml.NewDecoder(bytes.NewReader(body))
	dec.KnownFields(true)
	if err := dec.Decode(f); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var tree yaml.Node
	if err := yaml.Unmarshal(body, &tree); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f.lines = linesOf(&tree)
	switch {
	case len(f.Cases) == 0:
		return nil, fmt.Errorf("%s: it has no cases", path)
	case len(f.Cases) > maxCases:
		return nil, fmt.Errorf("%s: it has %d cases, at most %d", path, len(f.Cases), maxCases)
	case len(f.lines) != len(f.Cases):
		return nil, fmt.Errorf("%s: write the cases out, as a list", path)
	}
	for i := range f.Cases {
		if err := f.Cases[i].check(); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, f.lines[i], err)
		}
	}
	return f, nil
}

// linesOf are the lines on which the cases begin.
func linesOf(tree *yaml.Node) []int {
	var out []int
	for _, doc := range tree.Content {
		for i := 0; i+1 < len(doc.Content); i += 2 {
			if doc.Content[i].Value == "cases" {
				for _, c := range doc.Content[i+1].Content {
					out = append(out, c.Line)
				}
			}
		}
	}
	return out
}

// check says what of a case makes no sense.
func (c *testCase) check() error {
	oneOf := func(what, got string, known ...string) error {
		if slices.Contains(known, got) {
			return nil
		}
		return fmt.Errorf("%s: %q is none of %s", what, got, strings.Join(known, ", "))
	}
	var errs []error
	if c.Tool == "" {
		errs = append(errs, errors.New("tool: it has none"))
	}
	errs = append(errs, oneOf("expect", c.Expect, string(policy.Allow), string(policy.Ask), string(policy.Deny)))
	if c.Code != "" && c.Expect != string(policy.Deny) {
		errs = append(errs, errors.New("code: only a deny has one"))
	}
	if c.Mode != nil {
		errs = append(errs, oneOf("mode", *c.Mode, events.ModeWrite, events.ModeRead))
	}
	if c.Time != nil {
		if _, err := time.Parse(time.RFC3339, *c.Time); err != nil {
			errs = append(errs, fmt.Errorf("time: %q is none as 2026-01-31T08:00:00Z", *c.Time))
		}
	}
	if c.Operation == nil && c.Tier != "" {
		errs = append(errs, errors.New("tier: it goes with operation; of a tool that the program has, its own counts"))
	}
	if c.Operation != nil {
		errs = append(errs,
			oneOf("operation.class", c.Operation.Class, string(events.OpRead), string(events.OpWrite), string(events.OpExecute), string(events.OpNetwork), string(events.OpDelegate)),
			oneOf("tier", c.Tier, string(events.Readonly), string(events.Reversible), string(events.Irreversible), string(events.Approval)))
	}
	if _, err := c.raw(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// raw are the arguments as a model would send them.
func (c *testCase) raw() (string, error) {
	if c.Args == nil {
		return "{}", nil
	}
	if text, ok := c.Args.(string); ok {
		return text, nil
	}
	b, err := json.Marshal(c.Args)
	if err != nil {
		return "", fmt.Errorf("args: %w", err)
	}
	return string(b), nil
}

// title names a case for people.
func (c *testCase) title() string {
	if c.Name != "" {
		return show.Short(c.Name, 120)
	}
	raw, err := c.raw()
	if err != nil {
		raw = err.Error()
	}
	return show.Short(c.Tool+" "+raw, 120)
}

// either is the case's own word, else that of the file, else d.
func either[T any](own, file *T, d T) T {
	switch {
	case own != nil:
		return *own
	case file != nil:
		return *file
	}
	return d
}
