package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/gateway"
)

// webhookSettings say who is told of what waits for people.
type webhookSettings struct {
	url, secret string
	attempts    int
	timeout     time.Duration
}

func (h *webhookSettings) webhookFlags(f *pflag.FlagSet) {
	f.StringVar(&h.url, "webhook", "", "`URL` that is told of what waits for people and how it was answered: https, or http on this machine; left out: nobody is")
	f.StringVar(&h.secret, "webhook-secret", "", "`file` with the secrets that bodies are signed with, one a line, for this user's eyes only; left out: they are not signed")
	f.IntVar(&h.attempts, "webhook-attempts", 12, "how often one notice is sent before it is given up, 1 to 100")
	f.DurationVar(&h.timeout, "webhook-timeout", 10*time.Second, "how long one request may take, 1s to 1m")
}

// Bounds of secrets of a webhook.
const (
	minHookSecret  = 16 // bytes
	maxHookSecrets = 4
)

// webhook is what the settings say of a webhook; nil where there is none.
func (s *settings) webhook() (*gateway.WebhookConfig, error) {
	h := s.hook
	if h.url == "" {
		if h.secret != "" {
			return nil, exit.Misused(errors.New("--webhook-secret without --webhook"), "say where to send with --webhook")
		}
		return nil, nil
	}
	to, err := gateway.CheckWebhook(h.url)
	if err != nil {
		return nil, exit.Misused(fmt.Errorf("--webhook: %w", err), "for example https://chat.example/hooks/sluice")
	}
	secrets, err := hookSecrets(h.secret)
	if err != nil {
		return nil, err
	}
	return &gateway.WebhookConfig{URL: to, Secrets: secrets, Timeout: h.timeout, Attempts: h.attempts, Rand: rand.Float64}, nil
}

// hookSecrets reads the secrets of a webhook. One that begins with whsec_ is base64, as
// many receivers make it; any other is taken as it stands.
func hookSecrets(path string) ([][]byte, error) {
	if path == "" {
		return nil, nil
	}
	bad := func(err error) error {
		return exit.Misused(fmt.Errorf("--webhook-secret: %w", err), "write one secret a line, and let nobody else read the file: chmod 600")
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, bad(err)
	}
	if m := info.Mode().Perm(); m&0o077 != 0 {
		return nil, bad(fmt.Errorf("%s can be read or written by others (mode %04o)", path, m))
	}
	body, err := readSmall(path, 4<<10)
	if err != nil {
		return nil, bad(err)
	}
	var out [][]byte
	for line := range bytes.Lines(body) {
		secret := bytes.TrimSpace(line)
		if len(secret) == 0 {
			continue
		}
		if text, coded := bytes.CutPrefix(secret, []byte("whsec_")); coded {
			if secret, err = base64.StdEncoding.DecodeString(string(text)); err != nil {
				return nil, bad(fmt.Errorf("%s: what stands behind whsec_ is no base64", path))
			}
		}
		if len(secret) < minHookSecret {
			return nil, bad(fmt.Errorf("%s: a secret of %d bytes, at least %d", path, len(secret), minHookSecret))
		}
		out = append(out, secret)
	}
	if len(out) == 0 || len(out) > maxHookSecrets {
		return nil, bad(fmt.Errorf("%s: %d secrets, want 1 to %d", path, len(out), maxHookSecrets))
	}
	return out, nil
}

// startWebhook begins to tell, where the settings say whom.
func (s *serving) startWebhook(ctx context.Context, c *gateway.WebhookConfig) {
	if c == nil {
		return
	}
	if len(c.Secrets) == 0 {
		s.log.Warn("the webhook's bodies are not signed: whoever can reach the receiver can tell it anything; see --webhook-secret")
	}
	c.Desk, c.Holder, c.Log, c.Count = s.node.desk, s.node.boot, s.log, s.node.metrics.Count
	s.hook = gateway.NewWebhook(*c)
	s.hook.Start(ctx)
}
