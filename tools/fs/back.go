package fs

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// back is the way from a new content to the one before: what both have at their
// beginning and end, and what stood between. It stays small where the change
// is, since a model reads it, too.
type back struct {
	Head   int64  `json:"head,omitempty"`   // bytes that both begin with
	Tail   int64  `json:"tail,omitempty"`   // bytes that both end with
	Before string `json:"before,omitempty"` // what stood between, where it is text
	Bytes  []byte `json:"bytes,omitempty"`  // the same where it is none, base64
	Digest string `json:"digest"`           // of the whole earlier content
	None   string `json:"none,omitempty"`   // why there is no way back; "" means there is
}

// wayBack is the way from content to old.
func wayBack(old, content []byte) *back {
	b := &back{Digest: Digest(old)}
	most := min(len(old), len(content))
	head, tail := 0, 0
	for head < most && old[head] == content[head] {
		head++
	}
	for tail < most-head && old[len(old)-1-tail] == content[len(content)-1-tail] {
		tail++
	}
	for head > 0 && head < len(old) && !utf8.RuneStart(old[head]) {
		head--
	}
	for tail > 0 && !utf8.RuneStart(old[len(old)-tail]) {
		tail--
	}
	between := old[head : len(old)-tail]
	if len(between) > maxBefore {
		b.None = fmt.Sprintf("%d bytes were replaced, and at most %d are kept", len(between), maxBefore)
		return b
	}
	b.Head, b.Tail = int64(head), int64(tail)
	if utf8.Valid(between) {
		b.Before = string(between)
	} else {
		b.Bytes = between
	}
	return b
}

// from is the earlier content, made of the new one. A redacted secret makes
// another text of what was kept, which the digest tells.
func (b *back) from(content []byte) ([]byte, error) {
	if b.None != "" {
		return nil, errors.New("it cannot be undone: " + b.None)
	}
	if b.Head < 0 || b.Tail < 0 || b.Head+b.Tail > int64(len(content)) {
		return nil, errors.New("it cannot be undone: its result does not fit the file")
	}
	old := append([]byte{}, content[:b.Head]...)
	old = append(append(old, b.Before...), b.Bytes...)
	old = append(old, content[int64(len(content))-b.Tail:]...)
	if Digest(old) != b.Digest {
		return nil, errors.New("it cannot be undone: the earlier content was not kept whole, perhaps since it held a secret")
	}
	return old, nil
}
