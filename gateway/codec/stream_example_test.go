package codec_test

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sluice-run/sluice/gateway/codec"
)

// A stream gives its calls once it has said itself that it ended.
func ExampleStream() {
	const fromTheModel = `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"echo","arguments":"{\"v\":"}}]}}]}

data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}}]}

data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}

data: [DONE]

`
	s, err := codec.NewStream("", codec.StreamOptions{Previews: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := io.Copy(s, strings.NewReader(fromTheModel)); err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range s.Previews() {
		fmt.Printf("preview of call %d: %q\n", p.Call, p.Delta)
	}
	m, err := s.End()
	fmt.Println(s.Format(), m.Reason, err)
	for _, c := range m.Calls {
		fmt.Println(c.ProviderID, c.Tool, c.Args.Text)
	}
	// Output:
	// preview of call 0: "{\"v\":"
	// preview of call 0: "1}"
	// preview of call 0: ""
	// openai tool_calls <nil>
	// a echo {"v":1}
}

// A stream that breaks off gives nothing, whatever stands in it.
func ExampleDecodeStream() {
	cut := `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}]}}]}

`
	_, m, err := codec.DecodeStream(codec.OpenAI, []byte(cut), codec.StreamOptions{})
	var why *codec.StreamError
	fmt.Println(len(m.Calls), errors.As(err, &why), why.Fault)
	// Output: 0 true stream-cut
}
