package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-run/sluice/events"
)

// Tool is what clients are told of a tool. Its JSON form is what a node gives of its
// tools to programs that stand before it.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema"`           // of the arguments: a JSON Schema of an object
	Output      json.RawMessage `json:"output,omitempty"` // of structured results; none where nothing is promised
	Tier        events.Tier     `json:"tier"`             // of a call whatever its arguments, where Varies is false
	Varies      bool            `json:"varies,omitempty"` // the tier depends on the arguments, and is Tier at the strictest
	Keyed       bool            `json:"keyed,omitempty"`  // the same call again has no second effect
	Off         bool            `json:"off,omitempty"`    // its circuit is open: it is not listed, and whoever calls it is told so by the gates
}

// Bounds of a page of the list. A tool is never left out for its size.
const (
	pageTools = 500
	pageBytes = 512 << 10
)

// listFresh is how long a client may take a list for the one of now.
const listFresh = 2 * time.Second

// annotations are hints from the tier. What the hints leave open is as the protocol's
// defaults have it, which are the strictest.
func (t Tool) annotations() *sdk.ToolAnnotations {
	a := &sdk.ToolAnnotations{IdempotentHint: t.Keyed}
	destroys := true
	switch {
	case t.Tier == events.Readonly && !t.Varies:
		a.ReadOnlyHint, a.IdempotentHint, destroys = true, true, false
	case t.Tier == events.Reversible && !t.Varies:
		destroys = false
	}
	a.DestructiveHint = &destroys
	return a
}

// readonly says that no call of the tool changes anything.
func (t Tool) readonly() bool { return t.Tier == events.Readonly && !t.Varies }

func (t Tool) told() *sdk.Tool {
	out := &sdk.Tool{Name: t.Name, Description: t.Description, InputSchema: json.RawMessage(events.WholeJSON(t.Schema)), Annotations: t.annotations()}
	if len(t.Output) > 0 {
		out.OutputSchema = json.RawMessage(events.WholeJSON(t.Output))
	}
	return out
}

// digest names what is told of a tool.
func (t Tool) digest() string {
	b, err := json.Marshal(t)
	if err != nil {
		b = []byte(t.Name) // its schema is no JSON: it is told of by its name alone
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// chosen says whether the door shows a tool of that name at all.
func (d *Door) chosen(name string) bool {
	return len(d.cfg.Tools) == 0 || slices.ContainsFunc(d.cfg.Tools, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

// middleware answers tools/list and a second initialize by itself, reads either spelling of the tool that is called,
// and looks whether it has come since the last look.
func (d *Door) middleware(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if err := checkLevel(req); err != nil {
			return nil, err
		}
		if again := d.begunAgain(req); again != nil {
			return again, nil
		}
		switch r := req.(type) {
		case *sdk.ListToolsRequest:
			res, err := d.list(ctx, r)
			return res, coded(err)
		case *sdk.CallToolRequest:
			r.Params.Name = events.ToolName(r.Params.Name)
			if _, known := d.tool(r.Params.Name); !known {
				if _, _, err := d.refresh(ctx); err != nil {
					return nil, coded(err)
				}
			}
		}
		res, err := next(ctx, method, req)
		return res, coded(err)
	}
}

func (d *Door) tool(name string) (Tool, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, ok := d.all[name]
	return t, ok
}

// refresh reads the list anew. Where it cannot be had, the node may be going, and another
// one come: it is tried for a while.
func (d *Door) refresh(ctx context.Context) (list []Tool, edition int64, err error) {
	late := d.cfg.Now().Add(unreachable)
	for {
		back, err := d.soon(ctx)
		if err != nil {
			return nil, 0, err
		}
		list, err := back.Tools(ctx)
		switch {
		case err == nil:
			list, edition = d.show(list)
			return list, edition, nil
		case ctx.Err() != nil:
			return nil, 0, ctx.Err()
		case back.ctx.Err() == nil && !d.cfg.Now().Before(late):
			d.cfg.Log.Warn("the list of tools cannot be had", "err", err)
			return nil, 0, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the list of tools cannot be had now: try again"}
		}
		pause(ctx, again)
	}
}

// show makes the tools callable, and has clients told where the list has changed. It
// returns those that the door shows, and which edition of the list that is.
func (d *Door) show(list []Tool) (shown []Tool, edition int64) {
	list = slices.DeleteFunc(slices.Clone(list), func(t Tool) bool { return !d.chosen(t.Name) })
	d.showing.Lock()
	defer d.showing.Unlock()
	next := make(map[string]string, len(list))
	var changed []Tool
	for _, t := range list {
		next[t.Name] = t.digest()
		if d.shown[t.Name] != next[t.Name] {
			changed = append(changed, t)
		}
	}
	fewer := len(next)-len(changed) < len(d.shown)
	if fewer || len(changed) > 0 || d.edition.Load() == 0 {
		d.edition.Add(1) // BEFORE anybody is told
	}
	if fewer && len(changed) == 0 && len(list) > 0 {
		changed = list[:1] // the SDK tells of a change where something is added
	}
	for _, s := range []*sdk.Server{d.kept, d.brief} {
		for _, t := range changed {
			s.AddTool(&sdk.Tool{Name: t.Name, InputSchema: json.RawMessage(`{"type":"object"}`)}, d.call) // the gates look at arguments
		}
	}
	d.shown = next
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range list {
		d.all[t.Name] = t // what has gone stays: the gates say so to whoever calls it
	}
	if len(d.all) > maxGone+len(list) {
		d.forgetGone(next)
	}
	return list, d.edition.Load()
}

// maxGone is how many tools are remembered that are not in the list any more.
const maxGone = 1024

// forgetGone forgets the tools that are not in the list. d.mu and d.showing are held.
func (d *Door) forgetGone(shown map[string]string) {
	for name := range d.all {
		if _, ok := shown[name]; !ok {
			delete(d.all, name)
			d.kept.RemoveTools(name)
			d.brief.RemoveTools(name)
		}
	}
}

// look looks for changes of the list until the backend is another one.
func (d *Door) look(back *backend) {
	tick := time.NewTicker(d.cfg.Look)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-back.ctx.Done():
			return
		case <-d.life.Done():
			return
		}
		list, err := back.Tools(back.ctx)
		switch {
		case err == nil:
			d.show(list)
		case back.ctx.Err() == nil && d.life.Err() == nil:
			d.cfg.Log.Warn("the list of tools cannot be had: clients are told of changes later", "error", err)
		}
	}
}

// list answers tools/list: what the asker may call, by name, a page at a time.
func (d *Door) list(ctx context.Context, req *sdk.ListToolsRequest) (*sdk.ListToolsResult, error) {
	v := d.visitOf(req.Extra)
	if v == nil {
		return nil, errNoVisit
	}
	list, edition, err := d.refresh(ctx)
	if err != nil {
		return nil, err
	}
	v.listed.Store(edition)
	may := d.cfg.Allow(v.principal().ID)
	list = slices.DeleteFunc(list, func(t Tool) bool { return t.Off || may != nil && !slices.Contains(may, t.Name) })
	after := ""
	if req.Params != nil {
		if after, err = readCursor(req.Params.Cursor); err != nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the cursor is none of this list: begin again without one"}
		}
	}
	out := &sdk.ListToolsResult{Tools: []*sdk.Tool{}}
	out.TTLMs, out.CacheScope = int(listFresh.Milliseconds()), "private"
	list = list[sort.Search(len(list), func(i int) bool { return list[i].Name > after }):]
	for size, i := 0, 0; i < len(list); i++ {
		size += len(list[i].Schema) + len(list[i].Output) + len(list[i].Description) + 256
		if i == pageTools || i > 0 && size > pageBytes {
			out.NextCursor = writeCursor(list[i-1].Name)
			break
		}
		out.Tools = append(out.Tools, list[i].told())
	}
	return out, nil
}

// cursorMark begins every cursor.
const cursorMark = "after "

func writeCursor(name string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(cursorMark + name))
}

var errCursor = errors.New("no cursor")

func readCursor(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	name, ok := strings.CutPrefix(string(b), cursorMark)
	if err != nil || !ok || !events.ValidToolName(name) || writeCursor(name) != s { // base64 has several spellings
		return "", errCursor
	}
	return name, nil
}
