package tools

import "strings"

// maxName is the length in bytes of the longest tool name, ours and the providers'.
const maxName = 64

// ProviderName is a tool's name as providers accept it, [A-Za-z0-9_-] only:
// ':' becomes "__" and '.' becomes "_-d". An underscore that would then be
// misread becomes "_-u", so that ToolName always finds the way back. It needs
// no registry: a trace can be shown where its tools are gone.
func ProviderName(name string) string {
	if !strings.ContainsAny(name, ":._") {
		return name
	}
	var b strings.Builder
	for i := range len(name) {
		switch c := name[i]; {
		case c == ':':
			b.WriteString("__")
		case c == '.':
			b.WriteString("_-d")
		case c == '_' && i+1 < len(name) && strings.IndexByte("_-:.", name[i+1]) >= 0:
			b.WriteString("_-u")
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// ToolName reads what ProviderName wrote. A name that it never writes is
// returned as it is, as far as it cannot be read.
func ToolName(provider string) string { return providerEscapes.Replace(provider) }

var providerEscapes = strings.NewReplacer("__", ":", "_-d", ".", "_-u", "_")
