package archive

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// Redactor replaces what persons, models and tools wrote by placeholders, which tell
// the length, and a digest under the redactor's key: what was equal stays equal, and
// who does not have the key cannot try values out. It is for one goroutine, and for one
// export.
type Redactor struct {
	about Redaction
	key   []byte
	names map[string]bool   // of RedactKeys, in lower case
	known map[string]string // of RedactKeys: values that were replaced in this trace, and by what
	order []string          // of known, the longest first
	trace string
	made  map[string][]byte // bytes that the commit refers to now, by digest
	from  bus.Blobs
	ctx   context.Context // of the commit that is redacted
	err   error           // of reading what it refers to
}

// minKey is the shortest key in bytes.
const minKey = 16

// NewRedactor returns one that replaces every text, or, where keys are named, the
// values of the JSON members of those names, at any depth. The key must be 16 random
// bytes or more: with the same key, the same values have the same placeholders.
func NewRedactor(keys []string, key []byte) (*Redactor, error) {
	if len(key) < minKey {
		return nil, fmt.Errorf("a key of %d bytes: at least %d are needed, or placeholders can be guessed", len(key), minKey)
	}
	r := &Redactor{about: Redaction{Mode: RedactBodies}, key: key, names: map[string]bool{}}
	for _, k := range keys {
		if k == "" {
			return nil, errors.New("a JSON member without a name")
		}
		r.names[strings.ToLower(k)] = true
	}
	if len(keys) > 0 {
		r.about = Redaction{Mode: RedactKeys, Keys: keys}
	}
	return r, nil
}

// About is what the redactor does, for Options.
func (r *Redactor) About() *Redaction { return &r.about }

func (r *Redactor) bodies() bool { return r.about.Mode == RedactBodies }

// mac is the digest of a value under the key.
func (r *Redactor) mac(value []byte) []byte {
	h := hmac.New(sha256.New, r.key)
	h.Write(value)
	return h.Sum(nil)
}

// placeholder stands for a value of that many bytes.
func (r *Redactor) placeholder(value []byte, size int64) string {
	return fmt.Sprintf("[redacted %d bytes %s]", size, hex.EncodeToString(r.mac(value)[:8]))
}

// text stands for a text.
func (r *Redactor) text(s string) string {
	if s == "" {
		return ""
	}
	return r.placeholder([]byte(s), int64(len(s)))
}

// hash stands for a digest of something that could be guessed; it looks like one.
func (r *Redactor) hash(s string) string {
	if s == "" {
		return ""
	}
	return digestText(r.mac([]byte(s)))
}

// commit is a commit with everything replaced. Put and Get of the redactor have the
// bytes that it refers to then.
func (r *Redactor) commit(ctx context.Context, c Commit, from bus.Blobs) (Commit, error) {
	if r.trace != c.Turn.Trace {
		r.trace, r.known, r.order = c.Turn.Trace, map[string]string{}, nil
	}
	r.made, r.from, r.ctx, r.err = map[string][]byte{}, from, ctx, nil
	commit, err := events.Decode(c.Body)
	if err != nil {
		c.Body = []byte(r.placeholder(c.Body, int64(len(c.Body)))) // what cannot be understood cannot be kept
		return c, nil
	}
	for i := range commit.Records {
		if f, ok := commit.Records[i].Event.(events.Foreign); ok {
			commit.Records[i].Event = r.foreign(f)
			continue
		}
		r.value(reflect.ValueOf(commit.Records[i].Event).Elem())
	}
	if r.err != nil {
		return c, r.err
	}
	c.Body, err = events.Encode(commit)
	return c, err
}

// foreign is an event of a newer release, of which nobody knows what is in it.
func (r *Redactor) foreign(f events.Foreign) events.Foreign {
	var v any
	err := msgpack.Unmarshal(f.Body, &v)
	if r.bodies() || err != nil {
		v = map[string]any{"redacted": r.placeholder(f.Body, int64(len(f.Body)))}
	} else {
		v = r.anything(v, 0)
	}
	var out bytes.Buffer
	enc := msgpack.NewEncoder(&out)
	enc.SetSortMapKeys(true)
	if enc.Encode(v) != nil {
		out.Reset()
		out.WriteByte(0xc0) // nil
	}
	f.Body = out.Bytes()
	return f
}

// Put is refused.
func (r *Redactor) Put(context.Context, []byte, string) (events.BlobRef, error) {
	return events.BlobRef{}, errors.New("a redactor keeps nothing")
}

// Get is the bytes that the last commit refers to.
func (r *Redactor) Get(ctx context.Context, ref events.BlobRef) ([]byte, error) {
	if data, ok := r.made[ref.Digest]; ok {
		return data, nil
	}
	if r.bodies() || r.from == nil {
		return nil, bus.ErrNotFound
	}
	return r.from.Get(ctx, ref)
}

// refer is a reference to bytes that the redactor has made.
func (r *Redactor) refer(data []byte, media string) events.BlobRef {
	sum := sha256.Sum256(data)
	ref := events.BlobRef{Digest: digestText(sum[:]), Size: int64(len(data)), Media: media}
	r.made[ref.Digest] = data
	return ref
}

var (
	typeTime = reflect.TypeFor[time.Time]()
	typeRaw  = reflect.TypeFor[json.RawMessage]()
	typeBody = reflect.TypeFor[events.Body]()
	typeRef  = reflect.TypeFor[events.BlobRef]()
)

// value redacts a struct of package events, in place: each field by its rule.
func (r *Redactor) value(v reflect.Value) {
	for i := range v.NumField() {
		r.field(v.Field(i), ruleOf(v.Type(), v.Type().Field(i)))
	}
}

// longList is how many texts of a list are replaced one by one. Of a longer one nothing
// but one placeholder is left: placeholders may be longer than what they stand for.
const longList = 64

func (r *Redactor) field(v reflect.Value, by rule) {
	switch {
	case by == ruleKeep || v.Type() == typeTime:
	case v.Type() == typeRaw:
		r.raw(v, by)
	case v.Type() == typeBody:
		r.body(v.Addr().Interface().(*events.Body), by)
	case v.Type() == typeRef:
		r.blob(v.Addr().Interface().(*events.BlobRef))
	case v.Kind() == reflect.String:
		v.SetString(r.string(v.String(), by))
	case v.Kind() == reflect.Pointer && !v.IsNil():
		r.field(v.Elem(), by)
	case v.Kind() == reflect.Struct:
		r.value(v)
	case v.Kind() == reflect.Slice:
		r.list(v, by)
	}
}

func (r *Redactor) list(v reflect.Value, by rule) {
	if v.Len() > longList && v.Type().Elem().Kind() == reflect.String && by == ruleText && r.bodies() {
		all := fmt.Sprint(v.Interface())
		v.Set(v.Slice(0, 1))
		v.Index(0).SetString(r.text(all))
		return
	}
	for i := range v.Len() {
		r.field(v.Index(i), by)
	}
}

// string is a text by its rule.
func (r *Redactor) string(s string, by rule) string {
	switch by {
	case ruleHash:
		return r.hash(s)
	case ruleApproval: // see lifecycle.SessionApproval
		if i := strings.LastIndexByte(s, ' '); i >= 0 {
			return lifecycle.SessionApproval(s[:i], r.hash(s[i+1:]))
		}
		return r.hash(s)
	case ruleDigest:
		if r.bodies() {
			return r.hash(s)
		}
		return s
	}
	switch {
	case by == ruleAddress:
		return r.address(s)
	case r.bodies():
		return r.text(s)
	}
	return r.scrub(s)
}

// address stands for an address of the web, where anything of it would be replaced: a
// person was sent there, and what is no address would be no such request.
func (r *Redactor) address(s string) string {
	if s == "" || !r.bodies() && r.scrub(s) == s {
		return s
	}
	return "https://redacted.invalid/" + hex.EncodeToString(r.mac([]byte(s))[:8])
}

// raw is JSON by its rule.
func (r *Redactor) raw(v reflect.Value, by rule) {
	text := v.Bytes()
	if len(text) == 0 || string(text) == "null" {
		return
	}
	var out []byte
	switch {
	case !r.bodies():
		out = r.json(text, 0)
		if by == ruleObject && !bytes.Equal(out, text) && !readable(out) {
			out = r.object(text)
		}
	case by == ruleObject:
		out = r.object(text)
	case by == ruleContext: // its names are kept, or nothing could be inherited
		out = r.context(text)
	default:
		out = quoted(r.placeholder(text, int64(len(text))))
	}
	v.Set(reflect.ValueOf(json.RawMessage(out)))
}

// object stands for an object. It is one, and as the schema of a form it has no fields.
func (r *Redactor) object(text []byte) []byte {
	return []byte(`{"redacted":` + string(quoted(r.placeholder(text, int64(len(text))))) + `}`)
}

// readable says whether an object can be what it was: the schema of a form, or what
// somebody has filled in.
func readable(object []byte) bool {
	_, err := lifecycle.ReadForm(object)
	return err == nil
}

// context replaces the values of an object.
func (r *Redactor) context(text []byte) []byte {
	var all map[string]json.RawMessage
	if json.Unmarshal(text, &all) != nil {
		return quoted(r.placeholder(text, int64(len(text))))
	}
	for name, v := range all {
		if string(v) != "null" {
			all[name] = quoted(r.placeholder(v, int64(len(v))))
		}
	}
	out, err := json.Marshal(all)
	if err != nil {
		return []byte("{}")
	}
	return out
}

func quoted(s string) []byte {
	b, err := plain(s)
	if err != nil {
		return []byte(`""`)
	}
	return b
}

// body is a text that may stand outside the log.
func (r *Redactor) body(b *events.Body, by rule) {
	switch {
	case !r.bodies() && b.Ref != nil:
		r.blob(b.Ref)
	case !r.bodies():
		b.Text = r.scrub(b.Text)
	case b.Ref == nil && strings.TrimSpace(b.Text) == "":
	default:
		value, size := []byte(b.Text), int64(len(b.Text))
		object := true // what stands outside passed for one, or its call was denied
		if b.Ref != nil {
			value, size = []byte(b.Ref.Digest), b.Ref.Size
		} else if _, err := lifecycle.Parse(b.Text); err != nil {
			object = false
		}
		*b = events.Body{Text: r.placeholder(value, size)}
		if by == ruleArgs && object {
			b.Text = string(quoted(b.Text))
			b.Text = `{"redacted":` + b.Text + `}`
		}
	}
}

// blob is bytes outside the log.
func (r *Redactor) blob(ref *events.BlobRef) {
	if r.bodies() {
		*ref = r.refer([]byte(r.placeholder([]byte(ref.Digest), ref.Size)), "")
		return
	}
	if r.from == nil {
		return
	}
	data, err := r.from.Get(r.ctx, *ref)
	switch {
	case err == nil:
		if out := r.scrub(string(data)); out != string(data) {
			*ref = r.refer([]byte(out), ref.Media)
		}
	case r.ctx.Err() != nil, errors.Is(err, bus.ErrUnavailable):
		r.err = fmt.Errorf("blob %s: %w", ref.Digest, err)
	}
}
