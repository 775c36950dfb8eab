package secrets

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// KeySize is the size in bytes of a key.
const KeySize = 32

// NonceSize is the size in bytes of what makes each sealing differ from any other: it
// must be random, and is used once.
const NonceSize = 12

// maxKeys bounds how many keys one set may have.
const maxKeys = 16

// ErrKey says that a file of keys cannot be used, and why.
var ErrKey = errors.New("no key for secrets")

// ErrSealed says that a value cannot be opened: it was sealed under another key, for
// another place, or was changed since.
var ErrSealed = errors.New("the sealed value cannot be opened with these keys")

// Keys seal and open values, and name them. The first key of a set seals, all of them
// open, so that a new key can be put in front of an old one. Names are made with the
// last: they stay what they were until the oldest key is taken away.
type Keys struct {
	sealers []cipher.AEAD
	names   []byte
}

// NewKeys makes a set of keys of KeySize bytes each. It returns ErrKey for none, for
// one of another size, and for more than a few.
func NewKeys(keys ...[]byte) (*Keys, error) {
	if len(keys) == 0 || len(keys) > maxKeys {
		return nil, fmt.Errorf("%w: %d keys, want 1 to %d", ErrKey, len(keys), maxKeys)
	}
	out := &Keys{}
	for _, k := range keys {
		if len(k) != KeySize {
			return nil, fmt.Errorf("%w: a key of %d bytes, want %d", ErrKey, len(k), KeySize)
		}
		a, err := sealerOf(k)
		if err != nil {
			return nil, err
		}
		out.sealers = append(out.sealers, a)
	}
	var err error
	out.names, err = Derive(keys[len(keys)-1], "names of secrets")
	return out, err
}

func sealerOf(key []byte) (cipher.AEAD, error) {
	sub, err := Derive(key, "values of secrets")
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(sub)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// Derive makes a key of KeySize bytes for one purpose out of another key. It returns
// an error only for a key that is too short to be one.
func Derive(key []byte, purpose string) ([]byte, error) {
	return hkdf.Key(sha256.New, key, nil, "sluice 1 "+purpose, KeySize)
}

// ReadKeys reads a file of keys: one a line, as 64 hexadecimal digits or in base64, the
// newest first; empty lines and those that begin with # are passed over. It returns
// ErrKey, with the line and never with what stands there.
func ReadKeys(file []byte) ([][]byte, error) {
	var out [][]byte
	for i, line := range bytes.Split(file, []byte("\n")) {
		text := strings.TrimSpace(string(line))
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		k, ok := readKey(text)
		if !ok {
			return nil, fmt.Errorf("%w: line %d is no key of %d bytes in hexadecimal or base64: make one with \"sluice-node secrets key\"", ErrKey, i+1, KeySize)
		}
		if slices.ContainsFunc(out, func(one []byte) bool { return bytes.Equal(one, k) }) {
			return nil, fmt.Errorf("%w: line %d repeats a key", ErrKey, i+1)
		}
		out = append(out, k)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: the file holds none: make one with \"sluice-node secrets key\"", ErrKey)
	}
	return out, nil
}

func readKey(text string) ([]byte, bool) {
	if k, err := hex.DecodeString(text); err == nil && len(k) == KeySize {
		return k, true
	}
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
		if k, err := e.DecodeString(text); err == nil && len(k) == KeySize {
			return k, true
		}
	}
	return nil, false
}

// ID names a value: 32 hexadecimal digits, the same for the same value. Without the
// key nobody can tell whether a guess is right.
func (k *Keys) ID(v Value) string {
	m := hmac.New(sha256.New, k.names)
	m.Write([]byte(v)) // never fails
	return hex.EncodeToString(m.Sum(nil)[:idLength/2])
}

// Seal seals a value for one place, which must be told again to open it. nonce must be
// NonceSize random bytes that were never used before.
func (k *Keys) Seal(v Value, place string, nonce []byte) []byte {
	return k.sealers[0].Seal(bytes.Clone(nonce), nonce, []byte(v), []byte(place))
}

// Open opens what Seal has made for the place. It returns ErrSealed.
func (k *Keys) Open(sealed []byte, place string) (Value, error) {
	if len(sealed) < NonceSize {
		return "", ErrSealed
	}
	for _, a := range k.sealers {
		if v, err := a.Open(nil, sealed[:NonceSize], sealed[NonceSize:], []byte(place)); err == nil {
			return Value(v), nil
		}
	}
	return "", ErrSealed
}
