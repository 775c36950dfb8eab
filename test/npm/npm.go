// Package npm gives tests the programs and libraries of the npm registry: the official
// SDKs of model providers, the clients and servers of the Model Context Protocol.
//
// What was installed once is kept in the user's cache folder and used again. Where npm is
// not there, or cannot reach its registry, a test is skipped and says why.
package npm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// before is the day up to which packages that ours depend on may have been published:
// the same test installs the same files on every day.
const before = "2026-11-29"

// patience bounds an installation.
const patience = 5 * time.Minute

// Install is a folder whose node_modules holds the packages, each "name@version" with an
// exact version, and what they depend on. Their install scripts are not run. It may be
// called from many tests and processes at once.
func Install(t testing.TB, packages ...string) string {
	t.Helper()
	packages = slices.Clone(packages)
	slices.Sort(packages)
	for _, p := range packages {
		if strings.LastIndex(p, "@") < 1 {
			t.Fatalf("%s has no version: want name@version", p)
		}
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skipf("SKIPPED, and with it everything that this test would show: npm is not on PATH: %v", err)
	}
	sum := sha256.Sum256([]byte(before + " " + strings.Join(packages, " ")))
	dir := filepath.Join(cache(t), hex.EncodeToString(sum[:8]))
	defer lock(t, dir+".lock")()
	if _, err := os.Stat(filepath.Join(dir, "complete")); err == nil {
		return dir
	}
	if err := os.RemoveAll(dir); err != nil { // half of an installation that was ended
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	install(t, npm, dir, packages)
	if err := os.WriteFile(filepath.Join(dir, "complete"), []byte(strings.Join(packages, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Node is a Node.js of at least version 20, or the one of version 22 that the registry
// has as a package, where the machine has none.
func Node(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("node")
	if err == nil {
		out, err := exec.CommandContext(t.Context(), path, "--version").Output()
		var major int
		if _, scanned := fmt.Sscanf(string(out), "v%d.", &major); err == nil && scanned == nil && major >= 20 {
			return path
		}
	}
	return Node22(t)
}

// Node22 is a Node.js of version 22, for programs that stop on an older one.
func Node22(t testing.TB) string {
	t.Helper()
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	name := "node-" + runtime.GOOS + "-" + arch
	return filepath.Join(Install(t, name+"@22.23.5"), "node_modules", name, "bin", "node")
}

func cache(t testing.TB) string {
	t.Helper()
	root, err := os.UserCacheDir()
	if err != nil {
		root = os.TempDir()
	}
	root = filepath.Join(root, "sluice-npm")
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}

// lock waits until nobody else installs into the same folder, and returns what gives
// the lock back.
func lock(t testing.TB, path string) func() {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() { _ = f.Close() }
}

func install(t testing.TB, npm, dir string, packages []string) {
	t.Helper()
	manifest, err := json.Marshal(map[string]any{"private": true, "type": "module"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), manifest, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	args := []string{
		"install", "--save-exact", "--no-audit", "--no-fund", "--no-update-notifier", "--ignore-scripts",
		"--package-lock=false", "--loglevel=error", "--before=" + before,
	}
	cmd := exec.CommandContext(ctx, npm, append(args, packages...)...)
	cmd.Dir = dir
	cmd.WaitDelay = 10 * time.Second
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err = cmd.Run()
	switch {
	case err == nil:
	case unreachable(said.String()) || errors.Is(ctx.Err(), context.DeadlineExceeded):
		t.Skipf("SKIPPED, and with it everything that this test would show: npm cannot reach its registry: %v: %s", err, tail(said.String()))
	default:
		t.Fatalf("npm install %s: %v\n%s", strings.Join(packages, " "), err, said.String())
	}
}

// unreachable says whether npm's words are about the way to its registry.
func unreachable(said string) bool {
	return slices.ContainsFunc([]string{"ENOTFOUND", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "EAI_AGAIN", "ENETUNREACH", "EHOSTUNREACH", "E403", "E407", "E502", "E503", "E504"},
		func(code string) bool { return strings.Contains(said, code) })
}

func tail(said string) string {
	said = strings.TrimSpace(said)
	if len(said) > 400 {
		said = "…" + said[len(said)-400:]
	}
	return strings.ToValidUTF8(said, "")
}
