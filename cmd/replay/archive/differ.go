package archive

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// shown is how many runes of a value are shown.
const shown = 60

// show is a stranger's text as it can be printed.
func show(s string) string {
	r := []rune(tools.Visible(s))
	if len(r) > shown {
		return string(r[:shown]) + "…"
	}
	return string(r)
}

// differ names the first difference between a commit of an archive and one of a log.
func differ(ours, theirs events.Commit) string {
	if ours.ID != theirs.ID {
		return fmt.Sprintf("its id is %s, the archive's is %s", show(theirs.ID), show(ours.ID))
	}
	for i, r := range ours.Records {
		if i >= len(theirs.Records) {
			return fmt.Sprintf("it has %d events, the archive's %d", len(theirs.Records), len(ours.Records))
		}
		t := theirs.Records[i]
		if r.Call != t.Call || r.Event.Kind() != t.Event.Kind() {
			return fmt.Sprintf("event %d is %s, in the archive %s", i, what(t), what(r))
		}
		if reflect.DeepEqual(r, t) {
			continue
		}
		if path := path(value(r.Event), value(t.Event), ""); path != "" {
			return fmt.Sprintf("event %d, %s, differs in %s", i, what(r), path)
		}
	}
	switch {
	case len(theirs.Records) > len(ours.Records):
		return fmt.Sprintf("it has %d events, the archive's %d", len(theirs.Records), len(ours.Records))
	case !theirs.At.Equal(ours.At):
		return fmt.Sprintf("it was decided at %s, the archive's at %s", theirs.At, ours.At)
	case theirs.By != ours.By:
		return fmt.Sprintf("its owner is %s, the archive's %s", show(theirs.By.Boot), show(ours.By.Boot))
	}
	return "in something that this release does not know"
}

func what(r events.Record) string {
	if r.Call == events.TurnEvent {
		return show(string(r.Event.Kind()))
	}
	return fmt.Sprintf("%s of call %d", show(string(r.Event.Kind())), r.Call)
}

// value is an event as JSON has it.
func value(e events.Event) any {
	b, err := json.Marshal(e)
	var v any
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		return nil
	}
	return v
}

// path is the JSON Pointer to the first difference; "" if there is none.
func path(a, b any, at string) string {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			return at
		}
		keys := maps.Clone(x)
		maps.Copy(keys, y)
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			if p := path(x[k], y[k], at+"/"+show(k)); p != "" {
				return p
			}
		}
		return ""
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return at
		}
		for i := range x {
			if p := path(x[i], y[i], at+"/"+strconv.Itoa(i)); p != "" {
				return p
			}
		}
		return ""
	}
	if !reflect.DeepEqual(a, b) {
		return at
	}
	return ""
}
