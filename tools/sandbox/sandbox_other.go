//go:build !linux

package sandbox

import "context"

// Look finds nothing that contains on this system.
func Look(context.Context) (Machine, error) {
	return Machine{Parts: []Part{{Name: "sandbox", Detail: "there is none for this system", Remedy: "run the node on Linux"}}}, nil
}
