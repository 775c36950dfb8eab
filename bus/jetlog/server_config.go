package jetlog

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sys/unix"
)

// How an embedded server makes durable what it acknowledges; see ServerConfig.Sync.
const (
	// SyncBarrier lets appends run at full speed, and syncs once for everyone
	// who waits at the barrier.
	SyncBarrier = "barrier"
	// SyncAlways syncs each message by itself, before it is acknowledged.
	SyncAlways = "always"
	// syncInterval syncs now and then: interval=10s may lose ten seconds.
	syncInterval = "interval="
)

// Bounds of interval=D. A longer one than the server's own would be an accident.
const (
	minInterval = 10 * time.Millisecond
	maxInterval = 10 * time.Minute
)

// minFree is how many bytes must be free at a start: a few message blocks.
const minFree = 32 << 20

// ServerConfig says how to run a server inside this process. Only Dir is required.
type ServerConfig struct {
	// Dir is the folder that holds everything. It is made if it is missing, and
	// belongs to one process at a time.
	Dir string
	// Sync says when what was acknowledged survives a power failure: barrier
	// (the meaning of ""), always, or interval=D with D from 10 ms to 10 min.
	Sync string
	// Host is where to listen for NATS clients, if Port says so; "" means 127.0.0.1.
	Host string
	// Port to listen on for NATS clients; 0 means that only this process can
	// connect, -1 means any free port.
	Port int
	// Token is what NATS clients must give. It is required where Host is not a
	// loopback address: who can connect can write the log.
	Token string
	// Users are who may connect besides who has Token, each with the permissions of
	// PermissionsOf. A token that is missing then is made.
	Users []User
	// Cert and Key are PEM files of the certificate, and its key, for whoever connects
	// from outside this process; "" means no TLS. SetUsers reads them anew.
	Cert, Key string
	// Name of the server, for people; "" means sluice.
	Name string
	// MaxStore is how many bytes the server may keep; 0 means three quarters of
	// what is free on the disk. Beyond, appends fail.
	MaxStore int64
	// Keys encrypt the store on the disk, 32 bytes each: any of them opens it, and from then
	// on the first one does. None: it is not encrypted. A store that was not is encrypted
	// when it is opened with one, and needs one from then on.
	Keys [][]byte
	// KeepClear refuses to open a log that is not encrypted with Keys: whoever only looks
	// does not change it for good.
	KeepClear bool
	// Log is for the operator; nil discards.
	Log *slog.Logger

	storeKey []byte // the store's own, once it is known; nil: it is not encrypted
	faults   serverFaults
}

// serverFaults are hooks for tests; a nil one is no fault.
type serverFaults struct {
	prove func() error                // what the look at the layout finds
	flush func(*os.File) error        // in place of fdatasync
	free  func(string) (int64, error) // bytes free in a folder
}

func (c ServerConfig) host() string { return cmp.Or(c.Host, "127.0.0.1") }

func (c ServerConfig) logger() *slog.Logger { return Config{Log: c.Log}.logger() }

// check returns what is wrong, and the configuration with Dir absolute and Sync
// spelt out.
func (c ServerConfig) check() (ServerConfig, error) {
	c.Sync = cmp.Or(c.Sync, SyncBarrier)
	if _, err := c.interval(); err != nil {
		return c, err
	}
	switch {
	case c.Dir == "":
		return c, errors.New("a server needs a directory: set Dir")
	case c.Port < -1 || c.Port > 65535:
		return c, fmt.Errorf("port %d: use 1 to 65535, 0 for none, or -1 for any free one", c.Port)
	case slices.ContainsFunc(c.Keys, func(k []byte) bool { return len(k) != keyBytes }):
		return c, fmt.Errorf("a key for the store has %d bytes", keyBytes)
	case c.MaxStore < 0:
		return c, fmt.Errorf("MaxStore is %d: it must not be negative", c.MaxStore)
	case c.Port != 0 && c.Token == "" && len(c.Users) == 0 && !loopback(c.host()):
		return c, fmt.Errorf("host %s is open to the network, and who can connect can write the log: set a token or name its users, or listen on 127.0.0.1", c.host())
	}
	if err := errors.Join(CheckUsers(c.Users), c.secure(&server.Options{})); err != nil {
		return c, err
	}
	if len(c.Users) > 0 && c.Token == "" {
		c.Token = rand.Text()
	}
	dir, err := filepath.Abs(c.Dir)
	c.Dir = dir
	return c, err
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// interval is D of interval=D; 0 in the other modes.
func (c ServerConfig) interval() (time.Duration, error) {
	text, ok := strings.CutPrefix(c.Sync, syncInterval)
	if !ok {
		if c.Sync != SyncBarrier && c.Sync != SyncAlways {
			return 0, fmt.Errorf("sync %q: use %s, %s or %s10s", c.Sync, SyncBarrier, SyncAlways, syncInterval)
		}
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < minInterval || d > maxInterval {
		return 0, fmt.Errorf("sync %q: use a time from %v to %v, for example %s10s", c.Sync, minInterval, maxInterval, syncInterval)
	}
	return d, nil
}

// options are the embedded server's.
func (c ServerConfig) options() *server.Options {
	o := &server.Options{
		ServerName: cmp.Or(c.Name, "sluice"),
		Host:       c.host(), Port: c.Port, DontListen: c.Port == 0,
		NoSigs: true, NoLog: true, Authorization: c.Token,
		JetStream: true, StoreDir: c.Dir, JetStreamMaxStore: c.MaxStore,
		SyncAlways: c.Sync == SyncAlways,
	}
	o.SyncInterval, _ = c.interval() // checked before; 0 is the server's own
	c.let(o)
	c.seal(o)
	return o
}

// roomy sees that there is room on the disk.
func (c ServerConfig) roomy() error {
	look := free
	if c.faults.free != nil {
		look = c.faults.free
	}
	bytes, err := look(c.Dir)
	if err != nil {
		return explain(c.Dir, err)
	}
	if bytes < minFree {
		return explain(c.Dir, fmt.Errorf("only %d MiB are left, and %d are needed: %w", bytes>>20, minFree>>20, unix.ENOSPC))
	}
	return nil
}

// free is how many bytes this user may still write.
func free(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, os.NewSyscallError("statfs", err)
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

// portFree sees that nobody else listens on the port. Somebody may still begin
// to before the server does; its start then fails with less to say.
func (c ServerConfig) portFree() error {
	if c.Port <= 0 {
		return nil
	}
	address := net.JoinHostPort(c.host(), strconv.Itoa(c.Port))
	l, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		return l.Close()
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("port %s is in use: stop what listens there, or choose another one (port 0 of --listen-nats takes any that is free): %w", address, err)
	}
	return fmt.Errorf("cannot listen on %s: choose another host or port: %w", address, err)
}
