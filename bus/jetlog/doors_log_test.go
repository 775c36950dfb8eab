package jetlog

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// TestDroppedRequestIsNamed: the log says in words whose request was dropped, and where its
// answer would have gone, no more of either than fits a line.
func TestDroppedRequestIsNamed(t *testing.T) {
	var b bytes.Buffer
	p := &porch{log: slog.New(slog.NewTextHandler(&b, nil))}
	p.hear(&nats.Msg{Subject: "sluice.api.ann.inbox", Reply: "_INBOX.bob.x"})
	p.hear(&nats.Msg{Subject: "sluice.api.ann." + strings.Repeat("x", 1000), Reply: "a b"})
	for _, part := range []string{"subject=sluice.api.ann.inbox reply=_INBOX.bob.x\n", `reply="a b"`} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("no %q in %s", part, b.String())
		}
	}
	if strings.Contains(b.String(), strings.Repeat("x", 101)) {
		t.Error("a long subject stands whole in the log")
	}
}
