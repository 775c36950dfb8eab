package jetlog

import "testing"

func BenchmarkZZ(b *testing.B) {
	log, s, err := OpenEmbedded(b.Context(), ServerConfig{Dir: b.TempDir()}, Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { log.Close(); s.Close() })
	b.ReportAllocs()
	for b.Loop() {
		if err := s.files.sync(); err != nil {
			b.Fatal(err)
		}
	}
}
