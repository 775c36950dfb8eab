package again

import (
	"cmp"
	"slices"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// imported holds a recorded conversation against what importing the same makes of it:
// of its decisions nothing is known, but its form is ours.
func (w *walker) imported() {
	s := w.all[0].Event.(*events.TurnSubmitted)
	w.note(w.all[0], NoteImported, "it was imported from %s: nothing of it was decided here, and only its form can be", cut(s.Imported, 200))
	answers := make([]*events.Result, len(s.Calls))
	for _, e := range w.all {
		if v, ok := e.Event.(*events.Completed); ok && e.Call >= 0 && e.Call < len(answers) {
			answers[e.Call] = &v.Result
		}
	}
	w.Redacted = w.Redacted || w.misfits() && slices.ContainsFunc(s.Calls, func(c events.RawCall) bool { return holdsPlaceholder(c.Args.Text) })
	at := w.all[len(w.all)-1].at
	out, err := lifecycle.Import(w.key, *s, answers, at)
	t := &try{err: err, out: out}
	for t.n < len(out) && w.i+t.n < len(w.all) && w.same(w.all[w.i+t.n].Record, w.asImported(out[t.n], t.n)) {
		t.n++
	}
	if err != nil || t.n < len(out) && t.n < len(w.all) {
		w.all[0].end = len(w.all)
		w.differs(t)
		return
	}
	if t.n < len(out) {
		w.note(w.all[t.n-1], NoteCut, "the import was cut off before %s: importing the same again goes on with it", describe(out[t.n].Event))
	}
	w.take(t.n)
}

// asImported is a synthetic event with what the recorded one has of when and where it was
// imported: its times, since a history that was cut off was imported at several, and the
// digests of arguments that were redacted since.
func (w *walker) asImported(r events.Record, n int) events.Record {
	hash := ""
	if w.Redacted && r.Call != events.TurnEvent {
		hash, _, _ = w.learnt(r.Call)
	}
	switch v := r.Event.(type) {
	case *events.Requested:
		out := *v
		out.Hash = cmp.Or(hash, v.Hash)
		r.Event = &out
	case *events.Authorized:
		out := *v
		out.Verdict.Hash = cmp.Or(hash, v.Verdict.Hash)
		r.Event = &out
	case *events.Started:
		out := *v
		out.Hash = cmp.Or(hash, v.Hash)
		if was, ok := w.all[n].Event.(*events.Started); ok {
			out.Deadline = was.Deadline
		}
		r.Event = &out
	}
	return r
}

// unmarked is a submission as it was before it was put into an archive and taken out
// again: it was run then, and its history is a node's own.
func unmarked(s *events.TurnSubmitted) *events.TurnSubmitted {
	out := *s
	out.Imported = ""
	return &out
}
