package actors

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy/secrets"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/fs"
)

// Bounds of a preview. A slow one keeps nobody from being asked.
const (
	previewWait   = 5 * time.Second
	inlinePreview = 16 << 10  // bytes of its text in the event; more goes by reference
	maxPreview    = 256 << 10 // bytes of its text at all
	previewTail   = 16 << 10  // of those, how many are kept of a longer one's end
	maxBase       = 64        // files that it was made from
)

// asksPerson says whether the findings come to asking a person.
func asksPerson(findings []lifecycle.Finding, v events.Verdict) bool {
	asks := v.Tier == events.Approval
	for _, f := range findings {
		switch f.Ruling {
		case lifecycle.Deny, lifecycle.Wait, lifecycle.Reuse:
			return false
		case lifecycle.Ask:
			asks = true
		}
	}
	return asks
}

// asksAnew says whether a call that is about to start may have to be asked about: the
// policy asks now, or what was approved is not the tool and the policy of now.
func asksAnew(b lifecycle.Begin, call *lifecycle.Call) bool {
	same := call.Asked != nil && call.Asked.ToolVersion == b.Verdict.ToolVersion && call.Asked.Policy == b.Verdict.Policy
	return asksPerson(b.Findings, events.Verdict{}) || !same && asksPerson(b.Findings, b.Verdict)
}

// shows is what a person is shown of a call beside what it asks: the files that it
// would run as they are now, and what it would change.
func (n *Node) shows(ctx context.Context, o owe, key events.CallKey, tool tools.Tool) ([]events.Seen, *events.Preview) {
	operands := n.lookAll(ctx, n.workspace(o.asked.Turn), n.operands(o, tool))
	return operands, n.preview(ctx, o, key, tool)
}

// preview asks the tool what the call would change; nil where it says nothing of it. It
// runs as an attempt of its own, so that it has a deadline and its panic is caught. One
// that fails, panics or takes too long is a preview that says so.
func (n *Node) preview(ctx context.Context, o owe, key events.CallKey, tool tools.Tool) *events.Preview {
	if tool.Preview == nil || o.asked.Fault != nil {
		return nil
	}
	answer := make(chan events.Preview, 1)
	look := tools.Tool{
		Spec: tools.Spec{Name: tool.Name, Tier: events.Readonly, Limits: tools.Limits{Wall: previewWait}},
		Run: func(ctx context.Context, in tools.Invocation) (events.Result, error) {
			p, err := tool.Preview(ctx, in)
			if err == nil {
				answer <- p
			}
			return events.Result{Status: events.Success}, err
		},
	}
	s := o.asked.Turn
	in := tools.Invocation{
		Call: key, Tool: tool.Name, Args: o.asked.Args.JSON, Workspace: n.workspace(s), Mode: s.Mode, Network: n.cfg.Network,
		May: n.gates.mayShow(o.asked), Closed: n.cfg.Closed, Progress: func(events.Progress) {},
	}
	r := n.cfg.Execute(ctx, look, in, tools.Options{Log: n.log, Now: n.cfg.Now})
	select {
	case p := <-answer:
		return n.fitted(ctx, p, key)
	default:
	}
	why := "it gave none"
	if r.Result.Error != nil {
		why = r.Result.Error.Message
	}
	return &events.Preview{Kind: events.PreviewText, Failed: cutTo(secrets.Redact(why), maxReason)}
}

// fitted is a preview that fits an event: secrets are taken out, what is long goes by
// reference, and what is longer than anybody reads loses its middle, and says so.
func (n *Node) fitted(ctx context.Context, p events.Preview, key events.CallKey) *events.Preview {
	if !slices.Contains([]string{events.PreviewDiff, events.PreviewCommands, events.PreviewTarget}, p.Kind) {
		p.Kind = events.PreviewText
	}
	text := secrets.Redact(strings.ToValidUTF8(p.Text.Text, "\uFFFD"))
	if text != p.Text.Text {
		p.Note = joined(p.Note, "secrets, and bytes that are no text, were taken out")
	}
	if len(text) > maxPreview {
		head, tail := strings.ToValidUTF8(text[:maxPreview-previewTail], ""), strings.ToValidUTF8(text[len(text)-previewTail:], "")
		p.Note = joined(p.Note, fmt.Sprintf("%d bytes of its middle were left out", len(text)-len(head)-len(tail)))
		text = head + fmt.Sprintf("\n[%d bytes were left out here]\n", len(text)-len(head)-len(tail)) + tail
	}
	p.Text = events.Body{Text: text}
	p.Note, p.Failed = cutTo(secrets.Redact(p.Note), maxReason), cutTo(secrets.Redact(p.Failed), maxReason)
	if len(p.Base) > maxBase {
		p.Base, p.Note = p.Base[:maxBase], joined(p.Note, fmt.Sprintf("only the first %d files are bound to the approval", maxBase))
	}
	if len(text) <= inlinePreview {
		return &p
	}
	within, stop := n.timeout(ctx, previewWait)
	defer stop()
	ref, err := n.putBlob(within, []byte(text), "")
	if err != nil {
		n.log.Warn("a preview could not be stored", "call", key.String(), "err", err)
		return &events.Preview{Kind: p.Kind, Failed: "it is too long for the inbox, and could not be stored beside it", Base: p.Base}
	}
	p.Text = events.Body{Ref: &ref}
	return &p
}

func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// asShown says whether what the call would run and change is what its approval was
// given for: the same names lead to the same files, and those are as they were.
func (n *Node) asShown(ctx context.Context, o owe, tool tools.Tool, files lifecycle.Shown) error {
	workspace := n.workspace(o.asked.Turn)
	operands := n.lookAll(ctx, workspace, n.operands(o, tool))
	if !slices.EqualFunc(operands, files.Operands, func(a, b events.Seen) bool { return a.Path == b.Path }) {
		return unlike("what this call would run is another file than was shown to the person who approved it")
	}
	for _, ptr := range tool.Writes {
		name, err := fs.Resolve(workspace, stringAt(o.asked.Args.JSON, ptr))
		if len(files.Base) > 0 && (err != nil || !slices.ContainsFunc(files.Base, func(was events.Seen) bool { return was.Path == name })) {
			return unlike("what this call would change is another file than was shown to the person who approved it")
		}
	}
	for _, was := range slices.Concat(files.Operands, files.Base) {
		now, err := fs.Look(ctx, workspace, was.Path)
		switch {
		case err != nil:
			return unlike(was.Path + " cannot be read as it was when this call was approved")
		case now.Digest != was.Digest || now.Size != was.Size:
			return unlike(was.Path + " has changed since this call was approved (it is " + cmp.Or(now.Digest, "gone") + " now)")
		}
	}
	return nil
}

func unlike(what string) error {
	return &tools.Error{
		Code: events.Conflict, Class: events.ClassConflict,
		Message: what + ": it was not run; look at the file, and ask again with a new call",
	}
}

// expecting are the expectations of a call whose approval was given for a change to
// files as they were: the write finds them so, or has no effect.
func (n *Node) expecting(o owe, tool tools.Tool, have []events.Expectation, files []events.Seen) []events.Expectation {
	for _, ptr := range tool.Writes {
		name, err := fs.Resolve(n.workspace(o.asked.Turn), stringAt(o.asked.Args.JSON, ptr))
		if err != nil || slices.ContainsFunc(have, func(e events.Expectation) bool { return e.Path == name }) {
			continue
		}
		if i := slices.IndexFunc(files, func(s events.Seen) bool { return s.Path == name }); i >= 0 {
			have = append(have, events.Expectation(files[i]))
		}
	}
	return have
}
