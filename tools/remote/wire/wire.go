// Package wire is what nodes and workers say to each other: JSON objects in messages of
// core NATS. A worker in any language says the same; docs/remote-tools.md tells how, and
// schemas/remote has the schemas that are made of these types. Members that are not known
// are ignored, and those of another major version are not understood: see Version.
package wire

import (
	"encoding/json"
	"time"

	"github.com/sluice-run/sluice/events"
)

// Version is of what is said. Another one is another language.
const Version = 1

// Types of what is said. Each message has one as its member type.
const (
	TypeHere     = "here"     // worker, to all nodes: it serves a tool
	TypeGone     = "gone"     // worker, to all nodes: it takes no more calls of a tool
	TypeDescribe = "describe" // node: say here with the whole definition
	TypeTold     = "told"     // node: what became of a definition
	TypeOffer    = "offer"    // node, to one of those who serve the tool
	TypeAccept   = "accept"   // worker, to an offer
	TypeRefuse   = "refuse"   // worker, to an offer
	TypeNo       = "no"       // node, to a worker that accepted: do not begin
	TypeGo       = "go"       // node: begin
	TypePart     = "part"     // either: a part of what no message can hold
	TypeCancel   = "cancel"   // node: end it
	TypeDone     = "done"     // node: the end was heard
	TypeBeat     = "beat"     // worker: it works on it
	TypeProgress = "progress" // worker: how far it is
	TypeResult   = "result"   // worker: the end of an attempt
	TypeError    = "error"    // worker: the end of an attempt that failed
	TypeFound    = "found"    // worker: the end of a probe
	TypeAsk      = "ask"      // worker: the end of an attempt that cannot go on without a person's answers
)

// Verbs of an offer.
const (
	VerbRun        = "run"
	VerbProbe      = "probe"      // find out whether the effect of an earlier attempt happened
	VerbCompensate = "compensate" // undo what a call has done
)

// Statuses of a definition.
const (
	StatusServing = "serving" // its calls are offered
	StatusRefused = "refused" // they are not
)

// Why a worker refuses an offer. Nothing was done.
const (
	WhyBusy       = "busy"
	WhyDraining   = "draining"
	WhyDeadline   = "deadline"   // it has passed by the worker's clock, or too little is left
	WhyDefinition = "definition" // the worker serves the tool by another definition
	WhyVersion    = "version"    // it does not speak this version
	WhyVerb       = "verb"       // it cannot do that
)

// Here announces a tool. Where Tool is nil, it is as this worker has told before, with
// the same Revision: who does not know that one asks.
type Here struct {
	V        int         `json:"v" jsonschema:"minimum=1,description=version of what is said; 1"`
	Type     string      `json:"type" jsonschema:"enum=here,enum=gone"`
	Revision string      `json:"revision,omitempty" jsonschema:"maxLength=128,description=changes whenever the definition does; left out where tool always comes along"`
	Since    time.Time   `json:"since,omitzero" jsonschema:"description=when the worker began to serve"`
	EveryMS  int64       `json:"every_ms,omitempty" jsonschema:"description=how often it says this; 0: every 2000"`
	Running  int         `json:"running,omitempty" jsonschema:"description=attempts that it works on"`
	Room     int         `json:"room,omitempty" jsonschema:"description=how many it takes; 0: it does not say"`
	About    string      `json:"about,omitempty" jsonschema:"maxLength=200,description=what the worker is\\, for people: its program\\, host\\, process"`
	Tool     *Definition `json:"tool,omitempty"`
}

// Definition is what a tool is. Whether a node believes the tier is its operator's to say.
type Definition struct {
	Description string          `json:"description,omitempty" jsonschema:"maxLength=8192,description=for the model"`
	Version     string          `json:"version,omitempty" jsonschema:"maxLength=64,description=for people; what counts is the digest of the definition"`
	Schema      json.RawMessage `json:"schema" jsonschema:"description=JSON Schema of the arguments\\, which are an object"`
	Tier        events.Tier     `json:"tier,omitempty" jsonschema:"enum=readonly,enum=reversible,enum=irreversible,enum=approval,description=how effects behave; left out: irreversible"`
	HonoursKey  bool            `json:"honours_key,omitempty" jsonschema:"description=it does one effect for one idempotency key"`
	Key         string          `json:"key,omitempty" jsonschema:"maxLength=256,description=JSON Pointer to the argument that makes the idempotency key where the caller gives none"`
	Probe       bool            `json:"probe,omitempty" jsonschema:"description=it answers the verb probe"`
	Compensate  bool            `json:"compensate,omitempty" jsonschema:"description=it answers the verb compensate; reversible tools only"`
	Limits      *Limits         `json:"limits,omitempty"`
}

// Limits bound one attempt. Zero members mean what docs/tools.md says of Limits.
type Limits struct {
	WallMS  int64  `json:"wall_ms,omitempty" jsonschema:"minimum=0,description=how long an attempt may take; 0: 120000"`
	Output  int    `json:"output_bytes,omitempty" jsonschema:"minimum=0"`
	Lines   int    `json:"lines,omitempty" jsonschema:"minimum=0"`
	Text    int    `json:"text_bytes,omitempty" jsonschema:"minimum=0"`
	Keep    string `json:"keep,omitempty" jsonschema:"enum=head,enum=tail,enum=both"`
	Retries int    `json:"retries,omitempty" jsonschema:"description=most attempts after the first\\, where the tier allows any; 0: 2\\, negative: none"`
}

// Told is what became of a definition. Tool "" is of a describe, which concerns all.
type Told struct {
	V          int    `json:"v"`
	Type       string `json:"type" jsonschema:"enum=told,enum=describe"`
	Tool       string `json:"tool,omitempty"`
	Status     string `json:"status,omitempty" jsonschema:"enum=serving,enum=refused"`
	Definition string `json:"definition,omitempty" jsonschema:"description=digest of the definition as the node understands it: offers name it"`
	Why        string `json:"why,omitempty"`
}

// Offer asks who takes an attempt. Nothing may begin before the go.
type Offer struct {
	V          int       `json:"v"`
	Type       string    `json:"type" jsonschema:"enum=offer"`
	ID         string    `json:"id" jsonschema:"description=of this conversation"`
	Verb       string    `json:"verb" jsonschema:"enum=run,enum=probe,enum=compensate"`
	Tool       string    `json:"tool"`
	Definition string    `json:"definition" jsonschema:"description=digest of the definition that the call was let through with"`
	Call       string    `json:"call" jsonschema:"description=trace/turn/offset"`
	Attempt    int       `json:"attempt" jsonschema:"minimum=1"`
	Deadline   time.Time `json:"deadline" jsonschema:"description=by the node's clock"`
	LeftMS     int64     `json:"left_ms" jsonschema:"description=how long until then"`
	Bytes      int       `json:"bytes" jsonschema:"description=size of the work that comes with the go"`
}

// Take answers an offer.
type Take struct {
	V       int    `json:"v"`
	Type    string `json:"type" jsonschema:"enum=accept,enum=refuse"`
	Worker  string `json:"worker" jsonschema:"description=<user>.<instance>"`
	Why     string `json:"why,omitempty" jsonschema:"enum=busy,enum=draining,enum=deadline,enum=definition,enum=version,enum=verb"`
	AfterMS int64  `json:"after_ms,omitempty" jsonschema:"minimum=0,description=when it is worth asking again"`
}

// Go is the word to begin, to the one who took the offer. Its reply subject is where to
// answer. The work is in Work, or comes in parts behind it.
type Go struct {
	V       int    `json:"v"`
	Type    string `json:"type" jsonschema:"enum=go"`
	ID      string `json:"id"`
	BeatMS  int64  `json:"beat_ms" jsonschema:"description=how often a worker must be heard of while it works"`
	LostMS  int64  `json:"lost_ms" jsonschema:"description=after how long a silence it counts as lost"`
	Message int    `json:"message_bytes" jsonschema:"description=size of the largest message that the node hears: larger answers come in parts"`
	LeftMS  int64  `json:"left_ms" jsonschema:"description=how long until the deadline"`
	Work    *Work  `json:"work,omitempty"`
	Parts   int    `json:"parts,omitempty" jsonschema:"minimum=1,description=of the work\\, where it does not come along"`
}

// Work is what is to be done.
type Work struct {
	Verb     string    `json:"verb" jsonschema:"enum=run,enum=probe,enum=compensate"`
	Tool     string    `json:"tool"`
	Call     string    `json:"call"`
	Attempt  int       `json:"attempt"`
	Deadline time.Time `json:"deadline"`
	Key      string    `json:"key,omitempty" jsonschema:"description=idempotency key\\, the same for all attempts of the call"`
	Mode     string    `json:"mode,omitempty" jsonschema:"description=read_only or write"`
	// Traceparent is the W3C header of that name, of the attempt's own span or the caller's.
	Traceparent string          `json:"traceparent,omitempty" jsonschema:"description=W3C trace context of the attempt"`
	Args        json.RawMessage `json:"args" jsonschema:"description=a JSON object that the schema accepts"`
	Given       *events.Given   `json:"given,omitempty" jsonschema:"description=a person's answers to the ask of an earlier attempt"`
	Done        *Result         `json:"done,omitempty" jsonschema:"description=what the call answered that is to be undone; compensate only"`
}

// Word is a short word of the node: no, cancel, done.
type Word struct {
	V    int    `json:"v"`
	Type string `json:"type" jsonschema:"enum=no,enum=cancel,enum=done"`
	ID   string `json:"id"`
	Why  string `json:"why,omitempty"`
}

// Part is a part of a message that is too large: the parts' data, in order, are the JSON
// text of it.
type Part struct {
	V     int    `json:"v"`
	Type  string `json:"type" jsonschema:"enum=part"`
	ID    string `json:"id"`
	Seq   int    `json:"seq,omitempty" jsonschema:"minimum=1,description=of an answer\\, where it must be there: the number of the whole"`
	Part  int    `json:"part" jsonschema:"minimum=1"`
	Parts int    `json:"parts" jsonschema:"minimum=1"`
	Data  []byte `json:"data" jsonschema:"description=base64"`
}

// Answer is what a worker says of what it was told to do. Seq counts its answers of one
// go from 1; a repetition has the number of what it repeats. One without it ends the
// attempt, as do more than 10 000 answers and 100 for each second since the go.
type Answer struct {
	V      int    `json:"v"`
	Type   string `json:"type" jsonschema:"enum=beat,enum=progress,enum=result,enum=error,enum=found,enum=ask"`
	ID     string `json:"id"`
	Seq    int    `json:"seq" jsonschema:"minimum=1"`
	Worker string `json:"worker,omitempty"`

	Text  string  `json:"text,omitempty" jsonschema:"description=of progress"`
	Done  float64 `json:"done,omitempty" jsonschema:"description=of progress"`
	Total float64 `json:"total,omitempty" jsonschema:"description=of progress"`

	Result *Result `json:"result,omitempty" jsonschema:"description=of result\\, of found\\, and beside an error the output to keep"`
	Error  *Error  `json:"error,omitempty" jsonschema:"description=of error"`
	Found  bool    `json:"found,omitempty" jsonschema:"description=of found: the effect happened"`

	Asks  []events.InputRequest `json:"asks,omitempty" jsonschema:"description=of ask: what a person is to answer"`
	State string                `json:"state,omitempty" jsonschema:"description=of ask: comes back with the answers"`
}

// Result is what a tool answers.
type Result struct {
	Status events.Status   `json:"status,omitempty" jsonschema:"enum=success,enum=partial,description=left out: success"`
	Text   string          `json:"text,omitempty" jsonschema:"description=for the model"`
	Data   json.RawMessage `json:"data,omitempty" jsonschema:"description=any JSON"`
	Undo   json.RawMessage `json:"undo,omitempty" jsonschema:"description=what the tool needs to take the effect back; comes along as done.undo with a compensate\\, and no model sees it"`
}

// Error is a tool's own failure.
type Error struct {
	Code    events.Code    `json:"code,omitempty" jsonschema:"maxLength=64,pattern=^[A-Z][A-Z0-9_]*$,description=left out: EXECUTION_ERROR"`
	Class   events.Class   `json:"class,omitempty" jsonschema:"enum=tool,enum=invalid,enum=conflict,enum=unavailable,enum=timeout,enum=cancelled,description=left out: tool"`
	Message string         `json:"message" jsonschema:"description=for the model: what is wrong\\, and what to do"`
	Path    string         `json:"path,omitempty" jsonschema:"description=JSON Pointer to the argument to blame"`
	Effects events.Effects `json:"effects,omitempty" jsonschema:"enum=none,enum=possible,enum=done,description=left out: by class and tier"`
	AfterMS int64          `json:"after_ms,omitempty" jsonschema:"minimum=0,description=the other side's Retry-After"`
}
