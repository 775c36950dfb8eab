package e2e

import (
	"fmt"
	"maps"
	"slices"
)

// trialTool is what the design says of a trial tool.
type trialTool struct {
	tier    string
	honours bool   // does one effect for one key
	probe   string // honest, vague (it cannot tell), or "" for none
}

// trialTools are those of a node that is built with faults.
var trialTools = map[string]trialTool{
	"t_read":       {tier: "readonly"},
	"t_undo":       {tier: "reversible"},
	"t_undo_key":   {tier: "reversible", honours: true},
	"t_undo_probe": {tier: "reversible", probe: "honest"},
	"t_once":       {tier: "irreversible"},
	"t_once_probe": {tier: "irreversible", probe: "honest"},
	"t_once_vague": {tier: "irreversible", probe: "vague"},
	"t_once_key":   {tier: "irreversible", honours: true, probe: "honest"},
	"t_ask":        {tier: "approval"},
	"t_ask_probe":  {tier: "approval", probe: "honest"},
}

// tiers are the tiers, as the table has them.
var tiers = []string{"readonly", "reversible", "irreversible", "approval"}

// try is a call of a trial tool. A key is made one of the scene's own trace.
type try struct {
	tool, mode, key string
	end             string // how it ends where nobody dies
}

// act is what a client does once something is so.
type act struct {
	when string // kind of an event, or "effect": the first call's effect has happened
	path string // behind the turn's own
}

// scene is a turn whose way is cut off at each of its points.
type scene struct {
	name   string
	calls  []try
	acts   []act
	limits map[string]int
	rival  string // when the first call's key is asked for again, by another turn: "early", its node still lives, or "late"; "" for never
	twice  bool   // the node that takes over is killed on its way, too
	whole  bool   // at waits for the barrier and at live events, too, which change nothing
}

var (
	hurried = map[string]int{"call_deadline_ms": 500}
	yes     = []act{{"turn_parked", "/calls/0/approve"}}
)

// scenes cover every tier, every way to ask about an effect, and every end.
var scenes = []scene{
	{name: "read", calls: []try{{"t_read", "", "", "completed"}}, twice: true, whole: true},
	{name: "read-retry", calls: []try{{"t_read", "flaky", "", "completed"}}},
	{name: "undo", calls: []try{{"t_undo", "", "", "completed"}}},
	{name: "undo-key", calls: []try{{"t_undo_key", "", "k", "completed"}}, twice: true},
	{name: "undo-key-retry", calls: []try{{"t_undo_key", "flaky", "k", "completed"}}},
	{name: "undo-probe", calls: []try{{"t_undo_probe", "", "", "completed"}}, twice: true},
	{name: "once", calls: []try{{"t_once", "", "", "completed"}}, twice: true},
	{name: "once-probe", calls: []try{{"t_once_probe", "", "k", "completed"}}, twice: true, whole: true},
	{name: "once-vague", calls: []try{{"t_once_vague", "", "", "completed"}}, twice: true},
	{name: "once-key", calls: []try{{"t_once_key", "", "k", "completed"}}, twice: true},
	{name: "ask", calls: []try{{"t_ask", "", "", "completed"}}, acts: yes},
	{name: "ask-probe", calls: []try{{"t_ask_probe", "", "k", "completed"}}, acts: yes, twice: true, whole: true},
	{name: "ask-no", calls: []try{{"t_ask", "", "", "denied"}}, acts: []act{{"turn_parked", "/calls/0/deny"}}},
	{name: "denied", calls: []try{{"t_none", "", "", "denied"}}},
	{name: "dedupe", calls: []try{{"t_once_probe", "", "k", "completed"}, {"t_once_probe", "", "k", "deduplicated"}}},
	{name: "fail", calls: []try{{"t_once", "fail", "", "failed"}}},
	{name: "late-read", calls: []try{{"t_read", "hang", "", "timed_out"}}, limits: hurried},
	{name: "late-once", calls: []try{{"t_once", "hang", "", "timed_out"}}, limits: hurried},
	{name: "late-probe", calls: []try{{"t_once_probe", "hang", "", "completed"}}, limits: hurried},
	{name: "deaf", calls: []try{{"t_once", "deaf", "", "unknown"}}, limits: hurried},
	{name: "cancel-read", calls: []try{{"t_read", "hang", "", "cancelled"}}, acts: []act{{"effect", "/calls/0/cancel"}}},
	{name: "cancel-once", calls: []try{{"t_once", "hang", "", "cancelled"}}, acts: []act{{"effect", "/calls/0/cancel"}}},
	{name: "cancel-turn", calls: []try{{"t_read", "hang", "", "cancelled"}, {"t_once", "", "", "cancelled"}}, acts: []act{{"effect", "/cancel"}}},
	{name: "progress", calls: []try{{"t_read", "progress", "", "completed"}}},
	{name: "mixed", calls: []try{
		{"t_read", "", "", "completed"},
		{"t_read", "", "", "completed"},
		{"t_once_probe", "", "k", "completed"},
		{"t_undo_key", "", "l", "completed"},
		{"t_read", "", "", "completed"},
		{"t_once", "", "", "completed"},
	}},
	{name: "rival-early", calls: []try{{"t_once_probe", "", "k", "completed"}}, rival: "early"},
	{name: "rival-early-vague", calls: []try{{"t_once", "", "k", "completed"}}, rival: "early"},
	{name: "rival-late", calls: []try{{"t_once_probe", "", "k", "completed"}}, rival: "late"},
	{name: "rival-late-vague", calls: []try{{"t_once", "", "k", "completed"}}, rival: "late"},
}

func sceneOf(name string) (scene, bool) {
	i := slices.IndexFunc(scenes, func(s scene) bool { return s.name == name })
	if i < 0 {
		return scene{}, false
	}
	return scenes[i], true
}

// tiers are the tiers of the scene's calls; an unknown tool has none, and counts as readonly.
func (s scene) tiers() []string {
	set := map[string]bool{}
	for _, c := range s.calls {
		set[orElse(trialTools[c.tool].tier, "readonly")] = true
	}
	return slices.Sorted(maps.Keys(set))
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// turn is the scene's submission.
func (s scene) turn(trace, placement string) placed {
	tu := placed{turn: turn{Trace: trace, Turn: "t", CanAsk: true, Limits: s.limits}, Placement: placement}
	for i, c := range s.calls {
		tu.Calls = append(tu.Calls, c.call(trace, i))
	}
	return tu
}

// again is another turn with the first call, and its key.
func (s scene) again(trace, placement string) placed {
	return placed{turn: turn{Trace: trace + "-b", Turn: "t", Calls: []call{s.calls[0].call(trace, 0)}}, Placement: placement}
}

// placed is a turn with a placement of its own.
type placed struct {
	turn
	Placement string `json:"placement,omitempty"`
}

func (c try) call(trace string, i int) call {
	a := args{"name": fmt.Sprint(trace, "-", i)}
	if c.key != "" {
		a["name"] = trace // calls with one key have the same arguments
	}
	if c.mode != "" {
		a["mode"] = c.mode
	}
	out := call{Tool: c.tool, Args: a}
	if c.key != "" {
		out.Key = trace + "-" + c.key
	}
	return out
}

// cell is one way of dying in a scene: where the first node is killed, and where
// each that takes over.
type cell struct {
	scene  scene
	points []string // none: nobody dies
}

func (c cell) String() string {
	out := c.scene.name
	for _, p := range c.points {
		out += " " + p
	}
	return out
}
