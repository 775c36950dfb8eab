// Package collector is a collector of OpenTelemetry for tests: it takes spans over HTTP
// and gRPC, remembers each with how often it came, and answers as it is told to.
package collector

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // so that compressed requests are read
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Answer is what the collector says to a request. The zero value takes it.
type Answer struct {
	Status     int        // of HTTP; 0 means 200
	Code       codes.Code // of gRPC
	RetryAfter string     // the header; of gRPC: a duration, as Go writes it
	Rejected   int64      // spans that it does not take, of a request that it takes
	Message    string
	Keep       bool // the spans have come in, though the answer says otherwise, or is lost
}

// Span is a span that came in.
type Span struct {
	*tracepb.Span
	Attrs    map[string]any    // string, int64 or bool
	Resource map[string]string // of what it is
	Times    int               // that it came in; the first time counts for the rest
}

// ID is the span's id in hexadecimal digits.
func (s Span) ID() string { return hex.EncodeToString(s.SpanId) }

// Collector is what has come in. It may be used from many goroutines.
type Collector struct {
	coltracepb.UnimplementedTraceServiceServer

	mu       sync.Mutex
	answer   func(request, spans int) Answer
	requests int
	order    []string
	spans    map[string]*Span
	headers  http.Header // of the last request
}

// New makes a collector that takes everything.
func New() *Collector { return &Collector{spans: make(map[string]*Span)} }

// Say has f answer from now on: it is told the number of the request, from 1, and of
// its spans. nil takes everything.
func (c *Collector) Say(f func(request, spans int) Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = f
}

// Requests says how many have come in.
func (c *Collector) Requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}

// Headers are those of the last request, of gRPC too.
func (c *Collector) Headers() http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.headers.Clone()
}

// Spans are all that came in, in order.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]Span, len(c.order))
	for i, id := range c.order {
		out[i] = *c.spans[id]
	}
	return out
}

// Named are the spans whose name begins so.
func (c *Collector) Named(prefix string) (out []Span) {
	for _, s := range c.Spans() {
		if strings.HasPrefix(s.Name, prefix) {
			out = append(out, s)
		}
	}
	return out
}

// HTTP serves over HTTP until the test ends, and returns the address.
func (c *Collector) HTTP(t *testing.T) string {
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	return s.URL
}

// GRPC serves over gRPC until the test ends, and returns the address.
func (c *Collector) GRPC(t *testing.T, opts ...grpc.ServerOption) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(opts...)
	coltracepb.RegisterTraceServiceServer(s, c)
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Serve(l) }) // until it is stopped
	t.Cleanup(func() {
		s.Stop()
		wg.Wait()
	})
	return "http://" + l.Addr().String()
}

// take notes a request, and says how it is answered.
func (c *Collector) take(req *coltracepb.ExportTraceServiceRequest, h http.Header) Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	c.headers = h
	spans := 0
	for _, r := range req.ResourceSpans {
		for _, s := range r.ScopeSpans {
			spans += len(s.Spans)
		}
	}
	var a Answer
	if c.answer != nil {
		a = c.answer(c.requests, spans)
	}
	if a.Keep || (a.Status == 0 || a.Status == http.StatusOK) && a.Code == codes.OK && a.Rejected == 0 {
		c.keep(req)
	}
	return a
}

func (c *Collector) keep(req *coltracepb.ExportTraceServiceRequest) {
	for _, r := range req.ResourceSpans {
		about := make(map[string]string)
		for _, a := range r.GetResource().GetAttributes() {
			about[a.Key] = a.Value.GetStringValue()
		}
		for _, scope := range r.ScopeSpans {
			for _, s := range scope.Spans {
				c.add(s, about)
			}
		}
	}
}

func (c *Collector) add(s *tracepb.Span, about map[string]string) {
	id := hex.EncodeToString(s.TraceId) + hex.EncodeToString(s.SpanId)
	if was := c.spans[id]; was != nil {
		was.Times++
		return
	}
	attrs := make(map[string]any)
	for _, a := range s.Attributes {
		switch v := a.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			attrs[a.Key] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			attrs[a.Key] = v.IntValue
		case *commonpb.AnyValue_BoolValue:
			attrs[a.Key] = v.BoolValue
		}
	}
	c.order = append(c.order, id)
	c.spans[id] = &Span{Span: s, Attrs: attrs, Resource: about, Times: 1}
}

// ServeHTTP is http.Handler's, for OTLP over HTTP in protobuf.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "not OTLP", http.StatusNotFound)
		return
	}
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = z
	}
	raw, err := io.ReadAll(body)
	req := new(coltracepb.ExportTraceServiceRequest)
	if err != nil || proto.Unmarshal(raw, req) != nil {
		http.Error(w, "no request", http.StatusBadRequest)
		return
	}
	a := c.take(req, r.Header)
	if a.RetryAfter != "" {
		w.Header().Set("Retry-After", a.RetryAfter)
	}
	out, err := proto.Marshal(response(a))
	if err != nil {
		panic(err) // a struct of plain members
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	if a.Status != 0 {
		w.WriteHeader(a.Status)
	}
	_, _ = w.Write(out) // who asked may be gone
}

func response(a Answer) *coltracepb.ExportTraceServiceResponse {
	out := new(coltracepb.ExportTraceServiceResponse)
	if a.Rejected > 0 || a.Message != "" {
		out.PartialSuccess = &coltracepb.ExportTracePartialSuccess{RejectedSpans: a.Rejected, ErrorMessage: a.Message}
	}
	return out
}

// Export is OTLP over gRPC.
func (c *Collector) Export(ctx context.Context, req *coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTraceServiceResponse, error) {
	h := make(http.Header)
	md, _ := metadata.FromIncomingContext(ctx)
	for name, values := range md {
		h[http.CanonicalHeaderKey(name)] = values
	}
	a := c.take(req, h)
	if a.Code == codes.OK {
		return response(a), nil
	}
	st := status.New(a.Code, a.Message)
	if d, err := time.ParseDuration(a.RetryAfter); err == nil {
		with, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
		if err != nil {
			return nil, err
		}
		st = with
	}
	return nil, st.Err()
}
