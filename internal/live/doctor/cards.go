package doctor

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/units"
)

// soundness reports broken memory. NVIDIA's GPU memory error management guide: a pending remap takes effect at the next reset, a failed one
// means that the card is out of spare rows.
func soundness(f Facts) []report.Finding {
	var out []report.Finding
	for _, c := range f.Cards {
		reset := fmt.Sprintf("sudo nvidia-smi --gpu-reset -i %d", c.Index)
		if c.Uncorrected != nil && *c.Uncorrected > 0 {
			out = append(out, finding("ecc-errors", report.Error, 0.95, fmt.Sprintf("GPU %d had %d memory errors that could not be corrected", c.Index, *c.Uncorrected),
				"since the driver was loaded; what was computed on it may be wrong", do("move jobs away and reset the card", reset),
				do("if errors return, have the card replaced", "nvidia-smi -q -d ECC,ROW_REMAPPER")))
		}
		if is(c.RemapFailure) {
			out = append(out, finding("row-remap", report.Error, 0.99, fmt.Sprintf("GPU %d could not replace a broken row of memory", c.Index), "it has run out of spare rows",
				do("have the card replaced", fmt.Sprintf("nvidia-smi -q -d ROW_REMAPPER -i %d", c.Index))))
		}
		if is(c.RemapPending) || is(c.RetiredPending) {
			out = append(out, finding("row-remap", report.Warning, 0.99, fmt.Sprintf("GPU %d has broken memory rows to replace", c.Index), "it replaces them at the next reset",
				do("end the jobs on it and reset the card", reset)))
		}
	}
	return out
}

// setup reports settings that surprise.
func setup(f Facts) []report.Finding {
	var out []report.Finding
	add := func(is func(Card) bool, id, severity, title, evidence, action, command string) {
		if on := which(f.Cards, is); len(on) > 0 {
			out = append(out, finding(id, severity, 0.9, names(on)+title, evidence, do(action, onCards(command, on, len(f.Cards)))))
		}
	}
	add(func(c Card) bool { return c.ComputeMode == "prohibited" }, "compute-mode", report.Error, ": no process may compute on it", "compute mode PROHIBITED", "open it", "sudo nvidia-smi -c DEFAULT")
	add(func(c Card) bool { return c.ComputeMode == "exclusive" }, "compute-mode", report.Remark, ": one process at a time",
		`a second one fails with "CUDA-capable device(s) is/are busy or unavailable"`, "allow several", "sudo nvidia-smi -c DEFAULT")
	add(func(c Card) bool { return c.Persistence != nil && !*c.Persistence && !f.System.WSL }, "persistence-off", report.Remark, ": the driver unloads when no process uses the card",
		"persistence mode is off: every first start takes seconds longer, and settings such as power limits are lost", "switch persistence on", "sudo nvidia-smi -pm 1")
	add(func(c Card) bool { return c.ECC != nil && !*c.ECC }, "ecc-off", report.Remark, ": memory is not checked for errors (ECC is off)", "a flipped bit goes unnoticed",
		"switch ECC on; takes effect after a reset, and some cards lose a sixteenth of their memory to it", "sudo nvidia-smi -e 1")
	for _, c := range f.Cards {
		out = append(out, sliced(f, c)...)
	}
	return out
}

// which gives the numbers of the cards of which something is true.
func which(cards []Card, is func(Card) bool) []int {
	var out []int
	for _, c := range cards {
		if is(c) {
			out = append(out, c.Index)
		}
	}
	return out
}

// names lists cards as people do: "GPU 0", "GPUs 0, 1, 4".
func names(indices []int) string {
	if len(indices) == 1 {
		return fmt.Sprintf("GPU %d", indices[0])
	}
	return "GPUs " + join(indices, ", ")
}

// onCards restricts a command of nvidia-smi to some of the machine's cards.
func onCards(command string, indices []int, all int) string {
	switch len(indices) {
	case all:
		return command
	case 1:
		return fmt.Sprintf("%s -i %d", command, indices[0])
	}
	return fmt.Sprintf("for i in %s; do %s -i $i; done", join(indices, " "), command)
}

func join(numbers []int, separator string) string {
	words := make([]string, len(numbers))
	for i, n := range numbers {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, separator)
}

// sliced reports what to know about a card cut up by MIG.
func sliced(f Facts, c Card) []report.Finding {
	if c.MIG != nil && c.MIGPending != nil && *c.MIG != *c.MIGPending {
		return []report.Finding{finding("mig", report.Warning, 0.99, fmt.Sprintf("GPU %d changes its MIG mode at the next reset", c.Index), "",
			do("reset it when no process uses it", fmt.Sprintf("sudo nvidia-smi --gpu-reset -i %d", c.Index)))}
	}
	if !is(c.MIG) {
		return nil
	}
	instances := 0
	if f.View != nil {
		for _, card := range f.View.Cards {
			if card.Index == c.Index && card.Instance >= 0 {
				instances++
			}
		}
		if instances == 0 {
			return []report.Finding{finding("mig", report.Error, 0.9, fmt.Sprintf("GPU %d is in MIG mode without an instance: no process can use it", c.Index), "",
				do("create instances", fmt.Sprintf("sudo nvidia-smi mig -cgi 0 -C -i %d", c.Index)), do("or leave MIG mode", fmt.Sprintf("sudo nvidia-smi -mig 0 -i %d", c.Index)))}
		}
	}
	out := []report.Finding{finding("mig", report.Remark, 0.9, fmt.Sprintf("GPU %d is split into %d MIG instances", c.Index, instances),
		"a process sees one instance only, and its memory, not the card's; instances cannot talk to one another with NCCL", do("choose one by its UUID from nvidia-smi -L", "CUDA_VISIBLE_DEVICES=MIG-…"))}
	if expandable(f) {
		out = append(out, finding("mig", report.Warning, 0.7, "expandable_segments on MIG instances makes PyTorch send NVML a query that MIG refuses",
			"running out of memory then shows as an NVML assertion (pytorch/pytorch issue 112377)", do("leave expandable_segments out on MIG", "")))
	}
	return out
}

// holders reports memory of the dead and of processes that cannot be seen.
func holders(f Facts) []report.Finding {
	var out []report.Finding
	for _, found := range f.View.Report().Findings {
		if found.ID != "growth" {
			out = append(out, found)
		}
	}
	for _, c := range f.View.Cards {
		hidden, sum, reason := 0, units.Bytes(0), ""
		for _, p := range c.Processes {
			if p.Who.Hidden != "" {
				hidden, sum, reason = hidden+1, sum+p.Bytes, p.Who.Hidden
			}
		}
		if hidden > 0 {
			out = append(out, finding("hidden-process", report.Remark, 0.9, fmt.Sprintf("%s: %d processes that cannot be seen from here hold %s", c.Label(), hidden, sum.Short()), reason,
				do("look from outside: run plimsoll watch on the host, or as root", "sudo plimsoll watch --once")))
		}
		// Nobody is listed, yet much is in use: another container's processes, or memory of the dead.
		if len(c.Processes) == 0 && c.Used*20 > c.Total && len(c.Orphans) == 0 {
			out = append(out, unlisted(f, c))
		}
	}
	return out
}

func unlisted(f Facts, c watch.CardView) report.Finding {
	if f.System.Contained {
		return finding("hidden-process", report.Warning, 0.8, fmt.Sprintf("%s in use on %s by processes outside this container", c.Used.Short(), c.Label()),
			"the driver does not list processes of other containers here", do("look from the host, or start this container with --pid=host", "plimsoll watch --once"))
	}
	return finding("orphan-memory", report.Warning, 0.7, fmt.Sprintf("%s in use on %s and no process is listed for it", c.Used.Short(), c.Label()),
		"a crashed process, or one that only holds the device open",
		do("find the process that has the card open and stop it", fmt.Sprintf("sudo fuser -v /dev/nvidia%d", c.Index)), do("if there is none, reset the card", fmt.Sprintf("sudo nvidia-smi --gpu-reset -i %d", c.Index)))
}
