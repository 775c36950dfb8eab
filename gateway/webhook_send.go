package gateway

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Names of the headers of a webhook's request; see WebhookSignature.
const (
	HeaderWebhookID        = "Webhook-Id"
	HeaderWebhookTimestamp = "Webhook-Timestamp" // seconds since 1970
	HeaderWebhookSignature = "Webhook-Signature"
)

// CheckWebhook returns the address of a webhook, or an error that says what is wrong:
// it is https, or http on this machine, and holds no password.
func CheckWebhook(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, errors.New("the address cannot be read") // its text may hold a secret
	case u.Host == "" || u.Hostname() == "":
		return nil, errors.New("the address names no host: want https://host/path")
	case u.User != nil:
		return nil, errors.New("the address holds a user or a password: bodies are signed with a secret instead")
	case u.Fragment != "":
		return nil, errors.New("the address has a fragment, which no server sees")
	case u.Scheme == "https":
		return u, nil
	case u.Scheme == "http" && loopback(u.Hostname()):
		return u, nil
	}
	return nil, fmt.Errorf("%s://%s: want https, or http on this machine's own addresses", u.Scheme, u.Hostname())
}

// loopback says whether a host's name is this machine's own.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// WebhookSignature is the signature of a body under one secret: "v1," and the base64 of
// the HMAC-SHA256 of "<id>.<timestamp>.<body>". Who receives it takes a body only if one
// of the signatures in the header, which blanks separate, is this one, and if the
// timestamp is not older than a few minutes: then nobody can send an old one again.
func WebhookSignature(secret []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	_, _ = fmt.Fprintf(mac, "%s.%s.", id, timestamp) // a hash takes everything
	_, _ = mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// webhookSender posts bodies. It follows no redirect, and asks no proxy.
type webhookSender struct {
	to      string
	secrets [][]byte
	client  *http.Client
}

func newWebhookSender(c WebhookConfig) *webhookSender {
	dialer := &net.Dialer{Timeout: c.Timeout}
	if c.URL.Scheme == "http" {
		dialer.Control = onlyLoopback // a name may lead elsewhere by now
	}
	return &webhookSender{to: c.URL.String(), secrets: c.Secrets, client: &http.Client{
		Timeout:       c.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: c.Timeout, ResponseHeaderTimeout: c.Timeout,
			MaxResponseHeaderBytes: 64 << 10, MaxIdleConns: 1, IdleConnTimeout: 30 * time.Second,
		},
	}}
}

func onlyLoopback(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err == nil && at.Addr().Unmap().IsLoopback() {
		return nil
	}
	return fmt.Errorf("%s is not this machine, and http goes nowhere else", address)
}

func (s *webhookSender) close() { s.client.CloseIdleConnections() }

// post sends a body. after is how long the other side wants to be left alone.
func (s *webhookSender) post(ctx context.Context, id string, body []byte, now time.Time) (after time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.to, bytes.NewReader(body))
	if err != nil {
		return 0, errors.New("the address cannot be asked")
	}
	stamp := strconv.FormatInt(now.Unix(), 10)
	req.Header.Set("Content-Type", "application/cloudevents+json; charset=utf-8")
	req.Header.Set("User-Agent", "sluice-webhook")
	req.Header.Set(HeaderWebhookID, id)
	req.Header.Set(HeaderWebhookTimestamp, stamp)
	signatures := make([]string, len(s.secrets))
	for i, secret := range s.secrets {
		signatures[i] = WebhookSignature(secret, id, stamp, body)
	}
	if len(signatures) > 0 {
		req.Header.Set(HeaderWebhookSignature, strings.Join(signatures, " "))
	}
	res, err := s.client.Do(req)
	if err != nil {
		var of *url.Error
		if errors.As(err, &of) {
			err = of.Err // without the address, whose query may be a secret
		}
		return 0, err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // so that the connection can be used again
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return 0, nil
	}
	if n, bad := strconv.Atoi(res.Header.Get("Retry-After")); bad == nil && n > 0 {
		after = time.Duration(min(n, 3600)) * time.Second
	}
	return after, fmt.Errorf("it answered %d", res.StatusCode)
}
