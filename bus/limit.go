package bus

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// The cells of limits, in BucketLock: of slots, whose values are a lifecycle.LockState as
// JSON, and of rates, whose values are a lifecycle.RateState. Their names begin so.
const (
	LimitCells = "limit."
	SlotCells  = LimitCells + "slot."
	RateCells  = LimitCells + "rate."
)

// maxCellPrincipal bounds the principals, as tokens, whose names stand in the name of a
// cell. Of longer ones it has a digest.
const maxCellPrincipal = 100

// LimitCell is the name of the cell of a rule, behind SlotCells or RateCells: of one
// principal's bucket, or with "" of the one for all. The rule's id is 1 to 64 of
// A-Za-z0-9_-.
func LimitCell(prefix, rule, principal string) string {
	switch token := Token(principal); {
	case principal == "":
		return prefix + rule
	case len(token) > maxCellPrincipal:
		sum := sha256.Sum256([]byte(principal))
		return prefix + rule + ".=" + hex.EncodeToString(sum[:])
	default:
		return prefix + rule + "." + token
	}
}

// ParseLimitCell reads what LimitCell wrote. A principal that is too long for a cell is
// given as the digest that stands there, behind "sha256:". ok is false for any other cell.
func ParseLimitCell(key string) (prefix, rule, principal string, ok bool) {
	prefix = SlotCells
	rest, ok := strings.CutPrefix(key, SlotCells)
	if !ok {
		prefix = RateCells
		if rest, ok = strings.CutPrefix(key, RateCells); !ok {
			return "", "", "", false
		}
	}
	rule, token, _ := strings.Cut(rest, ".")
	if strings.HasPrefix(token, "=") && len(token) == 1+2*sha256.Size {
		return prefix, rule, "sha256:" + token[1:], true
	}
	principal, err := ParseToken(token)
	return prefix, rule, principal, err == nil
}
