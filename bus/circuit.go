package bus

import (
	"strings"
)

// MaxCircuit is the length in bytes of a circuit's name as a Token: beside a tool's, it
// fits a cell's key.
const MaxCircuit = 130

// CircuitCell is the key of a circuit's cell in BucketBreaker. of "" is the tool as a
// whole; any other is a name that ValidCircuit accepts.
func CircuitCell(tool, of string) string {
	if of == "" {
		return Token(tool)
	}
	return Token(tool) + "." + Token(of)
}

// ParseCircuitCell reads what CircuitCell wrote.
func ParseCircuitCell(key string) (tool, of string, err error) {
	t, o, _ := strings.Cut(key, ".")
	if tool, err = ParseToken(t); err != nil {
		return "", "", err
	}
	of, err = ParseToken(o)
	return tool, of, err
}

// ValidCircuit says whether a name can be a circuit's: printable ASCII without blanks, of
// at most MaxCircuit bytes as a Token. Whoever reads it in a key, a text or a terminal
// sees what it is.
func ValidCircuit(of string) bool {
	unfit := func(r rune) bool { return r <= ' ' || r > '~' }
	return of != "" && len(of) <= MaxCircuit && !strings.ContainsFunc(of, unfit) && len(Token(of)) <= MaxCircuit
}
