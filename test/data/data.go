// Package data holds recorded conversations with tool calls; see README.md.
package data

import (
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"io"
)

//go:embed *.gz
var files embed.FS

// Read is the text of a file, named without its .gz.
func Read(name string) ([]byte, error) {
	packed, err := files.ReadFile(name + ".gz")
	if err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	text, err := io.ReadAll(r)
	return text, errors.Join(err, r.Close())
}
