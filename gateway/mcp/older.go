//lint:file-ignore SA1019 clients of the older revisions still have what the newest one has deprecated: a model to lend, and logs to read

package mcp

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-run/sluice/events"
)

// logging is what a server says that sends log messages.
func logging(c *sdk.ServerCapabilities) *sdk.ServerCapabilities {
	c.Logging = &sdk.LoggingCapabilities{}
	return c
}

// olderRevisions are those that begin with initialize, oldest first.
var olderRevisions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

// begunAgain answers an initialize on a connection that has begun already, which the SDK
// refuses: a program between several clients and one pipe passes each one's on, and a client
// of both kinds may have asked with server/discover first. nil: it is none, or the first.
func (d *Door) begunAgain(req sdk.Request) sdk.Result {
	asked, ok := req.GetParams().(*sdk.InitializeParams)
	ss, is := req.GetSession().(*sdk.ServerSession)
	if !ok || !is || asked == nil || ss.InitializeParams() == nil {
		return nil
	}
	version := olderRevisions[len(olderRevisions)-1]
	if slices.Contains(olderRevisions, asked.ProtocolVersion) {
		version = asked.ProtocolVersion
	}
	return &sdk.InitializeResult{ProtocolVersion: version, Capabilities: d.caps, Instructions: instructions, ServerInfo: d.impl}
}

// newer says whether a request is one of 2026-07-28 or later: those say so themselves, where
// the connection's first one may have said anything.
func newer(req *sdk.CallToolRequest) bool {
	version, _ := req.Params.Meta[sdk.MetaKeyProtocolVersion].(string)
	return version >= sinceStateless
}

// levels are those of log messages, in the protocol.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// checkLevel refuses a request for log messages of a level that there is not.
func checkLevel(req sdk.Request) error {
	r, ok := req.(*sdk.ServerRequest[*sdk.SetLoggingLevelParams])
	if !ok || slices.Contains(levels, string(r.Params.Level)) {
		return nil
	}
	return invalid("there is no level %.40q: use one of %s", string(r.Params.Level), strings.Join(levels, ", "))
}

// logged sends a tool's words as a log message, to a client that has asked for such.
func logged(ctx context.Context, ss *sdk.ServerSession, tool, text string) {
	_ = ss.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Logger: tool, Data: text}) // best effort
}

// sampling is a tool's request for a text of the client's model, or nil where the client
// lends none.
func sampling(caps *sdk.ClientCapabilities, raw json.RawMessage) sdk.InputRequest {
	p := new(sdk.CreateMessageParams)
	if caps.Sampling == nil || json.Unmarshal(paramsOf(raw), p) != nil {
		return nil
	}
	return p
}

// askModel puts such a request to the client, and waits for the text.
func askModel(ctx context.Context, ss *sdk.ServerSession, r sdk.InputRequest) (sdk.InputResponse, error) {
	p, ok := r.(*sdk.CreateMessageParams)
	if !ok {
		return nil, errNothingSaid
	}
	return ss.CreateMessage(ctx, p)
}

// sampled is the text, as the tool gets it.
func sampled(out events.InputAnswer, said sdk.InputResponse) (events.InputAnswer, error) {
	switch said.(type) {
	case *sdk.CreateMessageWithToolsResult, *sdk.CreateMessageResult:
		b, err := json.Marshal(said)
		out.Action, out.Content = events.InputAccept, b
		return out, err
	}
	return out, errNothingSaid
}
