package bus

import (
	"context"
	"fmt"
	"strings"

	"github.com/sluice-run/sluice/events"
)

// Workers are processes of their own that serve tools, in any language. They have no
// rights to the log: they hear what is offered on the subjects of the tools that they
// are let serve, and answer where they are told to. A node never publishes to a subject
// that a worker names: each worker has one of its own, which its name makes.
type Workers interface {
	// HearWorkers calls hear with an empty Announcement, to say that it listens, and then
	// with each announcement, one at a time, until ctx ends. It returns ctx's error then,
	// or ErrUnavailable where it cannot begin.
	HearWorkers(ctx context.Context, hear func(Announcement)) error
	// TellWorker sends body to one worker, or to all of them where w is the zero
	// Worker. Who is not there does not hear it, and that is no error. It returns
	// ErrTooLarge where no message can hold the body, and ErrUnavailable.
	TellWorker(ctx context.Context, w Worker, body []byte) error
	// OpenJob opens a place where the answers to one attempt are heard, and no others.
	// Close it. boot is the asking node's.
	OpenJob(ctx context.Context, boot string) (Job, error)
}

// Worker names a worker.
type Worker struct {
	User     string // who connected, as the keeper's permissions know it
	Instance string // which of its processes: 1 to 40 of A-Z a-z 0-9 -
}

func (w Worker) String() string { return Token(w.User) + "." + w.Instance }

// maxInstance is the length in bytes of the longest instance.
const maxInstance = 40

// ParseWorker reads what String wrote, or returns an error: a name is part of subjects.
func ParseWorker(s string) (Worker, error) {
	token, instance, two := strings.Cut(s, ".")
	user, err := ParseToken(token)
	w := Worker{User: user, Instance: instance}
	if err != nil || !two || user == "" || len(s) > maxReply || w.String() != s || !plainName(instance, maxInstance) {
		return Worker{}, fmt.Errorf("%.80q names no worker: want <user>.<instance>, the instance 1 to %d of A-Za-z0-9-", s, maxInstance)
	}
	return w, nil
}

// WorkerTool says whether a worker's tool can have that name: 1 to 64 of A-Za-z0-9_-,
// the first a letter or a digit, and no "__", which stands behind a server's name.
func WorkerTool(name string) bool {
	return name != "" && name[0] != '_' && name[0] != '-' && !strings.Contains(name, "__") && plainName(strings.ReplaceAll(name, "_", "-"), events.MaxToolName)
}

func plainName(s string, most int) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-') {
			return false
		}
	}
	return s != "" && len(s) <= most
}

// Announcement is a worker's word that it serves a tool, or does not any more. The
// keeper's permissions vouch for Tool and for the worker's User; Body is its own.
type Announcement struct {
	Tool   string
	Worker Worker
	Body   []byte
}

// Job is the conversation about one attempt. Hear is for one goroutine; the rest may be
// used from many.
type Job interface {
	// Offer sends body to one of those who serve the tool, whoever is next. The
	// answers are heard with Taken false. It returns ErrTooLarge or ErrUnavailable.
	Offer(tool string, body []byte) error
	// Hand sends body to a worker and tells it, and nobody else, where its answers
	// are heard: those have Taken true. It returns ErrTooLarge or ErrUnavailable.
	Hand(w Worker, body []byte) error
	// Hear waits for what is said next. It returns ErrUnavailable, at once or when ctx
	// ends, where the way to the workers was cut meanwhile, so that something may have
	// been missed; else ctx's error. What comes faster than it is heard may be dropped.
	Hear(ctx context.Context) (Said, error)
	// Close ends the conversation: what is said later is not heard.
	Close()
}

// Said is what a worker says in a Job.
type Said struct {
	Taken  bool // it answers what it was handed; false: it answers the offer
	Nobody bool // nobody serves the tool now; Body is nil
	Missed int  // how much of the job, so far, came faster than it was heard, and was dropped
	Body   []byte
}

// Bounds of what waits to be heard.
const (
	MaxUnheard      = 4096     // messages of one job, or announcements
	MaxUnheardBytes = 32 << 20 // of one job, or of announcements
)

// WorkerQueue is the queue group in which workers subscribe to their tools' subjects.
const WorkerQueue = "workers"

// ToolSubject is where an attempt of a tool is offered.
func ToolSubject(tool string) string { return ToolPrefix + tool }

// HereSubject is where a worker announces a tool.
func HereSubject(tool string, w Worker) string { return HerePrefix + tool + "." + w.String() }

// ParseHereSubject reads what HereSubject wrote. Another spelling is an error:
// permissions name only this one.
func ParseHereSubject(s string) (tool string, w Worker, err error) {
	rest, ok := strings.CutPrefix(s, HerePrefix)
	tool, worker, two := strings.Cut(rest, ".")
	if ok && two && WorkerTool(tool) {
		if w, err = ParseWorker(worker); err == nil {
			return tool, w, nil
		}
	}
	return "", Worker{}, fmt.Errorf("subject %.200q is not %s<tool>.<user>.<instance>", s, HerePrefix)
}

// WorkerSubject is what a worker is told on; the zero Worker's is for all.
func WorkerSubject(w Worker) string {
	if w == (Worker{}) {
		return AllWorkers
	}
	return WorkerPrefix + w.String()
}

// AnswerSubject is where a job hears answers: place is OfferPlace, or what only the
// worker knows that the job was handed to.
func AnswerSubject(boot, job, place string) string {
	return AnswerPrefix + Token(boot) + "." + job + "." + place
}

// OfferPlace is the last token of the subject on which an offer is answered.
const OfferPlace = "offer"
