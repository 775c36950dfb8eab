package jetlog

import (
	"encoding/json"
	"fmt"
	"strings"
)

// LogAccount is the account of the log on servers of one's own, where ServerConf and
// NSC put the users.
const LogAccount = "SLUICE"

// ServerConf is the account of the log and its users as the configuration of a NATS
// server: a file to include. The server's own accounts ($SYS among them) are others.
func ServerConf(users []User) string {
	var b strings.Builder
	b.WriteString("# The account that keeps the log of Sluice, and who may do what in it.\n")
	fmt.Fprintf(&b, "accounts {\n  %s {\n    jetstream: enabled\n    users: [\n", LogAccount)
	for _, u := range users {
		fmt.Fprintf(&b, "      # %s\n      {\n", u.about())
		if u.NKey != "" {
			fmt.Fprintf(&b, "        nkey: %s\n", u.NKey)
		} else {
			fmt.Fprintf(&b, "        user: %s\n        password: %s\n", quoted(u.Name), quoted(u.Password))
		}
		b.WriteString(indent(PermissionConf(u), "        "))
		b.WriteString("      }\n")
	}
	b.WriteString("    ]\n  }\n}\n")
	return b.String()
}

// PermissionConf is the permissions of a user as the configuration of a NATS server: a
// part of the user's entry.
func PermissionConf(u User) string {
	p := PermissionsOf(u)
	var b strings.Builder
	b.WriteString("permissions: {\n")
	for _, part := range []struct {
		name string
		list []string
	}{{"publish", p.Publish}, {"subscribe", p.Subscribe}} {
		fmt.Fprintf(&b, "  %s: {\n    allow: [\n", part.name)
		for _, s := range part.list {
			fmt.Fprintf(&b, "      %s\n", quoted(s))
		}
		b.WriteString("    ]\n  }\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// NSC is the same for servers whose accounts are kept with nsc: commands for a POSIX
// shell, which make the users' keys themselves.
func NSC(users []User) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Once, for the account:\nnsc add account --name %s\n", LogAccount)
	fmt.Fprintf(&b, "nsc edit account --name %s --js-disk-storage -1 --js-streams -1 --js-consumer -1\n", LogAccount)
	for _, u := range users {
		p := PermissionsOf(u)
		fmt.Fprintf(&b, "# %s\nnsc add user --account %s --name %s \\\n  --allow-pub %s \\\n  --allow-sub %s\n", u.about(), LogAccount,
			shellWord(u.Name), shellWord(strings.Join(p.Publish, ",")), shellWord(strings.Join(p.Subscribe, ",")))
	}
	return b.String()
}

// about is a user in a few words, for a comment.
func (u User) about() string {
	what := "asks at the door"
	switch {
	case u.Node:
		what = "runs turns"
	case len(u.Tools) > 0:
		what = "serves tools"
	case u.Watch:
		what = "asks at the door, and hears live events"
	}
	return shellWord(u.Name) + ": " + what
}

// quoted is a text in double quotes, as the server reads it.
func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""` // a string always has a JSON form
	}
	return strings.NewReplacer(`\u003e`, ">", `\u003c`, "<", `\u0026`, "&").Replace(string(b))
}

// shellWord is a text that a POSIX shell takes as it is.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
	}
	if s != "" && strings.TrimFunc(s, plain) == "" && !strings.HasPrefix(s, "-") {
		return s
	}
	return "'" + strings.NewReplacer("'", `'\''`, "\n", " ").Replace(s) + "'"
}

func indent(text, by string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(by + line)
	}
	return b.String()
}
