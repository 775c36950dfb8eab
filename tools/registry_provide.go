package tools

import (
	"errors"
	"fmt"
)

// Provide makes list all that a source gives: its earlier tools which are not in list
// are gone, at once and together. A source is whatever has tools that come and go, such
// as a server; its name is not "", which is the source of tools that were added. A tool
// that cannot be registered, or whose name another source has, is left out and named in
// the error, which wraps ErrTool for each; the others of the list are registered. An
// attempt that runs goes on with the tool that it began with.
//
// It may be called from many goroutines; of two calls for one source the later counts.
func (r *Registry) Provide(source string, list []Tool) error {
	if source == "" {
		return fmt.Errorf("%w: a source has a name", ErrTool)
	}
	var errs []error
	good := make([]Tool, 0, len(list))
	for _, t := range list {
		if err := checkTool(t); err != nil { // compiles the schema: not under the lock
			errs = append(errs, err)
			continue
		}
		good = append(good, t)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, from := range r.from {
		if from == source {
			delete(r.byName, name)
			delete(r.from, name)
		}
	}
	for _, t := range good {
		if err := r.put(source, t); err != nil {
			errs = append(errs, err)
		}
	}
	r.changed()
	return errors.Join(errs...)
}

// put registers a checked tool. r.mu is held.
func (r *Registry) put(source string, t Tool) error {
	if _, taken := r.byName[t.Name]; taken {
		whose := "here"
		if from := r.from[t.Name]; from != "" {
			whose = "by " + from
		}
		return fmt.Errorf("%w: %s is registered already %s: choose another name, or another server's name before it", ErrTool, t.Name, whose)
	}
	if r.byName == nil {
		r.byName, r.from = map[string]Tool{}, map[string]string{}
	}
	r.byName[t.Name] = t
	r.from[t.Name] = source
	return nil
}

// Source is which source gives the tool of that name: "" for one that was added, and
// where there is none.
func (r *Registry) Source(name string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.from[name]
}

// Changed returns a channel that is closed when the tools change next.
func (r *Registry) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = make(chan struct{})
	}
	return r.next
}

// changed tells who waits for a change. r.mu is held.
func (r *Registry) changed() {
	if r.next != nil {
		close(r.next)
		r.next = nil
	}
}
