package codec

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-run/sluice/events"
)

// codec is one provider: to add one, write its file and its row.
type codec struct {
	format   Format
	decode   func(body []byte) (Message, error)
	ids      func(calls []asked, seen []string) []string
	calls    func(calls []events.RawCall, ids []string, taken map[string]bool) []json.RawMessage
	answers  func(answers []events.Answer, ids []string) []json.RawMessage
	validate func(messages []json.RawMessage) error
	items    bool // what the model says is a list of items, with ids of their own, and not one message
}

var codecs = []codec{
	{OpenAI, decodeOpenAI, idsOpenAI, callsOpenAI, answersOpenAI, validateOpenAI, false},
	{Responses, decodeResponses, idsResponses, callsResponses, answersResponses, validateResponses, true},
	{Anthropic, decodeAnthropic, idsAnthropic, callsAnthropic, answersAnthropic, validateAnthropic, false},
	{Gemini, decodeGemini, idsGemini, callsGemini, answersGemini, validateGemini, false},
	{AISDK, decodeAISDK, idsAISDK, callsAISDK, answersAISDK, validateAISDK, false},
	{Neutral, decodeNeutral, idsNeutral, callsNeutral, answersNeutral, validateNeutral, false},
}

func find(f Format) (codec, error) {
	for _, c := range codecs {
		if c.format == f {
			return c, nil
		}
	}
	return codec{}, fmt.Errorf("%w: %q, want one of %s", ErrFormat, shorten(string(f), 32), strings.Join(names(), ", "))
}

// Formats are all formats, in the order of the table.
func Formats() []Format {
	out := make([]Format, len(codecs))
	for i, c := range codecs {
		out[i] = c.format
	}
	return out
}

func names() []string {
	out := make([]string, 0, len(codecs))
	for _, f := range Formats() {
		out = append(out, string(f))
	}
	return slices.Clip(out)
}
