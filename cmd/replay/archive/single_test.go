package archive

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/sluice-run/sluice/events"
)

// str8 is a string with its length in a byte of its own, as no release writes short ones.
func str8(s string) []byte { return append([]byte{0xd9, byte(len(s))}, s...) }

// respelt are the stored forms of a submission that read otherwise to who changes them
// than to who decodes them.
func respelt(t *testing.T, body []byte) map[string][]byte {
	top, err := members(body)
	if err != nil {
		t.Fatal(err)
	}
	list, err := elements(find(top, "ev").val)
	if err != nil {
		t.Fatal(err)
	}
	record, err := members(list[0])
	if err != nil {
		t.Fatal(err)
	}
	fields, err := members(find(record, "d").val)
	if err != nil {
		t.Fatal(err)
	}
	withRecord := func(r []member) []byte {
		all := slices.Clone(list)
		all[0] = joined(r)
		up := slices.Clone(top)
		find(up, "ev").val = joinedList(all)
		return joined(up)
	}
	with := func(list []member, key string, val []byte) []member {
		list = slices.Clone(list)
		find(list, key).val = val
		return list
	}
	twice := func(list []member, key string, first []byte) []member {
		return append([]member{{key, encoded(key), first}}, list...)
	}
	kind := string(events.KindTurnSubmitted)
	marked := twice(fields, importedKey, encoded("elsewhere"))
	return map[string][]byte{
		"a kind with a longer length":  withRecord(with(record, "k", str8(kind))),
		"a kind as bytes":              withRecord(with(record, "k", append([]byte{0xc4, byte(len(kind))}, kind...))),
		"a mark, and none behind it":   withRecord(with(record, "d", joined(append(marked, member{importedKey, encoded(importedKey), encoded("")})))),
		"a mark of another spelling":   withRecord(with(record, "d", joined(append(marked, member{importedKey, str8(importedKey), encoded("")})))),
		"two bodies":                   withRecord(twice(record, "d", joined(marked))),
		"two kinds":                    withRecord(twice(record, "k", encoded("progress"))),
		"two lists of events":          joined(twice(top, "ev", joinedList(nil))),
		"two traces":                   joined(twice(top, "tr", encoded("another"))),
		"a member twice, further down": withRecord(with(record, "d", joined(append(fields, member{"more", encoded("more"), joined([]member{{"a", encoded("a"), encoded("")}, {"a", str8("a"), encoded("")}})})))),
	}
}

// What a stranger has spelt in two ways is not imported: a node would run it, or it would
// stand in another trace than was said.
func TestRespeltSubmissionsAreRefused(t *testing.T) {
	all := wholeCorpus(t)
	i := slices.IndexFunc(all, func(b []byte) bool {
		c, err := events.Decode(b)
		if err != nil {
			return false
		}
		s, ok := c.Records[0].Event.(*events.TurnSubmitted)
		return ok && s.Imported == ""
	})
	if i < 0 {
		t.Fatal("no log of the corpus has a turn that was submitted to a node")
	}
	c, err := events.Decode(all[i])
	if err != nil {
		t.Fatal(err)
	}
	for what, body := range respelt(t, all[i]) {
		for _, prefix := range []string{"", "copy-"} {
			got := coming{Commit: Commit{at(1), events.TurnKey{Trace: prefix + c.Turn.Trace, Turn: c.Turn.Turn}, bytes.Clone(body)}}
			im := Import{Prefix: prefix}
			err := im.decode(&got, c.Turn.Trace)
			if err == nil {
				_, err = mark(got.Body, "0123@1.2")
			}
			if !errors.Is(err, errForm) && !errors.Is(err, events.ErrFormat) {
				t.Errorf("%s, prefix %q: %v", what, prefix, err)
			}
		}
	}
}
