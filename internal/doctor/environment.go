package doctor

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/internal/report"
)

// setting keys of the caching allocator and the versions that know them: c10/cuda/CUDAAllocatorConfig.cpp (2.0 to 2.9) and
// c10/core/AllocatorConfig.cpp (2.10 and later) of the releases named. A key a version does not know is an error at the first allocation.
var settings = map[string]struct{ since, until version }{
	"max_split_size_mb":                 {version{1, 10}, version{99, 0}},
	"garbage_collection_threshold":      {version{1, 12}, version{99, 0}},
	"roundup_power2_divisions":          {version{1, 12}, version{99, 0}},
	"roundup_bypass_threshold_mb":       {version{1, 13}, version{1, 13}},
	"backend":                           {version{2, 0}, version{99, 0}},
	"expandable_segments":               {version{2, 1}, version{99, 0}},
	"release_lock_on_cudamalloc":        {version{2, 2}, version{99, 0}},
	"release_lock_on_hipmalloc":         {version{2, 2}, version{99, 0}},
	"max_non_split_rounding_mb":         {version{2, 6}, version{99, 0}},
	"graph_capture_record_stream_reuse": {version{2, 9}, version{99, 0}},
	"per_process_memory_fraction":       {version{2, 10}, version{99, 0}},
	"large_segment_size_mb":             {version{2, 11}, version{99, 0}},
	"throw_on_cudamalloc_oom":           {version{2, 12}, version{99, 0}},
	"expandable_segments_reserve":       {version{2, 15}, version{99, 0}},
}

// newestKnown is the newest PyTorch whose settings were read for the table.
var newestKnown = version{2, 12}

// confVariables in the order in which PyTorch prefers them.
var confVariables = []string{"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}

func allocatorVariables(f Facts) []report.Finding {
	var out []report.Finding
	torch, known := version{}, false
	if f.Torch != nil {
		torch, known = parseVersion(f.Torch.Version)
	}
	name, value := effective(f.Env)
	if name == "" {
		return noCaching(f)
	}
	if other := f.Env["PYTORCH_ALLOC_CONF"]; name != "PYTORCH_ALLOC_CONF" && other != "" && other != value {
		out = append(out, finding("alloc-conf-conflict", report.Warning, 0.9, "PYTORCH_ALLOC_CONF and "+name+" say different things; the second wins",
			fmt.Sprintf("%q against %q", other, value), do("keep one", "unset PYTORCH_ALLOC_CONF")))
	}
	// The new name is unknown before 2.9 and without effect on CUDA in 2.9 (pytorch/pytorch issue 183387); 2.11 reads it.
	if name == "PYTORCH_ALLOC_CONF" && known && torch.less(version{2, 11}) {
		out = append(out, finding("alloc-conf-ignored", report.Error, 0.9, "PyTorch "+f.Torch.Version+" ignores PYTORCH_ALLOC_CONF for CUDA", "the setting has no effect, silently",
			do("use the older name", "export PYTORCH_CUDA_ALLOC_CONF="+value)))
	}
	out = append(out, unknownSettings(name, value, torch, known, f)...)
	out = append(out, conflicts(name, value, torch, known)...)
	return append(out, noCaching(f)...)
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

// setting gives one value of the effective setting string.
func setting(env map[string]string, key string) string {
	_, value := effective(env)
	for _, s := range splitSettings(value) {
		if s.key == key {
			return s.value
		}
	}
	return ""
}

type keyValue struct{ key, value string }

// splitSettings cuts "a:1,b:[256:1,512:2]" into its parts.
func splitSettings(text string) []keyValue {
	var out []keyValue
	depth, begin := 0, 0
	for i := 0; i <= len(text); i++ {
		if i < len(text) {
			switch text[i] {
			case '[':
				depth++
			case ']':
				depth--
			}
			if text[i] != ',' || depth > 0 {
				continue
			}
		}
		if part := strings.TrimSpace(text[begin:i]); part != "" {
			key, value, _ := strings.Cut(part, ":")
			out = append(out, keyValue{strings.TrimSpace(key), strings.TrimSpace(value)})
		}
		begin = i + 1
	}
	return out
}

func unknownSettings(name, value string, torch version, known bool, f Facts) []report.Finding {
	var out []report.Finding
	for _, s := range splitSettings(value) {
		spec, ok := settings[s.key]
		switch {
		case strings.HasPrefix(s.key, "pinned_"): // of the host's memory; their list changes with every release
		case !ok:
			severity := report.Error
			if !known || newestKnown.less(torch) {
				severity = report.Remark
			}
			out = append(out, finding("alloc-conf-unknown", severity, 0.8, fmt.Sprintf("%s has %q, which no PyTorch known to this tool understands", name, s.key),
				`PyTorch stops with "Unrecognized CachingAllocator option"`, do("correct or remove it", "")))
		case known && (torch.less(spec.since) || spec.until.less(torch)):
			out = append(out, finding("alloc-conf-unknown", report.Error, 0.9, fmt.Sprintf("PyTorch %s does not know %s", f.Torch.Version, s.key),
				fmt.Sprintf("it came with %s; an unknown setting stops the program or is ignored", spec.since), do("remove it, or update PyTorch", "")))
		case s.key == "max_split_size_mb":
			if n, err := strconv.Atoi(s.value); err != nil || n < 20 {
				out = append(out, finding("alloc-conf-unknown", report.Error, 0.9, fmt.Sprintf("max_split_size_mb:%s is refused: it must be more than 20", s.value), "", do("use a larger number, or none", "")))
			}
		}
	}
	return out
}

// conflicts are settings that undo one another.
func conflicts(name, value string, torch version, known bool) []report.Finding {
	has := map[string]string{}
	for _, s := range splitSettings(value) {
		has[s.key] = s.value
	}
	var out []report.Finding
	if has["backend"] == "cudaMallocAsync" && len(has) > 1 {
		out = append(out, finding("alloc-conf-conflict", report.Warning, 0.95, "backend:cudaMallocAsync ignores every other setting in "+name, value, do("keep the backend or the settings, not both", "")))
	}
	if has["expandable_segments"] == "True" && has["max_split_size_mb"] != "" {
		evidence := "free blocks above the split size cannot serve smaller requests, and memory grows (pytorch/pytorch pull request 193400)"
		if known && torch.less(version{2, 5}) {
			evidence = "before 2.5 it ends in an assertion (pytorch/pytorch issue 123548)"
		}
		out = append(out, finding("alloc-conf-conflict", report.Warning, 0.9, "expandable_segments and max_split_size_mb work against each other", evidence,
			do("keep expandable_segments alone", "export "+name+"=expandable_segments:True")))
	}
	if has["garbage_collection_threshold"] != "" && has["per_process_memory_fraction"] == "" {
		out = append(out, finding("alloc-conf-ignored", report.Remark, 0.8, "garbage_collection_threshold does nothing unless a memory fraction is set",
			"the allocator collects only below a cap", do("set one, in code or (2.10 and later) in the same variable", "torch.cuda.set_per_process_memory_fraction(0.95)")))
	}
	return out
}

func noCaching(f Facts) []report.Finding {
	if v, set := f.Env["PYTORCH_NO_CUDA_MEMORY_CACHING"]; !set || v == "" || v == "0" {
		return nil
	}
	return []report.Finding{finding("caching-off", report.Warning, 0.9, "PYTORCH_NO_CUDA_MEMORY_CACHING is set: every tensor asks the driver, and training crawls",
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
				"CUDA drops it and every card after it", do("name cards from 0", ""))}
		}
	}
	return nil
}
