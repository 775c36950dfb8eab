package events

import "strings"

// MaxToolName is the length in bytes of the longest name of a tool.
const MaxToolName = 64

// ValidToolName says whether a tool can have that name: 1 to MaxToolName of A-Z a-z 0-9
// _ -, which every provider accepts.
func ValidToolName(name string) bool {
	if name == "" || len(name) > MaxToolName {
		return false
	}
	for i := range len(name) {
		if !idByte(name[i]) {
			return false
		}
	}
	return true
}

// ToolName is the name of the tool that a call names. A server's name and its tool's
// have "__" between them; some agents write one ':' or '.' there, which is another
// spelling of the same name: a:b and a.b are a__b. Any other name is returned as it is,
// whether it can be a tool's or not. It is pure, and ToolName(ToolName(s)) is ToolName(s).
func ToolName(spelled string) string {
	i := strings.IndexAny(spelled, ":.")
	if i < 0 {
		return spelled
	}
	server, tool := spelled[:i], spelled[i+1:]
	if !ValidToolName(server) || !ValidToolName(tool) || len(server)+2+len(tool) > MaxToolName {
		return spelled
	}
	return server + "__" + tool
}
