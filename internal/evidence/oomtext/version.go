package oomtext

import "strings"

// Versions is a range of PyTorch releases; an empty bound is open.
type Versions struct {
	From, To string
}

// versions tells which releases print the message as it stands. Sources: the strings in
// c10/cuda/CUDACachingAllocator.cpp at each release tag, 1.0 (pytorch#13751) to 2.14.
func (m Message) versions() Versions {
	text := squash([]byte(m.Text)).s
	accelerator := m.Class == "torch.OutOfMemoryError" // renamed from torch.cuda.OutOfMemoryError in 2.4
	switch m.Format {
	case "thc":
		return Versions{"0.1", "0.4"}
	case "v1-cached":
		return Versions{"1.0", "1.3"}
	case "v1-reserved":
		return Versions{"1.4", "1.9"}
	case "v1-split":
		if m.Backend != "cuda" {
			return Versions{}
		}
		switch m.Class {
		case "RuntimeError":
			return Versions{"1.10", "1.12"}
		case "torch.cuda.OutOfMemoryError":
			return Versions{"1.13", "2.0"}
		}
		return Versions{"1.10", "2.0"}
	case "v21-typo":
		return Versions{"2.1", "2.1"}
	case "reject":
		return Versions{"2.12", ""}
	case "attempt":
		return Versions{"2.13", ""}
	case "async":
		return Versions{"1.13", ""}
	case "v22-exp":
		return m.sentenceVersions(text, accelerator)
	}
	switch {
	case accelerator:
		return Versions{"2.4", ""}
	case m.Class == "torch.cuda.OutOfMemoryError":
		return Versions{"1.13", "2.3"}
	}
	return Versions{}
}

// sentenceVersions tells the releases from 2.2 on apart.
func (m Message) sentenceVersions(text string, accelerator bool) Versions {
	v := Versions{"2.2", ""}
	switch {
	case m.cutAtNUL && !accelerator, m.charDevice && !accelerator:
		return Versions{"2.3", "2.3"}
	case m.Class == "torch.cuda.OutOfMemoryError":
		return Versions{"2.2", "2.3"}
	case m.Allowed.Text != "":
		v.From = "2.5"
	case accelerator || m.PrivatePools.Text != "":
		v.From = "2.4"
	}
	switch {
	case strings.HasPrefix(m.Advice, "PYTORCH_ALLOC_CONF"):
		return Versions{"2.10", "2.10"}
	case strings.Contains(text, "#optimizing-memory-usage"):
		v.From = "2.11"
	case strings.Contains(text, "#environment-variables"):
		v.To = "2.9"
	}
	return v
}
