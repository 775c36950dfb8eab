package secrets

import (
	"slices"
	"strings"
)

// maxNameWords bounds the words of a name that are looked at, from its end.
const maxNameWords = 6

// words are the words of a name in small letters: those between separators, and
// those that begin with a capital. Only the last few are given.
func words(name string) []string {
	var out []string
	begin := 0
	take := func(end int) {
		if end > begin {
			out = append(out, strings.ToLower(name[begin:end]))
		}
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case !alnum[c]:
			take(i)
			begin = i + 1
		case i > begin && isUpper(c) && (!isUpper(name[i-1]) || i+1 < len(name) && isLower(name[i+1])):
			take(i)
			begin = i
		}
	}
	take(len(name))
	return out[max(0, len(out)-maxNameWords):]
}

func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }
func isLower(c byte) bool { return c >= 'a' && c <= 'z' }

// Words that a name of a secret ends with, and words behind which say nothing.
var (
	passwordWords = []string{"password", "passwd", "passphrase", "passcode", "pwd", "psw", "pswd", "pass", "mnemonic", "otp", "passwords"}
	secretWords   = []string{"secret", "secrets", "credential", "credentials", "creds", "apikey", "apikeys", "privatekey", "secretkey", "accesskey", "authkey"}
	tokenWords    = []string{"token", "authorization", "bearer", "jwt", "accesstoken", "authtoken", "refreshtoken", "idtoken", "sessiontoken", "bottoken", "apitoken"}
	cookieWords   = []string{"cookie", "cookies"}
	keyOwners     = []string{
		"api", "access", "secret", "private", "signing", "encryption", "decryption", "master", "account", "shared", "ssh", "session", "service",
		"auth", "deploy", "storage", "subscription", "license", "app", "hmac", "aes", "rsa", "bot", "admin", "server", "webhook", "secrets",
	}
	fillers = []string{"value", "header", "string", "text", "plain", "plaintext", "raw", "new", "old", "current", "confirm", "confirmation", "again", "base", "b64", "base64", "data"}
	// pages are what tokens are called that only say where to go on, or that a
	// request is the same.
	pages = []string{"page", "next", "previous", "prev", "continuation", "continue", "sync", "start", "cursor", "resume", "pagination", "idempotency", "request", "cancellation", "cancel", "sort", "max", "eos", "bos", "pad", "unk", "stop"}
)

// joined are ends of names whose words were not kept apart.
var joined = []string{"password", "passwd", "passphrase", "secret", "apikey", "secretkey", "privatekey", "accesskey", "authtoken", "accesstoken", "apitoken"}

// named says what a member, a variable or a header of that name holds; "" for
// nothing secret. The end of a name decides: a password_file is no password.
func named(name string) Kind {
	if !hinted(name) {
		return ""
	}
	w := words(name)
	for len(w) > 1 && (slices.Contains(fillers, w[len(w)-1]) || onlyDigits(w[len(w)-1])) {
		w = w[:len(w)-1]
	}
	if len(w) == 0 {
		return ""
	}
	last, before := strings.TrimRight(w[len(w)-1], "0123456789"), ""
	if len(w) > 1 {
		before = w[len(w)-2]
	}
	switch {
	case last == "pwd" && (before == "" || before == "old"): // the working directory
		return ""
	case last == "token" && slices.Contains(pages, before):
		return ""
	case slices.Contains(passwordWords, last), last == "phrase" && (before == "seed" || before == "recovery" || before == "pass"):
		return Password
	case slices.Contains(tokenWords, last):
		return Token
	case slices.Contains(cookieWords, last):
		return Cookie
	case slices.Contains(secretWords, last), (last == "key" || last == "keys") && slices.Contains(keyOwners, before):
		return Secret
	case last == "signature" && before == "access":
		return Secret
	}
	for _, end := range joined {
		if strings.HasSuffix(last, end) {
			if slices.Contains(passwordWords, end) {
				return Password
			}
			return Secret
		}
	}
	return ""
}

// hinted says quickly that a name may be that of a secret: most are not. It looks for
// the letters that every such name has somewhere.
func hinted(name string) bool {
	for i := 0; i+2 < len(name); i++ {
		switch name[i] | 0x20 {
		case 'p':
			if c := name[i+1] | 0x20; c == 'a' || c == 'w' || c == 'h' || c == 's' {
				return true
			}
		case 's', 'k', 'j', 'b', 'm', 'c', 't', 'o', 'a':
			three := [3]byte{name[i] | 0x20, name[i+1] | 0x20, name[i+2] | 0x20}
			switch string(three[:]) {
			case "sec", "key", "jwt", "bea", "mne", "coo", "cre", "tok", "otp", "aut", "api", "acc", "sig":
				return true
			}
		}
	}
	return false
}

func onlyDigits(s string) bool { return s != "" && digits.run(s, 0) == len(s) }

// Words that a name ends with whose member says what a call does, where, or to
// what: policy judges it, and a person reads it.
var (
	placeWords   = []string{"path", "paths", "file", "files", "filename", "filenames", "filepath", "dir", "directory", "folder", "cwd", "workdir", "workspace", "glob", "pattern", "include", "exclude", "root"}
	commandWords = []string{
		"command", "commands", "cmd", "script", "shell", "line", "code", "program", "executable", "binary", "entrypoint", "argv", "args", "arguments", "flags", "options",
		"sql", "query", "expression", "method", "action", "operation", "tool", "target", "targets", "destination", "source", "to", "from", "recipient", "amount",
	}
	addressWords = []string{"url", "urls", "uri", "uris", "href", "link", "endpoint", "host", "hosts", "hostname", "address", "addresses", "server", "domain", "proxy", "origin", "port", "registry", "remote"}
)

// Place is what a member's name says of the part that it has in what a call does.
type Place int

// The parts. An address and a command may hold a secret within; a path may not.
const (
	Free    Place = iota // none: policy does not judge it
	Path                 // which file
	Command              // what is done
	Address              // where on the network
)

// PlaceOf is the part that a member of that name has in what a call does.
func PlaceOf(name string) Place {
	w := words(name)
	if len(w) == 0 {
		return Free
	}
	last := w[len(w)-1]
	switch {
	case slices.Contains(placeWords, last):
		return Path
	case slices.Contains(commandWords, last):
		return Command
	case slices.Contains(addressWords, last):
		return Address
	}
	return Free
}

// plain are names of members of an object that is named as a secret, which say
// whose it is or of what sort, and are none.
var plain = []string{
	"user", "username", "login", "name", "email", "mail", "type", "kind", "id", "region", "scheme", "format", "provider", "description", "title",
	"role", "scope", "scopes", "expires", "expiry", "version", "algorithm", "alg", "issuer", "audience", "account", "tenant", "project", "zone", "label", "status",
}

func plainName(name string) bool {
	w := words(name)
	return len(w) > 0 && slices.Contains(plain, w[len(w)-1])
}
