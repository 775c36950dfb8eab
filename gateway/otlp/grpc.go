package otlp

import (
	"context"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// grpcSender sends over gRPC.
type grpcSender struct {
	target Target
	frame  frame
	conn   *grpc.ClientConn
	client coltracepb.TraceServiceClient
	with   []grpc.CallOption
}

func newGRPCSender(t Target, f frame) (*grpcSender, error) {
	secure := insecure.NewCredentials()
	if t.secure() {
		secure = credentials.NewTLS(t.TLS)
	}
	conn, err := grpc.NewClient("dns:///"+t.URL.Host, grpc.WithTransportCredentials(secure), grpc.WithUserAgent("sluice"),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry()) // whoever calls tries again, and says so
	if err != nil {
		return nil, err
	}
	s := &grpcSender{target: t, frame: f, conn: conn, client: coltracepb.NewTraceServiceClient(conn)}
	s.with = []grpc.CallOption{grpc.MaxCallRecvMsgSize(maxAnswer)}
	if t.Gzip {
		s.with = append(s.with, grpc.UseCompressor(gzip.Name))
	}
	return s, nil
}

func (s *grpcSender) close() { _ = s.conn.Close() } // it was closed before, which is as good

func (s *grpcSender) send(ctx context.Context, spans []*tracepb.Span) (int64, string, error) {
	ctx, stop := context.WithTimeout(ctx, s.target.timeout())
	defer stop()
	if len(s.target.Headers) > 0 {
		ctx = metadata.NewOutgoingContext(ctx, metadata.New(s.target.Headers))
	}
	said, err := s.client.Export(ctx, s.frame.request(spans), s.with...)
	if err == nil {
		return said.GetPartialSuccess().GetRejectedSpans(), clip(said.GetPartialSuccess().GetErrorMessage()), nil
	}
	st := status.Convert(err)
	after, asked := retryInfo(st)
	f := &failure{after: after, err: err}
	switch st.Code() {
	case codes.InvalidArgument:
		f.refused = true
	case codes.ResourceExhausted: // a message that is too large, unless it says when to come back
		f.refused = !asked && len(spans) > 1
	}
	return 0, "", f
}

// retryInfo is the time that a collector wants to be left alone, and whether it says so.
func retryInfo(st *status.Status) (time.Duration, bool) {
	for _, d := range st.Details() {
		if r, ok := d.(*errdetails.RetryInfo); ok {
			return min(max(0, r.GetRetryDelay().AsDuration()), maxAfter), true
		}
	}
	return 0, false
}
