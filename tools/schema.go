package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds on schemas, which may come from a stranger's server.
const (
	maxSchemaBytes = 256 << 10
	maxSchemaDepth = 128 // of the document: a nested property is two levels
	maxSchemas     = 4096
)

// ErrSchema says that a schema cannot be used for a tool's arguments.
var ErrSchema = errors.New("schema cannot be used")

// noLoader refuses every reference out of the schema's own document.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is outside of the schema: copy it into $defs", url)
}

// schemas are compiled once for each text, not once for each call.
var schemas = struct {
	sync.RWMutex
	compiled map[string]*jsonschema.Schema
}{compiled: map[string]*jsonschema.Schema{}}

// compiledSchema returns the compiled form of a schema, or an error that wraps ErrSchema.
func compiledSchema(text json.RawMessage) (*jsonschema.Schema, error) {
	schemas.RLock()
	s := schemas.compiled[string(text)]
	schemas.RUnlock()
	if s != nil {
		return s, nil
	}
	s, err := compileSchema(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSchema, err)
	}
	schemas.Lock()
	defer schemas.Unlock()
	if len(schemas.compiled) >= maxSchemas {
		clear(schemas.compiled) // servers that change their schemas for ever must not fill the memory
	}
	schemas.compiled[string(text)] = s
	return s, nil
}

func compileSchema(text json.RawMessage) (*jsonschema.Schema, error) {
	if len(text) > maxSchemaBytes {
		return nil, fmt.Errorf("it has %d bytes, and at most %d are read", len(text), maxSchemaBytes)
	}
	doc, bad := parseJSON(text, maxSchemaDepth)
	if bad != nil {
		return nil, fmt.Errorf("at %q: %s", bad.Path, bad.Message)
	}
	top, ok := doc.(map[string]any)
	if !ok {
		return nil, errors.New("it must be a JSON object")
	}
	if top["type"] != "object" {
		return nil, errors.New(`arguments are an object: say "type": "object" at its top`)
	}
	if err := checkReferences(doc); err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	const at = "urn:sluice:arguments"
	if err := c.AddResource(at, doc); err != nil {
		return nil, err
	}
	return c.Compile(at)
}

// checkReferences refuses the references whose target depends on the way by
// which they were reached: their cost cannot be told beforehand. It looks at
// every object of the document, the names of properties included, which is
// stricter than it need be and never less.
func checkReferences(doc any) error {
	switch v := doc.(type) {
	case map[string]any:
		for name, child := range v {
			if ref, ok := child.(string); ok && (name == "$dynamicRef" || name == "$recursiveRef") {
				return fmt.Errorf("%s %q is not supported: use $ref", name, ref)
			}
			if err := checkReferences(child); err != nil {
				return err
			}
		}
	case []any:
		for _, child := range v {
			if err := checkReferences(child); err != nil {
				return err
			}
		}
	}
	return nil
}

// pointer is the JSON Pointer (RFC 6901) of a place in a document.
func pointer(at []string) string {
	var b strings.Builder
	for _, token := range at {
		b.WriteByte('/')
		b.WriteString(pointerEscape.Replace(token))
	}
	return b.String()
}

var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")
