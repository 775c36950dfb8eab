package policy

import (
	"slices"
	"strings"

	"github.com/sluice-run/sluice/events"
)

// hostRule judges the hosts that a call names, in its parsed operation and in
// the arguments that hold URLs.
type hostRule struct{ trusted []string }

func (hr hostRule) judge(r Request) Finding {
	if _, ok := shellText(r); ok {
		return Finding{}
	}
	deny := func(path string, err error) Finding {
		return Finding{Decision: Deny, Code: events.AccessDenied, Path: path, Reason: sentence(err)}
	}
	var found Finding
	if r.Op.Class == events.OpNetwork {
		walkStrings(r.Args, func(name string, path func() string, text string) bool {
			if !urlName(name) || text == "" || hr.trusts(text) {
				return true
			}
			if _, err := CheckURL(text); err != nil {
				found = deny(path(), err)
				return false
			}
			return true
		})
	}
	if found.Decision != "" {
		return found
	}
	for _, h := range r.Op.Hosts {
		if hr.trusts(h) {
			continue
		}
		if err := checkAny(h); err != nil {
			return deny(pointer(r.Args, h), err)
		}
	}
	return Finding{}
}

// urlName reports whether an argument of this name holds a URL.
func urlName(name string) bool {
	n := strings.ToLower(name[max(0, len(name)-16):]) // names may be long, and above many values
	for _, end := range []string{"url", "urls", "uri", "uris", "href", "endpoint"} {
		if strings.HasSuffix(n, end) {
			return true
		}
	}
	return false
}

// trusts reports whether the operator named the host of h, at any port or at its own.
func (hr hostRule) trusts(h string) bool {
	if len(hr.trusted) == 0 {
		return false
	}
	if strings.Contains(h, "://") {
		u, err := parseURL(h)
		if err != nil {
			return false
		}
		h = u.Host
	}
	h = strings.ToLower(h)
	host, _ := splitPort(h)
	return slices.Contains(hr.trusted, h) || slices.Contains(hr.trusted, host)
}
