package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools/remote"
)

// remoteSettings say how the tools of workers are had.
type remoteSettings struct {
	on            bool
	tiers         string
	silence, gone time.Duration
}

// Bounds of remoteSettings.
const (
	minSilence, maxSilence = time.Second, time.Minute
	minGone, maxGone       = 3 * time.Second, time.Hour
)

// remoteFlags are those of remoteSettings.
func (r *remoteSettings) remoteFlags(f *pflag.FlagSet) {
	f.BoolVar(&r.on, "remote-tools", true, "register the tools of workers that announce themselves over NATS")
	f.StringVar(&r.tiers, "remote-tiers", "", "whose word on the tiers of workers' tools counts: declared (the workers'), or a YAML `file` with a tier, or declared, for\n"+
		"each tool's name or *. Left out: nobody's, and they are irreversible")
	f.DurationVar(&r.silence, "remote-silence", 5*time.Second, "how long a worker may be silent while it works, and how long an attempt is offered that none takes; 1s to 1m")
	f.DurationVar(&r.gone, "remote-gone", 15*time.Second, "after how long without a sign of life a worker is gone, and a tool without workers; 3s to 1h")
}

// trust is whose word counts.
func (r *remoteSettings) trust() (remote.Trust, error) {
	wrong := func(format string, args ...any) (remote.Trust, error) {
		return remote.Trust{}, exit.Misused(fmt.Errorf("--remote-tiers: "+format, args...),
			"write a tool's name and readonly, reversible, irreversible, approval or declared a line, for example: lookup: readonly")
	}
	switch {
	case r.tiers == "":
		return remote.Trust{}, nil
	case r.tiers == string(remote.Declare):
		return remote.Trust{Declared: true}, nil
	}
	body, err := readSmall(r.tiers, maxSettings)
	if err != nil {
		return remote.Trust{}, exit.Misused(fmt.Errorf("--remote-tiers: %w", err), "name a file that can be read; or say the word declared, where every worker's own word is to count")
	}
	out := remote.Trust{}
	if err := yaml.Unmarshal(body, &out.Tools); err != nil {
		return wrong("%s: %w", r.tiers, err)
	}
	if len(out.Tools) == 0 {
		return wrong("%s: %w", r.tiers, errors.New("it names no tool"))
	}
	known := []events.Tier{remote.Declare, events.Readonly, events.Reversible, events.Irreversible, events.Approval}
	for name, tier := range out.Tools {
		if !slices.Contains(known, tier) {
			return wrong("%s: %q: there is no tier %q", r.tiers, name, tier)
		}
	}
	return out, nil
}
