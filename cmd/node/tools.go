package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/sluice-run/sluice/actors"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/nodehttp"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/fixture"
	"github.com/sluice-run/sluice/tools/fs"
	"github.com/sluice-run/sluice/tools/shell"
	"github.com/sluice-run/sluice/tools/web"
)

// registry is every tool that a node has: to add one, write its package and a
// row here. u is what undoing works with, but for the registry; it is empty where the
// tools are only looked at.
func (s *settings) registry(u actors.UndoConfig) (*tools.Registry, error) {
	families := []func() ([]tools.Tool, error){
		fs.Tools,
		func() ([]tools.Tool, error) { return one(shell.New(shell.Config{Sandbox: s.box.policy})) },
	}
	if s.network {
		families = append(families, func() ([]tools.Tool, error) { return one(web.Fetch(web.Config{})) })
	}
	if s.fixtures {
		families = append(families, func() ([]tools.Tool, error) { return fixture.Tools(fixture.Config{Ledger: s.fixtureLedger()}) })
	}
	r, err := tools.NewRegistry()
	for _, family := range families {
		list, ferr := family()
		err = errors.Join(err, ferr)
		for _, t := range list {
			err = errors.Join(err, r.Add(t))
		}
	}
	u.Registry = r
	undo, uerr := actors.NewUndo(u)
	if uerr != nil {
		return r, errors.Join(err, uerr)
	}
	return r, errors.Join(err, r.Add(undo))
}

// plainRegistry is the registry of a process that runs nothing.
func (s *settings) plainRegistry() (*tools.Registry, error) { return s.registry(actors.UndoConfig{}) }

func one(t tools.Tool, err error) ([]tools.Tool, error) { return []tools.Tool{t}, err }

// fixtureLedger is the file that fixtures with effects write to.
func (s *settings) fixtureLedger() string {
	path := s.ledger
	if path == "" {
		path = filepath.Join(s.Data, "fixtures-ledger.jsonl")
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// principalLists reads each principal's list of tools; nil where no file is named.
func (s *settings) principalLists() (map[string][]string, error) {
	if s.principals == "" {
		return nil, nil
	}
	const next = "write a name and a list of tools a line, for example: reviewer: [Read, Grep]"
	body, err := readSmall(s.principals, maxSettings)
	if err != nil {
		return nil, exit.Misused(fmt.Errorf("principals: %w", err), next)
	}
	lists := make(map[string][]string)
	if err := yaml.Unmarshal(body, &lists); err != nil {
		return nil, exit.Misused(fmt.Errorf("principals %s: %w", s.principals, err), next)
	}
	return lists, nil
}

// allowlists reads each principal's allowlist. One that is not in the file has
// that of "*", and without one of "*" may call nothing. nil: everybody may call
// every tool.
func (s *settings) allowlists() (func(principal string) []string, error) {
	lists, err := s.principalLists()
	if err != nil || s.principals == "" {
		return nil, err
	}
	return func(principal string) []string {
		list, ok := lists[principal]
		if !ok {
			list = lists["*"]
		}
		out := make([]string, len(list)) // not nil: nil would not narrow
		for i, tool := range list {
			out[i] = events.ToolName(tool)
		}
		return out
	}, nil
}

// toolList renders the tools that are not open for a provider. To undo calls is for
// people: no model is shown how.
func toolList(r *tools.Registry, open map[string]bool, format string) (json.RawMessage, error) {
	if format == formatMCP { // who stands before a node has to know these, too
		return mcpJSON(mcpTools(r.List(), open))
	}
	var list []tools.Tool
	for _, t := range r.List() {
		if !open[t.Name] && t.Name != lifecycle.UndoTool {
			list = append(list, t)
		}
	}
	switch codec.Format(format) {
	case codec.OpenAI, "":
		return tools.OpenAI(list)
	case codec.Responses:
		return tools.OpenAIResponses(list)
	case codec.Anthropic:
		return tools.Anthropic(list)
	case codec.Gemini:
		return tools.Gemini(list)
	}
	return nil, gateway.BadRequest(fmt.Sprintf("format %q", format), "use openai, responses, anthropic, gemini or mcp")
}

// tools is the verb that prints the tool list.
func (a *app) tools() *cobra.Command {
	format := "openai"
	cmd := &cobra.Command{
		Use: "tools", Short: "Print the tools' schemas for a provider, sorted, without those whose circuit is open", Args: command.Args(0, 0, "none"),
		Long: "Print the tools' schemas for a provider, sorted, without those whose circuit is open.\n" +
			"A node that runs on the data directory is asked; otherwise the list is that of a node with the same settings.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := a.toolList(cmd.Context(), format)
			if err != nil {
				return err
			}
			if !a.json {
				var parts []json.RawMessage
				if err := json.Unmarshal(list, &parts); err != nil {
					return err
				}
				for _, p := range parts {
					a.printRaw(p)
				}
				return nil
			}
			a.printRaw(list)
			return nil
		},
	}
	cmd.Flags().StringVar(&format, "format", format, "the provider: openai, responses, anthropic or gemini")
	a.set.toolFlags(cmd.Flags())
	return cmd
}

func (a *app) toolList(ctx context.Context, format string) (json.RawMessage, error) {
	r, err := a.set.plainRegistry()
	if err != nil {
		return nil, err
	}
	open := map[string]bool{}
	if a.set.NATS == "" {
		running, found, err := jetlog.Find(a.set.Data)
		switch {
		case err != nil:
			return nil, exit.Unusable(err, "")
		case found && running.HTTP != "":
			return askTools(ctx, running, format)
		}
		if _, err := os.Stat(a.set.Data); err != nil {
			return toolList(r, open, format) // no log: no circuit was ever opened
		}
	}
	log, err := a.set.logger(a.err)
	if err != nil {
		return nil, err
	}
	ses, err := a.set.open(ctx, log, false)
	if err != nil {
		return nil, err
	}
	open, err = actors.OpenTools(ctx, ses.Bus.Cells(), a.set.breaker(), ses.Now(), names(r))
	if err = errors.Join(err, ses.Close()); err != nil {
		return nil, err
	}
	return toolList(r, open, format)
}

// maxToolList is the size in bytes of the largest tool list that is believed.
const maxToolList = 16 << 20

// askTools asks a running node for its list.
func askTools(ctx context.Context, running jetlog.Running, format string) (json.RawMessage, error) {
	at := running.HTTP
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at+"/v1/tools?format="+format, nil)
	if err != nil {
		return nil, err
	}
	resp, err := nodehttp.Client(running).Do(req)
	if err != nil {
		return nil, exit.Unusable(fmt.Errorf("ask the node at %s: %w", at, err), "")
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxToolList))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the node at %s answers %s: %s", at, resp.Status, show.Short(string(body), 300))
	}
	return body, err
}
