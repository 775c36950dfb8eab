package bus

import (
	"strings"
	"testing"
)

func TestWhoIsToldFromOtherNotes(t *testing.T) {
	for _, w := range []Who{{}, {Turns: true}, {Name: "n", AckWaitMS: 7}} {
		if got, ok := ParseWho(w.Encode()); !ok || got != w {
			t.Errorf("%s is %+v, %t", w.Encode(), got, ok)
		}
	}
	for _, note := range []string{``, `{}`, `{"turn":{"trace":"t","turn":"u"}}`, `{"who":7}`, `nonsense`, `{"who":{"name":"` + strings.Repeat("x", maxWho) + `"}}`} {
		if w, ok := ParseWho([]byte(note)); ok {
			t.Errorf("%.40s is %+v", note, w)
		}
	}
	if s, ok := ParseStatus([]byte(`{"mine":false}`)); ok {
		t.Errorf("the answer of an earlier release is %+v", s)
	}
}
