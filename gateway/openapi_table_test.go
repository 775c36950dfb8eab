package gateway

import (
	"encoding/json"
	"strings"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/projections"
	"github.com/sluice-run/sluice/projections/readstore"
)

// pathParams are the parts of paths.
var pathParams = map[string]object{
	"trace":  {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
	"turn":   {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
	"call":   {"type": "integer", "minimum": 0, "description": "the call's place in its turn"},
	"tool":   {"type": "string", "minLength": 1},
	"digest": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
}

const positionPattern = `^(start|[0-9]+\.[0-9]+(\.[0-9]+)?)$`

// ofCircuit names the circuit of an endpoint.
var ofCircuit = map[string]object{"circuit": text("the endpoint whose circuit is meant, as the list names it; left out: the tool as a whole")}

// queryParams are the parameters that mean the same wherever they stand.
var queryParams = map[string]object{
	"format":    formats(),
	"limit":     integer(1, readstore.MaxLimit, "how many at most; a page may hold fewer, by its bytes"),
	"cursor":    text("the next of the page before; left out: the first page"),
	"wait_ms":   integer(0, maxPageWait.Milliseconds(), "how long to wait, in milliseconds; left out: not at all"),
	"from":      {"type": "string", "pattern": positionPattern, "description": "a position, the event there being the first, or start; left out: what happens from now on"},
	"trace":     {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$", "description": "only of this trace"},
	"turn":      {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$", "description": "only of this turn; needs trace"},
	"kind":      severalOf("only of these kinds; several times, or with commas"),
	"tool":      severalOf("only of these tools; several times"),
	"status":    severalOf("how a call ended, or open; several times, or with commas"),
	"principal": severalOf("only of turns that these submitted; several times"),
	"since":     text("a time, a day (UTC), or how long ago: 2026-11-30T12:00:00Z, 2026-11-30, 90m"),
	"until":     text("a time, a day (UTC), or how long ago"),
	"text":      text("words, and phrases in double quotes, that must stand in the texts of one call"),
	"order":     oneOf("by where traces begin; left out: newest", "newest", "oldest"),
	"by":        severalOf("what rows are told apart by: day, tool, principal"),
	"follow":    {"type": "boolean", "description": "false ends the stream at the log's end"},
	"log":       {"type": "boolean", "description": "false does not count the turns that have not ended"},
	"turns":     {"type": "boolean", "description": "true names the turns that have not ended"},
	"asking":    integer(1, 1<<31, "which of the call's askings; left out: the last one"),
}

// long is the wait_ms of what waits for a turn's end.
var long = map[string]object{"wait_ms": integer(0, MaxWait.Milliseconds(), "how long to wait for the turn's end, in milliseconds; left out: not at all")}

// unchangedAnswer is the answer to who has it already.
var unchangedAnswer = answered{status: 304, about: "as the tag says that If-None-Match names"}

// policyState is the state of the policy, which the node behind the door makes.
var policyState = object{
	"type": "object", "required": []string{"version"}, "description": "the policy in force: its version and files, when it was loaded, and by whom",
	"properties": object{"version": text("by which verdicts name it")},
}

// toolArray is the tool list, which is in the provider's own form.
var toolArray = object{"type": "array", "items": object{"type": "object"}, "description": "as the provider's API takes it, sorted by name"}

// eventData are what an event stream of the log tells.
var eventData = map[string]any{
	"*": object{"type": "object", "required": []string{"specversion", "type", "position", "data"}, "description": "a CloudEvent; schemas/cloudevent.json says the rest"},

	string(NoticeGap): noticed{}, string(NoticeRewound): noticed{}, string(NoticeUnreadable): noticed{}, "error": Problem{},
}

// streamFaults are the problems of streams that submit nothing.
const streamFaults = "stream-cut stream-error stream-ambiguous stream-conflict stream-order stream-after-end stream-choices stream-malformed stream-format"

// halts are the problems of messages that ask for no call and are no last word.
const halts = " model-cut model-blocked model-paused model-failed model-unclear"

// streamParams are what a submission says beside the stream itself.
var streamParams = func() map[string]object {
	flag := object{"type": "boolean"}
	words := object{"type": "string"}
	some := object{"type": "integer", "minimum": 0}
	id := object{"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$", "description": "left out: one is made"}
	out := map[string]object{
		"trace": id, "turn": id, "principal": words, "workspace": words, "mode": oneOf("left out: write", "read_only", "write"), "can_ask": flag,
		"allow": severalOf("narrows the allowlist to these tools"), "placement": words, "on_error": oneOf("left out: continue", "continue", "abort_rest"),
		"parallel_disjoint": flag, "secrets": severalOf("JSON Pointers to arguments that are secrets"), "traceparent": words,
		"done": oneOf("whether OpenAI's [DONE] must come; left out: required", "required", "optional"), "wait_ms": long["wait_ms"],
	}
	for _, name := range strings.Fields("max_concurrency deadline_ms call_deadline_ms call_bytes turn_bytes") {
		out[name] = some
	}
	return out
}()

const exampleSubmission = `{"trace": "shop", "turn": "t1", "can_ask": true, "calls": [{"id": "a", "tool": "echo", "args": {"v": 1}}]}`

// operations describe every route. The entries are in the order of routes().
var operations = map[string]described{
	"POST /v1/turns": {
		id: "submit", about: "Submit a turn: the calls of one model response. The same ids again attach to the turn that is there.",
		body: Envelope{}, example: exampleSubmission, problems: "submission-refused nothing-to-run turn-exists no-turn workspace " + streamFaults + halts,
		answers: []answered{
			{status: 200, about: "the turn has ended within wait_ms, and these are its messages", of: submitted{}},
			{status: 202, about: "it is durable, and goes on", of: submitted{}},
		},
	},
	streamRoute: {
		id: "submitStream", about: "Submit a model's stream as its provider sends it. Nothing is submitted before its own end.",
		body: object{"type": "string", "description": "the provider's stream, as it comes"}, query: streamParams,
		media:    []string{"text/event-stream", "application/x-ndjson", "application/jsonl", "application/json"},
		problems: "submission-refused turn-exists no-turn workspace bad-id stream-silent " + streamFaults + halts,
		answers: []answered{
			{status: 200, about: "the turn has ended within wait_ms, or the stream asks for no call; with Accept: text/event-stream what comes of it as it comes", of: streamed{}},
			{status: 202, about: "it is durable, and goes on", of: streamed{}},
			{status: 200, events: map[string]any{"preview": preview{}, "submitted": submitted{}, "answer": streamed{}, "error": Problem{}}},
		},
	},
	"GET /v1/turns/{trace}/{turn}": {
		id: "getTurn", about: "How a turn stands; with wait_ms as soon as it has ended.", query: long,
		answers: []answered{{status: 200, about: "the turn", of: turnView{}}, unchangedAnswer},
	},
	"GET /v1/turns/{trace}/{turn}/messages": {
		id: "getMessages", about: "What the model is told, as it stands; calls that have not ended have a placeholder.", query: long, problems: "too-large",
		answers: []answered{{status: 200, about: "the model's message and the answers, with the same ids", of: messagesView{}}, unchangedAnswer},
	},
	"GET /v1/turns/{trace}/{turn}/events": {
		id: "getTurnEvents", about: "A turn's own events, page by page.", query: long,
		answers: []answered{{status: 200, about: "a page of CloudEvents", of: turnEvents{}}, unchangedAnswer},
	},
	"POST /v1/turns/{trace}/{turn}/cancel": {
		id: "cancelTurn", about: "Ask for the end of every call of a turn.", body: act{}, optional: true, example: `{"reason": "not needed any more"}`,
		answers: []answered{{status: 202, about: "the wish is durable", of: replied{}}, {status: 200, about: "it had ended already", of: replied{}}},
	},
	"POST /v1/turns/{trace}/{turn}/calls/{call}/cancel": {
		id: "cancelCall", about: "Ask for the end of one call.", body: act{}, optional: true, example: `{"reason": "wrong file"}`,
		answers: []answered{{status: 202, about: "the wish is durable", of: replied{}}, {status: 200, about: "it had ended already", of: replied{}}},
	},
	"POST /v1/turns/{trace}/{turn}/calls/{call}/approve": {
		id: "approve", about: "A person's yes to what a call asks.", body: act{}, optional: true, example: `{"scope": "call", "note": "fine"}`,
		problems: "may-not-decide other-arguments superseded expired not-asking cancelled ended arguments-refused no-approval",
		answers:  []answered{{status: 200, about: "whose answer counts", of: Decided{}}},
	},
	"POST /v1/turns/{trace}/{turn}/calls/{call}/deny": {
		id: "deny", about: "A person's no to what a call asks.", body: act{}, optional: true, example: `{"note": "not today"}`,
		problems: "may-not-decide superseded expired not-asking cancelled ended no-approval",
		answers:  []answered{{status: 200, about: "whose answer counts", of: Decided{}}},
	},
	"POST /v1/turns/{trace}/{turn}/calls/{call}/answer": {
		id: "answerInput", about: "A person's answers to what a tool asks.", body: answerBody{}, optional: true, example: `{"action": "decline"}`,
		problems: "may-not-decide superseded expired not-asking cancelled ended answers-refused no-input no-approval",
		answers:  []answered{{status: 200, about: "whose answers count", of: Answered{}}},
	},
	"POST /v1/turns/{trace}/{turn}/calls/{call}/resolve": {
		id: "resolve", about: "Say how a call ended whose effects are only possible.", body: act{}, optional: true,
		example: `{"effects": "done", "note": "the file is there"}`, problems: "nothing-to-resolve",
		answers: []answered{{status: 200, about: "how it is settled", of: Resolution{}}},
	},
	"POST /v1/turns/{trace}/{turn}/calls/{call}/compensate": {
		id: "compensate", about: "Undo what a completed call did, by a call of its own.", body: undoAsked{}, optional: true,
		example: `{"reason": "wrong file", "wait_ms": 1000}`, problems: "nothing-to-undo undo-unknown submission-refused turn-exists workspace",
		answers: []answered{{status: 200, about: "how the undo ended", of: Undone{}}, {status: 202, about: "the undo is durable, and goes on", of: Undone{}}},
	},
	"GET /v1/approvals": {
		id: "listApprovals", about: "What waits for a person, soonest expiry first, page by page. With wait_ms once the list is another one than If-None-Match names or, without that, once anything waits.",
		answers: []answered{{status: 200, about: "a page of them", of: approvalList{}}, unchangedAnswer},
	},
	"GET /v1/approvals/{trace}/{turn}/{call}": {
		id: "getApproval", about: "The whole page of one, also of one that is over.", problems: "no-approval",
		query:   map[string]object{"kind": oneOf("what was asked for; left out: approval", projections.PendingApproval, projections.PendingInput)},
		answers: []answered{{status: 200, about: "the page", of: projections.Page{}}},
	},
	"GET /v1/traces": {
		id: "searchTraces", about: "Search traces. Tool, principal, status and text must meet in one call.", problems: "no-store store-building",
		answers: []answered{{status: 200, about: "a page of traces", of: tracesPage{}}},
	},
	"GET /v1/traces/{trace}": {
		id: "getTrace", about: "One trace, as a search finds it.", problems: "no-store store-building no-trace",
		answers: []answered{{status: 200, about: "the trace", of: readstore.Trace{}}},
	},
	"GET /v1/traces/{trace}/timeline": {
		id: "getTimeline", about: "A trace's events, each in a line, page by page.", problems: "no-store store-building no-trace",
		query:   map[string]object{"cursor": text("a position: the page begins behind it")},
		answers: []answered{{status: 200, about: "a page of moments", of: timelinePage{}}},
	},
	"GET /v1/usage": {
		id: "getUsage", about: "What was used, by day, tool and principal.", problems: "no-store store-building",
		query:   map[string]object{"since": text("the first day"), "until": text("the last day")},
		answers: []answered{{status: 200, about: "rows", of: usagePage{}}},
	},
	"GET /v1/readstore": {
		id: "getReadStore", about: "How the store that searches are answered from stands.", problems: "no-store store-building",
		answers: []answered{{status: 200, about: "how it stands", of: readstore.Status{}}},
	},
	"POST /v1/readstore/rebuild": {
		id: "rebuildReadStore", about: "Have the read store built anew.", body: actorAsked{}, optional: true, example: `{}`, problems: "no-store",
		answers: []answered{{status: 202, about: "it is built, or was being built", of: replied{}}},
	},
	"GET /v1/nodes": {
		id: "getNodes", about: "Who is there, and who has what.",
		answers: []answered{{status: 200, about: "the nodes", of: Crew{}}},
	},
	"GET /v1/workers": {
		id: "getWorkers", about: "Who serves which tool over NATS, and who is refused.", problems: "no-workers",
		answers: []answered{{status: 200, about: "the tools of workers", of: bus.WorkerTools{}}},
	},
	"GET /v1/limits": {
		id: "listLimits", about: "The limits on what runs at once and begins in a time, and how they stand.",
		answers: []answered{{status: 200, about: "the limits", of: limitList{}}},
	},
	"GET /v1/breakers": {
		id: "listBreakers", about: "The circuits that are not closed, or have failures.",
		answers: []answered{{status: 200, about: "the circuits", of: circuitList{}}},
	},
	"GET /v1/breakers/{tool}": {
		id: "getBreaker", about: "The circuit of a tool, or of one of the endpoints that it reaches.", query: ofCircuit,
		answers: []answered{{status: 200, about: "the circuit", of: Circuit{}}},
	},
	"POST /v1/breakers/{tool}/reset": {
		id: "resetBreaker", about: "Close the circuit of a tool and those of its endpoints, or one of these.", query: ofCircuit, body: actorAsked{}, optional: true, example: `{}`, problems: "busy",
		answers: []answered{{status: 200, about: "what it was", of: Switched{}}},
	},
	"POST /v1/breakers/{tool}/open": {
		id: "openBreaker", about: "Switch a tool off for a time, or one of the endpoints that it reaches.", query: ofCircuit, body: openAsked{}, example: `{"for_ms": 60000, "reason": "maintenance"}`,
		problems: "busy too-long no-tool", answers: []answered{{status: 200, about: "what it was", of: Switched{}}},
	},
	"GET /v1/tools": {
		id: "listTools", about: "The tools, without those whose circuit is open: all, or a page, behind which the header Link tells of the next one.", problems: "no-tools",
		query: map[string]object{
			"cursor": text("the name of a tool: the page begins behind it"),
			"format": oneOf("which provider's; left out: openai", "openai", "responses", "anthropic", "gemini"),
		},
		answers: []answered{{status: 200, about: "the array that the provider's API takes", of: toolArray}, unchangedAnswer},
	},
	"GET /v1/events": {
		id: "readEvents", about: "The log: as server-sent events, or a page of it where limit or wait_ms stands there, or Accept names JSON.",
		problems: "bad-id no-turn streams",
		answers: []answered{
			{status: 200, about: "events and notices: of a stream, or on a page", events: eventData},
			{status: 200, of: eventsPage{}},
		},
	},
	"GET /v1/blobs/{digest}": {
		id: "getBlob", about: "Bytes by their digest.", problems: "not-found no-turn bad-id",
		query: map[string]object{
			"trace": text("of a turn that refers to them: for who may not read everything"), "turn": text("of a turn that refers to them"),
		},
		answers: []answered{{status: 200, about: "the bytes", media: "application/octet-stream"}, unchangedAnswer},
	},
	"POST /v1/explain": {
		id: "explain", about: "What the gates would say of a call that is not made. Nothing is run, and nothing is kept.", body: Supposition{},
		example: `{"tool": "echo", "args": {"v": "x"}}`, problems: "no-tools submission-refused workspace",
		answers: []answered{{status: 200, about: "the decision, and why", of: Explained{}}},
	},
	"GET /v1/policy": {
		id: "getPolicy", about: "The policy in force.", problems: "no-policy", answers: []answered{{status: 200, about: "the policy", of: policyState}},
	},
	"POST /v1/policy/reload": {
		id: "reloadPolicy", about: "Have the policy read anew. One that does not load changes nothing.", body: actorAsked{}, optional: true, example: `{}`,
		problems: "no-policy policy-refused", answers: []answered{{status: 200, about: "the policy", of: policyState}},
	},
	"GET /v1/whoami": {
		id: "whoami", about: "Who the caller is here, and what that allows.", answers: []answered{{status: 200, about: "who", of: whoami{}}},
	},
	"GET /openapi.json": {
		id: "getOpenAPI", about: "This document.",
		answers: []answered{{status: 200, about: "OpenAPI 3.1", of: object{"type": "object"}}, unchangedAnswer},
	},
	healthRoute: {
		id: "health", about: "Whether the process answers.", answers: []answered{{status: 200, about: "it does", of: health{}}},
	},
	readyRoute: {
		id: "ready", about: "Whether a turn that is submitted now would be kept and run.", problems: "not-ready",
		answers: []answered{{status: 200, about: "it would", of: health{}}},
	},
	metricsRoute: {
		id: "metrics", about: "What Prometheus scrapes.", problems: "no-route", answers: []answered{{status: 200, about: "metrics", media: "text/plain"}},
	},
	"POST " + mcpPath: {
		id: "mcpPost", about: "A message of the Model Context Protocol.", body: object{"type": "object"}, problems: "no-mcp",
		answers: mcpAnswers,
	},
	"GET " + mcpPath:    {id: "mcpGet", about: "What a server of the Model Context Protocol tells by itself.", problems: "no-mcp streams", answers: mcpAnswers},
	"DELETE " + mcpPath: {id: "mcpDelete", about: "End a session of the Model Context Protocol.", problems: "no-mcp streams", answers: mcpAnswers},
}

// mcpAnswers are the ways in which the protocol's own library answers.
var mcpAnswers = []answered{
	{status: 200, about: "messages of the protocol", of: object{}},
	{status: 200, events: map[string]any{"*": object{}}},
	{status: 202, about: "it was taken"},
	{status: 204, about: "it has ended"},
}

var _ json.Marshaler = projections.Page{} // its fields are those of its JSON all the same
