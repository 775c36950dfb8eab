package tools

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-run/sluice/events"
)

// ErrTool says that a tool cannot be registered, and why.
var ErrTool = errors.New("tool cannot be registered")

// Registry holds the tools of a node by name. It may be used from many
// goroutines; a tool that was added never changes and never leaves, one that a
// source provides may: see Provide. The zero Registry is empty and ready.
type Registry struct {
	mu     sync.RWMutex
	byName map[string]Tool
	from   map[string]string // by name; "" for a tool that was added
	next   chan struct{}     // closed at the next change; nil: nobody waits for it
}

// NewRegistry makes a registry of tools, or returns an error that wraps
// ErrTool for each that cannot be registered.
func NewRegistry(list ...Tool) (*Registry, error) {
	r := &Registry{}
	var errs []error
	for _, t := range list {
		errs = append(errs, r.Add(t))
	}
	return r, errors.Join(errs...)
}

// Add registers one more tool. It returns an error that wraps ErrTool where the
// name is taken or cannot be told to a model, or where the tool has no code or
// no schema that can be used.
func (r *Registry) Add(t Tool) error {
	if err := checkTool(t); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.put("", t); err != nil {
		return err
	}
	r.changed()
	return nil
}

// Lookup returns the tool of that exact name.
func (r *Registry) Lookup(name string) (Tool, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	t, ok := r.byName[name]
	return t, ok
}

// List returns all tools, sorted by name. It is the caller's own.
func (r *Registry) List() []Tool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := make([]Tool, 0, len(r.byName))
	for _, t := range r.byName {
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Check returns nil for a tool that can be registered where nobody has its name, or an
// error that wraps ErrTool. It compiles the schema.
func (t Tool) Check() error { return checkTool(t) }

// checkTool returns nil for a tool that can be registered, or an error that wraps ErrTool.
func checkTool(t Tool) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s: %w", ErrTool, shorten(fmt.Sprintf("%q", t.Name), 80), fmt.Errorf(format, args...))
	}
	switch {
	case !events.ValidToolName(t.Name):
		return fail("a name is 1 to %d of A-Z a-z 0-9 _ -, with __ between a server's name and its tool's", events.MaxToolName)
	case t.Run == nil:
		return fail("it has no Run")
	case len(t.Schema) == 0:
		return fail("it has no schema: make it with Typed or Quick, or set Spec.Schema")
	}
	switch t.Tier {
	case "", events.Readonly, events.Reversible, events.Irreversible, events.Approval:
	default:
		return fail("there is no tier %q", t.Tier)
	}
	for _, p := range t.Writes {
		if !strings.HasPrefix(p, "/") {
			return fail("Writes: %q is no JSON Pointer to an argument", p)
		}
	}
	if _, err := compiledSchema(t.Schema); err != nil {
		return fail("%w", err)
	}
	return nil
}
