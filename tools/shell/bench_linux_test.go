package shell

import (
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools/sandbox"
)

// BenchmarkStart is what a command costs that does nothing, by what contains it.
func BenchmarkStart(b *testing.B) {
	m, err := sandbox.Look(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	landlock := m.Use
	landlock.Namespaces = false
	for _, c := range []struct {
		name string
		use  sandbox.Use
	}{
		{"off", sandbox.Use{}},
		{"limits", sandbox.Use{Limits: true, Seccomp: m.Use.Seccomp}},
		{"landlock", landlock},
		{"all", m.Use},
	} {
		b.Run(c.name, func(b *testing.B) {
			dir := b.TempDir()
			for b.Loop() {
				if r := runBare(b.Context(), b, Config{Sandbox: sandbox.Policy{Use: c.use}}, dir, Args{Command: "true"}); r.Class != events.ClassOK {
					b.Fatalf("%+v", r)
				}
			}
		})
	}
}
