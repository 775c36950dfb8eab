package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// definition is a tool, as its server describes it.
type definition struct {
	Name         string          `json:"name"`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Annotations  *hints          `json:"annotations,omitempty"`
	Execution    *execution      `json:"execution,omitempty"`

	raw   json.RawMessage
	loose error // why its output schema does not count
}

// execution says how a tool wants to be called.
type execution struct {
	TaskSupport string `json:"taskSupport"`
}

// listing is what a server has.
type listing struct {
	tools []definition
	bad   []unusable    // what cannot be used
	fresh time.Duration // how long the server says that it stays so; 0: it does not say
}

// unusable is a tool that cannot be used, and why.
type unusable struct {
	name string // the server's own; "" of what is none
	why  error
}

// page is one answer to a request for the list, as it came.
type page struct {
	Tools []json.RawMessage `json:"tools"`
	Next  string            `json:"nextCursor"`
	TTL   float64           `json:"ttlMs"`

	kept map[string]bool // tools that the SDK takes; nil where it has not looked
}

// list asks the server for all its tools.
func (s *session) list(ctx context.Context) (l listing, err error) {
	seen := map[string]bool{}
	cursor := ""
	for range maxPages {
		p, err := s.page(ctx, cursor)
		if cursor == "" && s.toolless(err) {
			return l, nil
		}
		if err != nil {
			return l, fmt.Errorf("list its tools: %w", withoutAddress(err))
		}
		if p.TTL > 0 {
			l.fresh = min(max(time.Duration(min(p.TTL, 1e9))*time.Millisecond, 5*s.times.Relist), maxTTL)
		}
		for _, raw := range p.Tools {
			l.take(raw, seen, p.kept)
			if len(l.tools) > maxTools {
				return l, fmt.Errorf("it lists more than %d tools", maxTools)
			}
		}
		if p.Next == "" || p.Next == cursor {
			return l, nil
		}
		cursor = p.Next
	}
	return l, fmt.Errorf("its list of tools has more than %d pages", maxPages)
}

// toolless says that an error is that of a server which has no tools, and does not say
// that it has: one of resources or prompts alone.
func (s *session) toolless(err error) bool {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	r := s.cs.InitializeResult()
	return ok && e.Code == jsonrpc.CodeMethodNotFound && (r == nil || r.Capabilities == nil || r.Capabilities.Tools == nil)
}

// page asks for one page. What counts is the answer as it came: the SDK's values have
// lost the order of members and the digits of numbers, and one tool that it cannot decode
// hides all others.
func (s *session) page(ctx context.Context, cursor string) (p page, err error) {
	ctx, done := s.within(ctx)
	defer done()
	f := &flight{list: true}
	sdk, err := s.cs.ListTools(f.with(ctx), &mcp.ListToolsParams{Cursor: cursor})
	r, _ := f.abandon(nil)
	if err == nil {
		p.kept = make(map[string]bool, len(sdk.Tools))
		for _, t := range sdk.Tools {
			p.kept[t.Name] = true
		}
	}
	switch {
	case r == nil && err != nil:
		return p, s.explain(ctx, err)
	case r == nil:
		return p, fmt.Errorf("the answer was not seen")
	case r.Error != nil:
		return p, r.Error
	}
	return p, json.Unmarshal(r.Result, &p)
}

// cannot notes that a tool cannot be used.
func (l *listing) cannot(d definition, why string) {
	l.bad = append(l.bad, unusable{d.Name, fmt.Errorf("%s: %s", shown(d.Name), why)})
}

// take adds one tool, or says why it cannot be used.
func (l *listing) take(raw json.RawMessage, seen, kept map[string]bool) {
	d := definition{raw: raw}
	if err := json.Unmarshal(objects(raw, "annotations", "execution"), &d); err != nil || d.Name == "" {
		l.bad = append(l.bad, unusable{why: fmt.Errorf("a tool that is none: %s", clip(shown(string(raw)), 120))})
		return
	}
	if seen[d.Name] {
		l.cannot(d, "it is listed twice, and the first counts")
		return
	}
	seen[d.Name] = true
	if kept != nil && !kept[d.Name] {
		l.cannot(d, "its x-mcp-header annotations are not those of the protocol")
		return
	}
	if d.Execution != nil && d.Execution.TaskSupport == "required" {
		l.cannot(d, "it can only be called as a task, which is not spoken here")
		return
	}
	l.tools = append(l.tools, d)
}
