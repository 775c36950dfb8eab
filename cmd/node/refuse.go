package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
)

// refusing says, as gateway.DeskConfig.Refuses does, what the node that runs on --data
// would refuse of other arguments, so that a person who gives some hears it BEFORE a yes
// that would only end the call. Where no node runs there, nobody can say it.
func (s *settings) refusing(ctx context.Context) func(t lifecycle.Turn, call int, args lifecycle.Args) string {
	if s.NATS != "" {
		return nil
	}
	return func(t lifecycle.Turn, call int, args lifecycle.Args) string {
		running, found, err := jetlog.Find(s.Data)
		if err != nil || !found {
			return ""
		}
		x, err := s.suppose(ctx, running, supposed(t, call, args))
		switch {
		case err != nil:
			return fmt.Sprintf("process %d, which runs on %s, could not say whether they pass the gates: %v", running.PID, show.Short(s.Data, 300), err)
		case x.Code == events.UnknownTool || x.Decision != policy.Deny: // a node that has the tool judges
			return ""
		}
		return x.Reason
	}
}

// supposed is a call of the turn with other arguments, as one that is not made.
func supposed(t lifecycle.Turn, call int, args lifecycle.Args) gateway.Supposition {
	s := t.Submitted
	return gateway.Supposition{
		Tool: s.Calls[call].Tool, Args: json.RawMessage(args.JSON), Principal: gateway.Who(s.Principal), Trace: t.Key.Trace, Turn: t.Key.Turn,
		Workspace: s.Workspace, Mode: s.Mode, CanAsk: s.CanAsk, Allow: s.Allow, Placement: s.Placement,
	}
}

// suppose asks a running node about a call; one without HTTP told its settings, by which
// this process judges.
func (s *settings) suppose(ctx context.Context, running jetlog.Running, q gateway.Supposition) (x gateway.Explained, err error) {
	if running.HTTP != "" {
		body, err := json.Marshal(q)
		if err != nil {
			return x, err
		}
		return x, postExplain(ctx, running, body, &x)
	}
	if err := s.asNode(); err != nil {
		return x, err
	}
	set, gates, err := s.gatesHere()
	if err != nil {
		return x, err
	}
	read, err := q.Read(events.Principal(q.Principal))
	if err != nil {
		return x, err
	}
	if gates.Workspace, err = s.directory(); err != nil {
		return x, err
	}
	return explainSupposed(gates, set, time.Now(), read), nil
}
