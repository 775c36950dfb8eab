package main

import (
	"path/filepath"
	"slices"

	"github.com/sluice-run/sluice/tools/remote"
)

// ownFiles are the absolute paths of what belongs to the node and to nobody's turn: its
// log, its read store, its keys and certificates, and the files that say how it is set, who
// may come in and whom it trusts. Tools open none of them, and commands in a sandbox do not
// see them.
func (s *settings) ownFiles() []string {
	files := []string{
		s.file, s.secret.keys, s.EncryptKey, s.hook.secret, s.policy, s.principals, s.servers.file, s.limit.file,
		s.entry.auth, s.entry.cert, s.entry.key, s.entry.clientCA, s.bus.users, s.bus.cert, s.bus.key,
		s.spans.headers, s.spans.ca, s.spans.cert, s.spans.key, s.Creds, s.NKey, s.CA, s.Cert, s.Key,
	}
	if s.remote.tiers != string(remote.Declare) {
		files = append(files, s.remote.tiers)
	}
	if s.NATS == "" {
		files = append(files, s.ownData()...)
	}
	if s.readStore != "" {
		files = append(files, s.storeDir())
	}
	var out []string
	for _, file := range files {
		machines := func(dir string) bool { return inside(absOr(file), dir) }
		if file != "" && !slices.ContainsFunc(machineTrust, machines) {
			out = append(out, absOr(file))
		}
	}
	return out
}

// machineTrust is where the machine keeps whom it trusts: a setting may name it, and commands
// that use TLS need it.
var machineTrust = []string{"/etc/ssl", "/etc/pki", "/usr"}

// ownData is the data directory, or what there is of the node's own in it where the
// workspace lies inside: that is no good place for one, and a turn runs there all the same.
func (s *settings) ownData() []string {
	workspace, err := s.directory()
	if err != nil || !inside(workspace, absOr(s.Data)) {
		return []string{s.Data}
	}
	var out []string
	for _, name := range dataFiles {
		out = append(out, filepath.Join(s.Data, name))
	}
	return out
}

// dataFiles are what a node keeps in its data directory.
var dataFiles = []string{
	"jetstream", "sluice.json", "sluice.lock", "sluice.run", "sluice.encrypted", "secrets.key", "readstore", "policy-reload", "fixtures-ledger.jsonl",
	remoteFile, remoteFile + ".new", keptFile, keptFile + ".new",
}

func absOr(dir string) string {
	if whole, err := filepath.Abs(dir); err == nil {
		return whole
	}
	return dir
}
