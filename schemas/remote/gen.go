// Package remote holds JSON Schemas of what nodes and workers say to each other, one file
// for each type of message. The files are made from the Go types of package wire:
// go generate ./schemas/remote makes them anew, and a test compares.
package remote

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/sluice-run/sluice/tools/remote/wire"
)

//go:generate go test . -run TestFilesAreGenerated -rewrite

// Files are the schemas: <message>.json.
//
//go:embed *.json
var Files embed.FS

// base is what the ids of the schemas begin with.
const base = "https://github.com/sluice-run/sluice/schemas/remote/"

// messages are what is said, by the name of its schema.
var messages = map[string]any{
	"here": wire.Here{}, "told": wire.Told{}, "offer": wire.Offer{}, "take": wire.Take{}, "go": wire.Go{},
	"word": wire.Word{}, "part": wire.Part{}, "answer": wire.Answer{},
}

// Generate makes the files by name. source is the folder of package wire as seen from the
// working directory, whose comments become descriptions; here is the import path of the
// working directory. It reads source, and fails if it cannot.
func Generate(source, here string) (map[string][]byte, error) {
	r := &jsonschema.Reflector{AllowAdditionalProperties: true, Anonymous: true, ExpandedStruct: true}
	if err := r.AddGoComments(here, source, jsonschema.WithFullComment()); err != nil {
		return nil, fmt.Errorf("comments of package wire: %w", err)
	}
	out := make(map[string][]byte)
	for name, m := range messages {
		s := r.Reflect(m)
		s.ID, s.Title = jsonschema.ID(base+name+".json"), name
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(s); err != nil {
			return nil, fmt.Errorf("schema of %s: %w", name, err)
		}
		out[name+".json"] = []byte(plain.Replace(b.String()))
	}
	return out, nil
}

// plain takes out the escapes that are for HTML: the reflector's own writer puts them in.
var plain = strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&")
