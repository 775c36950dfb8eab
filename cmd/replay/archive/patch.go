package archive

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/sluice-run/sluice/events"
)

// member is a member of a msgpack map, as it is stored.
type member struct {
	key string
	raw []byte // of the key
	val []byte
}

// members reads a map. Its parts share b's memory where they can.
func members(b []byte) ([]member, error) {
	dec := msgpack.GetDecoder()
	defer msgpack.PutDecoder(dec)
	dec.Reset(bytes.NewReader(b))
	n, err := dec.DecodeMapLen()
	if err != nil || n < 0 || n > len(b) {
		return nil, errors.Join(errForm, err)
	}
	out := make([]member, n)
	for i := range out {
		if out[i].raw, err = dec.DecodeRaw(); err != nil {
			return nil, errors.Join(errForm, err)
		}
		if err := msgpack.Unmarshal(out[i].raw, &out[i].key); err != nil {
			return nil, errors.Join(errForm, err)
		}
		if out[i].val, err = dec.DecodeRaw(); err != nil {
			return nil, errors.Join(errForm, err)
		}
	}
	return out, nil
}

// commitMembers are the members of a stored commit, which decodes: nothing in it is
// nested deeper, or says that it is longer, than it may.
func commitMembers(body []byte) ([]member, error) {
	if _, err := events.Decode(body); err != nil {
		return nil, errors.Join(errForm, err)
	}
	return members(body)
}

// errForm says that a stored commit does not have the form that every release gives it.
var errForm = errors.New("it is not stored as a commit is")

// joined writes a map again.
func joined(list []member) []byte {
	var out bytes.Buffer
	enc := msgpack.GetEncoder()
	defer msgpack.PutEncoder(enc)
	enc.ResetDict(&out, nil)
	_ = enc.EncodeMapLen(len(list)) // a buffer takes everything
	for _, m := range list {
		out.Write(m.raw)
		out.Write(m.val)
	}
	return out.Bytes()
}

// elements reads a list.
func elements(b []byte) ([][]byte, error) {
	dec := msgpack.GetDecoder()
	defer msgpack.PutDecoder(dec)
	dec.Reset(bytes.NewReader(b))
	n, err := dec.DecodeArrayLen()
	if err != nil || n < 0 || n > len(b) {
		return nil, errors.Join(errForm, err)
	}
	out := make([][]byte, n)
	for i := range out {
		if out[i], err = dec.DecodeRaw(); err != nil {
			return nil, errors.Join(errForm, err)
		}
	}
	return out, nil
}

func joinedList(list [][]byte) []byte {
	var out bytes.Buffer
	enc := msgpack.GetEncoder()
	defer msgpack.PutEncoder(enc)
	enc.ResetDict(&out, nil)
	_ = enc.EncodeArrayLen(len(list)) // a buffer takes everything
	for _, e := range list {
		out.Write(e)
	}
	return out.Bytes()
}

func encoded(v string) []byte {
	b, err := msgpack.Marshal(v)
	if err != nil {
		panic(err) // of a string it cannot fail
	}
	return b
}

// find is the member of that name; nil if there is none.
func find(list []member, key string) *member {
	if i := slices.IndexFunc(list, func(m member) bool { return m.key == key }); i >= 0 {
		return &list[i]
	}
	return nil
}

// importedKey is the member of a submission that says where it came from.
const importedKey = "imported"

// submissions has change change the bodies of the submissions in a stored commit,
// and leaves every other byte as it is. change returns nil to leave one as it is.
func submissions(body []byte, change func([]member) []member) ([]byte, error) {
	if !bytes.Contains(body, []byte(events.KindTurnSubmitted)) {
		return body, nil
	}
	top, err := commitMembers(body)
	if err != nil {
		return nil, err
	}
	ev := find(top, "ev")
	if ev == nil {
		return nil, errForm
	}
	list, err := elements(ev.val)
	if err != nil {
		return nil, err
	}
	changed := false
	for i := range list {
		record, err := members(list[i])
		if err != nil {
			return nil, err
		}
		kind, d := find(record, "k"), find(record, "d")
		if kind == nil || d == nil || !bytes.Equal(kind.val, encoded(string(events.KindTurnSubmitted))) {
			continue
		}
		fields, err := members(d.val)
		if err != nil {
			return nil, err
		}
		if fields = change(fields); fields != nil {
			d.val, changed = joined(fields), true
			list[i] = joined(record)
		}
	}
	if !changed {
		return body, nil
	}
	ev.val = joinedList(list)
	return joined(top), nil
}

// mark notes in the submissions of a commit that they came out of an archive, so that
// no node ever runs their turn. One that came from a transcript says so already.
func mark(body []byte, source string) ([]byte, error) {
	out, err := submissions(body, func(list []member) []member {
		if m := find(list, importedKey); m != nil && textOf(m.val) != "" {
			return nil
		}
		list = slices.DeleteFunc(list, func(m member) bool { return m.key == importedKey })
		return append(list, member{importedKey, encoded(importedKey), encoded(events.ArchiveMark + source)})
	})
	if err != nil {
		return nil, err
	}
	if back, err := unmark(out); err != nil || !bytes.Equal(back, body) {
		return nil, errUnmarked
	}
	return out, wholly(out)
}

// unmark takes back what mark did.
func unmark(body []byte) ([]byte, error) {
	if !bytes.Contains(body, []byte(events.ArchiveMark)) {
		return body, nil
	}
	return submissions(body, func(list []member) []member {
		m := find(list, importedKey)
		if m == nil || !marked(textOf(m.val)) {
			return nil
		}
		return slices.DeleteFunc(list, func(m member) bool { return m.key == importedKey })
	})
}

// marked says whether a turn's source is a mark of this package.
func marked(source string) bool { return strings.HasPrefix(source, events.ArchiveMark) }

// textOf is a stored string; "" for anything else.
func textOf(raw []byte) string {
	var s string
	if msgpack.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// rename gives a stored commit another trace, and an id of its own there.
func rename(body []byte, trace, prefix string) ([]byte, error) {
	top, err := commitMembers(body)
	if err != nil {
		return nil, err
	}
	tr, id := find(top, "tr"), find(top, "id")
	if tr == nil || id == nil {
		return nil, errForm
	}
	tr.val, id.val = encoded(trace), encoded(prefix+textOf(id.val))
	return joined(top), nil
}
