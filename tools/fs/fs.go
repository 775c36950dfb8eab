// Package fs holds the tools that read, search and change the files of a
// workspace: Read, Grep, Glob, Edit and Write. Nothing they do reaches out of
// it: every path goes through os.Root. Everything here may be used from many
// goroutines, and no goroutine outlives a call.
package fs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/tools"
)

// Bounds of the family.
const (
	maxLines    = 2000      // lines of one answer
	maxText     = 51_200    // bytes of one answer, notes included
	maxLine     = 2000      // bytes shown of one line
	maxReadFile = 256 << 20 // bytes of a file that Read looks through
	maxEditFile = 16 << 20  // bytes of a file that Edit and Write change, and Grep searches
	maxBefore   = 64 << 10  // bytes of replaced content kept for the undo
	maxVisits   = 500_000   // entries that one walk looks at
	maxPath     = policy.MaxPath
	maxDeep     = policy.MaxSegments
	maxLinks    = 40 // symbolic links followed for one path
)

// Names of the tools, as models know them.
const (
	ReadName  = "Read"
	GrepName  = "Grep"
	GlobName  = "Glob"
	EditName  = "Edit"
	WriteName = "Write"
)

// Tools returns the whole family. It fails only where two parts of this
// package do not fit each other.
func Tools() ([]tools.Tool, error) {
	var list []tools.Tool
	for _, make := range []func() (tools.Tool, error){Edit, Glob, Grep, Read, Write} {
		t, err := make()
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

// limits leave room for the notes beside the lines.
func limits() tools.Limits { return tools.Limits{Lines: maxLines + 10, Text: maxText} }

// Digest is the digest of content as expectations name it: "sha256:" and hex digits.
func Digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// pathOf is the argument "path" of a call, or other where there is none.
func pathOf(args json.RawMessage, other string) string {
	var in struct {
		Path string `json:"path"`
	}
	if json.Unmarshal(args, &in) != nil || in.Path == "" {
		return other
	}
	return in.Path
}

// operation says what a call of this family would do, and to which path.
func operation(class events.OpClass, other string) func(json.RawMessage) events.Operation {
	return func(args json.RawMessage) events.Operation {
		op := events.Operation{Class: class}
		if p := pathOf(args, other); p != "" {
			op.Paths = []string{p}
		}
		return op
	}
}

// locks is what a changing call must hold: its file, alone, under its one name.
// Links are not followed here, where no workspace is known; see Resolve.
func locks(args json.RawMessage) []events.ResourceUse {
	p := pathOf(args, "")
	if name, bad := clean("", p); bad == nil {
		p = name
	}
	return []events.ResourceUse{{Name: "file:" + p, Exclusive: true}}
}

// leftover says whether a name is that of a temporary file of this package,
// which only a crash leaves behind.
func leftover(name string) bool {
	return len(name) == len(tempName("")) && name[:len(tempPrefix)] == tempPrefix
}

const tempPrefix = ".sluice-tmp-"

// tempName is the temporary file beside a file while it is being replaced. It
// depends on the file's name alone, so that the next writer, who holds the
// folder's lock, clears away what a crash has left.
func tempName(base string) string {
	sum := sha256.Sum256([]byte(base))
	return tempPrefix + hex.EncodeToString(sum[:8])
}
