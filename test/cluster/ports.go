package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports that are picked come from below those that the kernel gives to
// connections: a server that was killed finds its port free again.
const (
	lowPort  = 10_000
	highPort = 32_000
)

// errPort marks an error of a port that somebody else has.
var errPort = errors.New("a port is in use")

// freePorts finds ports that nobody listens on. Others may take them BEFORE they are used.
func freePorts(n int) ([]int, error) {
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
		port := lowPort + rand.IntN(highPort-lowPort)
		if l, err := net.Listen("tcp", loopback(port)); err == nil {
			held, out = append(held, l), append(out, port)
		}
	}
	return nil, fmt.Errorf("no free ports between %d and %d on 127.0.0.1", lowPort, highPort)
}

// portsFor are n ports from first on, which have to be free, or any where first is 0.
func portsFor(first, n int) ([]int, error) {
	if first == 0 {
		return freePorts(n)
	}
	var out []int
	for port := first; port < first+n; port++ {
		if err := PortFree(port); err != nil {
			return nil, err
		}
		out = append(out, port)
	}
	return out, nil
}

// PortFree returns an error that names the port if somebody listens on it.
func PortFree(port int) error {
	l, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return fmt.Errorf("%w: %s: %w", errPort, loopback(port), err)
	}
	return l.Close()
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
