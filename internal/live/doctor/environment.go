package doctor

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/memory/alloc"
	"github.com/plimsoll/plimsoll/internal/torch"
)

// confVariables in the order in which PyTorch prefers them.
var confVariables = []string{"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}

func allocatorVariables(f Facts) []report.Finding {
	name, value := effective(f.Env)
	if name == "" {
		return noCaching(f)
	}
	var out []report.Finding
	if other := f.Env["PYTORCH_ALLOC_CONF"]; name != "PYTORCH_ALLOC_CONF" && other != "" && other != value {
		out = append(out, finding("alloc-conf-conflict", report.Warning, 0.9, "PYTORCH_ALLOC_CONF and "+name+" say different things; the second wins",
			fmt.Sprintf("%q against %q", other, value), do("keep one", "unset PYTORCH_ALLOC_CONF")))
	}
	version, known := torchVersion(f)
	if name == "PYTORCH_ALLOC_CONF" && known && !torch.NewVariableReaches.Has(version) {
		out = append(out, finding("alloc-conf-ignored", report.Error, 0.9, "PyTorch "+f.Torch.Version+" ignores PYTORCH_ALLOC_CONF for CUDA", "PyTorch ignores the setting without a warning",
			do("use the older name", "export PYTORCH_CUDA_ALLOC_CONF="+value)))
	}
	out = append(out, settings(name, value, version, known)...)
	return append(out, noCaching(f)...)
}

// torchVersion is the installed PyTorch; without one, the newest whose settings are known.
func torchVersion(f Facts) (torch.Version, bool) {
	if f.Torch == nil {
		return torch.Newest, false
	}
	v, err := torch.ParseVersion(f.Torch.Version)
	if err != nil {
		return torch.Newest, false
	}
	return v, true
}

// effective gives the variable that PyTorch reads and its value.
func effective(env map[string]string) (name, value string) {
	for _, name := range confVariables {
		if v := env[name]; v != "" {
			return name, v
		}
	}
	return "", ""
}

// expandable tells whether the settings turn expandable segments on.
func expandable(f Facts) bool {
	_, value := effective(f.Env)
	v, _ := torchVersion(f)
	conf, err := alloc.ParseConf(value, v)
	return err == nil && conf.Expandable
}

// settings reads the string as this PyTorch does: what it refuses, and what works against itself.
func settings(name, value string, version torch.Version, known bool) []report.Finding {
	conf, err := alloc.ParseConf(value, version)
	if err != nil {
		severity := report.Error
		if !known {
			severity = report.Remark
		}
		return []report.Finding{finding("alloc-conf-refused", severity, 0.9, fmt.Sprintf("PyTorch %s refuses what %s says", version, name), err.Error(),
			do("correct it, or unset it", "unset "+name))}
	}
	if conf.Async {
		if strings.Count(value, ":") == 1 {
			return nil
		}
		return []report.Finding{finding("alloc-conf-conflict", report.Warning, 0.95, "backend:cudaMallocAsync ignores every other setting in "+name, value,
			do("keep the backend or the settings, not both", ""))}
	}
	var out []report.Finding
	for _, clash := range conf.Clashes(version, false) {
		remedy := do("change or remove the setting", "unset "+name)
		if conf.Expandable && conf.MaxSplit > 0 {
			remedy = do("keep expandable_segments alone", "export "+name+"=expandable_segments:True")
		}
		out = append(out, finding("alloc-conf-conflict", report.Warning, 0.9, clash, name+"="+value, remedy))
	}
	return out
}

func noCaching(f Facts) []report.Finding {
	if v, set := f.Env["PYTORCH_NO_CUDA_MEMORY_CACHING"]; !set || v == "" || v == "0" {
		return nil
	}
	return []report.Finding{finding("caching-off", report.Warning, 0.9, "PYTORCH_NO_CUDA_MEMORY_CACHING is set: every tensor asks the driver, and training becomes very slow",
		"it is meant for debugging; the allocator's settings have no effect", do("unset it", "unset PYTORCH_NO_CUDA_MEMORY_CACHING"))}
}

func cudaVariables(f Facts) []report.Finding {
	var out []report.Finding
	if v, set := f.Env["CUDA_VISIBLE_DEVICES"]; set && (strings.TrimSpace(v) == "" || strings.HasPrefix(strings.TrimSpace(v), "-")) {
		out = append(out, finding("no-visible-device", report.Warning, 0.95, fmt.Sprintf("CUDA_VISIBLE_DEVICES=%q hides every card from PyTorch", v), "", do("unset it, or name a card", "unset CUDA_VISIBLE_DEVICES")))
	} else if set && len(f.Cards) > 0 {
		out = append(out, missingCards(v, len(f.Cards))...)
	}
	if v := f.Env["CUDA_LAUNCH_BLOCKING"]; v != "" && v != "0" {
		out = append(out, finding("launch-blocking", report.Remark, 0.9, "CUDA_LAUNCH_BLOCKING is set: good for finding an error, slow for training", "", do("unset it when done", "unset CUDA_LAUNCH_BLOCKING")))
	}
	return out
}

// missingCards reports numbers in CUDA_VISIBLE_DEVICES that no card has: CUDA silently drops them and all that follow.
func missingCards(value string, cards int) []report.Finding {
	for _, part := range strings.Split(value, ",") {
		if n, err := strconv.Atoi(strings.TrimSpace(part)); err == nil && n >= cards {
			return []report.Finding{finding("no-visible-device", report.Warning, 0.9, fmt.Sprintf("CUDA_VISIBLE_DEVICES=%s names card %d, this machine has %d", value, n, cards),
				"CUDA drops it and every card after it", do("cards are numbered from 0", ""))}
		}
	}
	return nil
}
