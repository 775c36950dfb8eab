package mcp

import (
	"context"
	"crypto/tls"
	"net"
	"syscall"
	"time"

	"github.com/sluice-run/sluice/gateway"
)

// How an answer stands that was written to a connection.
const (
	taken     = iota // the other side has acknowledged all of it
	underWay         // it has not yet
	lost             // the other side has closed the connection, or it is broken
	untold           // nobody can tell
	takenWait = 5 * time.Second
	takenLook = 2 * time.Millisecond
)

// wire is the connection that a request came by, as the kernel knows it; nil where that
// cannot be asked.
func wire(ctx context.Context) syscall.RawConn {
	c := gateway.ConnOf(ctx)
	for c != nil {
		switch v := c.(type) {
		case *tls.Conn:
			c = v.NetConn()
		case interface{ Inner() net.Conn }:
			c = v.Inner()
		case syscall.Conn:
			raw, err := v.SyscallConn()
			if err != nil {
				return nil
			}
			return raw
		default:
			return nil
		}
	}
	return nil
}

// standingOf is how what was written to a connection stands, which may be nil.
func standingOf(raw syscall.RawConn) int {
	if raw == nil {
		return untold
	}
	return standing(raw)
}

// arrived says whether what was written to a connection has come to the other side, as far
// as the kernels of both can tell, and waits a while for that where it is under way.
func arrived(ctx context.Context, raw syscall.RawConn) bool {
	late, look := time.NewTimer(takenWait), time.NewTicker(takenLook)
	defer late.Stop()
	defer look.Stop()
	for {
		switch standingOf(raw) {
		case taken, untold:
			return true
		case lost:
			return false
		}
		select {
		case <-look.C:
		case <-late.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}
