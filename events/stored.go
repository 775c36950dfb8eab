package events

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// What msgpack does otherwise than the log needs. It is set BEFORE anything is
// encoded or decoded, for the whole process.
func init() {
	msgpack.RegisterExtDecoder(-1, time.Time{}, decodeTime)
	msgpack.Register(map[Kind]int(nil), encodeSorted, nil)
	msgpack.Register(map[string]int64(nil), encodeSorted, nil)
}

// decodeTime reads a time as UTC: msgpack gives it the zone of the machine, and
// what was decided must look the same on every node.
func decodeTime(d *msgpack.Decoder, v reflect.Value, n int) error {
	b := make([]byte, min(n, 12))
	if err := d.ReadFull(b); err != nil {
		return err
	}
	var sec, nano uint64
	switch n {
	case 4:
		sec = uint64(binary.BigEndian.Uint32(b))
	case 8:
		sec = binary.BigEndian.Uint64(b)
		sec, nano = sec&(1<<34-1), sec>>34
	case 12:
		sec, nano = binary.BigEndian.Uint64(b[4:]), uint64(binary.BigEndian.Uint32(b))
	default:
		return fmt.Errorf("a time of %d bytes", n)
	}
	*v.Addr().Interface().(*time.Time) = time.Unix(int64(sec), int64(nano)).UTC()
	return nil
}

// encodeSorted writes a map of numbers with its keys in order: msgpack sorts only
// maps of the types that it knows, and the order of a map must not reach the log.
func encodeSorted(e *msgpack.Encoder, v reflect.Value) error {
	if v.IsNil() {
		return e.EncodeNil()
	}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	if err := e.EncodeMapLen(len(keys)); err != nil {
		return err
	}
	for _, k := range keys {
		if err := e.EncodeString(k.String()); err != nil {
			return err
		}
		if err := e.EncodeInt(v.MapIndex(k).Int()); err != nil {
			return err
		}
	}
	return nil
}
