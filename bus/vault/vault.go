// Package vault keeps the values that the log must not hold: secrets out of the
// arguments of calls, from the moment a door takes them out until their turn has
// ended. With keys they are sealed in a bucket of the bus, where every node with the
// same keys finds them; without, they stay in the memory of the process that took
// them, and are lost with it.
package vault

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy/secrets"
)

// ErrGone says that a value is not here: its turn has ended, it was kept by another
// process, or it was waited for too long.
var ErrGone = errors.New("the value of a secret is not here")

// DefaultTTL is how long a value is kept whose turn nobody ends.
const DefaultTTL = 30 * 24 * time.Hour

// Bounds of what is kept in memory.
const (
	maxHeld      = 1 << 16  // values
	maxHeldBytes = 64 << 20 // bytes of all
)

// Config is what a vault is made of. Zero means the default beside the field.
type Config struct {
	// Cells are where values are sealed; nil means in memory.
	Cells bus.Cells
	// Keys seal them; nil means in memory, with a key that nobody else has.
	Keys *secrets.Keys
	// TTL is a value's, as a backstop; 0 means DefaultTTL. At least 1 s.
	TTL time.Duration
	// Now is the clock of what is kept in memory; nil means time.Now.
	Now func() time.Time
	// Rand is where nonces come from; nil means crypto/rand.
	Rand io.Reader
}

// Vault keeps values. Its methods may be used from many goroutines at once.
type Vault struct {
	cfg  Config
	keys *secrets.Keys

	mu    sync.Mutex
	held  map[string]held
	bytes int
}

// held is a value in memory.
type held struct {
	value   secrets.Value
	expires time.Time
}

// New makes a vault. It returns an error only where no random key can be made.
func New(c Config) (*Vault, error) {
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.TTL == 0 {
		c.TTL = DefaultTTL
	}
	v := &Vault{cfg: c, keys: c.Keys, held: make(map[string]held)}
	if v.Shared() {
		return v, nil
	}
	key := make([]byte, secrets.KeySize)
	_, err := io.ReadFull(c.Rand, key)
	if err == nil {
		v.keys, err = secrets.NewKeys(key)
	}
	return v, err
}

// Shared says whether the values outlive this process, and other nodes with the same
// keys find them.
func (v *Vault) Shared() bool { return v.cfg.Cells != nil && v.cfg.Keys != nil }

// ID names a value: the same for the same value and key.
func (v *Vault) ID(value secrets.Value) string { return v.keys.ID(value) }

// place is what a value is bound to: it opens there and nowhere else.
func place(call events.CallKey, ref events.SecretRef) string {
	return call.String() + "\x00" + ref.Path + "\x00" + ref.ID
}

// cellOf is the key of a value's cell. It holds nothing of the value.
func cellOf(call events.CallKey, ref events.SecretRef) string {
	const size = 20 // bytes of the digest that are kept
	d := sha256.Sum256([]byte(place(call, ref)))
	return call.Trace + "/" + call.Turn + "/" + hex.EncodeToString(d[:size])
}

// Put keeps the values of refs, in that order, BEFORE the event that names them; an
// empty one is kept already. The same again changes nothing. It returns an error of bus.Cells, or one that wraps
// bus.ErrUnavailable where the memory for them is used up.
func (v *Vault) Put(ctx context.Context, call events.CallKey, refs []events.SecretRef, values []secrets.Value) error {
	for i, ref := range refs {
		var err error
		if values[i] == "" {
			continue // it was kept before
		}
		if v.Shared() {
			err = v.seal(ctx, call, ref, values[i])
		} else {
			err = v.hold(call, ref, values[i])
		}
		if err != nil {
			return fmt.Errorf("keep a secret of call %s: %w", call, err)
		}
	}
	return nil
}

// seal writes a value's cell. A cell that is there and opens stays as it is, with a
// new time to live.
func (v *Vault) seal(ctx context.Context, call events.CallKey, ref events.SecretRef, value secrets.Value) error {
	nonce := make([]byte, secrets.NonceSize)
	if _, err := io.ReadFull(v.cfg.Rand, nonce); err != nil {
		return err
	}
	sealed := v.keys.Seal(value, place(call, ref), nonce)
	key := cellOf(call, ref)
	rev := uint64(0)
	for {
		_, err := v.cfg.Cells.Put(ctx, bus.BucketSecrets, key, sealed, rev, v.cfg.TTL)
		if !errors.Is(err, bus.ErrConflict) {
			return err
		}
		cell, err := v.cfg.Cells.Get(ctx, bus.BucketSecrets, key)
		switch {
		case errors.Is(err, bus.ErrNotFound):
			rev = 0
		case err != nil:
			return err
		default:
			rev = cell.Revision
		}
	}
}

func (v *Vault) hold(call events.CallKey, ref events.SecretRef, value secrets.Value) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	key, now := cellOf(call, ref), v.cfg.Now()
	if len(v.held) >= maxHeld || v.bytes+len(value) > maxHeldBytes {
		v.expire(now)
	}
	if len(v.held) >= maxHeld || v.bytes+len(value) > maxHeldBytes {
		return fmt.Errorf("%w: too many secrets are in memory: give the nodes a key, or wait until turns have ended", bus.ErrUnavailable)
	}
	v.forget(key)
	v.held[key] = held{value, now.Add(v.cfg.TTL)}
	v.bytes += len(value)
	return nil
}

// expire drops what was waited for too long. The caller holds mu.
func (v *Vault) expire(now time.Time) {
	for key, h := range v.held {
		if now.After(h.expires) {
			v.forget(key)
		}
	}
}

// forget drops one value. The caller holds mu.
func (v *Vault) forget(key string) {
	v.bytes -= len(v.held[key].value)
	delete(v.held, key)
}

// Open returns the values of refs by their ids. It returns ErrGone for one that is not
// here, secrets.ErrSealed for one that these keys do not open, or an error of
// bus.Cells.
func (v *Vault) Open(ctx context.Context, call events.CallKey, refs []events.SecretRef) (map[string]secrets.Value, error) {
	out := make(map[string]secrets.Value, len(refs))
	for _, ref := range refs {
		value, err := v.open(ctx, call, ref)
		if err != nil {
			return nil, fmt.Errorf("open a secret of call %s: %w", call, err)
		}
		out[ref.ID] = value
	}
	return out, nil
}

func (v *Vault) open(ctx context.Context, call events.CallKey, ref events.SecretRef) (secrets.Value, error) {
	if !v.Shared() {
		v.mu.Lock()
		defer v.mu.Unlock()
		h, ok := v.held[cellOf(call, ref)]
		if !ok || v.cfg.Now().After(h.expires) {
			return "", ErrGone
		}
		return h.value, nil
	}
	cell, err := v.cfg.Cells.Get(ctx, bus.BucketSecrets, cellOf(call, ref))
	if errors.Is(err, bus.ErrNotFound) {
		return "", ErrGone
	}
	if err != nil {
		return "", err
	}
	return v.keys.Open(cell.Value, place(call, ref))
}

// Drop forgets the values of refs, once their turn has ended. What is not here is no
// error.
func (v *Vault) Drop(ctx context.Context, call events.CallKey, refs []events.SecretRef) error {
	var errs []error
	for _, ref := range refs {
		if !v.Shared() {
			v.mu.Lock()
			v.forget(cellOf(call, ref))
			v.mu.Unlock()
			continue
		}
		if err := v.drop(ctx, cellOf(call, ref)); err != nil {
			errs = append(errs, fmt.Errorf("forget a secret of call %s: %w", call, err))
		}
	}
	return errors.Join(errs...)
}

func (v *Vault) drop(ctx context.Context, key string) error {
	for {
		cell, err := v.cfg.Cells.Get(ctx, bus.BucketSecrets, key)
		if errors.Is(err, bus.ErrNotFound) {
			return nil
		}
		if err == nil {
			err = v.cfg.Cells.Delete(ctx, bus.BucketSecrets, key, cell.Revision)
		}
		if !errors.Is(err, bus.ErrConflict) {
			return err
		}
	}
}
