package web

import "encoding/json"

// circuit names the server that a call asks for: scheme, host and port, in the spelling
// that policies see, so that one server has one circuit however its address is written. A
// redirect that fails is the failure of the server that was asked. What is no address has
// none: it reaches nobody.
func circuit(args json.RawMessage) string {
	var in fetchIn
	if json.Unmarshal(args, &in) != nil {
		return ""
	}
	u, bad := parseURL(in.URL)
	if bad != nil {
		return ""
	}
	return u.Scheme + "://" + hostPort(u)
}
