package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Bounds on arguments, whatever the schema says.
const (
	maxArgsBytes = 1 << 20 // as at the door
	maxArgsDepth = 64
	maxDigits    = 1024 // bytes of one number
	maxExponent  = 1000 // a number past it is a trap for whoever writes it out
)

// parseJSON reads one JSON value: numbers keep their digits (json.Number), and
// trailing data, repeated names, deep nesting and huge numbers are refused.
func parseJSON(raw []byte, depth int) (any, *Violation) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	p := jsonParser{dec: dec, depth: depth}
	v, bad := p.value()
	if bad != nil {
		return nil, bad
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, &Violation{Message: fmt.Sprintf("there is more behind the JSON value, at byte %d", dec.InputOffset())}
	}
	return v, nil
}

type jsonParser struct {
	dec   *json.Decoder
	depth int
	at    []string
}

func (p *jsonParser) bad(format string, args ...any) *Violation {
	return &Violation{Path: pointer(p.at), Message: fmt.Sprintf(format, args...)}
}

func (p *jsonParser) value() (any, *Violation) {
	t, err := p.dec.Token()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, p.bad("this is not JSON, near byte %d: %v", p.dec.InputOffset(), err)
	}
	switch t := t.(type) {
	case json.Number:
		return t, p.number(t)
	case json.Delim:
		if len(p.at) >= p.depth {
			return nil, p.bad("nested deeper than %d levels: make it flatter", p.depth)
		}
		if t == '{' {
			return p.object()
		}
		return p.array()
	}
	return t, nil
}

func (p *jsonParser) object() (any, *Violation) {
	obj := map[string]any{}
	for p.dec.More() {
		t, err := p.dec.Token()
		if err != nil {
			return nil, p.bad("this is not JSON, near byte %d: %v", p.dec.InputOffset(), err)
		}
		name, ok := t.(string)
		if !ok {
			return nil, p.bad("this is not JSON, near byte %d: a name must be a string", p.dec.InputOffset())
		}
		p.at = append(p.at, name)
		if _, twice := obj[name]; twice {
			return nil, p.bad("the name stands twice in one object: say it once")
		}
		v, bad := p.value()
		if bad != nil {
			return nil, bad
		}
		obj[name] = v
		p.at = p.at[:len(p.at)-1]
	}
	return obj, p.end()
}

func (p *jsonParser) array() (any, *Violation) {
	arr := []any{}
	for p.dec.More() {
		p.at = append(p.at, strconv.Itoa(len(arr)))
		v, bad := p.value()
		if bad != nil {
			return nil, bad
		}
		arr = append(arr, v)
		p.at = p.at[:len(p.at)-1]
	}
	return arr, p.end()
}

func (p *jsonParser) end() *Violation {
	if _, err := p.dec.Token(); err != nil {
		return p.bad("this is not JSON, near byte %d: cut short or wrongly closed", p.dec.InputOffset())
	}
	return nil
}

func (p *jsonParser) number(n json.Number) *Violation {
	if len(n) > maxDigits {
		return p.bad("a number has at most %d digits: send it as a string", maxDigits)
	}
	_, exp, ok := strings.Cut(strings.ToLower(string(n)), "e")
	if !ok {
		return nil
	}
	if e, err := strconv.Atoi(exp); err != nil || e > maxExponent || e < -maxExponent {
		return p.bad("an exponent is at most %d: send the number as a string", maxExponent)
	}
	return nil
}

// plainIntegers writes numbers that are 64-bit integers in another dress (1e3,
// 1.0) in digits alone, so that a Go integer takes them. Anything else in raw,
// which parseJSON accepts, stays to the byte.
func plainIntegers(raw []byte) []byte {
	var out []byte
	done := 0
	for i := 0; i < len(raw); {
		switch c := raw[i]; {
		case c == '"':
			i += stringLength(raw[i:])
		case c == '-' || c >= '0' && c <= '9':
			n := numberLength(raw[i:])
			if plain, ok := plainInteger(string(raw[i : i+n])); ok {
				out = append(append(out, raw[done:i]...), plain...)
				done = i + n
			}
			i += n
		default:
			i++
		}
	}
	return append(out, raw[done:]...)
}

func stringLength(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

func numberLength(b []byte) int {
	n := bytes.IndexFunc(b, func(r rune) bool { return !strings.ContainsRune("+-.0123456789eE", r) })
	if n < 0 {
		return len(b)
	}
	return n
}

// plainInteger is a number in digits alone, if it is an integer of 64 bits that is not
// written so. What is far too large or too small is told without being written out.
func plainInteger(s string) (string, bool) {
	if !strings.ContainsAny(s, ".eE") || len(s) > maxDigits {
		return "", false
	}
	mantissa, exp, ok := strings.Cut(strings.ToLower(s), "e")
	e := 0
	if ok {
		var err error
		if e, err = strconv.Atoi(exp); err != nil || e > maxExponent || e < -maxExponent {
			return "", false
		}
	}
	whole, frac, _ := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
	if strings.Trim(whole+frac, "0") == "" {
		return "0", true
	}
	if e-len(frac) > 20 || e < -len(whole) {
		return "", false
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok || !r.IsInt() || r.Num().BitLen() > 64 {
		return "", false
	}
	return r.Num().String(), true
}

// blank says whether arguments are what providers send for none at all.
func blank(args []byte) bool {
	t := bytes.TrimSpace(args)
	return len(t) == 0 || slices.Equal(t, []byte("null"))
}
