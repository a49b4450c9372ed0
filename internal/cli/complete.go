package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/internal/answer/planfile"
	"github.com/plimsoll/plimsoll/internal/code/lint"
	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/model/job"
	"github.com/plimsoll/plimsoll/internal/script/probe"
	"github.com/plimsoll/plimsoll/internal/setup"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// flagValues lists what a flag can be, by its name; the tables that parse them list them here too. A tab separates a value from what it means.
func flagValues() map[string][]string {
	return map[string][]string{
		"gpu":       cardValues(),
		"precision": torch.Precisions(), "optimizer": torch.Optimizers(),
		"attn": setup.Words(setup.Attentions()), "loop": setup.Words(setup.Loops()), "sharding": setup.Words(setup.Shardings()),
		"offload": append(setup.Words(setup.Offloads()), string(setup.None)),
		"write":   planfile.Formats(), "task": job.Tasks(), "record": setup.Words(probe.Records()), "allow": {"numerics"},
		"explain": ruleValues(), "select": ruleValues(), "ignore": ruleValues(), "fail-on": {"error", "warning", "note", "never"},
		"conf":         {"default", "expandable_segments:True", "garbage_collection_threshold:0.8", "max_split_size_mb:128"},
		"base-bits":    {"4", "8"},
		"zero-grad":    {"before-forward", "before-backward"},
		"lora-targets": {"all-linear", "q_proj,v_proj"},
	}
}

func cardValues() []string {
	var out []string
	for _, c := range gpu.Cards() {
		out = append(out, c.Name+"\t"+c.Title)
	}
	return out
}

func ruleValues() []string {
	var out []string
	for _, r := range lint.Rules() {
		out = append(out, r.ID+"\t"+r.Name)
	}
	return out
}

// completeValues lets the shell complete the values of every flag of a command that has a table of them.
func completeValues(cmd *cobra.Command) {
	for name, values := range flagValues() {
		if f := cmd.Flags().Lookup(name); f != nil {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, completeWord(values)) // the only error is a flag registered twice
		}
	}
	if f := cmd.Flags().Lookup("checkpointing"); f != nil && f.Value.Type() != "bool" {
		_ = cmd.RegisterFlagCompletionFunc("checkpointing", completeWord([]string{"none", "selective", "full"}))
	}
}

// completeWord completes the last word of a list separated by commas.
func completeWord(values []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		before := begun[:strings.LastIndex(begun, ",")+1]
		var out []string
		for _, v := range values {
			if strings.HasPrefix(strings.ToLower(before+v), strings.ToLower(begun)) {
				out = append(out, before+v)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}
