package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/vmihailenco/msgpack/v5"
)

var (
	hostileSeed  = flag.Uint64("hostile-seed", uint64(time.Now().UnixNano()), "what the hostile clients of NATS do")
	hostileCount = flag.Int("hostile-count", 1500, "how many messages each of them sends")
)

// hostile makes messages that nobody means well with.
type hostile struct {
	r    *rand.Rand
	boot string
}

func (h *hostile) pick(list ...string) string { return list[h.r.IntN(len(list))] }

// subject is one that a node reads, or something like it.
func (h *hostile) subject(log bool) string {
	token := func() string {
		return h.pick("x", "t1", "host", "_", "*", ">", "a.b", "", "=41", "=4", "\u202e", strings.Repeat("y", 200), h.boot, "ann", "default", "undo")
	}
	all := []string{
		"sluice.api." + h.pick("planner", "ann", "eye", token()) + "." + h.pick("submit", "approve", "events", "cancel", token()),
		"sluice.ask." + h.pick(h.boot, "barrier", token()), "sluice.turns." + h.pick("default", token()), "sluice.wake." + token() + "." + token(),
		"sluice.timer." + token(), "sluice.timer._cancel", "sluice.due." + token() + "." + token(),
		"sluice.live." + h.pick("turn_completed", "turn_abandoned", "progress", token()) + ".echo." + token() + "." + token() + ".0",
		"$KV.SLUICE_" + h.pick("presence", "breaker", "lock", "keys") + "." + token(), "$O.SLUICE_BLOBS." + h.pick("C", "M") + "." + token(),
		"$JS.ACK.SLUICE_TURNS." + h.pick("turns_default", "wake") + "." + fmt.Sprintf("%d.%d.%d.%d.0", h.r.IntN(5), h.r.IntN(50), h.r.IntN(50), h.r.Uint64()),
		"_INBOX._node." + token(), "_INBOX.ann." + token(), "$SRV." + h.pick("PING", "INFO.sluice", "STATS.sluice."+token()), token(),
	}
	if log {
		all = append(all, "sluice.ev."+h.pick("x", "host", token())+"."+h.pick("t1", token()))
	}
	return all[h.r.IntN(len(all))]
}

// body is bytes of any kind.
func (h *hostile) body() []byte {
	switch h.r.IntN(9) {
	case 0:
		return nil
	case 1:
		b := make([]byte, h.r.IntN(300))
		for i := range b {
			b[i] = byte(h.r.Uint32())
		}
		return b
	case 2:
		return []byte(strings.Repeat("[", 1+h.r.IntN(100_000)))
	case 3:
		return make([]byte, h.r.IntN(1<<20))
	case 4: // an item of the queue, for a turn that may not be there
		b, _ := msgpack.Marshal(map[string]any{
			"id": h.pick("a", "b"), "t": map[string]any{"trace": "host", "turn": h.pick("t1", "t2", "../x")}, "s": h.r.Uint64(), "g": h.r.Uint32(),
			"c": []byte(h.pick("", "\x81", "{}")), "p": h.pick("default", "*", ">"),
		})
		return b[:len(b)-h.r.IntN(2)*h.r.IntN(len(b))]
	case 5: // a note
		return []byte(h.pick(`{"who":{"turns":true,"name":"\u001b[2J","ack_wait_ms":-1}}`, `{"who":null}`, `{"who":{"ack_wait_ms":1e300}}`, `{"mine":"host/t1"}`, `"x"`))
	case 6: // an act
		return []byte(h.pick(`{"trace":"host","turn":"t1","call":0}`, `{"trace":"host","turn":"t1","call":0,"principal":"ann"}`, `{"calls":[{"tool":"charge","args":{"amount":1,"order":"h"}}],"principal":"ops"}`,
			`{"trace":"host","turn":"t1","call":99999999999999999999}`, `{"from":"start","limit":1000,"wait_ms":1}`))
	case 7: // a live event
		return []byte(h.pick(`{"position":"1.99999999.0"}`, `{"position":"x"}`, `{"position":"4294967295.18446744073709551615.1"}`))
	}
	return []byte{0x81, 0xa1, 'v', 0xce, 0xff, 0xff, 0xff, 0xff}
}

// message is any of them, with a reply subject and headers of any kind.
func (h *hostile) message(log bool) *nats.Msg {
	m := &nats.Msg{Subject: h.subject(log), Data: h.body(), Header: nats.Header{}}
	if h.r.IntN(2) == 0 {
		m.Reply = h.pick("_INBOX.ann.x", "_INBOX.planner.x", "sluice.wake.host.t1", "$KV.SLUICE_lock.x", h.subject(log))
		if log && h.r.IntN(3) == 0 { // of a node's message the server itself would put its acknowledgement there: a node can write the log anyway
			m.Reply = "sluice.ev.host.t1"
		}
	}
	for range h.r.IntN(3) {
		m.Header[h.pick("Nats-Msg-Id", "Nats-Expected-Last-Subject-Sequence", "Nats-TTL", "Nats-Schedule", "Nats-Schedule-Target", "Status", "Traceparent", "KV-Operation", "X")] = []string{h.pick("", "0", "503", "1s", "never", "@at 2026-01-01T00:00:00Z", "sluice.ev.host.t1", "DEL", "PURGE", strings.Repeat("z", 1000))}
	}
	return m
}

// throw sends messages, those that the client itself lets through.
func (h *hostile) throw(t *testing.T, nc *nats.Conn, log bool) {
	t.Helper()
	sent := 0
	for range *hostileCount {
		if err := nc.PublishMsg(h.message(log)); err == nil {
			sent++
		}
	}
	if err := nc.FlushTimeout(patience); err != nil {
		t.Fatalf("after %d messages: %v", sent, err)
	}
}

// TestNATSHostile: whatever clients send, with the rights of people or of a node, the node
// neither breaks nor does what nobody may ask for, and goes on.
func TestNATSHostile(t *testing.T) {
	t.Parallel()
	t.Logf("reproduce: go test ./test/e2e -run TestNATSHostile -hostile-seed=%d -hostile-count=%d", *hostileSeed, *hostileCount)
	p := newPlace(t)
	users := p.natsUsers()
	n := p.serve("--nats-users", users)
	planner := n.guest("planner")
	planner.want("202", "", "submit", args{"trace": "host", "turn": "t1", "can_ask": true, "calls": []call{ask("never")}})
	n.inbox("host", 1)
	h := &hostile{r: rand.New(rand.NewPCG(*hostileSeed, 1)), boot: n.Boot}
	before := len(n.events("host", "t1"))
	for _, user := range []string{"eye", "other"} {
		h.throw(t, n.guest(user).nc, true)
	}
	if after := len(n.events("host", "t1")); after != before {
		t.Errorf("the turn of another went from %d to %d events", before, after)
	}
	h.throw(t, n.guest("n1").nc, false)
	planner.want("200", `"state":"completed"`, "submit", args{"trace": "after", "turn": "t1", "wait_ms": 60000, "calls": []call{
		{Tool: "charge", Args: args{"amount": 3, "order": "after"}, Key: "after"},
	}})
	n.guest("ann").want("200", "host/t1/0@1", "inbox", nil)
	if p.agreed("never") != 0 {
		t.Error("what nobody has approved ran")
	}
	for _, e := range p.effects() {
		if e.Tool == "charge" && !strings.Contains(fmt.Sprint(e), "after") {
			t.Errorf("an effect that nobody asked for: %v", e)
		}
	}
	for _, bad := range []string{"panic", "goroutine ", "DATA RACE"} {
		if strings.Contains(n.log.String(), bad) {
			t.Errorf("the node's log has %q", bad)
		}
	}
}
