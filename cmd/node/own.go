package main

import "path/filepath"

// ownFiles are the absolute paths of what belongs to the node and to nobody's turn: its
// log, its read store, its keys, and the files that say who may come in. Tools open
// none of them, and commands in a sandbox do not see them.
func (s *settings) ownFiles() []string {
	files := []string{
		s.secret.keys, s.EncryptKey, s.entry.auth, s.entry.key, s.bus.users, s.bus.key, s.hook.secret, s.spans.headers, s.spans.key,
		s.policy, s.principals, s.servers.file, s.limit.file,
		s.Creds, s.NKey, s.Key,
	}
	if s.NATS == "" {
		files = append(files, s.ownData()...)
	}
	if s.readStore != "" {
		files = append(files, s.storeDir())
	}
	var out []string
	for _, file := range files {
		if file != "" {
			out = append(out, absOr(file))
		}
	}
	return out
}

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
	remoteFile, remoteFile + ".new",
}

func absOr(dir string) string {
	if whole, err := filepath.Abs(dir); err == nil {
		return whole
	}
	return dir
}
