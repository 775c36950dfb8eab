package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sluice-run/sluice/gateway/keys"
	"github.com/sluice-run/sluice/policy/access"
)

// nowhereWriter takes an answer and keeps nothing of it.
type nowhereWriter struct {
	h      http.Header
	status int
}

func (w *nowhereWriter) Header() http.Header         { return w.h }
func (w *nowhereWriter) Write(b []byte) (int, error) { return len(b), nil }
func (w *nowhereWriter) WriteHeader(status int)      { w.status = status }

// BenchmarkGuard is what a request costs before anything is done for it, among a thousand
// tokens: all that stands before a resource, and an answer of a few bytes.
func BenchmarkGuard(b *testing.B) {
	var f keys.File
	for i := range 1000 {
		f.Principals = append(f.Principals, someone(fmt.Sprint("p", i), "", access.Submitter, access.Observer))
	}
	ring, err := f.Ring()
	if err != nil {
		b.Fatal(err)
	}
	for name, c := range map[string]struct {
		conf   APIConfig
		token  string
		status int
	}{
		"believed": {APIConfig{Tools: noTools}, "", 200},
		"known":    {APIConfig{Tools: noTools, Keys: func() *keys.Ring { return ring }}, tokenOf("p500"), 200},
		"unknown":  {APIConfig{Tools: noTools, Keys: func() *keys.Ring { return ring }}, "sluice_guess", 0},
		"limited":  {APIConfig{Tools: noTools, Keys: func() *keys.Ring { return ring }, Limits: Limits{Rate: 1e12}}, tokenOf("p500"), 200},
	} {
		b.Run(name, func(b *testing.B) {
			h := NewAPI(c.conf).Handler()
			r := httptest.NewRequest("GET", "http://localhost/v1/tools", nil)
			r.RemoteAddr = "127.0.0.1:1"
			if c.token != "" {
				r.Header.Set("Authorization", "Bearer "+c.token)
			}
			w := &nowhereWriter{h: make(http.Header)}
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(w, r)
			}
			if c.status != 0 && w.status != c.status {
				b.Errorf("%d", w.status)
			}
		})
	}
}

func noTools(context.Context, string) (json.RawMessage, error) { return json.RawMessage("[]"), nil }
