package bus

// Wanter is a keeper of Live that knows whether anybody listens now.
type Wanter interface {
	// Wanted says whether anybody may listen for one of the commit's events. It
	// errs on the side of yes.
	Wanted(s Stored, tools map[int]string) bool
}

// Wanted says whether anybody may listen for one of the commit's events: a
// publisher can spare itself the barrier where nobody does. A keeper that does
// not know counts as yes.
func Wanted(l Live, s Stored, tools map[int]string) bool {
	w, ok := l.(Wanter)
	return !ok || w.Wanted(s, tools)
}
