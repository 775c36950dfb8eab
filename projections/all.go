package projections

// All is the one list of views: to add one, write its file and its row.
var All = []View{
	Answers.View(),
	Timeline.View(),
	Inbox.View(),
	Usage.View(),
	Spans.View(),
}
