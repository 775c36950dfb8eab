package shell

import "strconv"

// quietGit are settings of git that would make a reading command write, start a
// program, use the network or read elsewhere, with values that keep it from that. Settings whose
// names the configuration invents itself cannot be overridden: see GitConfig.
var quietGit = [][2]string{
	{"core.fsmonitor", "false"},
	{"core.hooksPath", "/dev/null"},
	{"core.pager", "cat"},
	{"core.sshCommand", "/dev/null"},
	{"core.gitProxy", ""},
	{"core.alternateRefsCommand", "/dev/null"},
	{"credential.helper", ""},
	{"gpg.program", "/dev/null"},
	{"gpg.openpgp.program", "/dev/null"},
	{"gpg.x509.program", "/dev/null"},
	{"gpg.ssh.program", "/dev/null"},
	{"log.showSignature", "false"},
	{"format.pretty", "medium"},    // another may ask for signatures to be checked
	{"log.diffMerges", "separate"}, // remerge would run merge drivers
	{"diff.autoRefreshIndex", "false"},
	{"diff.ignoreSubmodules", "dirty"}, // or git runs inside of submodules, by their configuration
	{"diff.submodule", "short"},
	{"status.submoduleSummary", "false"},
	{"submodule.recurse", "false"},
	{"protocol.allow", "never"},
	{"safe.bareRepository", "explicit"},
	{"mailmap.file", ""}, // files of which an answer shows lines
	{"core.excludesFile", ""},
	{"core.attributesFile", ""},
}

// Quiet is the environment that an allowed line must run in, beside a PATH that
// holds no programs of the workspace's, for what is said of it to hold: it keeps
// programs from what a configuration in the workspace or in HOME would make them
// write or start. The map is the caller's.
func Quiet() map[string]string {
	vars := map[string]string{
		"HOME":            "/nonexistent", // whose dot files there are, nobody knows
		"XDG_CONFIG_HOME": "/nonexistent",
		"PAGER":           "cat",

		"GIT_OPTIONAL_LOCKS":  "0",
		"GIT_CONFIG_GLOBAL":   "/dev/null",
		"GIT_CONFIG_NOSYSTEM": "1",
		"GIT_ATTR_NOSYSTEM":   "1",
		"GIT_ALLOW_PROTOCOL":  "none", // a missing object may be one to fetch
		"GIT_NO_LAZY_FETCH":   "1",
		"GIT_PAGER":           "cat",
		"GIT_TERMINAL_PROMPT": "0",
		"GIT_CONFIG_COUNT":    strconv.Itoa(len(quietGit)),
	}
	for i, kv := range quietGit {
		n := strconv.Itoa(i)
		vars["GIT_CONFIG_KEY_"+n], vars["GIT_CONFIG_VALUE_"+n] = kv[0], kv[1]
	}
	return vars
}
