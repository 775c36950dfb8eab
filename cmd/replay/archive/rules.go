package archive

import "reflect"

// rule says what a redaction does to a field.
type rule int

const (
	ruleText     rule = iota // a text: replaced. What no row names is one
	ruleKeep                 // ids, kinds, tools, tiers, codes, timings, and sentences of the runtime itself
	ruleArgs                 // arguments: replaced by an object, if they were one
	ruleHash                 // a digest of arguments: under the key
	ruleDigest               // a digest of a file: under the key, but where only some members are replaced
	ruleApproval             // a tool and a digest of arguments
	ruleContext              // an object whose names are kept
	ruleObject               // an object: replaced by another one, which is the schema of an empty form, too
	ruleAddress              // an address of the web: replaced by another one
)

// rules are what is done to the fields of package events that hold texts. A field that
// is not named is replaced: TestEveryFieldHasARule wants each to be named.
var rules = map[string]rule{
	"ApprovalRequested.Asks": ruleText, "ApprovalRequested.Why": ruleText, "ApprovalRequested.Hash": ruleHash,
	"ApprovalRequested.Policies": ruleKeep, "ApprovalRequested.Policy": ruleKeep, "ApprovalRequested.ToolVersion": ruleKeep,
	"Approved.Args": ruleArgs, "Approved.Hash": ruleHash, "Approved.Note": ruleText, "Approved.Told": ruleKeep, "Approved.Scope": ruleKeep,
	"Authorized.Decision": ruleKeep,
	"BlobRef.Digest":      ruleKeep, "BlobRef.Media": ruleKeep, // whole references are replaced
	"Body.Text":           ruleText,
	"BreakerView.Circuit": ruleHash, "BreakerView.State": ruleKeep,
	"CancelRequested.Reason": ruleText, "Cancelled.Reason": ruleText,
	"Deduplicated.As": ruleKeep, "Deduplicated.Key": ruleText, "Deduplicated.Of": ruleKeep,
	"Denied.Circuit": ruleHash, "Denied.Code": ruleKeep, "Denied.Gate": ruleKeep, "Denied.Path": ruleText, "Denied.Policies": ruleKeep,
	"Denied.Policy": ruleKeep, "Denied.Reason": ruleText,
	"Error.Code": ruleKeep, "Error.Message": ruleText, "Error.Path": ruleText,
	"Expectation.Digest": ruleDigest, "Expectation.Path": ruleText,
	"Inherited.Approvals": ruleApproval,
	"InputAnswer.Action":  ruleKeep, "InputAnswer.Content": ruleObject, "InputAnswer.ID": ruleKeep,
	"InputGiven.Note": ruleText,
	"InputRequest.ID": ruleKeep, "InputRequest.Kind": ruleKeep, "InputRequest.Message": ruleText, "InputRequest.Raw": ruleText,
	"InputRequest.Schema": ruleObject, "InputRequest.URL": ruleAddress,
	"InputRequested.Effects": ruleKeep, "InputRequested.State": ruleText, "InputRequested.Why": ruleKeep, // a sentence of the runtime
	"Limit.Principal": ruleKeep, "Limit.Rule": ruleKeep,
	"Lock.Boot": ruleKeep, "Lock.Resource": ruleText,
	"ModelCompleted.Model": ruleKeep, "ModelCompleted.Reason": ruleKeep, "ModelStarted.Model": ruleKeep,
	"Modifier.Name": ruleKeep, "Modifier.Value": ruleText,
	"Operation.Class": ruleKeep, "Operation.Commands": ruleText, "Operation.Hosts": ruleText, "Operation.Paths": ruleText,
	"Outcome.Class": ruleKeep, "Outcome.Effects": ruleKeep, "Outcome.Signal": ruleKeep,
	"Owner.Boot":   ruleKeep,
	"Principal.ID": ruleKeep, "Principal.Kind": ruleKeep, "Principal.Parents": ruleKeep, "Principal.Via": ruleKeep,
	"Preview.Failed": ruleText, "Preview.Kind": ruleKeep, "Preview.Note": ruleText,
	"Progress.Text": ruleText,
	"RawCall.Args":  ruleArgs, "RawCall.Extra": ruleText, "RawCall.Key": ruleText, "RawCall.ProviderID": ruleKeep, "RawCall.Said": ruleKeep, "RawCall.Tool": ruleKeep,
	"Recovered.Action": ruleKeep, "Recovered.LastStage": ruleKeep, "Recovered.Reason": ruleKeep, // a sentence of the tiers
	"Refusal.Code": ruleKeep, "Refusal.Reason": ruleText,
	"Requested.Args": ruleArgs, "Requested.Hash": ruleHash, "Requested.ProviderID": ruleKeep, "Requested.Tool": ruleKeep,
	"Resolved.Effects": ruleKeep, "Resolved.Note": ruleText,
	"ResourceUse.Name": ruleText,
	"Result.Data":      ruleText, "Result.Status": ruleKeep, "Result.Undo": ruleText,
	"Retrying.Class": ruleKeep, "Retrying.Effects": ruleKeep,
	"SecretRef.ID": ruleKeep, "SecretRef.Path": ruleText,
	"Seen.Digest": ruleDigest, "Seen.Path": ruleText,
	"SessionYes.From": ruleKeep, "SessionYes.Hash": ruleHash, "SessionYes.Placement": ruleKeep, "SessionYes.Policy": ruleKeep, "SessionYes.Policies": ruleKeep,
	"SessionYes.Tool": ruleKeep, "SessionYes.ToolVersion": ruleKeep, "SessionYes.Workspace": ruleText,
	"Started.Containment": ruleKeep, "Started.Hash": ruleHash, "Started.Key": ruleText,
	"Stats.More":           ruleKeep,
	"TurnAbandoned.Reason": ruleText, "TurnCancelRequested.Reason": ruleText,
	"TurnClaimed.Node": ruleKeep, "TurnClaimed.Reply": ruleKeep, "TurnClaimed.Why": ruleKeep,
	"TurnCompleted.Context": ruleContext, "TurnCompleted.Counts": ruleKeep,
	"TurnPlanned.Context": ruleContext, "TurnPlanned.Policy": ruleKeep,
	"TurnSubmitted.Allow": ruleKeep, "TurnSubmitted.Format": ruleKeep, "TurnSubmitted.Imported": ruleText,
	"TurnSubmitted.Mode": ruleKeep, "TurnSubmitted.OnError": ruleKeep, "TurnSubmitted.Placement": ruleKeep,
	"TurnSubmitted.Traceparent": ruleKeep, "TurnSubmitted.Workspace": ruleText,
	"Unknown.Why":  ruleKeep,
	"Verdict.Hash": ruleHash, "Verdict.Key": ruleText, "Verdict.Policies": ruleKeep, "Verdict.Policy": ruleKeep,
	"Verdict.Tier": ruleKeep, "Verdict.ToolVersion": ruleKeep,
}

// ruleOf is the rule of a field.
func ruleOf(t reflect.Type, f reflect.StructField) rule { return rules[t.Name()+"."+f.Name] }
