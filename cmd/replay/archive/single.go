package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/sluice-run/sluice/events"
)

// deepest is how many maps and lists may stand in each other; those of a commit are few.
const deepest = 64

// single checks that no map in a stored value has a member twice, however its name is
// spelt: who decodes it takes one of them, and who changes it may take the other.
func single(b []byte, depth int) error {
	if len(b) == 0 || depth > deepest {
		return errForm
	}
	switch c := b[0]; {
	case msgpcode.IsFixedMap(c) || c == msgpcode.Map16 || c == msgpcode.Map32:
		return singleMap(b, depth)
	case msgpcode.IsFixedArray(c) || c == msgpcode.Array16 || c == msgpcode.Array32:
		list, err := elements(b)
		if err != nil {
			return err
		}
		for _, e := range list {
			if err := single(e, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func singleMap(b []byte, depth int) error {
	dec := msgpack.GetDecoder()
	defer msgpack.PutDecoder(dec)
	dec.Reset(bytes.NewReader(b))
	n, err := dec.DecodeMapLen()
	if err != nil || n < 0 || n > len(b) {
		return errors.Join(errForm, err)
	}
	seen := make(map[string]bool, n)
	for range n {
		key, err := dec.DecodeRaw()
		if err != nil {
			return errors.Join(errForm, err)
		}
		name := string(key)
		if s := ""; msgpack.Unmarshal(key, &s) == nil {
			name = s
		}
		if seen[name] {
			return fmt.Errorf("%w: it has a member twice", errForm)
		}
		seen[name] = true
		value, err := dec.DecodeRaw()
		if err != nil {
			return errors.Join(errForm, err)
		}
		if err := single(value, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// tellable checks that readers can tell every event: a time of the year 292277 has no JSON
// form, and would break every answer that it stands in.
func tellable(c events.Commit) error {
	for _, r := range c.Records {
		if _, err := json.Marshal(r.Event); err != nil {
			return fmt.Errorf("%w: %s of it cannot be told: %w", events.ErrFormat, r.Event.Kind(), err)
		}
	}
	return nil
}

// wholly checks that every submission of a commit says where it came from, as whoever
// decodes it will see it: a node runs one that does not.
func wholly(body []byte) error {
	c, err := events.Decode(body)
	if err != nil {
		return errors.Join(errForm, err)
	}
	for _, r := range c.Records {
		switch e := r.Event.(type) {
		case *events.TurnSubmitted:
			if e.Imported == "" {
				return errUnmarked
			}
		case events.Foreign:
			var d struct {
				Imported string `msgpack:"imported"`
			}
			if e.Name == events.KindTurnSubmitted && (msgpack.Unmarshal(e.Body, &d) != nil || d.Imported == "") {
				return errUnmarked
			}
		}
	}
	return nil
}

var errUnmarked = fmt.Errorf("%w: its submission cannot be marked as imported", errForm)
