// Package ports finds ports for servers that tests and tools start on the loopback.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports come from below those that the kernel gives to connections: a server that
// was stopped or killed finds its port free again, and no client that reconnects to it
// meets somebody else's.
const (
	low  = 10_000
	high = 32_000
)

// Free are n ports that nobody listens on. Others may take them BEFORE they are used.
func Free(n int) ([]int, error) {
	var out []int
	var held []net.Listener
	defer func() {
		for _, l := range held {
			_ = l.Close() // nothing was written to it
		}
	}()
	for range 1000 {
		if len(out) == n {
			return out, nil
		}
		port := low + rand.IntN(high-low)
		if l, err := net.Listen("tcp", Loopback(port)); err == nil {
			held, out = append(held, l), append(out, port)
		}
	}
	return nil, fmt.Errorf("no free ports between %d and %d on 127.0.0.1", low, high)
}

// Loopback is the address of a port.
func Loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
