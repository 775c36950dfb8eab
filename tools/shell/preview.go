package shell

import (
	"context"
	"fmt"
	"strings"

	"github.com/sluice-run/sluice/events"
	rules "github.com/sluice-run/sluice/policy/shell"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/fs"
)

// maxFiles bounds how many files a preview looks at.
const maxFiles = 64

// preview takes a command line apart for a person: each command with what the policy
// finds of it by itself, the files and hosts that are named, and the scripts that the
// approval is bound to, as they are now.
func preview(ctx context.Context, in tools.Invocation) (events.Preview, error) {
	line := command(in.Args)
	a := rules.Scope{Workspace: in.Workspace, Network: in.Network}.Classify(line)
	var b strings.Builder
	if len(a.Commands) == 0 {
		b.WriteString("no command of this line is understood: read it as it stands\n")
	}
	for i, c := range a.Commands {
		one := rules.Scope{Workspace: in.Workspace, Network: in.Network}.Classify(c)
		fmt.Fprintf(&b, "%d. %s\n   %s\n", i+1, tools.Visible(c), verdict(one))
	}
	b.WriteString("the whole line:\n")
	for _, f := range a.Findings {
		fmt.Fprintf(&b, "   %s: %s\n", f.Rule, tools.Visible(f.Reason))
	}
	named(&b, "files named", a.Paths)
	named(&b, "words that may name files", a.Names)
	named(&b, "hosts named", a.Hosts)
	p := events.Preview{Kind: events.PreviewCommands}
	runs := operands(line)
	switch why := unbound(line); {
	case why != "":
		b.WriteString(why + "\n")
	case len(runs) == 0 && !a.Reads:
		b.WriteString("no file is bound to the approval: if this line runs scripts, it does not name them\n")
	}
	for i, path := range runs {
		if i == maxFiles {
			p.Note = "more files would be run than are listed"
			break
		}
		b.WriteString(script(ctx, in.Workspace, path))
	}
	p.Text.Text = strings.TrimSuffix(b.String(), "\n")
	return p, ctx.Err()
}

// verdict is what the policy finds of one command by itself, in words.
func verdict(a rules.Analysis) string {
	what := map[rules.Decision]string{rules.Allow: "reads", rules.Ask: "a person must look", rules.Deny: "never"}[a.Decision]
	return what + ": " + tools.Visible(a.Reason)
}

func named(b *strings.Builder, what string, list []string) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(b, "%s:\n", what)
	for _, s := range list {
		b.WriteString("   " + tools.Visible(s) + "\n")
	}
}

// script tells of a file that the line would run.
func script(ctx context.Context, workspace, path string) string {
	name := tools.Visible(path)
	seen, err := fs.Look(ctx, workspace, path)
	switch {
	case err != nil:
		return fmt.Sprintf("would run %s: it is not in the workspace, and the approval is not bound to its content\n", name)
	case seen.Digest == "":
		return fmt.Sprintf("would run %s: there is no such file, and the approval holds only while there is none\n", name)
	}
	return fmt.Sprintf("would run %s: %d bytes, %s; the approval is bound to exactly these\n", name, seen.Size, seen.Digest)
}
