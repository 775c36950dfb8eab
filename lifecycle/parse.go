package lifecycle

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Bounds of arguments.
const (
	MaxArgs  = 1 << 20 // bytes of a call's arguments
	MaxDepth = 64      // nesting of objects and arrays
	maxExp   = 400     // decimal exponent of a number that is normalised
	maxZeros = 20      // written out behind its digits; more would let short arguments grow
)

// ErrArgs says that arguments are no JSON object. Its text is for the model.
var ErrArgs = errors.New("the arguments are not a JSON object")

// Args are a call's arguments, parsed.
type Args struct {
	JSON []byte // a JSON object, compact, with the members in the model's order and exact digits
	Hash string // "sha256:…" of the canonical form: sorted members, numbers by value
}

// Parse reads arguments as a model wrote them. Nothing, blanks and null are
// the empty object. It returns ErrArgs, with the place and the reason, for
// malformed JSON, anything behind the object, a member given twice, nesting
// over MaxDepth, or a top-level value that is no object.
func Parse(raw string) (Args, error) {
	if len(raw) > MaxArgs {
		return Args{}, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrArgs, len(raw), MaxArgs)
	}
	if s := strings.TrimSpace(raw); s == "" || s == "null" {
		return Args{JSON: []byte("{}"), Hash: digest([]byte("{}"))}, nil
	}
	p := parser{dec: json.NewDecoder(strings.NewReader(raw))}
	p.dec.UseNumber()
	tok, err := p.dec.Token()
	if err != nil {
		return Args{}, p.fail(err)
	}
	if tok != json.Delim('{') {
		return Args{}, fmt.Errorf("%w: the top-level value must be an object", ErrArgs)
	}
	plain, canon, err := p.object(1)
	if err != nil {
		return Args{}, err
	}
	if _, err := p.dec.Token(); !errors.Is(err, io.EOF) {
		return Args{}, fmt.Errorf("%w: something stands behind the object, at byte %d", ErrArgs, p.dec.InputOffset())
	}
	return Args{JSON: plain, Hash: digest(canon)}, nil
}

func digest(b []byte) string {
	d := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(d[:])
}

// parser walks the tokens once and writes two forms: as given, and canonical.
type parser struct{ dec *json.Decoder }

func (p *parser) fail(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends too early, at byte %d", ErrArgs, p.dec.InputOffset())
	}
	return fmt.Errorf("%w: at byte %d: %w", ErrArgs, p.dec.InputOffset(), err)
}

func (p *parser) object(depth int) (plain, canon []byte, err error) {
	if depth > MaxDepth {
		return nil, nil, fmt.Errorf("%w: nested deeper than %d", ErrArgs, MaxDepth)
	}
	type member struct {
		name  string
		value []byte
	}
	var out bytes.Buffer
	var members []member
	seen := make(map[string]bool)
	out.WriteByte('{')
	for p.dec.More() {
		tok, err := p.dec.Token()
		if err != nil {
			return nil, nil, p.fail(err)
		}
		name, ok := tok.(string)
		if !ok {
			return nil, nil, fmt.Errorf("%w: a member's name must be a string", ErrArgs)
		}
		if seen[name] {
			return nil, nil, fmt.Errorf("%w: member %.100q stands twice", ErrArgs, name)
		}
		seen[name] = true
		v, c, err := p.value(depth)
		if err != nil {
			return nil, nil, err
		}
		if len(members) > 0 {
			out.WriteByte(',')
		}
		out.Write(quote(name))
		out.WriteByte(':')
		out.Write(v)
		members = append(members, member{name, c})
	}
	if _, err := p.dec.Token(); err != nil {
		return nil, nil, p.fail(err)
	}
	out.WriteByte('}')
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	var sorted bytes.Buffer
	sorted.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			sorted.WriteByte(',')
		}
		sorted.Write(quote(m.name))
		sorted.WriteByte(':')
		sorted.Write(m.value)
	}
	sorted.WriteByte('}')
	return out.Bytes(), sorted.Bytes(), nil
}

func (p *parser) array(depth int) (plain, canon []byte, err error) {
	if depth > MaxDepth {
		return nil, nil, fmt.Errorf("%w: nested deeper than %d", ErrArgs, MaxDepth)
	}
	a, b := []byte{'['}, []byte{'['}
	for first := true; p.dec.More(); first = false {
		v, c, err := p.value(depth)
		if err != nil {
			return nil, nil, err
		}
		if !first {
			a, b = append(a, ','), append(b, ',')
		}
		a, b = append(a, v...), append(b, c...)
	}
	if _, err := p.dec.Token(); err != nil {
		return nil, nil, p.fail(err)
	}
	return append(a, ']'), append(b, ']'), nil
}

func (p *parser) value(depth int) (plain, canon []byte, err error) {
	tok, err := p.dec.Token()
	if err != nil {
		return nil, nil, p.fail(err)
	}
	switch v := tok.(type) {
	case json.Delim:
		if v == '{' {
			return p.object(depth + 1)
		}
		return p.array(depth + 1)
	case json.Number:
		return []byte(v), number(string(v)), nil
	case string:
		q := quote(v)
		return q, q, nil
	case bool:
		if v {
			return []byte("true"), []byte("true"), nil
		}
		return []byte("false"), []byte("false"), nil
	}
	return []byte("null"), []byte("null"), nil
}

// quote is s as a JSON string without HTML escapes.
func quote(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return bytes.TrimRight(b.Bytes(), "\n")
}

// exponent reads what stands behind the e of a number; ok is false where it is out of
// bounds. It has as many digits as the arguments have room for, and is not read whole.
func exponent(s string) (e int, ok bool) {
	digits := strings.TrimLeft(strings.TrimLeft(s, "+-"), "0")
	if len(digits) > 3 {
		return 0, false
	}
	for _, c := range digits {
		e = e*10 + int(c-'0')
	}
	if strings.HasPrefix(s, "-") {
		e = -e
	}
	return e, e >= -maxExp && e <= maxExp
}

// number is one spelling for each value: 1, 1.0 and 1e0 are the same number,
// and no digit of a large one is lost. Numbers whose exponent is out of bounds
// keep their spelling: they are equal only to themselves.
func number(s string) []byte {
	mantissa, exp, _ := strings.Cut(strings.ToLower(s), "e")
	e, ok := exponent(exp)
	if !ok {
		return []byte(s)
	}
	whole, frac, _ := strings.Cut(mantissa, ".")
	neg := strings.HasPrefix(whole, "-")
	digits := strings.TrimPrefix(whole, "-") + frac
	scale := e - len(frac)
	trimmed := strings.TrimRight(digits, "0")
	scale += len(digits) - len(trimmed)
	trimmed = strings.TrimLeft(trimmed, "0")
	switch {
	case trimmed == "":
		return []byte("0")
	case scale >= 0 && scale <= maxZeros:
		trimmed += strings.Repeat("0", scale)
	default:
		trimmed = fmt.Sprintf("%se%d", trimmed, scale)
	}
	if neg {
		trimmed = "-" + trimmed
	}
	return []byte(trimmed)
}
