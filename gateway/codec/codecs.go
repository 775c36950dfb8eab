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
	finished func(reason string) bool // the model said all that it meant to
	ids      func(calls []asked, seen []string) []string
	calls    func(calls []events.RawCall, ids []string) json.RawMessage
	answers  func(answers []events.Answer, ids []string) []json.RawMessage
	validate func(messages []json.RawMessage) error
}

var codecs = []codec{
	{OpenAI, decodeOpenAI, finishedOpenAI, idsOpenAI, callsOpenAI, answersOpenAI, validateOpenAI},
	{Anthropic, decodeAnthropic, finishedAnthropic, idsAnthropic, callsAnthropic, answersAnthropic, validateAnthropic},
	{Neutral, decodeNeutral, finishedNeutral, idsNeutral, callsNeutral, answersNeutral, validateNeutral},
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
