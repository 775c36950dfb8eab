package lifecycle

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-run/sluice/events"
)

// Bounds of answers, in bytes of the message that a provider gets.
const (
	CallBytes    = 50_000  // an answer, unless the turn says otherwise
	TurnBytes    = 200_000 // all answers of a turn, unless it says otherwise
	PreviewBytes = 512     // of an answer's text, once the turn's bound has cut it
	MaxShownID   = 16_386  // of a provider's id as a JSON string: a longer one is shortened when shown
	MaxShownName = 64      // of a tool's name: a longer one is not shown
)

const (
	// wrapping bounds what a provider's message puts around id, name and content.
	wrapping = 88
	// together bounds what a provider's message puts around all answers.
	together = 64
	// spare is what FitCall leaves free: for the wrapping, for an id and a name,
	// and for the sentence that an unknown end adds to an error.
	spare = 1024
	// shownPath and shownOf bound two strings that belong to the frame.
	shownPath, shownOf = 200, 200
	// usualID bounds an id that belongs to the frame, as a JSON string, and maxIDs those of a
	// turn: where they take more, longer ones are shortened when shown.
	usualID, maxIDs = 272, MaxCalls * usualID
)

// ShownID is how long a provider's id may be, in bytes as a JSON string, to be shown as it is,
// where the ids of its turn take all bytes together: MaxShownID, as long as they leave the
// answers their room.
func ShownID(all int) int {
	if all > maxIDs {
		return usualID
	}
	return MaxShownID
}

// Whole is what a limit has cut, as it was, under its digest.
type Whole struct {
	Ref   events.BlobRef
	Bytes []byte // nil: it is stored already, by who made Ref
}

// AnswerWhole is the whole of one call's answer.
type AnswerWhole struct {
	Call  int
	Whole Whole
}

// FitCall bounds a result when its attempt settles, so that its answer takes at
// most limit bytes in any provider's message (0 means CallBytes). What it cuts
// is in wholes, which must be stored BEFORE the result is, and is named in Cut.
// A result that fits is returned as it is.
func FitCall(r events.Result, limit int) (fitted events.Result, wholes []Whole) {
	limit = cmp.Or(limit, CallBytes)
	a := events.Answer{Standing: events.AnswerSuccess, Result: r}
	if r.Status == events.Failure {
		a.Standing = events.AnswerFailed
	}
	a, w, cut := fit(a, max(limit-spare, limit/2), 0)
	if cut && w.Bytes != nil {
		wholes = append(wholes, w)
	}
	return a.Result, wholes
}

// FitTurn bounds the answers of a turn: callLimit bytes each (0 means
// CallBytes) and turnLimit together (0 means TurnBytes), as serialised for any
// provider. Where they are too much together, the largest is cut to a preview of
// PreviewBytes, then the next, until the bound holds; of two of one size the
// first is cut first. Imported answers are never touched. wholes names each
// answer that was cut, in request order.
//
// The same answers give the same cuts, whoever asks; where nothing is cut, fitted
// may be answers itself. A frame of some 400 bytes an answer, and its id, always stay,
// whatever the limits.
func FitTurn(answers []events.Answer, callLimit, turnLimit int) (fitted []events.Answer, wholes []AnswerWhole) {
	callLimit, turnLimit = cmp.Or(callLimit, CallBytes), cmp.Or(turnLimit, TurnBytes)
	if small(answers, callLimit, turnLimit) {
		return answers, nil
	}
	whole, ids, over := withShownIDs(answers)
	fitted = slices.Clone(whole)
	cuts := make(map[int]Whole)
	most, sizes, total := make([]int, len(fitted)), make([]int, len(fitted)), together
	for i := range fitted {
		most[i] = max(callLimit, ids[i]+min(callLimit, spare))
		if a, w, cut := fit(whole[i], most[i], 0); cut {
			fitted[i], cuts[i] = a, w
		}
		sizes[i] = Size(fitted[i])
		total += sizes[i]
	}
	share := max(0, turnLimit-together-over) / max(len(fitted), 1)
	for _, i := range bySize(sizes) {
		if total <= turnLimit {
			break
		}
		a, w, cut := fit(whole[i], min(share+ids[i], most[i]), PreviewBytes)
		if size := Size(a); cut && size < sizes[i] {
			total += size - sizes[i]
			fitted[i], cuts[i] = a, w
		}
	}
	for i := range fitted {
		fitted[i].ProviderID = answers[i].ProviderID
		if w, ok := cuts[i]; ok {
			wholes = append(wholes, AnswerWhole{answers[i].Call, w})
		}
	}
	return fitted, wholes
}

// withShownIDs are the answers with ids no longer than they are shown; and how many bytes
// each of those takes beyond what belongs to the frame, and all of them together.
func withShownIDs(answers []events.Answer) (shown []events.Answer, ids []int, over int) {
	shown, ids = slices.Clone(answers), make([]int, len(answers))
	all := 0
	for i, a := range answers {
		ids[i] = len(marshal(a.ProviderID))
		all += ids[i]
	}
	for i, most := range ids {
		if most > ShownID(all) {
			shown[i].ProviderID, most = head(answers[i].ProviderID, usualID, usualID), usualID
		}
		ids[i] = max(0, most-usualID)
		over += ids[i]
	}
	return shown, ids, over
}

// small says without writing anything that no limit can matter: most turns are so.
func small(answers []events.Answer, callLimit, turnLimit int) bool {
	const frame, grown = 1024, 7 // around an answer, with its id; of one byte, quoted twice
	total := together
	for _, a := range answers {
		size := frame + len(a.Of) + grown*(len(a.ProviderID)+len(a.Result.Text.Text)+len(a.Result.Data)+changedSize(a.Changed))
		if e := a.Result.Error; e != nil {
			size += grown * (len(e.Code) + len(e.Message) + len(e.Path))
		}
		if total += size; size > callLimit || total > turnLimit {
			return false
		}
	}
	return true
}

// bySize is the indices of sizes, largest first, and in order where equal.
func bySize(sizes []int) []int {
	order := make([]int, len(sizes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(sizes[j], sizes[i]) })
	return order
}

// Size is how many bytes an answer takes at most in the message of any provider.
func Size(a events.Answer) int {
	id := min(len(marshal(a.ProviderID)), MaxShownID) + 16 // a suffix, or the name of one without an id
	name := 0
	if len(a.Tool) <= MaxShownName {
		name = quoted([]byte(a.Tool))
	}
	return wrapping + id + name + quoted(Envelope(a))
}

// Digest names bytes: "sha256:" and 64 hex digits.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// fit cuts an answer to size bytes, and its text and its message to limit bytes
// each (0: no such limit). cut is false where it fits as it is.
func fit(a events.Answer, size, limit int) (_ events.Answer, w Whole, cut bool) {
	if a.Verbatim || a.Standing == events.AnswerOpen {
		return a, Whole{}, false
	}
	if Size(a) <= size && (limit == 0 || len(a.Result.Text.Text) <= limit && len(a.Result.Data) <= limit) {
		return a, Whole{}, false
	}
	c := newCutter(a, size, limit)
	c.message()
	dropped := c.data()
	c.text(dropped)
	if c.bytes == 0 {
		return a, Whole{}, false
	}
	w = whole(a, c.onlyText)
	note := events.Cut{Bytes: c.bytes, Lines: c.lines, Whole: w.Ref}
	if old := a.Result.Cut; old != nil {
		note.Bytes, note.Lines = note.Bytes+old.Bytes, note.Lines+old.Lines
	}
	c.out.Result.Cut = &note
	if Size(c.out) > size && c.out.Changed != nil { // that somebody has changed it stays, and not to what
		c.out.Changed = &events.Body{}
	}
	if Size(c.out) > size { // the note on what is missing would be more than what is missing
		c.out.Result.Cut = a.Result.Cut
	}
	return c.out, w, true
}

// whole is what an answer was before it was cut: its text where nothing else
// is missing, else all that it said, as JSON.
func whole(a events.Answer, onlyText bool) Whole {
	r := a.Result
	switch {
	case onlyText && r.Cut != nil:
		return Whole{Ref: r.Cut.Whole}
	case onlyText:
		b := []byte(r.Text.Text)
		return Whole{events.BlobRef{Digest: Digest(b), Size: int64(len(b))}, b}
	}
	b := Envelope(a)
	return Whole{events.BlobRef{Digest: Digest(b), Size: int64(len(b)), Media: "application/json"}, b}
}

// cutter shortens one answer, part by part, and counts what it takes away.
type cutter struct {
	from     events.Result
	out      events.Answer
	room     int // what may still be spent, in serialised bytes
	limit    int // bytes of text, and of a message; 0: none
	bytes    int64
	lines    int64
	onlyText bool // nothing but text was taken away
}

func newCutter(a events.Answer, size, limit int) *cutter {
	c := &cutter{from: a.Result, out: a, limit: limit, onlyText: true}
	r := &c.out.Result
	r.Text, r.Data = events.Body{Ref: a.Result.Text.Ref}, nil
	r.Cut = &events.Cut{Bytes: 1e15, Lines: 1e12, Whole: events.BlobRef{Digest: Digest(nil)}}
	if !shownError(a) {
		r.Error, c.from.Error = nil, nil
	}
	if e := c.from.Error; e != nil {
		e = &events.Error{Code: events.Code(valid(string(e.Code))), Message: valid(e.Message), Path: valid(e.Path)}
		c.from.Error = e
		r.Error = &events.Error{
			Code: events.Code(head(string(e.Code), 64, 128)), Path: head(e.Path, shownPath, shownPath),
		}
		c.took(len(e.Path)-len(r.Error.Path)+len(e.Code)-len(r.Error.Code), true)
	}
	const little = 160 // below it, what a person can look up gives way to what a model must read
	if len(a.Of) > shownOf || size-Size(c.out) < little {
		c.took(len(a.Of), true)
		c.out.Of = ""
	}
	if e := r.Error; e != nil && e.Path != "" && size < Size(c.out) { // nor is there room for where the fault is
		c.took(len(e.Path), true)
		e.Path = ""
	}
	if need := changedSize(a.Changed); need > changedNote && size-Size(c.out) < need { // what was said goes before it
		c.out.Changed = &events.Body{Ref: &events.BlobRef{Size: int64(len(a.Changed.Text))}}
		c.took(len(a.Changed.Text), true)
	}
	c.room = size - Size(c.out)
	return c
}

func (c *cutter) took(n int, other bool) {
	c.bytes += int64(n)
	c.onlyText = c.onlyText && (!other || n == 0)
}

// message keeps the beginning of an error's sentence: all of what is left
// where there is nothing else to say, half of it otherwise.
func (c *cutter) message() {
	e := c.from.Error
	if e == nil {
		return
	}
	const more = "…"
	room := c.room
	if c.from.Text.Text != "" || len(c.from.Data) > 0 {
		room /= 2
	}
	kept := e.Message
	if c.limit > 0 && len(kept) > c.limit || costOf(kept) > room {
		kept = head(kept, limitOr(c.limit, len(kept))-len(more), room-len(more))
		c.took(len(e.Message)-len(kept), true)
		kept += more
	}
	c.out.Result.Error.Message = kept
	c.room -= costOf(kept)
}

// data stays whole, or goes. It returns what went.
func (c *cutter) data() (dropped string) {
	data := shownData(c.from.Data)
	if data == nil {
		return ""
	}
	var compact bytes.Buffer
	if json.Compact(&compact, data) != nil {
		return "" // it was checked
	}
	const key = 16 // of "data" and its comma, quoted
	room := c.room
	if c.from.Text.Text != "" {
		room /= 2
	}
	need := key + quoted(compact.Bytes())
	if need <= room && (c.limit == 0 || compact.Len() <= c.limit) {
		c.out.Result.Data = c.from.Data
		c.room -= need
		return ""
	}
	c.took(compact.Len(), true)
	return compact.String()
}

// text keeps both ends of the text, or of dropped data where there is no text:
// what a command says last is often what matters.
func (c *cutter) text(dropped string) {
	const key = 16 // of "text" and its comma, quoted
	room := c.room - key
	s := valid(c.from.Text.Text)
	if strings.TrimSpace(s) == "" && dropped != "" {
		kept, gone := ends(dropped, "", 0, limitOr(c.limit, len(dropped)), room)
		c.out.Result.Text.Text = kept
		c.bytes -= int64(len(dropped) - gone)
		return
	}
	if costOf(s) <= room && (c.limit == 0 || len(s) <= c.limit) {
		c.out.Result.Text.Text = s
		return
	}
	first, last, before := s, "", int64(0)
	if c.from.Cut != nil {
		first, last, before = splitMark(s)
	}
	kept, gone := ends(first, last, before, limitOr(c.limit, len(s)), room)
	c.out.Result.Text.Text = kept
	c.lines += int64(strings.Count(first, "\n") + strings.Count(last, "\n") - strings.Count(kept, "\n"))
	if kept != "" {
		c.lines += 2 // the mark has two of its own
	}
	c.took(gone, false)
}

// ends keeps the beginning of first and the end of last (of first, where last
// is empty), with a mark between them that counts what is missing: gone bytes
// now, and before of them earlier.
func ends(first, last string, before int64, limit, room int) (kept string, gone int) {
	const marks = 48 // bytes of the longest mark, and what it costs
	limit, room = limit-marks, room-marks
	if limit <= 0 || room <= 0 {
		return "", len(first) + len(last)
	}
	h := head(first, (limit+1)/2, (room+1)/2)
	rest := last
	if last == "" {
		rest = first[len(h):]
	}
	t := tail(rest, limit-len(h), room-costOf(h))
	gone = len(first) + len(last) - len(h) - len(t)
	return h + mark(before+int64(gone)) + t, gone
}

func mark(n int64) string { return "\n[... " + strconv.FormatInt(n, 10) + " bytes cut ...]\n" }

// marks are those that an earlier cut leaves between two ends: ours, and that of a tool's own
// limit, which counts lines as well.
var marks = regexp.MustCompile(`\n\[(?:\.\.\. ([1-9]\d{0,17}) bytes cut \.\.\.|([1-9]\d{0,17}) bytes, \d+ lines cut(?:; whole text: [^\]\n]*)?)\]\n`)

// splitMark finds the mark of an earlier cut, if s has one that is not its end.
func splitMark(s string) (first, last string, before int64) {
	m := marks.FindStringSubmatchIndex(s)
	if m == nil || m[1] == len(s) {
		return s, "", 0
	}
	digits := m[2:4]
	if digits[0] < 0 {
		digits = m[4:6]
	}
	n, _ := strconv.ParseInt(s[digits[0]:digits[1]], 10, 64) // it has at most 18 digits
	return s[:m[0]], s[m[1]:], n
}

func limitOr(limit, otherwise int) int {
	if limit > 0 {
		return limit
	}
	return otherwise + 64 // as good as none
}
