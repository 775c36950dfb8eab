package cluster

import (
	"errors"
	"fmt"
	"net"

	"github.com/sluice-run/sluice/test/ports"
)

// errPort marks an error of a port that somebody else has.
var errPort = errors.New("a port is in use")

// portsFor are n ports from first on, which have to be free, or any where first is 0.
func portsFor(first, n int) ([]int, error) {
	if first == 0 {
		return ports.Free(n)
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
	l, err := net.Listen("tcp", ports.Loopback(port))
	if err != nil {
		return fmt.Errorf("%w: %s: %w", errPort, ports.Loopback(port), err)
	}
	return l.Close()
}
