package events

import (
	"reflect"
	"testing"
)

// TestOutcomeOf looks at every kind: whoever adds one that has an outcome decides
// here whether it is an attempt's own.
func TestOutcomeOf(t *testing.T) {
	others := map[Kind]bool{KindDeduplicated: true}
	for _, row := range Kinds {
		e := row.New()
		field := reflect.ValueOf(e).Elem().FieldByName("Outcome")
		own := field.IsValid() && !others[row.Kind]
		switch o := OutcomeOf(e); {
		case own && o == nil:
			t.Errorf("%s has an outcome, and none is told", row.Kind)
		case !own && o != nil:
			t.Errorf("%s: an outcome is told that is not its own", row.Kind)
		case own && reflect.ValueOf(o).Pointer() != field.Addr().Pointer():
			t.Errorf("%s: the outcome is a copy", row.Kind)
		}
	}
	if o := OutcomeOf(Foreign{Name: KindCompleted, Version: 99}); o != nil {
		t.Errorf("an event of a newer release has the outcome %+v", o)
	}
}
