// Package schemas holds JSON Schemas of everything that the log and the live events
// say, one file a kind. The files are made from the Go types of package events:
// go generate ./schemas makes them anew, and a test compares.
package schemas

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"

	"github.com/invopop/jsonschema"

	"github.com/sluice-run/sluice/events"
)

//go:generate go test . -run TestFilesAreGenerated -rewrite

// Files are the schemas: <kind>.json, commit.json and cloudevent.json. openapi.json
// describes HTTP, and is made in package gateway from the types of its handlers.
//
//go:embed *.json
var Files embed.FS

// base is what the ids of the schemas begin with.
const base = "https://github.com/sluice-run/sluice/schemas/"

// Generate makes the files by name. source is the folder of package events as seen
// from the working directory, whose comments become descriptions; here is the import
// path of the working directory. It reads source, and fails if it cannot.
func Generate(source, here string) (map[string][]byte, error) {
	r := &jsonschema.Reflector{AllowAdditionalProperties: true, Anonymous: true, ExpandedStruct: true}
	if err := r.AddGoComments(here, source, jsonschema.WithFullComment()); err != nil {
		return nil, fmt.Errorf("comments of package events: %w", err)
	}
	out := make(map[string][]byte)
	for _, row := range events.Kinds {
		b, err := encode(kindSchema(r, row))
		if err != nil {
			return nil, fmt.Errorf("schema of %s: %w", row.Kind, err)
		}
		out[file(row.Kind)] = b
	}
	for name, schema := range map[string]any{"commit.json": commitSchema(), "cloudevent.json": cloudEventSchema()} {
		b, err := encode(schema)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = b
	}
	return out, nil
}

func file(k events.Kind) string { return string(k) + ".json" }

// kindSchema describes the JSON of an event's body, as live events carry it.
// Fields that it does not name are from a newer release, and tolerated.
func kindSchema(r *jsonschema.Reflector, row events.Row) *jsonschema.Schema {
	s := r.Reflect(row.New())
	s.ID = jsonschema.ID(base + file(row.Kind))
	s.Title = string(row.Kind)
	s.Extras = map[string]any{"x-version": row.Version, "x-turn": row.Turn, "x-terminal": row.Terminal}
	return s
}

func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return out.Bytes(), err
}

// object is a JSON object; encoding/json sorts its members.
type object = map[string]any

func field(kind, description string) object { return object{"type": kind, "description": description} }

// commitSchema describes the msgpack map that is one message of the stream.
func commitSchema() object {
	record := object{
		"type":     "object",
		"required": []string{"k", "v", "c", "s", "d"},
		"properties": object{
			"k": field("string", "kind; "+base+"<kind>.json describes the body"),
			"v": object{"type": "integer", "minimum": 1, "description": "version of the kind"},
			"c": object{"type": "integer", "minimum": -1, "description": "offset of the call, -1 for an event of the turn"},
			"s": object{"type": "integer", "minimum": 1, "description": "the call's or the turn's own number: 1, 2, 3 …, no gaps"},
			"d": field("object", "body: a map with the names of the kind's schema. What is JSON there is bin with its text here, and a date-time is the timestamp extension"),
		},
	}
	id := object{"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"}
	return object{
		"$schema":     jsonschema.Version,
		"$id":         base + "commit.json",
		"title":       "commit",
		"description": "Events of one turn that were decided together, as a msgpack map: one message of the stream.",
		"type":        "object",
		"required":    []string{"f", "id", "tr", "tu", "at", "ev"},
		"properties": object{
			"f":  object{"type": "integer", "minimum": 1, "maximum": events.Format, "description": "version of the log format"},
			"id": field("string", "commit id, the same on every try of one append"),
			"tr": id,
			"tu": id,
			"at": field("integer", "when it was decided, microseconds since 1970, UTC"),
			"b":  field("string", "boot id of the owner; absent where a door or a person wrote it"),
			"e":  object{"type": "integer", "minimum": 1, "description": "epoch of the owner"},
			"ev": object{"type": "array", "minItems": 1, "items": record},
		},
	}
}

// cloudEventSchema describes a live event: a CloudEvent 1.0 in structured form.
func cloudEventSchema() object {
	var bodies []object
	for _, row := range events.Kinds {
		bodies = append(bodies, object{
			"if":   object{"properties": object{"type": object{"const": fmt.Sprintf("run.sluice.%s.v%d", row.Kind, row.Version)}}},
			"then": object{"properties": object{"data": object{"$ref": base + file(row.Kind)}}},
		})
	}
	number := object{"type": "string", "pattern": "^[0-9]+$"}
	return object{
		"$schema":     jsonschema.Version,
		"$id":         base + "cloudevent.json",
		"title":       "cloudevent",
		"description": "One event, told live: a CloudEvent 1.0 in structured JSON form.",
		"type":        "object",
		"required":    []string{"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "position", "number", "commit", "data"},
		"properties": object{
			"specversion":     object{"const": "1.0"},
			"id":              field("string", "the position; unique in the log"),
			"source":          field("string", "sluice/<trace>"),
			"type":            object{"type": "string", "pattern": `^run\.sluice\.[a-z_]+\.v[0-9]+$`, "description": "kind and version"},
			"subject":         field("string", "<trace>/<turn>, and /<call> for an event of a call"),
			"time":            object{"type": "string", "format": "date-time", "description": "when the commit was decided"},
			"datacontenttype": object{"const": "application/json"},
			"position":        object{"type": "string", "pattern": `^[0-9]+\.[0-9]+\.[0-9]+$`, "description": "generation.sequence.index"},
			"number":          number,
			"commit":          field("string", "commit id"),
			"tool":            field("string", "name of the call's tool, where it is known"),
			"boot":            field("string", "boot id of the owner, where one decided"),
			"epoch":           number,
			"data":            field("object", "the event's body"),
		},
		"allOf": bodies,
	}
}
