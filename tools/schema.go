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
	maxSchemaTexts = 16 << 20 // bytes of the texts that are remembered
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
	compiled map[string]*compiled
	texts    int // bytes of the keys
}{compiled: map[string]*compiled{}}

// compiledSchema returns the compiled form of a schema of arguments, or an error that
// wraps ErrSchema.
func compiledSchema(text json.RawMessage) (*compiled, error) {
	return remembered(string(text), func() (*compiled, error) { return compileSchema(text, true) })
}

// compiledValue is compiledSchema for a schema of any value.
func compiledValue(text json.RawMessage) (*compiled, error) {
	return remembered("any "+string(text), func() (*compiled, error) { return compileSchema(text, false) })
}

// remembered is what compile makes, once for each text.
func remembered(text string, compile func() (*compiled, error)) (*compiled, error) {
	schemas.RLock()
	s := schemas.compiled[text]
	schemas.RUnlock()
	if s != nil {
		return s, nil
	}
	s, err := compile()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSchema, err)
	}
	schemas.Lock()
	defer schemas.Unlock()
	if len(schemas.compiled) >= maxSchemas || schemas.texts+len(text) > maxSchemaTexts {
		clear(schemas.compiled) // servers that change their schemas for ever must not fill the memory
		schemas.texts = 0
	}
	schemas.compiled[text] = s
	schemas.texts += len(text)
	return s, nil
}

// schemaAt is the name of a tool's schema among those that its compiler knows.
const schemaAt = "urn:sluice:arguments"

func compileSchema(text json.RawMessage, arguments bool) (*compiled, error) {
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
	if arguments && top["type"] != "object" {
		return nil, errors.New(`arguments are an object: say "type": "object" at its top`)
	}
	var of survey
	if err := errors.Join(of.look(doc, 0), of.outside()); err != nil {
		return nil, err
	}
	leaveForeign(doc)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(compilePattern)
	if err := c.AddResource(schemaAt, doc); err != nil {
		return nil, plainError(err)
	}
	s, err := c.Compile(schemaAt)
	if err != nil {
		return nil, plainError(err)
	}
	return measure(s)
}

// plainError is a library's error as a text of bounded length.
func plainError(err error) error { return errors.New(shorten(err.Error(), 500)) }

// maxPointer bounds a pointer that is told, in bytes: names come from strangers.
const maxPointer = 1024

// pointer is the JSON Pointer (RFC 6901) of a place in a document; of one whose pointer
// is too long to be told, that of the nearest place above it whose pointer is not.
func pointer(at []string) string {
	var b strings.Builder
	for _, token := range at {
		if b.Len()+len(token) >= maxPointer {
			break
		}
		b.WriteByte('/')
		b.WriteString(pointerEscape.Replace(token))
	}
	return b.String()
}

var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")
