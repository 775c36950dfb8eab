package shell

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	rules "github.com/sluice-run/sluice/policy/shell"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/sandbox"
)

// Marker is the environment variable that names the attempt to everything it
// starts: trace/turn/offset/attempt/random. It is how escaped processes are found.
const Marker = "SLUICE_ATTEMPT"

// traceVariable is where programs that make spans look for the one that started them.
const traceVariable = "TRACEPARENT"

// defaultPath is for a node that was started without a PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// path is the PATH of commands.
func (c Config) path() string { return cmp.Or(c.Path, os.Getenv("PATH"), defaultPath) }

// foreignTo is a PATH without what the workspace holds or may hold: what a reading line
// names are programs that no call has written.
func foreignTo(workspace, path string) string {
	dirs := slices.DeleteFunc(filepath.SplitList(path), func(dir string) bool {
		return !filepath.IsAbs(dir) || sandbox.Within(filepath.Clean(dir), filepath.Clean(workspace))
	})
	return cmp.Or(strings.Join(dirs, string(os.PathListSeparator)), defaultPath)
}

// caches are where programs keep what they have fetched or built, below the workspace:
// HOME goes with the command.
func caches(workspace string) map[string]string {
	vars := make(map[string]string)
	for name, dir := range map[string]string{
		"XDG_CACHE_HOME":   ".cache", // Go's builds, pip, yarn, browsers
		"GOMODCACHE":       ".cache/go-mod",
		"npm_config_cache": ".npm",
		"CARGO_HOME":       ".cargo",
		"PYTHONUSERBASE":   ".local",
	} {
		vars[name] = filepath.Join(workspace, dir)
	}
	return vars
}

// environment is all that a command sees of the node: nothing is inherited but
// what the configuration names, so that no secret of the node leaks. home is an empty
// folder, or "" for one that the sandbox makes: the dot files of programs (.gitconfig, .curlrc) name programs to run and hosts
// to go by, and in the workspace they are whoever's who wrote the repository.
func environment(c Config, in tools.Invocation, home, marker string, reads bool) []string {
	vars := map[string]string{
		"PATH":                c.path(),
		"HOME":                cmp.Or(c.Home, home),
		"LANG":                "C.UTF-8",
		"TERM":                "dumb",
		"PAGER":               "cat",
		"GIT_PAGER":           "cat",
		"GIT_TERMINAL_PROMPT": "0",
	}
	if c.Home == "" && !reads {
		maps.Copy(vars, caches(in.Workspace))
	}
	if reads {
		maps.Copy(vars, rules.Quiet())
		vars["PATH"] = foreignTo(in.Workspace, vars["PATH"])
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
	if in.Traceparent != "" {
		vars[traceVariable] = in.Traceparent
	}
	env := make([]string, 0, len(vars))
	for name, v := range vars {
		env = append(env, name+"="+v)
	}
	slices.Sort(env)
	return env
}
