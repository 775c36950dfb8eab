package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/nodehttp"
	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/cmd/internal/show"
)

// Bounds of the free space of a data directory, in bytes.
const (
	littleSpace = 1 << 30
	noSpace     = 64 << 20
)

// encryptedName is the file in a data directory whose log is encrypted.
const encryptedName = "sluice.encrypted"

// seeData looks at the data directory, or at where it would be made.
func (s *settings) seeData(context.Context) []finding {
	if s.NATS != "" {
		return []finding{{Name: "data", State: wellOK, Says: "the log is kept by " + redacted(s.NATS)}}
	}
	dir, err := filepath.Abs(s.Data)
	if err != nil {
		return []finding{needed("data", err, "")}
	}
	at, made := dir, true
	info, err := os.Stat(at)
	for ; errors.Is(err, os.ErrNotExist) && at != filepath.Dir(at); info, err = os.Stat(at) {
		at, made = filepath.Dir(at), false
	}
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no directory", at)
	}
	if err != nil {
		return []finding{{Name: "data", State: wellFail, Says: err.Error(), Do: "name another directory with --data"}}
	}
	out := []finding{{Name: "data", State: wellOK, Says: dir}}
	if !made {
		out[0].Says += ", which serve would make"
	}
	if mode := info.Mode().Perm(); made && mode&0o077 != 0 {
		out[0] = finding{Name: "data", State: wellWarn, Says: fmt.Sprintf("%s may be read or changed by other users (mode %o)", dir, mode), Do: "chmod 700 " + dir}
	}
	if _, err := s.StoreKeys(); err != nil {
		out = append(out, needed("encrypt-key", err, ""))
	} else if _, err := os.Stat(filepath.Join(dir, encryptedName)); err == nil && s.EncryptKey == "" {
		out = append(out, finding{Name: "encrypt-key", State: wellFail, Says: "the log in " + dir + " is encrypted", Do: "give the file of its key with --encrypt-key"})
	}
	if clear := s.clearStore(); clear != "" {
		if _, err := os.Stat(clear); err == nil {
			out = append(out, finding{Name: "read-store", State: wellWarn, Says: clear + " is not encrypted, and the log is to be: serve removes it", Do: "copy nothing of it: it is made from the log"})
		}
	}
	return append(out, seeWritable(at), seeSpace(at))
}

// seeWritable writes a small file to a directory and has it written to the disk.
func seeWritable(dir string) finding {
	f, err := os.CreateTemp(dir, ".sluice-doctor-")
	if err == nil {
		_, err = f.WriteString("doctor")
		err = errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		return finding{Name: "fsync", State: wellFail, Says: err.Error(), Do: "give this user the right to write there, or name another directory with --data"}
	}
	return finding{Name: "fsync", State: wellOK, Says: "a file can be written and brought to the disk"}
}

// seeSpace looks at the file system of a directory.
func seeSpace(dir string) finding {
	kind, free, err := fileSystem(dir)
	f := finding{Name: "disk", State: wellOK, Says: fmt.Sprintf("%s, %s free", kind, humanize.IBytes(free))}
	switch {
	case err != nil:
		return finding{Name: "disk", State: wellWarn, Says: err.Error()}
	case free < noSpace:
		f.State, f.Do = wellFail, "make room: the log stops where the disk is full"
	case free < littleSpace:
		f.State, f.Do = wellWarn, "make room: the log stops where the disk is full"
	case kind == "tmpfs" || kind == "ramfs":
		f.State, f.Do = wellWarn, "use a disk: what is there is lost with the machine's memory"
	case kind == "nfs" || kind == "cifs" || kind == "fuse":
		f.State, f.Do = wellWarn, "use a local disk: whether what was synced is kept is up to somebody else there"
	}
	return f
}

// seePorts listens for a moment where serve would. A node that runs on the data
// directory already is asked instead, by seeNode.
func (s *settings) seePorts(ctx context.Context) []finding {
	if s.NATS == "" {
		if _, found, err := jetlog.Find(s.Data); err == nil && found {
			return nil
		}
	}
	var out []finding
	for _, door := range [][2]string{{"http", s.http}, {"listen-nats", s.listen}} {
		name, at := door[0], door[1]
		if at == "" || at == "none" || name == "listen-nats" && s.NATS != "" {
			continue
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
		if err != nil {
			out = append(out, finding{Name: "port", State: wellFail, Says: fmt.Sprintf("--%s: %v", name, err), Do: "stop what listens there, or choose another port; port 0 takes any free one"})
			continue
		}
		_ = l.Close()
		out = append(out, finding{Name: "port", State: wellOK, Says: fmt.Sprintf("--%s %s is free", name, at)})
	}
	return out
}

// seeNode asks the node that runs on the data directory.
func (s *settings) seeNode(ctx context.Context) []finding {
	if s.NATS != "" {
		return []finding{s.seeNATS(ctx)}
	}
	r, found, err := jetlog.Find(s.Data)
	switch {
	case err != nil:
		return []finding{{Name: "node", State: wellFail, Says: err.Error(), Do: "see who owns the data directory"}}
	case !found:
		return []finding{{Name: "node", State: wellOK, Says: "none runs on this data directory"}}
	case r.HTTP == "":
		return []finding{{Name: "node", State: wellOK, Says: fmt.Sprintf("process %d runs on this data directory, and has no HTTP", r.PID)}}
	}
	return []finding{askReady(ctx, r)}
}

// natsLimit is how long the servers of --nats are asked.
const natsLimit = 15 * time.Second

// seeNATS tries on the servers of --nats what serve does, and makes nothing there.
func (s *settings) seeNATS(ctx context.Context) finding {
	ctx, stop := context.WithTimeout(ctx, natsLimit)
	defer stop()
	conf, err := s.natsConfig(ctx, slog.New(slog.DiscardHandler))
	if err != nil {
		return needed("nats", err, "")
	}
	copies, err := jetlog.Look(ctx, conf)
	switch {
	case err != nil:
		return finding{Name: "nats", State: wellFail, Says: err.Error(), Do: cmp.Or(session.DialHint(err, ""), "mend the server, or name another one with --nats")}
	case copies == 0:
		return finding{Name: "nats", State: wellOK, Says: fmt.Sprintf("%s lets this node in, and has no log: serve would make it, with %s", redacted(s.NATS), copiesText(s.replicas))}
	}
	return finding{Name: "nats", State: wellOK, Says: fmt.Sprintf("%s lets this node in, and has the log, in %s", redacted(s.NATS), copiesText(copies))}
}

// copiesText is a number of copies in words.
func copiesText(n int) string {
	if n == 1 {
		return "one copy: --replicas 3 in a cluster"
	}
	return fmt.Sprintf("%d copies", n)
}

// askReady asks a node whether it would run turns.
func askReady(ctx context.Context, r jetlog.Running) finding {
	who := fmt.Sprintf("process %d at %s", r.PID, r.HTTP)
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.HTTP+"/readyz", nil)
	if err != nil {
		return finding{Name: "node", State: wellWarn, Says: err.Error()}
	}
	resp, err := nodehttp.Client(r).Do(req)
	if err != nil {
		return finding{Name: "node", State: wellWarn, Says: who + " does not answer: " + err.Error(), Do: "look at its log; it may hang, or be only just starting"}
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)) // what can be read
	says := show.Short(strings.TrimSpace(string(body)), 200)
	if resp.StatusCode != http.StatusOK {
		return finding{Name: "node", State: wellWarn, Says: fmt.Sprintf("%s is not ready: %s %s", who, resp.Status, says), Do: "look at its log"}
	}
	return finding{Name: "node", State: wellOK, Says: who + " runs turns"}
}

// seePrograms looks at the programs that tools need.
func seePrograms(ctx context.Context) []finding {
	var out []finding
	for _, program := range [][2]string{
		{"bash", "install bash: without it no command line runs"},
		{"git", "install git, if agents are to use it"},
	} {
		name, do := program[0], program[1]
		path, err := exec.LookPath(name)
		if err != nil {
			out = append(out, finding{Name: name, State: wellWarn, Says: err.Error(), Do: do})
			continue
		}
		ctx, stop := context.WithTimeout(ctx, 10*time.Second)
		said, err := exec.CommandContext(ctx, path, "--version").Output()
		stop()
		first, _, _ := strings.Cut(string(said), "\n")
		if err != nil {
			out = append(out, finding{Name: name, State: wellWarn, Says: fmt.Sprintf("%s: %v", path, err), Do: do})
			continue
		}
		out = append(out, finding{Name: name, State: wellOK, Says: path + ": " + show.Short(first, 100)})
	}
	return append(out, finding{Name: "sluice-node", State: wellOK, Says: command.Version()})
}
