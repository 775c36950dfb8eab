package events

import (
	"encoding/binary"
	"errors"
)

// maxNesting bounds how deep maps and lists of a stored commit may nest.
const maxNesting = 64

var (
	errShort   = errors.New("it says that it is longer than it is")
	errNesting = errors.New("nested too deep")
	errTail    = errors.New("something stands behind it")
)

// walk looks over msgpack BEFORE it is decoded: the decoder makes room for as
// many elements as a list says it has, and nine bytes can say four thousand million.
func walk(b []byte) error {
	var stack [maxNesting]uint64 // values that are still to come, at each level
	depth := 0
	stack[0] = 1
	for depth >= 0 {
		if stack[depth] == 0 {
			depth--
			continue
		}
		stack[depth]--
		size, values := extent(b)
		if size == 0 || size > uint64(len(b)) {
			return errShort
		}
		b = b[size:]
		if values == 0 {
			continue
		}
		if values > uint64(len(b)) {
			return errShort
		}
		if depth++; depth == maxNesting {
			return errNesting
		}
		stack[depth] = values
	}
	if len(b) > 0 {
		return errTail
	}
	return nil
}

// extent is how many bytes the first value of b takes without the values in it,
// and how many those are. A size of 0 says that b is too short to tell.
func extent(b []byte) (size, values uint64) {
	if len(b) == 0 {
		return 0, 0
	}
	c := b[0]
	low := uint64(c & 0x0f)
	switch {
	case c < 0x80, c >= 0xe0, c == 0xc0, c == 0xc2, c == 0xc3: // small number, nil, false, true
		return 1, 0
	case c < 0x90:
		return 1, 2 * low
	case c < 0xa0:
		return 1, low
	case c < 0xc0:
		return 1 + uint64(c&0x1f), 0
	case c >= 0xca && c <= 0xd3: // numbers
		return [...]uint64{5, 9, 2, 3, 5, 9, 2, 3, 5, 9}[c-0xca], 0
	case c >= 0xd4 && c <= 0xd8: // extensions of a fixed length
		return 2 + 1<<(c-0xd4), 0
	}
	return counted(b)
}

// counted is extent for what is preceded by its length.
func counted(b []byte) (size, values uint64) {
	width := 0
	switch b[0] {
	case 0xc4, 0xc7, 0xd9:
		width = 1
	case 0xc5, 0xc8, 0xda, 0xdc, 0xde:
		width = 2
	case 0xc6, 0xc9, 0xdb, 0xdd, 0xdf:
		width = 4
	}
	if width == 0 || len(b) < 1+width {
		return 0, 0
	}
	var n uint64
	switch width {
	case 1:
		n = uint64(b[1])
	case 2:
		n = uint64(binary.BigEndian.Uint16(b[1:]))
	default:
		n = uint64(binary.BigEndian.Uint32(b[1:]))
	}
	size = 1 + uint64(width)
	switch c := b[0]; {
	case c >= 0xde:
		return size, 2 * n
	case c >= 0xdc:
		return size, n
	case c >= 0xc7 && c <= 0xc9:
		return size + 1 + n, 0
	}
	return size + n, 0
}
