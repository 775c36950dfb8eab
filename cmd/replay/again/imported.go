package again

import (
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
	at := w.all[len(w.all)-1].at
	out, err := lifecycle.Import(w.key, *s, answers, at)
	t := &try{err: err, out: out}
	for t.n < len(out) && w.i+t.n < len(w.all) && w.same(w.all[w.i+t.n].Record, w.dated(out[t.n], t.n)) {
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

// dated is a synthetic event with the times of the recorded one: they say when it was
// imported, and a history that was cut off was imported at several.
func (w *walker) dated(r events.Record, n int) events.Record {
	st, ok := r.Event.(*events.Started)
	if was, started := w.all[n].Event.(*events.Started); ok && started {
		out := *st
		out.Deadline = was.Deadline
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
