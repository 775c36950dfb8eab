package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
)

// Bounds in bytes of a collector's answer. One that takes spans may have something to say
// about each, and gRPC knows of no answer of which only the beginning is read: a larger one
// there is a failure.
const (
	maxAnswer = 4 << 20
	maxHeader = 64 << 10
)

// httpSender sends protobuf over HTTP.
type httpSender struct {
	target Target
	frame  frame
	client *http.Client
}

func newHTTPSender(t Target, f frame) *httpSender {
	return &httpSender{target: t, frame: f, client: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // headers are for this one
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: t.TLS, TLSHandshakeTimeout: t.timeout(), ForceAttemptHTTP2: true,
			MaxResponseHeaderBytes: maxHeader, MaxIdleConns: 2, IdleConnTimeout: 30 * time.Second,
		},
	}}
}

func (s *httpSender) close() { s.client.CloseIdleConnections() }

func (s *httpSender) send(ctx context.Context, spans []*tracepb.Span) (int64, string, error) {
	ctx, stop := context.WithTimeout(ctx, s.target.timeout())
	defer stop()
	body, err := proto.Marshal(s.frame.request(spans))
	if err != nil {
		return 0, "", &failure{refused: true, err: err}
	}
	if s.target.Gzip {
		if body, err = zipped(body); err != nil {
			return 0, "", err
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.target.URL.String(), bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	for name, value := range s.target.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("User-Agent", "sluice")
	req.Header.Set("Content-Type", "application/x-protobuf")
	if s.target.Gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	res, err := s.client.Do(req)
	if err != nil {
		var of *url.Error
		if errors.As(err, &of) {
			err = of.Err // without the address, whose query may be a secret
		}
		return 0, "", &failure{err: err}
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil && res.StatusCode < http.StatusMultipleChoices {
		return 0, "", &failure{err: err}
	}
	return s.verdict(res, answer)
}

func zipped(body []byte) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(body); err != nil {
		return nil, err
	}
	err := z.Close()
	return out.Bytes(), err
}

// verdict is what an answer means. Only what says that the request itself is bad is for
// good: a wrong token or path is mended, and then the log still has everything.
func (s *httpSender) verdict(res *http.Response, body []byte) (int64, string, error) {
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		var said coltracepb.ExportTraceServiceResponse
		if !isProtobuf(res) || proto.Unmarshal(body, &said) != nil {
			return 0, "", nil // it has taken them, whatever it says
		}
		return said.GetPartialSuccess().GetRejectedSpans(), clip(said.GetPartialSuccess().GetErrorMessage()), nil
	}
	var why spb.Status
	err := fmt.Errorf("it answered %d", res.StatusCode)
	if isProtobuf(res) && proto.Unmarshal(body, &why) == nil && why.Message != "" {
		err = fmt.Errorf("it answered %d: %s", res.StatusCode, clip(why.Message))
	}
	switch res.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return 0, "", &failure{refused: true, err: err}
	}
	return 0, "", &failure{after: retryAfter(res.Header.Get("Retry-After"), res.Header.Get("Date")), err: err}
}

func isProtobuf(res *http.Response) bool {
	media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return err == nil && media == "application/x-protobuf"
}

// retryAfter is the time that a collector wants to be left alone: seconds, or a date,
// by its own clock where it tells it.
func retryAfter(value, date string) time.Duration {
	if n, err := strconv.Atoi(value); err == nil || errors.Is(err, strconv.ErrRange) { // n is as large as a number may be, then
		return time.Duration(min(max(0, n), int(maxAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(value)
	now, without := http.ParseTime(date)
	if err != nil || without != nil {
		return 0
	}
	return min(max(0, at.Sub(now)), maxAfter)
}

// clip is a collector's text, bounded and in one line.
func clip(s string) string { return fmt.Sprintf("%.300q", s) }
