package projections

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-run/sluice/events"
)

// Spans are the spans of a log's turns, as OpenTelemetry knows them: of the turn, of
// each call, of each attempt (execute_tool), and of each wait that can be seen. A span
// is there once it has ended, in the order of the events that ended them. Its ids follow
// from the log: see events.SpansOf. Turns that were imported have none.
var Spans = Projection[Traced]{
	Name: "spans", Version: 1,
	Init:  func() Traced { return Traced{Turns: map[string]*TracedTurn{}} },
	Apply: spanned,
}

// Bounds of what is kept of a span.
const (
	MaxSpanContent = 64 << 10         // bytes of an attempt's arguments, and of its result
	MaxSpanText    = 512              // bytes of any other text
	MaxSpanEvents  = 64               // events of one span; further ones are counted
	MinSpanWait    = time.Millisecond // a shorter wait has no span
)

// Traced is the state of Spans.
type Traced struct {
	// Content keeps arguments and results in the spans of attempts, up to MaxSpanContent
	// each. Who wants them sets it BEFORE the first event, and takes out secrets.
	Content bool                   `json:"content,omitempty"`
	Turns   map[string]*TracedTurn `json:"turns"`          // by key; ended ones too, since more may be told of them
	Done    []Span                 `json:"done,omitempty"` // that have ended; who has taken them may set it to nil
}

// Span is one span that has ended.
type Span struct {
	Trace  events.TraceID `json:"trace"`
	ID     events.SpanID  `json:"id"`
	Parent events.SpanID  `json:"parent"`         // zero: it is a root
	Flags  byte           `json:"flags"`          // of the W3C: events.FlagSampled
	Door   bool           `json:"door,omitempty"` // it is a turn's, and Parent, if there is one, is the caller's
	Name   string         `json:"name"`
	Start  time.Time      `json:"start"`
	End    time.Time      `json:"end"` // not before Start
	Attrs  Attrs          `json:"attrs,omitempty"`
	SpanEvents
	Links  []SpanLink `json:"links,omitempty"`
	Failed bool       `json:"failed,omitempty"`
	Why    string     `json:"why,omitempty"` // of a failed one, for people
}

// Attr is an attribute: a text, a yes, or else a number.
type Attr struct {
	Key  string `json:"key"`
	Text string `json:"text,omitempty"`
	Yes  bool   `json:"yes,omitempty"`
	Num  int64  `json:"num,omitempty"`
}

// Attrs are attributes in order. Their keys are unique.
type Attrs []Attr

// text adds a text that is not empty, cut to MaxSpanText and made valid.
func (a Attrs) text(key, text string) Attrs {
	if text == "" {
		return a
	}
	return append(a, Attr{Key: key, Text: Shortened(text, MaxSpanText)})
}

// num adds a number that is not 0.
func (a Attrs) num(key string, n int64) Attrs {
	if n == 0 {
		return a
	}
	return append(a, Attr{Key: key, Num: n})
}

// yes adds a yes.
func (a Attrs) yes(key string, yes bool) Attrs {
	if !yes {
		return a
	}
	return append(a, Attr{Key: key, Yes: true})
}

// SpanEvent is a moment of a span.
type SpanEvent struct {
	Name  string    `json:"name"`
	At    time.Time `json:"at"`
	Attrs Attrs     `json:"attrs,omitempty"`
}

// SpanEvents are the moments of a span, at most MaxSpanEvents.
type SpanEvents struct {
	Events []SpanEvent `json:"events,omitempty"`
	More   int         `json:"more,omitempty"` // that were left out
}

func (s *SpanEvents) happened(e Event, attrs Attrs) {
	if len(s.Events) >= MaxSpanEvents {
		s.More++
		return
	}
	s.Events = append(s.Events, SpanEvent{Name: string(e.Kind()), At: e.At, Attrs: attrs.text(AttrPosition, e.Pos.String())})
}

// SpanLink leads to the span that one goes on from, in the same trace.
type SpanLink struct {
	Span events.SpanID `json:"span"`
	What string        `json:"what"` // retry_of, late_result_of, resolves, compensates
}

// Keys of attributes. Those that begin with gen_ai, and error.type and process.exit.code,
// are OpenTelemetry's; what they mean is in docs/observability.md.
const (
	AttrOperation    = "gen_ai.operation.name"
	AttrTool         = "gen_ai.tool.name"
	AttrToolType     = "gen_ai.tool.type"
	AttrProviderID   = "gen_ai.tool.call.id"
	AttrArguments    = "gen_ai.tool.call.arguments"
	AttrResult       = "gen_ai.tool.call.result"
	AttrConversation = "gen_ai.conversation.id"
	AttrModel        = "gen_ai.request.model"
	AttrInput        = "gen_ai.usage.input_tokens"
	AttrOutput       = "gen_ai.usage.output_tokens"
	AttrErrorType    = "error.type"
	AttrExit         = "process.exit.code"

	AttrTrace     = "sluice.trace"
	AttrTurn      = "sluice.turn"
	AttrCall      = "sluice.call"
	AttrAttempt   = "sluice.attempt"
	AttrPosition  = "sluice.position"
	AttrPrincipal = "sluice.principal"
	AttrPlacement = "sluice.placement"
	AttrEnd       = "sluice.end"
	AttrTier      = "sluice.tier"
	AttrEffects   = "sluice.effects"
	AttrClass     = "sluice.class"
	AttrGate      = "sluice.gate"
	AttrOf        = "sluice.deduplicated_from"
	AttrAttempts  = "sluice.attempts"
	AttrCalls     = "sluice.calls"
	AttrClaims    = "sluice.claims"
	AttrTakeovers = "sluice.takeovers"
	AttrBoot      = "sluice.owner.boot"
	AttrEpoch     = "sluice.owner.epoch"
	AttrLocks     = "sluice.locks"
	AttrProbe     = "sluice.breaker.probe"
	AttrEmitted   = "sluice.output.bytes"
	AttrWait      = "sluice.wait"
	AttrBy        = "sluice.by"
	AttrWhy       = "sluice.why"
	AttrAction    = "sluice.recovery.action"
	AttrStage     = "sluice.recovery.last_stage"
	AttrBegun     = "sluice.recovery.tool_started"
	AttrWhole     = "sluice.recovery.result_complete"
)

// Shortened is a text in valid UTF-8, of at most n bytes.
func Shortened(s string, n int) string {
	if len(s) > n {
		cut := n - len("…")
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func spanned(s Traced, e Event) Traced {
	key := e.Turn.String()
	if v, ok := e.Event.(*events.TurnSubmitted); ok {
		if v.Imported == "" {
			s.Turns[key] = tracedTurn(e, v)
		}
		return s
	}
	t := s.Turns[key]
	switch {
	case t == nil: // imported, or its beginning is not in the log any more
	case e.Call == events.TurnEvent:
		s.Done = append(s.Done, t.pass(e)...)
	case e.Call >= 0 && e.Call < len(t.Calls):
		c := t.Calls[e.Call]
		c.passing = passing{turn: t, offset: e.Call, content: s.Content}
		c.pass(e)
		s.Done = append(s.Done, c.done...)
		c.passing = passing{}
	}
	return s
}
