package otlp

import (
	"maps"
	"slices"
	"strings"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy/secrets"
	"github.com/sluice-run/sluice/projections"
)

// maxContent is the length in bytes of the longest arguments or result in a span.
const maxContent = 8 << 10

// scopeName says who made the spans.
const scopeName = "github.com/sluice-run/sluice"

// frame is what stands around the spans of every request.
type frame struct {
	resource *resourcepb.Resource
	scope    *commonpb.InstrumentationScope
}

// about is the frame of an exporter's requests.
func about(c Config) frame {
	attrs := map[string]string{"service.name": "sluice", "service.version": c.Version}
	maps.Copy(attrs, c.Resource)
	f := frame{
		resource: &resourcepb.Resource{},
		scope:    &commonpb.InstrumentationScope{Name: scopeName, Version: valid(c.Version)},
	}
	for _, key := range slices.Sorted(maps.Keys(attrs)) {
		if attrs[key] != "" {
			f.resource.Attributes = append(f.resource.Attributes, text(key, attrs[key]))
		}
	}
	return f
}

// request is a request with spans.
func (f frame) request(spans []*tracepb.Span) *coltracepb.ExportTraceServiceRequest {
	return &coltracepb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource:   f.resource,
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: f.scope, Spans: spans}},
	}}}
}

// text is an attribute. Without valid UTF-8 in it nothing could be sent at all.
func text(key, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: valid(key), Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: valid(value)}}}
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Bits of a span's flags beside those of the W3C.
const (
	flagKnown  = 0x100 // it is known whether the parent is remote
	flagRemote = 0x200 // it is
)

// spanOf is a span as a collector takes it. What looks like a secret is taken out of
// every text that a tool, a model or a person has written.
func spanOf(s projections.Span) *tracepb.Span {
	out := &tracepb.Span{
		TraceId: s.Trace[:], SpanId: s.ID[:], Name: s.Name, Kind: tracepb.Span_SPAN_KIND_INTERNAL,
		Flags:             uint32(s.Flags) | flagKnown,
		StartTimeUnixNano: nanos(s.Start), EndTimeUnixNano: nanos(s.End),
		Attributes: attributes(s.Attrs), DroppedEventsCount: uint32(s.More),
		Status: &tracepb.Status{},
	}
	if s.Parent != (events.SpanID{}) {
		out.ParentSpanId = s.Parent[:]
	}
	if s.Door {
		out.Kind = tracepb.Span_SPAN_KIND_SERVER
		if out.ParentSpanId != nil {
			out.Flags |= flagRemote
		}
	}
	if s.Failed {
		out.Status.Code, out.Status.Message = tracepb.Status_STATUS_CODE_ERROR, secrets.Redact(s.Why)
	}
	for _, e := range s.Events {
		out.Events = append(out.Events, &tracepb.Span_Event{Name: e.Name, TimeUnixNano: nanos(e.At), Attributes: attributes(e.Attrs)})
	}
	for _, l := range s.Links {
		out.Links = append(out.Links, &tracepb.Span_Link{
			TraceId: s.Trace[:], SpanId: l.Span[:], Flags: uint32(s.Flags) | flagKnown,
			Attributes: []*commonpb.KeyValue{text("sluice.link", l.What)},
		})
	}
	return out
}

func nanos(t time.Time) uint64 { return uint64(max(0, t.UnixNano())) }

func attributes(attrs projections.Attrs) []*commonpb.KeyValue {
	out := make([]*commonpb.KeyValue, len(attrs))
	for i, a := range attrs {
		switch {
		case a.Text != "":
			out[i] = text(a.Key, clean(a.Key, a.Text))
		case a.Yes:
			out[i] = &commonpb.KeyValue{Key: a.Key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: true}}}
		default:
			out[i] = &commonpb.KeyValue{Key: a.Key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: a.Num}}}
		}
	}
	return out
}

// clean is a text without secrets. The provider's id of a call, and our own names, are
// none whatever they look like: they say which call a span is of.
func clean(key, s string) string {
	switch key {
	case projections.AttrProviderID, projections.AttrConversation, projections.AttrTrace, projections.AttrTurn, projections.AttrBoot,
		projections.AttrPosition, projections.AttrTool, projections.AttrOf:
		return s
	case projections.AttrArguments, projections.AttrResult:
		return projections.Shortened(secrets.Redact(s), maxContent)
	}
	return secrets.Redact(s)
}
