package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/policyfile"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy/cedar"
)

// actor is who has had a policy loaded.
type actor struct {
	ID   string `json:"id"`
	Kind string `json:"kind,omitempty"` // agent, person or service, where a door knows it
	Via  string `json:"via"`            // start, command, signal or http
}

// LogValue is slog.LogValuer's.
func (a actor) LogValue() slog.Value {
	return slog.GroupValue(slog.String("id", show.Short(a.ID, 300)), slog.String("kind", a.Kind), slog.String("via", a.Via))
}

func (a actor) String() string {
	return show.Short(a.ID, 300) + " (" + a.Via + ")"
}

// loading is when a policy came into force, and by whom.
type loading struct {
	At time.Time
	By actor
}

// loadFailure is a try to load a policy that changed nothing.
type loadFailure struct {
	At    time.Time `json:"at"`
	By    actor     `json:"by"`
	Error string    `json:"error"`
}

// policyState is what a node tells of the policy in force.
type policyState struct {
	Version  string           `json:"version"`
	Digest   string           `json:"digest"`           // sha256:… of everything that the version stands for
	Source   string           `json:"source,omitempty"` // the path; "" is the program's own
	Files    []cedar.FileInfo `json:"files"`
	Policies int              `json:"policies"`
	Timed    bool             `json:"timed,omitempty"` // it looks at the time
	Loaded   time.Time        `json:"loaded"`
	By       actor            `json:"by"`
	Reloads  int              `json:"reloads"` // tries since the node's start
	Failed   *loadFailure     `json:"failed,omitempty"`
}

// state tells of what is in force, as it is at one moment.
func (j *judge) state() policyState {
	j.mu.Lock()
	defer j.mu.Unlock()
	set := j.set.Load()
	return policyState{
		Version: set.Version(), Digest: "sha256:" + set.Digest(), Source: j.path, Files: set.Files(), Policies: len(set.Policies()),
		Timed: set.Timed(), Loaded: j.loaded.At, By: j.loaded.By, Reloads: j.reloads, Failed: j.failed,
	}
}

// PolicyState tells of the policy in force, as a JSON object.
func (s *serving) PolicyState() json.RawMessage { return stateJSON(s.node.judge) }

// ReloadPolicy reads the policy anew for whom a door has let in, and gives the state
// afterwards. With an error nothing has changed.
func (s *serving) ReloadPolicy(by events.Principal) (json.RawMessage, error) {
	return s.reloadPolicy(by, "http")
}

func (s *serving) reloadPolicy(by events.Principal, via string) (json.RawMessage, error) {
	if s.set.policy == "" {
		return nil, errNoPolicy()
	}
	who := actor{ID: by.ID, Kind: cmp.Or(by.Kind, "agent"), Via: via}
	if by.ID == "" {
		who = actor{ID: "unknown", Via: via} // a door that asks nobody who they are
	}
	if _, err := s.reload(who); err != nil {
		return nil, err
	}
	return stateJSON(s.node.judge), nil
}

func stateJSON(j *judge) json.RawMessage {
	b, err := json.Marshal(j.state())
	if err != nil { // it holds texts and numbers only
		panic("the state of the policy cannot be written: " + err.Error())
	}
	return b
}

// errNoPolicy says that a node has nothing to read anew.
func errNoPolicy() error {
	return exit.Misused(errors.New("the node has no --policy: it runs with the program's own"), "start it with --policy FILE")
}

// userNamed names a user of the machine.
func userNamed(id string) string {
	if u, err := user.LookupId(id); err == nil {
		return u.Username + " (uid " + id + ")"
	}
	return "uid " + id
}

// thisUser is the user of this process.
func thisUser(via string) actor { return actor{ID: userNamed(strconv.Itoa(os.Getuid())), Via: via} }

// Who asks for a new policy leaves a file beside the log: whose it is, the system says,
// and a signal does not.
const (
	askedFile  = "policy-reload"
	askedFresh = 30 * time.Second // older ones are of somebody who gave up
)

// sign leaves word of who sends the signal that follows.
func (s *settings) sign() error {
	at := filepath.Join(s.Data, askedFile)
	if err := os.Remove(at); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// sender is who has sent the signal to read the policy anew, as far as the system tells.
func (s *settings) sender(now time.Time) actor {
	if s.NATS != "" {
		return actor{ID: "unknown", Via: "signal"}
	}
	at := filepath.Join(s.Data, askedFile)
	info, err := os.Lstat(at)
	if err != nil {
		return actor{ID: "unknown", Via: "signal"}
	}
	if err := os.Remove(at); err != nil || !info.Mode().IsRegular() || now.Sub(info.ModTime()).Abs() > askedFresh {
		return actor{ID: "unknown", Via: "signal"}
	}
	return actor{ID: ownerOf(info), Via: "command"}
}

// warnPolicy says where those that the policy binds could write it.
func (s *settings) warnPolicy(log *slog.Logger, workspace string) {
	for name, path := range map[string]string{"policy": s.policy, "principals": s.principals, "limits": s.limit.file} {
		if path == "" {
			continue
		}
		real, err := filepath.EvalSymlinks(path)
		if err == nil && (inside(path, workspace) || inside(real, workspace)) {
			log.Warn("the file is inside the workspace: tools can change what they are held to, from the next time that it is read; move it out",
				"setting", name, "path", path, "workspace", workspace)
		}
	}
	if set, err := policyfile.Load(s.policy); err == nil && s.policy != "" { // who starts a node says what does not load
		warnLoaded(log, set)
	}
}

// missing says what a copy of the program's own policy has lost, or never had.
func missing(ids []string) string {
	return "the policy is made from the program's own, and lacks of it what forbids or asks: " + strings.Join(ids, ", ") +
		"; what these hold back is let through: sluice-node policy default prints them, to be copied or, with an id kept, changed"
}

// warnings are what whoever gives a node a policy should know of it, though it loads.
func warnings(set *cedar.Set) []string {
	out := set.Warnings()
	if ids := set.Missing(); len(ids) > 0 {
		out = append(out, missing(ids))
	}
	return out
}

func warnLoaded(log *slog.Logger, set *cedar.Set) {
	for _, text := range warnings(set) {
		log.Warn(text)
	}
}

// noteState prints what a running node has told of its policy.
func (a *app) noteState(raw string) {
	var st policyState
	if json.Unmarshal([]byte(raw), &st) != nil {
		return
	}
	a.print("// policy %s, %d policies in %d files of %s\n", show.Short(st.Version, 60), st.Policies, len(st.Files), show.Short(cmp.Or(st.Source, "the program"), 300))
	a.print("// %s\n// in force since %s, loaded by %s\n", show.Short(st.Digest, 80), st.Loaded.Format(time.RFC3339), st.By)
	for _, f := range st.Files {
		a.print("// file %s: %s, %d bytes, %d policies\n", show.Short(f.Name, 200), show.Short(f.Digest, 80), f.Bytes, f.Policies)
	}
	if st.Failed != nil {
		first, _, _ := strings.Cut(st.Failed.Error, "\n")
		a.print("// since then it was not reloaded, asked by %s at %s: %s\n", st.Failed.By, st.Failed.At.Format(time.RFC3339), show.Short(first, 300))
	}
	a.print("\n")
}
