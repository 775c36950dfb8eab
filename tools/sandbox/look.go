package sandbox

// Machine is what a machine has to contain commands with, as it was found when it was
// looked at.
type Machine struct {
	Use   Use
	Parts []Part // everything that was tried, in the order of Policy.Words
}

// Part is one thing that contains, and whether it is there.
type Part struct {
	Name   string // as in Policy.Words, without versions
	Have   bool
	Detail string // its version or extent; where it is missing, what the kernel said
	Remedy string // what to do where it is missing; "" where it is there
}

// Holds says whether the machine gives what a required sandbox needs: that files, the
// network and other processes are out of reach. Namespaces hold all three. So does
// Landlock from version 6 on, which holds files and signals, with the filter of system
// calls, which holds sockets.
func (m Machine) Holds() bool {
	u := m.Use
	return u.Limits && (u.Namespaces || u.Landlock >= scopes && u.Seccomp)
}

// scopes is the version of Landlock that keeps signals and abstract sockets inside.
const scopes = 6

// Lacks are the parts that were tried and are missing.
func (m Machine) Lacks() []Part {
	var out []Part
	for _, p := range m.Parts {
		if !p.Have {
			out = append(out, p)
		}
	}
	return out
}
