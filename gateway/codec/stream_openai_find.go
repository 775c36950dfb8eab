package codec

import (
	"bytes"
	"encoding/json"
	"slices"
)

// hint is what a delta says of the call that it belongs to.
type hint struct {
	index    int // -1: none
	id, name []byte
	args     json.RawMessage
}

// whose is the id of a delta, for people.
func (h hint) whose() string { return shorten(string(h.id), 64) }

// begins says whether the arguments of a delta are the beginning of an object.
func (h hint) begins() bool {
	if first(h.args) != '"' {
		return first(h.args) == '{'
	}
	s, err := text(toUnicode(h.args), "")
	return err == nil && first([]byte(s)) == '{'
}

// silent says whether a delta brings no arguments.
func (h hint) silent() bool { return nothing(h.args) || emptyObject(h.args) }

// find is the call that a delta belongs to, begun if it is a new one; nil for a delta that
// says nothing. With an index it is the call of that index. Without one an id opens a call,
// and what has no id either goes on with the last one, if that can be said.
func (s *openAIStream) find(h hint) (*openAIPiece, error) {
	switch {
	case h.index >= 0:
		return s.byIndex(h)
	case len(h.id) > 0:
		return s.byID(h)
	case len(h.name) > 0:
		return s.start(-1)
	case h.silent():
		return nil, nil
	case len(s.calls) == 0:
		return nil, fault(FaultAmbiguous, "a delta without index, id and name, and no call has begun")
	}
	return s.last()
}

func (s *openAIStream) start(index int) (*openAIPiece, error) {
	c, err := s.begin()
	if err != nil {
		return nil, err
	}
	p := &openAIPiece{call: c, index: index}
	s.calls = append(s.calls, p)
	return p, nil
}

// byIndex is the call of a delta with an index: the newest that has it. Some servers give
// each of several calls the same index. There one with an id and a name of its own opens
// another call, if the one before it is whole.
func (s *openAIStream) byIndex(h hint) (*openAIPiece, error) {
	var have []*openAIPiece
	for _, c := range s.calls {
		if c.index == h.index {
			have = append(have, c)
		}
	}
	if len(have) == 0 {
		return s.unplaced(h)
	}
	newest := have[len(have)-1]
	switch another := len(h.id) > 0 && len(h.name) > 0 && len(newest.id) > 0 && !bytes.Equal(h.id, newest.id); {
	case another && newest.scan.whole && s.known(h.id):
		return nil, fault(FaultAmbiguous, "a delta of index %d with the id %q, which an earlier call has: it could be that one's, or a new call", h.index, h.whose())
	case another && newest.scan.whole:
		return s.start(h.index)
	case len(h.id) == 0 && len(h.name) > 0 && h.begins() && newest.scan.whole && !newest.empty:
		return nil, fault(FaultAmbiguous, "a delta of index %d with a name and no id, behind a call that is whole: it could be another call, or the same once more", h.index)
	case len(have) > 1 && newest.scan.whole && !h.silent():
		return nil, fault(FaultAmbiguous, "%d calls have the index %d, each is whole, and a delta goes on with one of them", len(have), h.index)
	}
	return newest, nil
}

func (s *openAIStream) known(id []byte) bool {
	return slices.ContainsFunc(s.calls, func(c *openAIPiece) bool { return bytes.Equal(c.id, id) })
}

// unplaced is the call of a delta whose index no call has: one that began without an index
// and has its id gets it; else it is a new one. Its id and its name may come later.
func (s *openAIStream) unplaced(h hint) (*openAIPiece, error) {
	var same []*openAIPiece
	for _, c := range s.calls {
		if len(h.id) > 0 && c.index < 0 && bytes.Equal(c.id, h.id) {
			same = append(same, c)
		}
	}
	switch {
	case len(h.id) == 0 && len(h.name) == 0 && h.silent():
		return nil, nil
	case len(same) == 0 && len(h.id) > 0 && len(h.name) == 0 && s.known(h.id):
		return nil, fault(FaultAmbiguous, "a delta of index %d with the id %q of a call that has another index, and no name: it could be that one's, or a new call", h.index, h.whose())
	case len(same) == 0:
		return s.start(h.index)
	case len(same) > 1 || len(h.name) > 0:
		return nil, fault(FaultAmbiguous, "a delta of index %d with the id %q, which a call without index has: it could be that one's, or a new call", h.index, h.whose())
	}
	same[0].index = h.index
	return same[0], nil
}

// byID is the call of a delta with an id and no index.
func (s *openAIStream) byID(h hint) (*openAIPiece, error) {
	var same []*openAIPiece
	for _, c := range s.calls {
		if bytes.Equal(c.id, h.id) {
			same = append(same, c)
		}
	}
	switch {
	case len(same) == 0:
		return s.start(-1)
	case len(same) == 1 && (len(h.name) == 0 || len(same[0].name) == 0): // its name may come later
		return same[0], nil
	case len(h.name) == 0:
		return nil, fault(FaultAmbiguous, "a delta without index, and %d calls have its id %q", len(same), h.whose())
	}
	for _, c := range same { // a name, too: the same call again, or another one with its id
		switch {
		case c.index >= 0:
			return nil, fault(FaultAmbiguous, "a delta without index, with the id %q of a call that has one: it could be that one's, or a new call", h.whose())
		case !c.scan.whole:
			return nil, fault(FaultAmbiguous, "a delta without index, with the id %q of a call whose arguments are not whole: it could be that one's, or a new call", h.whose())
		}
	}
	return s.start(-1)
}

// apart refuses calls of which nobody could say what they are once all of them are there: one
// that no delta has named, whose beginning may be missing; and one without an index that came
// twice, the same, which may have been sent twice or asked for twice.
func (s *openAIStream) apart() error {
	for i, c := range s.calls {
		if len(c.id) == 0 && len(c.name) == 0 {
			return fault(FaultAmbiguous, "deltas of index %d, and none of them has an id or a name", c.index)
		}
		for _, b := range s.calls[:i] {
			if c.index < 0 && b.index < 0 && len(c.id) > 0 && bytes.Equal(b.id, c.id) && bytes.Equal(b.name, c.name) && bytes.Equal(b.text(), c.text()) {
				return fault(FaultAmbiguous, "the call %q without index stands twice, the same: it could be one call that was sent twice, or two", shorten(string(c.id), 64))
			}
		}
	}
	return nil
}

// last is the call that a delta with neither index nor id goes on with: the only one there
// is, or the last one where all others are whole and it is not.
func (s *openAIStream) last() (*openAIPiece, error) {
	n := len(s.calls)
	last := s.calls[n-1]
	if n == 1 {
		return last, nil
	}
	open := 0
	for _, c := range s.calls {
		if !c.scan.whole {
			open++
		}
	}
	if open != 1 || last.scan.whole {
		return nil, fault(FaultAmbiguous, "a delta with neither index nor id, and %d of %d calls are not whole: nobody can say which one it belongs to", open, n)
	}
	return last, nil
}

// openAIIDs watch the ids of chunks, which prove little: some routers make a new one for
// each chunk. What they can tell is that a router has glued a second message to one that
// broke off: an id that has stood on several chunks changes, or the role is said once more
// with another id.
type openAIIDs struct {
	last    []byte
	several bool // the last one has stood on more than one chunk
	role    bool // a role has been said
	plain   bool // and a delta without one has come since
}

// next takes the id of a chunk: its delta has a role or none, and words of the model or none.
func (o *openAIIDs) next(id []byte, role, words, ends bool) error {
	again := role && o.plain && (words || !ends)
	o.role, o.plain = o.role || role, (o.plain || o.role) && !role
	switch {
	case len(id) == 0: // the first chunk of some servers has none
		return nil
	case bytes.Equal(id, o.last):
		o.several = true
		return nil
	case len(o.last) > 0 && (again || words && o.several):
		return fault(FaultConflict, "a second message begins: id %q after %q", shorten(string(id), 64), shorten(string(o.last), 64))
	case o.several:
		return nil // usage, or the end, under an id of their own
	case len(id) > maxChunkID:
		return tooLarge("an id of %d bytes", len(id))
	}
	o.last = id
	return nil
}

// maxChunkID bounds the bytes of a chunk's id.
const maxChunkID = 4096
