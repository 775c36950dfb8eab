package sandbox

import "testing"

func TestLook(t *testing.T) {
	m, err := Look(t.Context())
	t.Logf("%+v", m.Use)
	for _, p := range m.Parts {
		t.Logf("%+v", p)
	}
	t.Log(err)
}
