package events

// Standing is what the model is told of a call.
type Standing string

// The four results for the model, and the placeholder of a call that is open.
const (
	AnswerSuccess Standing = "success" // perhaps partial
	AnswerFailed  Standing = "failed"
	AnswerDenied  Standing = "denied"
	AnswerUnknown Standing = "unknown" // do not repeat, check first
	AnswerOpen    Standing = "open"    // no terminal yet
)

// Answer is the neutral answer to one call. A codec renders it for a provider;
// nothing in it depends on a clock or on what is registered today.
type Answer struct {
	Call       int      `json:"call"`
	ProviderID string   `json:"provider_id,omitempty"`
	Tool       string   `json:"tool"`
	Said       string   `json:"said,omitempty"` // how the model spelled Tool; "": the same way
	Standing   Standing `json:"standing"`
	Result     Result   `json:"result"`             // text resolved: Result.Text.Ref is nil unless the blob is missing
	Of         string   `json:"of,omitempty"`       // deduplicated: key of the call whose result this is
	Changed    *Body    `json:"changed,omitempty"`  // arguments that a person has put in the place of the model's; nil: these are its own
	Verbatim   bool     `json:"verbatim,omitempty"` // imported: Result.Text is the recorded content, to the byte
	Terminal   Kind     `json:"terminal,omitempty"` // "" for open
	Custom     bool     `json:"custom,omitempty"`   // as in RawCall: some providers answer such a call in another way
}
