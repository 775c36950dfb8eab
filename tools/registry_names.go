package tools

import "github.com/sluice-run/sluice/events"

// ProviderName is the name that providers and the registry have for the tool that a call
// names: see events.ToolName. A registered tool's is its own, everywhere: in the log, for
// the policy, on its circuit and to the model. It needs no registry: a trace can be shown
// where its tools are gone.
func ProviderName(name string) string { return events.ToolName(name) }
