package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/plimsoll/plimsoll/internal/answer/plan"
	"github.com/plimsoll/plimsoll/internal/answer/planfile"
	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/setup"
)

// sameQuestion is the command line of another verb that asks about the same job on the same card: every flag that was given and that the verb has.
func sameQuestion(cmd *cobra.Command, verb *cobra.Command, model string, more ...string) string {
	parts := []string{"plimsoll", verb.Name()}
	if model != "" {
		parts = append(parts, shellWord(model))
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		other := verb.Flags().Lookup(f.Name)
		switch {
		case other == nil || other.Value.Type() != f.Value.Type() && !(f.Value.Type() == "string" && other.Value.Type() == "strings"):
		case f.Name == "json" || f.Name == "model" || f.Name == "verbose" || f.Name == "write" || f.Name == "plan":
		case f.Value.Type() == "bool":
			if f.Value.String() == "true" {
				parts = append(parts, "--"+f.Name)
			}
		default:
			parts = append(parts, "--"+f.Name, shellWord(flagText(f)))
		}
	})
	return strings.Join(append(parts, more...), " ")
}

// flagText is the value of a flag as it is typed.
func flagText(f *pflag.Flag) string {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return strings.Join(list.GetSlice(), ",")
	}
	return f.Value.String()
}

// shellWord quotes a word where a shell would take it apart.
func shellWord(word string) string {
	safe := strings.IndexFunc(word, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:,=+@%", r))
	}) < 0
	if safe && word != "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// afterPrediction is what to do about a job that does not fit.
func (o *predictOptions) afterPrediction(env Env, cmd *cobra.Command, r *report.Prediction) *report.NextStep {
	switch {
	case r.Fits || r.Verdict == report.Unknown || r.NoCard || r.Run != nil: // of a run the answer itself says what helps
		return nil
	case len(o.command) > 0:
		return &report.NextStep{Why: "run it with the smallest change that fits", Command: "plimsoll run --fit -- " + shellWords(o.command)}
	case o.JobFile == "-":
		return nil // standard input is read
	}
	return &report.NextStep{Why: "search for settings that fit", Command: sameQuestion(cmd, newFitCommand(env), o.given)}
}

func shellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = shellWord(w)
	}
	return strings.Join(quoted, " ")
}

// writeOrder is the order in which formats are offered for a plan.
var writeOrder = []string{"trainer", "torch", "accelerate", "deepspeed", "fsdp2"}

// afterFit is how to get the first plan as a file, or what would fit where nothing does.
func (o *fitOptions) afterFit(cmd *cobra.Command, r plan.Request, fit *report.Fit) *report.NextStep {
	if o.JobFile == "-" {
		return nil
	}
	var more []string
	if !plan.AnyFits(fit) {
		var next *report.NextStep
		for i, l := range fit.Least {
			flags, open := strings.CutPrefix(l.Command, "plimsoll fit … ")
			if !open {
				continue
			}
			fit.Least[i].Command = sameQuestion(cmd, cmd, o.given, strings.Fields(flags)...)
			if l.Enough == "yes" && next == nil {
				next = &report.NextStep{Why: "see the plans that fit this way", Command: fit.Least[i].Command}
			}
		}
		return next
	}
	for _, m := range fit.Methods {
		if m.Fits && m.LoRARank > 0 {
			more = append(more, "--lora-rank", strconv.Itoa(m.LoRARank), "--lora-targets", m.LoRATargets)
			if m.BaseBits > 0 {
				more = append(more, "--base-bits", strconv.Itoa(m.BaseBits))
			}
		}
		if m.Fits {
			break
		}
	}
	format := firstFormat(fit.Plans[0].Setup, o.handed(r))
	if format == "" {
		return nil
	}
	return &report.NextStep{Why: "write plan 1 for " + formatName(format), Command: sameQuestion(cmd, cmd, o.given, append(more, "--write", format)...)}
}

// firstFormat is the first format that can say all of a setup.
func firstFormat(s setup.Setup, m planfile.Model) string {
	for _, format := range writeOrder {
		if format == "trainer" && !m.Hub {
			continue
		}
		if planfile.Can(format, s, m) == nil {
			return format
		}
	}
	return ""
}

func formatName(format string) string {
	if format == "trainer" {
		return "transformers' Trainer"
	}
	return map[string]string{"torch": "a PyTorch loop", "accelerate": "accelerate", "deepspeed": "DeepSpeed", "fsdp2": "FSDP2"}[format]
}

// afterExplanation is where to look next: at other allocator settings where memory was fragmented, at the page of a snapshot, or at a recorded run.
func afterExplanation(r *report.Explain, args []string) *report.NextStep {
	if len(r.Findings) == 0 {
		return nil
	}
	first := r.Findings[0]
	for _, m := range first.Remedies {
		if strings.HasPrefix(m.Command, "plimsoll ") {
			return nil // the remedies name it already
		}
	}
	snapshots := len(r.Devices) > 0
	switch {
	case len(args) != 1 || args[0] == "-":
		return nil
	case snapshots && first.ID == "fragmentation":
		return &report.NextStep{Why: "compare allocator settings", Command: "plimsoll replay " + shellWord(args[0])}
	case snapshots:
		return &report.NextStep{Why: "see what was alive when", Command: "plimsoll view " + shellWord(args[0])}
	}
	return nil
}
