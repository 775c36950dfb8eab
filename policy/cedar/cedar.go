// Package cedar is an authorizer whose policies are texts in the Cedar language: who
// may do what, with the parsed operation as its input. What an operation is, package
// policy finds; a Set decides about it. It is pure: no clock, no I/O, and a Set may be
// used from many goroutines.
//
// One call is several questions: one for its tool, and one for each path, address and
// deed of its shell line, each for the principal and for each of its parents. All must
// be permitted; a forbid on any of them denies the call, and a permit that asks, on any
// of them, asks.
package cedar

import (
	"crypto/sha256"
	_ "embed" // the schema and the default policy
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/policy/shell"
)

// Engine names what a verdict depends on beside the texts: how a call becomes
// questions, and the library that answers them. It changes whenever a verdict could.
const Engine = "4 cedar-go v1.9.2"

// File is one file of policies.
type File struct {
	Name string // for people, and for the order: files are read in the order of their names
	Text []byte // UTF-8
}

// Options are what a Set has beside its texts.
type Options struct {
	// Rules are asked, too, and only what they deny or ask counts: no policy overrules
	// them. Their ids may not be a policy's. nil means none.
	Rules policy.Rules
}

// Set is a set of policies that was found sound. It is a policy.Authorizer.
type Set struct {
	digest   string // SHA-256, in hex
	files    []FileInfo
	rules    []rule
	doubts   []string                  // see Warnings
	anybody  [numActions]shelf         // policies that do not look at the principal
	somebody [numActions]shelf         // and those that do
	whole    cost                      // of all policies
	named    map[types.EntityUID]bool  // every entity that a policy names
	wants    wants                     // what has to be read out of the request
	plain    map[facets]types.Record   // the contexts that hold nothing of the request's own
	paths    map[pathKind]types.Record // of paths, where nobody looks at their names
	floor    policy.Rules              // asked first
	last     policy.Rules              // asked last
}

// rule is one policy.
type rule struct {
	Policy
	place   int // in the order of reasons: policies of shell lines share one
	order   int // among all policies
	name    cedar.PolicyID
	policy  *cedar.Policy
	say     template
	ask     bool
	given   bool // its id was written, and not made
	code    string
	pointer string // JSON Pointer to the argument that decides; "" is that of the resource
	whole   bool   // no argument decides
	cost    cost   // with words from the start, and the rest from the index
}

// Policy is one policy as its file has it.
type Policy struct {
	ID     string
	File   string
	Line   int // from 1, where its text begins
	Column int // from 1
	Text   string
	Forbid bool
	Ask    bool
}

//go:embed default.cedar
var defaultText string

//go:embed schema.cedarschema
var schemaText string

// DefaultText is the policy of a node that was given none, as a file of Cedar policies.
func DefaultText() string { return defaultText }

// SchemaText is the schema that policies are checked against, in Cedar's own notation.
func SchemaText() string { return schemaText }

// DefaultFile is the name that messages give to DefaultText.
const DefaultFile = "default.cedar"

// Default is the set of DefaultText.
func Default(o Options) (*Set, error) {
	return Load([]File{{DefaultFile, []byte(defaultText)}}, o)
}

// Version is the beginning of Digest, behind "cedar-": what verdicts and the log name.
func (s *Set) Version() string { return "cedar-" + s.digest[:12] }

// Digest is the SHA-256, in hex, of the texts, their names, the engine, and the rules
// beside them.
func (s *Set) Digest() string { return s.digest }

// FileInfo is what is told of a file of policies.
type FileInfo struct {
	Name     string `json:"name"`
	Digest   string `json:"digest"` // of its text: sha256:…
	Bytes    int    `json:"bytes"`
	Policies int    `json:"policies"`
}

// Files are the files of the set in the order in which they are read.
func (s *Set) Files() []FileInfo { return slices.Clone(s.files) }

// Timed says whether a policy looks at the time: the same call may then be judged
// otherwise at another moment.
func (s *Set) Timed() bool { return s.wants.time }

// Policies are the policies in the order of their files and texts.
func (s *Set) Policies() []Policy {
	out := make([]Policy, len(s.rules))
	for i, r := range s.rules {
		out[i] = r.Policy
	}
	return out
}

// Find gives the policies of an id, as Verdict.Policies has it: none where the id is
// not one of this set's, and two where a forbid and a permit share it.
func (s *Set) Find(id string) []Policy {
	var out []Policy
	for _, r := range s.rules {
		if r.ID == id {
			out = append(out, r.Policy)
		}
	}
	return out
}

// Tools are the names of the tools that policies name, sorted: one that is misspelt
// fits no call, and only who knows the tools can tell.
func (s *Set) Tools() []string {
	var out []string
	for uid := range s.named {
		if uid.Type == typeTool {
			out = append(out, string(uid.ID))
		}
	}
	slices.Sort(out)
	return out
}

// Missing are the ids of the forbids and asks of DefaultText that the set has none of, in
// their order, where it is made from a copy of that text: where it has most of its ids.
// What they hold back, a copy from before they came lets through. Those on shell lines are
// left out: what nothing permits there is denied.
func (s *Set) Missing() []string {
	own, err := Default(Options{})
	if err != nil {
		panic("cedar: the program's own policy does not load: " + err.Error()) // it is a part of the program
	}
	kept, lost, out := 0, 0, []string(nil)
	for _, p := range own.Policies() {
		switch {
		case len(s.Find(p.ID)) > 0:
			kept++
		default:
			lost++
			if (p.Forbid || p.Ask) && !strings.HasPrefix(p.ID, "shell.") {
				out = append(out, p.ID)
			}
		}
	}
	if kept <= lost {
		return nil
	}
	return out
}

// digest is that of a set.
func digest(files []File, o Options) string {
	h := sha256.New()
	part := func(s string) { fmt.Fprintf(h, "%d %s\n", len(s), s) }
	part(Engine)
	part(schemaText)
	part(shell.Version)
	part(policy.Floor().Version())
	part(o.Rules.Version())
	for _, f := range files {
		part(f.Name)
		part(string(f.Text))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// sorted are the files in the order of their names.
func sorted(files []File) []File {
	out := slices.Clone(files)
	slices.SortStableFunc(out, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return out
}
