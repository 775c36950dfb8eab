package picture

// look is how something is told from its like: by a glyph, by a colour, in words.
type look struct {
	glyph string // a path of strokes in a box of 12 by 12
	ink   string // a name of the palette
	words string
}

const (
	glyphCheck   = "M2.4 6.4L5 9L9.7 3.3"
	glyphCross   = "M3 3L9 9M9 3L3 9"
	glyphDash    = "M4 6H8"
	glyphAsk     = "M4.1 4.1A2 2 0 1 1 6.9 6C6.2 6.4 6 6.8 6 7.4M6 9.7V9.8"
	glyphUnequal = "M2.5 4.5H9.5M2.5 7.5H9.5M8 2.2L4 9.8"
	glyphBarred  = "M6 1.5A4.5 4.5 0 1 0 6.01 1.5M2.9 9.1L9.1 2.9"
	glyphClock   = "M6 1.5A4.5 4.5 0 1 0 6.01 1.5M6 3.6V6L7.8 7.1"
	glyphSquare  = "M3.2 3.2H8.8V8.8H3.2Z"
	glyphCopy    = "M4.6 4.6H10V10H4.6ZM7.4 4.6V2H2V7.4H4.6"
	glyphDots    = "M2.2 6H2.3M6 6H6.1M9.7 6H9.8"
	glyphPause   = "M4.3 3V9M7.7 3V9"
	glyphArrow   = "M2 6H9.6M6.6 3L9.6 6L6.6 9"
	glyphSand    = "M3 2H9L3 10H9Z"
	glyphSettled = "M6 1.3A4.7 4.7 0 1 0 6.01 1.3M3.8 6.2L5.4 7.8L8.3 4.4"
	glyphBack    = "M3 5.2H7.4A2.4 2.4 0 0 1 7.4 10H5M5.2 2.8L2.8 5.2L5.2 7.6"
	glyphDot     = "M6 5.2A.8 .8 0 1 0 6.01 5.2"
	glyphWarning = "M6 1.6L11 10.2H1ZM6 4.8V7M6 8.6V8.7"
)

// stateLooks are the looks of states, by state.
var stateLooks = [states]look{
	Open:         {glyphDots, "ink-calm", "open"},
	Waiting:      {glyphPause, "ink-mild", "waiting"},
	Completed:    {glyphCheck, "ink-good", "completed"},
	Failed:       {glyphCross, "ink-bad", "failed"},
	Denied:       {glyphBarred, "ink-stop", "denied"},
	TimedOut:     {glyphClock, "ink-stop", "timed out"},
	Cancelled:    {glyphSquare, "ink-soft", "cancelled"},
	Unknown:      {glyphAsk, "ink-odd", "unknown"},
	Deduplicated: {glyphCopy, "ink-calm", "deduplicated"},
}

// look of a state; a state that is none looks as Unknown does.
func (s State) look() look {
	if s < 0 || s >= states {
		return stateLooks[Unknown]
	}
	return stateLooks[s]
}

// fine says whether nobody needs to look at what stands so.
func (s State) fine() bool { return s == Completed || s == Deduplicated }

// signLooks are the looks of signs, by sign.
var signLooks = [signs]look{
	Note:      {glyphDot, "ink-soft", "noted"},
	Cancel:    {glyphSquare, "ink-stop", "cancel asked for"},
	Yes:       {glyphCheck, "ink-good", "a person said yes"},
	No:        {glyphCross, "ink-bad", "a person said no"},
	TakenOver: {glyphArrow, "ink-odd", "a new owner"},
	Late:      {glyphSand, "ink-mild", "late result"},
	Settled:   {glyphSettled, "ink-calm", "settled later"},
	Undone:    {glyphBack, "ink-calm", "undone"},
	Broken:    {glyphWarning, "ink-bad", "broken"},
}

func (s Sign) look() look {
	if s < 0 || s >= signs {
		return signLooks[Note]
	}
	return signLooks[s]
}

// kindLook is how segments of a kind are drawn.
type kindLook struct {
	words  string
	fill   string  // a class of the palette or a pattern; "" is hollow
	stroke string  // a class of the palette; "" is none
	dash   string  // a class of dashes, or ""
	on     string  // the palette's name for a label upon it
	height float64 // of the bar, of at most barHeight
	busy   bool    // something runs meanwhile, or is decided: such time is not folded
}

// kindLooks are the looks of kinds, by kind. They differ in height and texture,
// not only in colour.
var kindLooks = [kinds]kindLook{
	Queue:    {words: "in the queue", fill: "f-bar-gate", height: 3},
	Gates:    {words: "gates decide", fill: "f-bar-gate", on: "on-gate", height: barHeight - 4, busy: true},
	Asking:   {words: "waits for a person", fill: "f-tint-ask", stroke: "s-bar-ask", dash: "k", on: "ink", height: barHeight - 2},
	Holding:  {words: "waits for its turn, a key or a lock", fill: "p-hold", stroke: "s-bar-gate", on: "ink", height: barHeight - 6},
	Attempt:  {words: "the tool runs", fill: "f-bar-run", on: "on-run", height: barHeight, busy: true},
	Delay:    {words: "waits for the next attempt", stroke: "s-bar-gate", dash: "o", height: 0},
	Lost:     {words: "its owner is gone", fill: "p-lost", stroke: "s-bar-lost", on: "ink", height: barHeight},
	Recovery: {words: "a new owner finds out", fill: "f-bar-find", on: "on-find", height: barHeight, busy: true},
	Ending:   {words: "its end was asked for", fill: "p-stop", stroke: "s-bar-stop", on: "ink", height: barHeight, busy: true},
	Parked:   {words: "parked: nothing of it is in memory", stroke: "s-bar-ask", dash: "k", height: 0},
}

func (k Kind) look() kindLook {
	if k < 0 || k >= kinds {
		return kindLooks[Holding]
	}
	return kindLooks[k]
}

// patterns are the textures that kinds are filled with.
const patterns = `<pattern id="sl-hold" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="f-paper" width="5" height="5"/><path class="s-bar-gate" stroke-width="1.6" d="M0 0V5"/></pattern>` +
	`<pattern id="sl-lost" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="f-paper" width="6" height="6"/><path class="s-bar-lost" stroke-width="2.2" d="M0 0V6M0 0H6"/></pattern>` +
	`<pattern id="sl-stop" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)"><rect class="f-paper" width="6" height="6"/><path class="s-bar-stop" stroke-width="5" d="M0 0V6"/></pattern>` +
	`<pattern id="sl-fold" width="14" height="12" patternUnits="userSpaceOnUse"><path class="f-paper" d="M1 0L5 6L1 12H9L13 6L9 0Z"/><path class="g s-ink-soft" stroke-width="1.2" d="M1 0L5 6L1 12M9 0L13 6L9 12"/></pattern>`
