package shell

import (
	"cmp"
	"os"
	"slices"

	"github.com/sluice-run/sluice/tools"
)

// Marker is the environment variable that names the attempt to everything it
// starts: trace/turn/offset/attempt/random. It is how escaped processes are found.
const Marker = "SLUICE_ATTEMPT"

// defaultPath is for a node that was started without a PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// path is the PATH of commands.
func (c Config) path() string { return cmp.Or(c.Path, os.Getenv("PATH"), defaultPath) }

// environment is all that a command sees of the node: nothing is inherited but
// what the configuration names, so that no secret of the node leaks.
func environment(c Config, in tools.Invocation, marker string, reads bool) []string {
	vars := map[string]string{
		"PATH":                c.path(),
		"HOME":                cmp.Or(c.Home, in.Workspace),
		"LANG":                "C.UTF-8",
		"TERM":                "dumb",
		"PAGER":               "cat",
		"GIT_PAGER":           "cat",
		"GIT_TERMINAL_PROMPT": "0",
	}
	if reads {
		quietGit(vars)
	}
	for _, name := range c.Pass {
		if v, ok := os.LookupEnv(name); ok {
			vars[name] = v
		}
	}
	for name, v := range c.Env {
		vars[name] = v
	}
	vars[Marker] = marker
	env := make([]string, 0, len(vars))
	for name, v := range vars {
		env = append(env, name+"="+v)
	}
	slices.Sort(env)
	return env
}

// quietGit keeps git from writing, and from starting what a configuration in the
// workspace names, as far as git lets itself be told: filters, textconv and an
// external diff cannot be turned off from outside.
func quietGit(vars map[string]string) {
	vars["GIT_OPTIONAL_LOCKS"] = "0"
	vars["GIT_CONFIG_GLOBAL"] = "/dev/null"
	vars["GIT_CONFIG_COUNT"] = "2"
	vars["GIT_CONFIG_KEY_0"], vars["GIT_CONFIG_VALUE_0"] = "core.fsmonitor", "false"
	vars["GIT_CONFIG_KEY_1"], vars["GIT_CONFIG_VALUE_1"] = "core.hooksPath", "/dev/null"
}
