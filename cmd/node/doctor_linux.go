package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// seeKernel looks at what decides about namespaces, and at control groups.
func seeKernel(context.Context) []finding {
	var out []finding
	for _, c := range []struct{ path, bad, do string }{
		{"kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"},
		{"kernel/apparmor_restrict_unprivileged_userns", "1", "an AppArmor profile that gives sluice-node userns, or sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
		{"user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=10000"},
	} {
		b, err := os.ReadFile("/proc/sys/" + c.path)
		if err != nil {
			continue // this kernel does not know it
		}
		value := strings.TrimSpace(string(b))
		f := finding{Name: "kernel", State: wellOK, Says: fmt.Sprintf("%s is %s", strings.ReplaceAll(c.path, "/", "."), value)}
		if value == c.bad {
			f.State, f.Do = wellWarn, c.do
		}
		out = append(out, f)
	}
	if os.Geteuid() == 0 {
		out = append(out, finding{
			Name: "user", State: wellWarn, Says: "this is root: inside a sandbox commands have root's files and none of its rights, and outside of one they have both",
			Do: "run the node as a user of its own",
		})
	}
	return append(out, seeGroup())
}

// seeGroup says whether something bounds this node with all its commands.
func seeGroup() finding {
	const do = "put the node into a group with bounds: MemoryMax= and TasksMax= of its service, --memory and --pids-limit of its container"
	b, err := os.ReadFile("/proc/self/cgroup")
	_, path, found := strings.Cut(string(b), "0::")
	if err != nil || !found {
		return finding{Name: "cgroup", State: wellWarn, Says: "there is no control group of version 2: memory of all commands together is not bounded", Do: do}
	}
	path, _, _ = strings.Cut(path, "\n")
	var bounds []string
	for dir := filepath.Join("/sys/fs/cgroup", path); len(dir) >= len("/sys/fs/cgroup"); dir = filepath.Dir(dir) {
		for _, name := range []string{"memory.max", "pids.max"} {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if v := strings.TrimSpace(string(b)); err == nil && v != "max" && v != "" {
				bounds = append(bounds, name+" "+v)
			}
		}
	}
	slices.Sort(bounds)
	if len(slices.Compact(bounds)) == 0 {
		return finding{Name: "cgroup", State: wellWarn, Says: "nothing bounds the memory and the processes of all commands together", Do: do}
	}
	return finding{Name: "cgroup", State: wellOK, Says: "this node and its commands have " + strings.Join(bounds, ", ")}
}

// kinds are file systems by the number that the kernel gives them.
var kinds = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", 0x2fc12fc1: "zfs", unix.F2FS_SUPER_MAGIC: "f2fs",
	unix.TMPFS_MAGIC: "tmpfs", unix.RAMFS_MAGIC: "ramfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay",
	unix.NFS_SUPER_MAGIC: "nfs", unix.SMB2_SUPER_MAGIC: "cifs", unix.CIFS_SUPER_MAGIC: "cifs", unix.FUSE_SUPER_MAGIC: "fuse",
}

// fileSystem is the kind of file system that a directory is on, and how many bytes are
// free to this user.
func fileSystem(dir string) (kind string, free uint64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	kind, known := kinds[int64(st.Type)]
	if !known {
		kind = fmt.Sprintf("file system %#x", st.Type)
	}
	return kind, st.Bavail * uint64(st.Bsize), nil
}

// earliest is a time that a clock which was ever set has passed.
var earliest = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// seeClock asks the kernel whether somebody keeps its clock right.
func seeClock(context.Context) []finding {
	now := time.Now()
	f := finding{Name: "clock", State: wellOK, Says: now.UTC().Format(time.RFC3339) + ", and kept in step"}
	var t unix.Timex
	switch state, err := unix.Adjtimex(&t); {
	case now.Before(earliest):
		f.State, f.Says, f.Do = wellWarn, now.UTC().Format(time.RFC3339)+" cannot be", "set it: deadlines, expiry and retention go by it"
	case err != nil && !errors.Is(err, unix.EPERM):
		f.Says = now.UTC().Format(time.RFC3339)
	case err == nil && (state == unix.TIME_ERROR || t.Status&unix.STA_UNSYNC != 0):
		f.State, f.Says, f.Do = wellWarn, now.UTC().Format(time.RFC3339)+", and the kernel does not know of anything that keeps it in step",
			"run chrony or systemd-timesyncd where several nodes share a log; in a virtual machine its host may do it"
	}
	return []finding{f}
}
