package jetlog

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrEncryption says that the store cannot be opened with the keys that were given, or
// without one. Nothing was changed.
var ErrEncryption = errors.New("the log cannot be decrypted")

// encryptedName is the file beside the store that holds the store's own key, sealed
// under the operator's. The store cannot be read without it.
const encryptedName = "sluice.encrypted"

// keyBytes is the size in bytes of a key.
const keyBytes = 32

// encrypted is what that file says.
type encrypted struct {
	Cipher string `json:"cipher"`     // of the store
	Sealed []byte `json:"sealed_key"` // a nonce, and the store's key sealed with AES-256-GCM
}

// wrap seals the store's key under another. Each key of an operator seals nothing else
// with what is derived here.
func wrap(key []byte) (cipher.AEAD, error) {
	sub, err := hkdf.Key(sha256.New, key, nil, "sluice 1 key of the store", keyBytes)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(sub)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// keyed finds the store's own key BEFORE the server opens it. A server with a wrong
// one takes the streams for broken and passes over them, and new ones would be made in
// their place. It is nil where the store is not encrypted.
func (c ServerConfig) keyed() ([]byte, error) {
	path := filepath.Join(c.Dir, encryptedName)
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c.keyedFirst(path)
	case err != nil:
		return nil, fmt.Errorf("read how the log is encrypted: %w", err)
	case len(c.Keys) == 0:
		return nil, fmt.Errorf("%w: it is encrypted: give the file of its key with --encrypt-key", ErrEncryption)
	}
	var is encrypted
	if json.Unmarshal(text, &is) != nil || len(is.Sealed) == 0 {
		return nil, fmt.Errorf("%w: %s is damaged: put it back as it was", ErrEncryption, path)
	}
	for i, k := range c.Keys {
		a, err := wrap(k)
		if err != nil {
			return nil, err
		}
		if len(is.Sealed) < a.NonceSize() {
			continue
		}
		own, err := a.Open(nil, is.Sealed[:a.NonceSize()], is.Sealed[a.NonceSize():], []byte(encryptedName))
		if err != nil {
			continue
		}
		if i > 0 {
			return own, c.noteKey(own) // from now on under the newest
		}
		return own, nil
	}
	return nil, fmt.Errorf("%w: it is encrypted under another key: give the file of that one with --encrypt-key; to change it, put a line with the new one in front; nothing was touched", ErrEncryption)
}

// keyedFirst is keyed for a store that has no key yet: it is new, or not encrypted so
// far. The server then encrypts what is there.
func (c ServerConfig) keyedFirst(path string) ([]byte, error) {
	sealed, err := exists(filepath.Join(c.Dir, "jetstream", "$G", "streams", StreamLog, "meta.key"))
	switch {
	case err != nil:
		return nil, err
	case sealed:
		return nil, fmt.Errorf("%w: it is encrypted, and %s is gone, which holds its key: put it back as it was", ErrEncryption, path)
	case len(c.Keys) == 0:
		return nil, nil
	}
	there, err := c.logThere()
	if err != nil {
		return nil, err
	}
	if there && c.KeepClear {
		return nil, fmt.Errorf("%w: it is not encrypted: leave --encrypt-key out; sluice-node serve with it encrypts the log, and nothing else does", ErrEncryption)
	}
	if there {
		c.logger().Warn("the log was not encrypted so far: it is encrypted now, in place; what was deleted of it may stay readable on the disk", "dir", c.Dir)
	}
	own := make([]byte, keyBytes)
	_, _ = rand.Read(own) // it never fails
	return own, c.noteKey(own)
}

// noteKey keeps the store's key under the newest of the operator's, durably.
func (c ServerConfig) noteKey(own []byte) error {
	a, err := wrap(c.Keys[0])
	if err != nil {
		return err
	}
	nonce := make([]byte, a.NonceSize())
	_, _ = rand.Read(nonce) // it never fails
	text, err := json.Marshal(encrypted{Cipher: "aes", Sealed: a.Seal(nonce, nonce, own, []byte(encryptedName))})
	if err != nil {
		return err
	}
	return replace(filepath.Join(c.Dir, encryptedName), append(text, '\n'))
}

// logThere says whether the store has a log.
func (c ServerConfig) logThere() (bool, error) {
	return exists(filepath.Join(c.Dir, "jetstream", "$G", "streams", StreamLog, "meta.inf"))
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// seal has the server encrypt its store.
func (c ServerConfig) seal(o *server.Options) {
	if len(c.storeKey) > 0 {
		o.JetStreamKey, o.JetStreamCipher = hex.EncodeToString(c.storeKey), server.AES
	}
}

// found sees that the server has opened the log that was in an encrypted store. One that
// it has passed over must not be made anew.
func (s *Server) found(ctx context.Context, was bool) error {
	if !was || len(s.cfg.storeKey) == 0 {
		return nil
	}
	_, err := s.js.Stream(ctx, StreamLog)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("%w: the server does not find it in %s: look at its warnings; nothing was changed", ErrEncryption, s.cfg.Dir)
	}
	if err != nil {
		return streamError(StreamLog, err)
	}
	return nil
}
