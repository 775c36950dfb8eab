package shell

import (
	"strings"
)

// rule is one row of the table below.
type rule struct {
	ID   string
	Says Decision
	Why  string // one sentence; %s is the culprit
}

// The rules. Deny wins over ask, ask over allow.
var (
	ruleEncoding    = &rule{"shell.encoding", Deny, "A shell line must be valid UTF-8 without control, invisible or bidirectional characters; leave them out."}
	ruleLimit       = &rule{"shell.limit", Deny, "The line is too long or too deeply nested to be judged; split it into several calls."}
	ruleEmpty       = &rule{"shell.empty", Deny, "The line holds no command; give one."}
	ruleAmbiguous   = &rule{"shell.ambiguous", Deny, "Shells disagree on a backslash at the end of a comment, of a here-document's line or of the line itself; leave it out."}
	ruleSubst       = &rule{"shell.substitution", Deny, "Command substitution hides what will run; run the inner command in a call of its own and write its result into the next one."}
	ruleSuperuser   = &rule{"shell.superuser", Deny, "%s acts as another user; do without it, or ask the user to run the command."}
	ruleRemove      = &rule{"shell.remove", Deny, "%s deletes files; leave them where they are and tell the user what should be deleted."}
	ruleDiscard     = &rule{"shell.git-discard", Deny, "%s can discard work; switch branches with git switch, unstage with git restore --staged, and undo a change by editing the file."}
	ruleShell       = &rule{"shell.shell", Deny, "%s would run commands that cannot be judged; write the commands themselves into the line."}
	rulePipeShell   = &rule{"shell.pipe-to-shell", Deny, "Piping into %s runs whatever comes through the pipe; write the commands themselves into the line."}
	ruleInline      = &rule{"shell.inline-code", Deny, "%s would run code given on the command line or on standard input; write the code to a file and ask to run that."}
	ruleEval        = &rule{"shell.eval", Deny, "%s runs or rewrites commands that cannot be judged; write the commands themselves into the line."}
	ruleMachine     = &rule{"shell.machine", Deny, "%s can overwrite disks or stop the machine; no call may run it."}
	ruleInteractive = &rule{"shell.interactive", Deny, "%s needs a terminal, and there is none; use a command that prints and ends, such as cat or git diff."}
	ruleNetwork     = &rule{"shell.network", Deny, "%s uses the network; use a tool made for fetching, if there is one."}
	ruleLoader      = &rule{"shell.loader", Deny, "Setting %s changes which code later commands run; leave it out."}

	ruleSyntax      = &rule{"shell.syntax", Deny, "The line cannot be parsed, and a shell would run a part of it; check its quotes and brackets."}
	ruleLines       = &rule{"shell.lines", Ask, "The line goes over several lines; give one command a call, or join them with &&."}
	ruleIndirect    = &rule{"shell.indirect", Ask, "What %s runs is known only when it runs; write the command's name out."}
	ruleExpansion   = &rule{"shell.expansion", Ask, "What %s becomes is known only when it runs; write the value out."}
	ruleConstruct   = &rule{"shell.construct", Ask, "The line uses a shell construct that is not judged; use plain commands joined by pipes, && and ;."}
	ruleProcSubst   = &rule{"shell.process-substitution", Ask, "Process substitution is not judged; run the inner command in a call of its own."}
	ruleAssign      = &rule{"shell.assignment", Ask, "Setting %s may change what later commands do; leave it out."}
	ruleRedirect    = &rule{"shell.redirect", Ask, "Redirecting into %s writes a file; use the tool that writes files."}
	ruleNull        = &rule{"shell.redirect-null", Ask, "Redirecting into /dev/null counts as writing a file; leave it out."}
	ruleOutside     = &rule{"shell.outside", Ask, "%s may lie outside the workspace; name it relative to the workspace."}
	ruleMove        = &rule{"shell.move-copy", Ask, "%s moves or copies files; use the tool that writes files."}
	ruleInstall     = &rule{"shell.install", Ask, "%s may install packages; ask for that by itself."}
	ruleOwner       = &rule{"shell.mode-owner", Ask, "%s changes who may use a file; ask for that by itself."}
	ruleWrite       = &rule{"shell.write", Ask, "%s can write files; use the tool that writes files."}
	ruleWrapper     = &rule{"shell.wrapper", Ask, "%s runs another command in a changed way; give that command alone."}
	ruleFind        = &rule{"shell.find-action", Ask, "The action %s of find runs or writes something; let find print, and act in another call."}
	ruleEnvironment = &rule{"shell.environment", Ask, "%s shows or changes the environment, the account or the machine; do without it."}
	ruleScript      = &rule{"shell.script", Ask, "%s would run a program from a file; a person must look at it first."}
	ruleGitFolder   = &rule{"shell.git-folder", Ask, "After cd, git obeys the configuration of another folder, which may name programs; stay and give git the path."}
	ruleFlag        = &rule{"shell.flag", Ask, "The argument %s is not known to be harmless; leave it out."}
	ruleUnknown     = &rule{"shell.command", Ask, "%s is not understood as only reading; use a command such as ls, cat, grep or git diff, or another tool, or tell the user what should be run."}

	ruleRead = &rule{"shell.read", Allow, "Every command of the line is understood as reading."}
)

// rules are all of them: each has an example in the test data.
var rules = []*rule{
	ruleEncoding, ruleLimit, ruleEmpty, ruleAmbiguous, ruleSubst, ruleSuperuser, ruleRemove, ruleDiscard, ruleShell,
	rulePipeShell, ruleInline, ruleEval, ruleMachine, ruleInteractive, ruleNetwork, ruleLoader,
	ruleSyntax, ruleLines, ruleIndirect, ruleExpansion, ruleConstruct, ruleProcSubst, ruleAssign, ruleRedirect, ruleNull,
	ruleOutside, ruleMove, ruleInstall, ruleOwner, ruleWrite, ruleWrapper, ruleFind, ruleEnvironment, ruleScript, ruleGitFolder, ruleFlag,
	ruleUnknown, ruleRead,
}

func (r *rule) decision(s Scope) Decision {
	if r == ruleNetwork && s.Network {
		return Ask
	}
	return r.Says
}

func (r *rule) found(s Scope, what string) Found {
	return Found{Rule: r.ID, Decision: r.decision(s), Reason: r.sentence(what)}
}

// Rules are the ids of all rules, in the order of their table, with what each says
// in a Scope without the network.
func Rules() []Found {
	var out []Found
	for _, r := range rules {
		out = append(out, r.found(Scope{}, ""))
	}
	return out
}

func (r *rule) sentence(what string) string {
	return strings.Replace(r.Why, "%s", quote(what), 1)
}

// quote shows a piece of a line inside a sentence, between quotes that are not in it, if
// there are such.
func quote(what string) string {
	if strings.Contains(what, `"`) && !strings.Contains(what, "'") {
		return "'" + strings.ReplaceAll(Legible(strings.ReplaceAll(what, `"`, "'"), 48), "'", `"`) + "'"
	}
	return `"` + Legible(what, 48) + `"`
}

// Legible is a stranger's text as it may stand between double quotes inside a sentence:
// at most so many characters of it, double quotes as single ones, and a question mark for
// each that could end the sentence early or steer a terminal.
func Legible(text string, most int) string {
	var b strings.Builder
	n, before := 0, ' '
	for _, r := range text {
		if n++; n > most {
			b.WriteString("…")
			break
		}
		switch {
		case r == '"':
			r = '\''
		case r == ' ' && !strings.ContainsRune(".?!", before):
		case r <= ' ' || r >= 0x7f:
			r = '?'
		}
		b.WriteRune(r)
		before = r
	}
	return b.String()
}
