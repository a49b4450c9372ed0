package oomtext

import (
	"strings"

	"github.com/plimsoll/plimsoll/internal/torch"
)

// versions tells which releases print the message as it stands. Sources: the strings in
// c10/cuda/CUDACachingAllocator.cpp at each release tag, 1.0 (pytorch#13751) to 2.14.
func (m Message) versions() torch.Span {
	text := squash([]byte(m.Text)).s
	accelerator := m.Class == "torch.OutOfMemoryError" // renamed from torch.cuda.OutOfMemoryError in 2.4
	switch m.Format {
	case "thc":
		return torch.Span{From: torch.V0_1, To: torch.V0_4}
	case "v1-cached":
		return torch.Span{From: torch.V1_0, To: torch.V1_3}
	case "v1-reserved":
		return torch.Span{From: torch.V1_4, To: torch.V1_9}
	case "v1-split":
		if m.Backend != "cuda" {
			return torch.Span{}
		}
		switch m.Class {
		case "RuntimeError":
			return torch.Span{From: torch.V1_10, To: torch.V1_12}
		case "torch.cuda.OutOfMemoryError":
			return torch.Span{From: torch.V1_13, To: torch.V2_0}
		}
		return torch.Span{From: torch.V1_10, To: torch.V2_0}
	case "v21-typo":
		return torch.Span{From: torch.V2_1, To: torch.V2_1}
	case "reject":
		return torch.Since(torch.V2_12)
	case "attempt":
		return torch.Since(torch.V2_13)
	case "async":
		return torch.Since(torch.V1_13)
	case "v22-exp":
		return m.sentenceVersions(text, accelerator)
	}
	switch {
	case accelerator:
		return torch.Since(torch.V2_4)
	case m.Class == "torch.cuda.OutOfMemoryError":
		return torch.Span{From: torch.V1_13, To: torch.V2_3}
	}
	return torch.Span{}
}

// sentenceVersions tells the releases from 2.2 on apart.
func (m Message) sentenceVersions(text string, accelerator bool) torch.Span {
	v := torch.Since(torch.V2_2)
	switch {
	case m.cutAtNUL && !accelerator, m.charDevice && !accelerator:
		return torch.Span{From: torch.V2_3, To: torch.V2_3}
	case m.Class == "torch.cuda.OutOfMemoryError":
		return torch.Span{From: torch.V2_2, To: torch.V2_3}
	case m.Allowed.Text != "":
		v.From = torch.V2_5
	case accelerator || m.PrivatePools.Text != "":
		v.From = torch.V2_4
	}
	switch {
	case strings.HasPrefix(m.Advice, "PYTORCH_ALLOC_CONF"):
		return torch.Span{From: torch.V2_10, To: torch.V2_10}
	case strings.Contains(text, "#optimizing-memory-usage"):
		v.From = torch.V2_11
	case strings.Contains(text, "#environment-variables"):
		v.To = torch.V2_9
	}
	return v
}
