package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/show"
)

// config is the verb that prints the settings in force. Where some are wrong it prints the
// others, and fails with what is wrong.
func (a *app) config() *cobra.Command {
	var wrong error
	cmd := &cobra.Command{
		Use: "config", Short: "Print the settings that serve would use, and where each comes from", Args: command.Args(0, 0, "none"),
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			wrong = a.set.complete(cmd.Flags())
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.printSettings(cmd.Flags()); err != nil {
				return err
			}
			return wrong
		},
	}
	a.set.nodeFlags(cmd.Flags())
	a.set.doorFlags(cmd.Flags())
	return cmd
}

// printSettings prints those of some flags that are settings.
func (a *app) printSettings(f *pflag.FlagSet) error {
	type setting struct {
		Name  string `json:"name"`
		Value any    `json:"value"`
		From  string `json:"from"`
		Wrong string `json:"wrong,omitempty"` // why what stands there does not count
	}
	var list []setting
	known := allSettings()
	f.VisitAll(func(f *pflag.Flag) {
		if known.Lookup(f.Name) != nil && f.Name != "config" {
			list = append(list, setting{f.Name, plainValue(f), cmp.Or(a.set.from[f.Name], "default"), a.set.unfit[f.Name]})
		}
	})
	slices.SortFunc(list, func(x, y setting) int { return strings.Compare(x.Name, y.Name) })
	if a.json {
		return a.printJSON(map[string]any{"settings": list})
	}
	for _, s := range list {
		if s.Wrong != "" {
			a.print("# %s # WRONG: %s\n", s.Name, show.Short(s.Wrong, 300))
			continue
		}
		line, err := settingLine(s.Name, s.Value)
		if err != nil {
			return err
		}
		a.print("%s # %s\n", line, show.Short(s.From, 300))
	}
	return nil
}

// settingLine is a setting as --config reads it. A secret is a comment.
func settingLine(name string, v any) (string, error) {
	if name == "nats-token" && v == secretSet {
		return "# nats-token: " + secretSet, nil
	}
	line, err := yaml.Marshal(map[string]any{name: v})
	text := strings.TrimSpace(string(line))
	if _, list := v.([]string); err == nil && (list || strings.Contains(text, "\n")) {
		line, err = json.Marshal(v) // YAML, too, and always one line
		text = name + ": " + string(line)
	}
	return text, err
}

// secretSet stands for a secret that is there.
const secretSet = "(set)"

// plainValue is a flag's value as YAML shows it. A secret is not shown.
func plainValue(f *pflag.Flag) any {
	switch v := f.Value.(type) {
	case pflag.SliceValue:
		return append([]string{}, v.GetSlice()...) // not nil: that would be no value
	default:
		if f.Name == "nats-token" && v.String() != "" {
			return secretSet
		}
		switch v.Type() {
		case "bool":
			return v.String() == "true"
		case "int":
			var n int
			_, _ = fmt.Sscan(v.String(), &n) // it is one
			return n
		}
		return v.String()
	}
}
