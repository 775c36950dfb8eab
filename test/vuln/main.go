// Command vuln looks for known vulnerabilities in what the product is built from and
// calls, by govulncheck and the database of the Go project, which it takes from the Go
// module proxy: where modules can be had, it works, and needs nothing else of the net.
//
// Its status is 1 where a module has a vulnerability whose code is called, and a version
// that mends it. What the Go release has that builds here is printed, and mended by
// a newer Go. Where the database cannot be had, that is said loudly, and the status is 0.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	db := flag.String("db", "", "`directory` of a checkout of golang.org/x/vulndb; left out: the newest from the module proxy")
	flag.Parse()
	os.Exit(run(*db, flag.Args()))
}

func run(dir string, packages []string) int {
	if len(packages) == 0 {
		packages = []string{"./..."}
	}
	if dir == "" {
		var version string
		var err error
		if dir, version, err = download(); err != nil {
			fmt.Printf("vuln: NOT CHECKED: the database cannot be had here: %v\n", err)
			return 0
		}
		fmt.Println("vuln: database golang.org/x/vulndb", version)
	}
	out, err := scan(filepath.Join(dir, "data", "osv"), packages)
	if err != nil {
		fmt.Fprintln(os.Stderr, "vuln:", err)
		return 1
	}
	found, err := read(out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "vuln: the scanner's answer cannot be read:", err)
		return 1
	}
	return report(found)
}

// download brings the database into the module cache.
func download() (dir, version string, err error) {
	var stderr bytes.Buffer
	cmd := exec.Command("go", "mod", "download", "-json", "golang.org/x/vulndb@latest")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var m struct{ Dir, Version, Error string }
	if e := json.Unmarshal(out, &m); e != nil || m.Dir == "" {
		return "", "", fmt.Errorf("%w %s%s", errors.Join(err, e), m.Error, strings.TrimSpace(stderr.String()))
	}
	return m.Dir, m.Version, nil
}

// scan is what govulncheck says in JSON.
func scan(osv string, packages []string) ([]byte, error) {
	if _, err := os.Stat(osv); err != nil {
		return nil, err
	}
	cmd := exec.Command("go", append([]string{"tool", "govulncheck", "-format", "json", "-db", "file://" + osv}, packages...)...)
	cmd.Stderr = os.Stderr
	return cmd.Output()
}

// finding is one vulnerability in one module.
type finding struct {
	ID, Module, Has, Mended, Summary string
	Called                           string // a place of ours from which its code is reached; "" where there is none
}

// standard says whether the module comes with Go itself.
func (f finding) standard() bool { return f.Module == "stdlib" || f.Module == "toolchain" }

// message is one of the values that the scanner writes.
type message struct {
	OSV *struct {
		ID, Summary string
	} `json:"osv"`
	Finding *struct {
		OSV   string `json:"osv"`
		Fixed string `json:"fixed_version"`
		Trace []struct {
			Module, Version, Function string
			Position                  *struct {
				Filename string
				Line     int
			}
		}
	} `json:"finding"`
}

// read takes the findings from the scanner's answer: one for each vulnerability and
// module, and with the place that calls it where one does.
func read(out []byte) ([]finding, error) {
	summaries := make(map[string]string)
	found := make(map[string]finding)
	d := json.NewDecoder(bytes.NewReader(out))
	for {
		var m message
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if m.OSV != nil {
			summaries[m.OSV.ID] = m.OSV.Summary
		}
		if m.Finding == nil || len(m.Finding.Trace) == 0 {
			continue
		}
		at := m.Finding.Trace[0]
		f := finding{ID: m.Finding.OSV, Module: at.Module, Has: at.Version, Mended: m.Finding.Fixed}
		if at.Function != "" {
			f.Called = "somewhere"
			if p := m.Finding.Trace[len(m.Finding.Trace)-1].Position; p != nil {
				f.Called = fmt.Sprintf("%s:%d", p.Filename, p.Line)
			}
		}
		key := f.ID + " " + f.Module
		if old, ok := found[key]; !ok || old.Called == "" {
			found[key] = f
		}
	}
	var list []finding
	for _, f := range found {
		f.Summary = summaries[f.ID]
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b finding) int { return strings.Compare(a.Module+a.ID, b.Module+b.ID) })
	return list, nil
}

// report prints the findings, and is the status that follows from them.
func report(found []finding) int {
	status, quiet, ofGo := 0, 0, 0
	for _, f := range found {
		switch {
		case f.Called == "":
			quiet++
			continue
		case f.standard():
			ofGo++
		case f.Mended != "":
			status = 1
		}
		fmt.Printf("vuln: %s %s %s: %s (mended in %s; called from %s)\n", f.ID, f.Module, f.Has, f.Summary, or(f.Mended, "no version yet"), f.Called)
	}
	switch {
	case status != 0:
		fmt.Println("vuln: FOUND: take the versions that mend them into go.mod")
	case ofGo > 0:
		fmt.Printf("vuln: nothing in modules; %d in the Go release that builds here: build with a newer one\n", ofGo)
	default:
		fmt.Println("vuln: nothing that is called")
	}
	if quiet > 0 {
		fmt.Printf("vuln: %d more in modules whose code is not called\n", quiet)
	}
	return status
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
