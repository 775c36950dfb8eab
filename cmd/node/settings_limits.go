package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/lifecycle"
)

// limitsSettings say what may run at once, and begin in a time.
type limitsSettings struct {
	file string
}

// limitsFlags are those of limitsSettings.
func (s *settings) limitsFlags(f *pflag.FlagSet) {
	f.StringVar(&s.limit.file, "limits", "", "YAML or JSON `file` of limits on how many calls run at once or begin in a time, by principal and tool, in the whole\n"+
		"cluster; SIGHUP reads it anew. Left out: there are none. limits check says whether it loads")
}

// maxLimitsFile is the size in bytes of the largest file of limits.
const maxLimitsFile = 1 << 20

// nextLimits is what to do about a file of limits that does not load.
const nextLimits = "sluice-node limits check says more; docs/limits.md has the format"

// limits reads the file of limits; none where there is no such setting.
func (s *settings) limits() (lifecycle.Limits, error) {
	if s.limit.file == "" {
		return lifecycle.Limits{}, nil
	}
	l, err := readLimits(s.limit.file)
	if err != nil {
		return lifecycle.Limits{}, exit.Misused(fmt.Errorf("--limits: %w", err), nextLimits)
	}
	return l, nil
}

// limitEntry is a rule as the file has it.
type limitEntry struct {
	ID          string `yaml:"id"`
	Principal   string `yaml:"principal"`
	Kind        string `yaml:"kind"`
	Each        bool   `yaml:"each"`
	Tool        string `yaml:"tool"`
	Concurrency *int   `yaml:"concurrency"`
	Rate        string `yaml:"rate"`
	Burst       *int   `yaml:"burst"`
	Wait        string `yaml:"wait"`
}

// readLimits reads a file of limits. One that is wrong anywhere is refused whole, with the
// rule that is.
func readLimits(path string) (lifecycle.Limits, error) {
	body, err := readSmall(path, maxLimitsFile)
	if err != nil {
		return lifecycle.Limits{}, err
	}
	l, err := parseLimits(body)
	if err != nil {
		return l, fmt.Errorf("%s: %w", path, err)
	}
	return l, nil
}

func parseLimits(body []byte) (lifecycle.Limits, error) {
	var file struct {
		Limits []limitEntry `yaml:"limits"`
	}
	dec := yaml.NewDecoder(bytes.NewReader(body))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return lifecycle.Limits{}, inWords(err)
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return lifecycle.Limits{}, errors.New("there is more than one document in it")
	}
	if file.Limits == nil {
		return lifecycle.Limits{}, errors.New("it has no limits: write them as a list below limits:, or limits: [] where there are to be none")
	}
	rules := make([]lifecycle.LimitRule, len(file.Limits))
	for i, e := range file.Limits {
		var err error
		if rules[i], err = e.rule(); err != nil {
			return lifecycle.Limits{}, fmt.Errorf("limit %s, number %d: %w", cmp.Or(e.ID, "without an id"), i+1, err)
		}
	}
	return lifecycle.NewLimits(rules)
}

// What the decoder says of a member that is not there, and of a value in the wrong place: it
// names types of Go.
var (
	unknownMember = regexp.MustCompile(`field (.*) not found in type .*`)
	wrongValue    = regexp.MustCompile(`cannot (?:unmarshal|construct) !!(\w+)(.*) into .*`)
)

// inWords is the decoder's error in words of the file.
func inWords(err error) error {
	text := unknownMember.ReplaceAllString(strings.Replace(err.Error(), "unmarshal errors", "it has not the form of limits", 1), `there is no member "$1"`)
	return errors.New(wrongValue.ReplaceAllString(text, "$1$2 is of another kind than what belongs here"))
}

// limitState is what is in force, and may be replaced while it is used.
type limitState struct {
	is atomic.Pointer[limitsSince]
}

// limitsSince are limits, and from when on they count.
type limitsSince struct {
	lifecycle.Limits
	since time.Time
}

func newLimitState(l lifecycle.Limits) *limitState {
	s := &limitState{}
	s.put(l)
	return s
}

func (s *limitState) put(l lifecycle.Limits) { s.is.Store(&limitsSince{l, time.Now().UTC()}) }

func (s *limitState) get() lifecycle.Limits { return s.is.Load().Limits }

// heedLimits reads the limits anew whenever the process gets SIGHUP, until ctx ends.
func (s *serving) heedLimits(ctx context.Context) { s.onHangup(ctx, s.rereadLimits) }

// rereadLimits reads the limits anew. A file that does not load changes nothing.
func (s *serving) rereadLimits() {
	l, err := s.set.limits()
	if err != nil {
		s.node.metrics.Count("reload_refused", 1)
		s.log.Error("the file of limits was not read anew: what was read before counts", "err", err)
		return
	}
	s.node.limits.put(l)
	s.log.Info("the file of limits was read anew", "limits", len(l.Rules()))
}
