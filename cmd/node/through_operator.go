package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/projections/readstore"
)

// The verbs of who operates a log and has no right to write it, at a node's door.

func (a *app) nodesToo() *cobra.Command {
	return a.throughEach(a.nodes, map[string]byDoor{"nodes": a.throughNodes})()
}

func (a *app) workersToo() *cobra.Command {
	return a.throughEach(a.workers, map[string]byDoor{"workers": a.throughWorkers})()
}

func (a *app) limitsToo() *cobra.Command {
	return a.throughEach(a.limits, map[string]byDoor{"limits": a.throughLimits, "list": a.throughLimits})()
}

func (a *app) breakerToo() *cobra.Command {
	return a.throughEach(a.breaker, map[string]byDoor{
		"breaker": a.throughBreakers, "list": a.throughBreakers, "show": a.throughBreaker, "reset": a.throughReset, "open": a.throughOpen,
	})()
}

func (a *app) readstoreToo() *cobra.Command {
	return a.throughEach(a.readstore, map[string]byDoor{"readstore": a.throughStore, "status": a.throughStore, "rebuild": a.throughRebuild})()
}

func (a *app) policyToo() *cobra.Command {
	return a.throughEach(a.policy, map[string]byDoor{"reload": a.throughReload})()
}

// notAtDoor refuses settings that would say what the node says itself.
func notAtDoor(f *pflag.FlagSet, names ...string) error {
	for _, n := range names {
		if f.Changed(n) {
			return exit.Misused(fmt.Errorf("--%s with --as", n), "leave it out: the node that answers goes by settings of its own")
		}
	}
	return nil
}

func (a *app) throughNodes(ctx context.Context, d *door, cmd *cobra.Command, _ []string) error {
	f := cmd.Flags()
	turns, err := f.GetBool("turns")
	if err != nil {
		return err
	}
	log, err := f.GetBool("log")
	if err != nil {
		return err
	}
	if err := checkCrew(gateway.CrewOptions{Log: log, Turns: turns}); err != nil {
		return err
	}
	var crew gateway.Crew
	if _, err := d.ask(ctx, "nodes", map[string]bool{"turns": turns, "log": log}, &crew); err != nil {
		return err
	}
	return a.tellCrew(crew)
}

func (a *app) throughWorkers(ctx context.Context, d *door, _ *cobra.Command, _ []string) error {
	var v bus.WorkerTools
	if _, err := d.ask(ctx, "workers", struct{}{}, &v); err != nil {
		return err
	}
	return a.tellWorkers(v)
}

func (a *app) throughLimits(ctx context.Context, d *door, cmd *cobra.Command, _ []string) error {
	if err := notAtDoor(cmd.Flags(), "limits"); err != nil {
		return err
	}
	var said limitsSaid
	if _, err := d.ask(ctx, "limits", struct{}{}, &said); err != nil {
		return err
	}
	return a.tellLimits(said.Limits)
}

// asked is the body that names a circuit.
type asked struct {
	Tool    string `json:"tool"`
	Circuit string `json:"circuit,omitempty"`
}

func askedOf(args []string) asked {
	of := circuitIn(args)
	return asked{of.Tool, of.Of}
}

func (a *app) throughBreakers(ctx context.Context, d *door, _ *cobra.Command, _ []string) error {
	var said struct {
		Breakers []gateway.Circuit `json:"breakers"`
	}
	if _, err := d.ask(ctx, "breakers", struct{}{}, &said); err != nil {
		return err
	}
	return a.tellCircuits(said.Breakers)
}

func (a *app) throughBreaker(ctx context.Context, d *door, _ *cobra.Command, args []string) error {
	var one gateway.Circuit
	if _, err := d.ask(ctx, "breaker", askedOf(args), &one); err != nil {
		return err
	}
	return a.saidCircuit(one)
}

func (a *app) throughReset(ctx context.Context, d *door, _ *cobra.Command, args []string) error {
	var s gateway.Switched
	if _, err := d.ask(ctx, "breaker_reset", askedOf(args), &s); err != nil {
		return err
	}
	return a.saidReset(s)
}

func (a *app) throughOpen(ctx context.Context, d *door, cmd *cobra.Command, args []string) error {
	f := cmd.Flags()
	off, err := f.GetDuration("for")
	if err == nil {
		err = checkOff(off)
	}
	if err != nil {
		return err
	}
	force, err := f.GetBool("force")
	if err != nil {
		return err
	}
	var s gateway.Switched
	_, err = d.ask(ctx, "breaker_open", struct {
		asked
		ForMS  int64  `json:"for_ms"`
		Reason string `json:"reason,omitempty"`
		Force  bool   `json:"force,omitempty"`
	}{askedOf(args), off.Milliseconds(), f.Lookup("reason").Value.String(), force}, &s)
	if err != nil {
		return err
	}
	return a.saidOpen(s, off)
}

func (a *app) throughStore(ctx context.Context, d *door, cmd *cobra.Command, _ []string) error {
	if err := notAtDoor(cmd.Flags(), "read-store"); err != nil {
		return err
	}
	var s readstore.Status
	if _, err := d.ask(ctx, "readstore", struct{}{}, &s); err != nil {
		return err
	}
	return a.tellStore(s)
}

// throughRebuild has the node that answers build its read store anew. Another one may answer
// how far that has come: so it is not waited for.
func (a *app) throughRebuild(ctx context.Context, d *door, cmd *cobra.Command, _ []string) error {
	if err := notAtDoor(cmd.Flags(), "read-store", "wait"); err != nil {
		return err
	}
	var said struct {
		Status string `json:"status"`
	}
	if _, err := d.ask(ctx, "rebuild", struct{}{}, &said); err != nil {
		return err
	}
	return a.say(said, "%s, on the node that answered\n", said.Status)
}

func (a *app) throughReload(ctx context.Context, d *door, _ *cobra.Command, _ []string) error {
	var raw json.RawMessage
	if _, err := d.ask(ctx, "policy_reload", struct{}{}, &raw); err != nil {
		return err
	}
	var st policyState
	if err := json.Unmarshal(raw, &st); err != nil {
		return fmt.Errorf("the door's answer to policy_reload cannot be read: %w", err)
	}
	return a.say(map[string]string{"policy": st.Version}, "policy %s is in force on the node that answered; each node reads its own files\n", st.Version)
}

// checkOff refuses a time for which nothing can be switched off.
func checkOff(off time.Duration) error {
	if off == 0 {
		return exit.Misused(errors.New("--for is missing"), "say for how long, for example --for 10m")
	}
	return nil
}
