package gateway

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-run/sluice/lifecycle"
)

// getNodes is GET /v1/nodes: who is there, and who has what.
func (a *API) getNodes(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	var err error
	o := CrewOptions{Log: true}
	for name, into := range map[string]*bool{"turns": &o.Turns, "log": &o.Log} {
		if v := q[name]; len(v) > 0 {
			if *into, err = strconv.ParseBool(v[len(v)-1]); err != nil {
				return BadRequest(fmt.Sprintf("%s=%s", name, v[len(v)-1]), "say true or false")
			}
		}
	}
	crew, err := a.desk.Crew(r.Context(), o)
	if err != nil {
		return err
	}
	ok(w, crew)
	return nil
}

// circuitList answers GET /v1/breakers.
type circuitList struct {
	Breakers []Circuit `json:"breakers"`
}

// getBreakers is GET /v1/breakers: all circuits that the cluster has a cell of.
func (a *API) getBreakers(w http.ResponseWriter, r *http.Request) error {
	list, err := a.desk.Circuits(r.Context(), a.breaker)
	if err != nil {
		return err
	}
	ok(w, circuitList{list})
	return nil
}

// circuitAsked is the circuit that a request names: its tool's, or, with the parameter
// circuit, that of one of the tool's endpoints.
func circuitAsked(r *http.Request) (lifecycle.Circuit, error) {
	of := r.URL.Query()["circuit"]
	if len(of) > 1 || len(of) == 1 && of[0] == "" {
		return lifecycle.Circuit{}, BadRequest(fmt.Sprintf("circuit=%.160q", of), "name one circuit, as the list does, or leave it out for the tool as a whole")
	}
	return lifecycle.Circuit{Tool: r.PathValue("tool"), Of: strings.Join(of, "")}, nil
}

// getBreaker is GET /v1/breakers/{tool}.
func (a *API) getBreaker(w http.ResponseWriter, r *http.Request) error {
	of, err := circuitAsked(r)
	if err != nil {
		return err
	}
	c, err := a.desk.Circuit(r.Context(), a.breaker, of)
	if err != nil {
		return err
	}
	ok(w, c)
	return nil
}

// resetBreaker is POST /v1/breakers/{tool}/reset.
func (a *API) resetBreaker(w http.ResponseWriter, r *http.Request) error {
	by, err := a.actor(w, r)
	if err != nil {
		return err
	}
	of, err := circuitAsked(r)
	if err != nil {
		return err
	}
	done, err := a.desk.ResetCircuit(r.Context(), a.breaker, of, by)
	if err != nil {
		return err
	}
	a.log.Info("a circuit was reset", "tool", of.Tool, "circuit", of.Of, "endpoints", done.Endpoints, "by", by.ID)
	ok(w, done)
	return nil
}

// openAsked is the body of POST /v1/breakers/{tool}/open.
type openAsked struct {
	Principal Who    `json:"principal,omitzero"`
	ForMS     int64  `json:"for_ms"` // 1 000 to 2 592 000 000
	Reason    string `json:"reason,omitempty"`
	Force     bool   `json:"force,omitempty"` // though no node knows the tool
}

// openBreaker is POST /v1/breakers/{tool}/open: a person switches a tool off.
func (a *API) openBreaker(w http.ResponseWriter, r *http.Request) error {
	var in openAsked
	if err := a.decodeOptional(w, r, &in); err != nil {
		return err
	}
	if in.ForMS < MinOff.Milliseconds() || in.ForMS > MaxOff.Milliseconds() {
		return BadRequest(fmt.Sprintf("for_ms %d", in.ForMS), fmt.Sprintf("say for how long: %d to %d milliseconds", MinOff.Milliseconds(), MaxOff.Milliseconds()))
	}
	by, err := acts(r, in.Principal)
	if err != nil {
		return err
	}
	of, err := circuitAsked(r)
	if err != nil {
		return err
	}
	if !in.Force {
		if err := a.desk.KnownTool(r.Context(), of.Tool); err != nil {
			return err
		}
	}
	done, err := a.desk.OpenCircuit(r.Context(), a.breaker, of, time.Duration(in.ForMS)*time.Millisecond, by, in.Reason)
	if err != nil {
		return err
	}
	a.log.Info("a circuit was opened", "tool", of.Tool, "circuit", of.Of, "for", time.Duration(in.ForMS)*time.Millisecond, "by", by.ID)
	ok(w, done)
	return nil
}

// undoAsked is the body of POST …/calls/{call}/compensate.
type undoAsked struct {
	Principal Who    `json:"principal,omitzero"`
	Reason    string `json:"reason,omitempty"`
	WaitMS    int64  `json:"wait_ms,omitempty"` // how long to wait for the undo's end; at most an hour
}

// check returns nil for a body that can be heeded.
func (in undoAsked) check() error {
	if in.WaitMS < 0 || in.WaitMS > MaxWait.Milliseconds() {
		return BadRequest(fmt.Sprintf("wait_ms %d", in.WaitMS), fmt.Sprintf("say 0 to %d", MaxWait.Milliseconds()))
	}
	return nil
}

// compensate is POST …/calls/{call}/compensate. It answers 202 with the undo's call
// once that is durable, or 200 with what became of it if it ended within wait_ms.
func (a *API) compensate(w http.ResponseWriter, r *http.Request) error {
	call, err := callOf(r)
	if err != nil {
		return err
	}
	var in undoAsked
	if err := a.decodeOptional(w, r, &in); err != nil {
		return err
	}
	if err := in.check(); err != nil {
		return err
	}
	by, err := acts(r, in.Principal)
	if err != nil {
		return err
	}
	ctx, stop := a.until(r)
	defer stop()
	u := Undo{Call: call, By: by, Reason: in.Reason, Wait: time.Duration(in.WaitMS) * time.Millisecond}
	out, err := a.desk.Compensate(ctx, u)
	switch {
	case err != nil:
		return err
	case out.Status == UndoneNotYet:
		writeJSON(w, http.StatusAccepted, "application/json", out)
	default:
		ok(w, out)
	}
	return nil
}
