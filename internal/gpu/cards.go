package gpu

import "github.com/plimsoll/plimsoll/internal/units"

// Where most numbers come from. GeForce rates follow from the white papers: with fp32 accumulation the tensor
// cores give twice the fp32 rate in 16 bits and the fp32 rate in TF32.
const (
	sheet   = "NVIDIA datasheet"
	paper   = "NVIDIA architecture white paper"
	amd     = "AMD datasheet"
	reports = "printed by PyTorch in public out-of-memory reports (Linux)"
	// inMessages: the message says what the process has and what PyTorch holds; the rest is the context with loaded kernels, to about 10 MiB.
	inMessages = "PyTorch's message in a public report, process less what PyTorch holds: "
	sameChip   = "not reported for itself; the same chip as an "
	nvml       = "NVML readings of public training runs with PyTorch 2.6 (the data of the xMem paper), less what PyTorch reserves: beyond the first reading"
)

// tera and giga turn datasheet units into FLOP/s and bytes/s.
const (
	tera = 1e12
	giga = 1e9
)

// Cards is the catalogue.
func Cards() []Card {
	var all []Card
	for _, part := range [][]Card{hopperAndLater, dataCentre, geForce, instinct} {
		all = append(all, part...)
	}
	return all
}

// hopperAndLater lists data-centre cards from Hopper on.
var hopperAndLater = []Card{
	{
		Name: "h200", Title: "H200", Memory: 141 * units.GiB, Total: 150109880320, Context: 748 * units.MiB,
		Major: 9, Minor: 0, SMs: 132, ThreadsPerSM: 2048,
		Bandwidth: 4800 * giga, BF16: 989 * tera, FP16: 989 * tera, TF32: 494 * tera, FP32: 66.9 * tera,
		NVLink: 450 * giga, Host: 64 * giga,
		Aliases: []string{"h200141g", "h200sxm", "h200nvl"},
		Source:  Source{Rates: sheet, Total: "measured: PyTorch 2.11.0+cu130", Context: "measured: PyTorch 2.11.0+cu130, process minus reserved after training steps, the largest of 0.60 to 0.73 GiB"},
	},
	{
		Name: "h100-80g", Title: "H100 SXM 80 GB", Memory: 80 * units.GiB, Total: 81009 * units.MiB, Context: 748 * units.MiB,
		Major: 9, Minor: 0, SMs: 132, ThreadsPerSM: 2048,
		Bandwidth: 3350 * giga, BF16: 989 * tera, FP16: 989 * tera, TF32: 494 * tera, FP32: 66.9 * tera,
		NVLink: 450 * giga, Host: 64 * giga,
		Aliases: []string{"h100", "h100sxm", "h100sxm5", "h10080gsxm", "h100sxm80g", "h100sxm580g"},
		Source:  Source{Rates: sheet, Total: reports, Context: sameChip + "H200"},
	},
	{
		Name: "h100-pcie", Title: "H100 PCIe 80 GB", Memory: 80 * units.GiB, Total: 81009 * units.MiB, Context: 748 * units.MiB,
		Major: 9, Minor: 0, SMs: 114, ThreadsPerSM: 2048,
		Bandwidth: 2000 * giga, BF16: 756 * tera, FP16: 756 * tera, TF32: 378 * tera, FP32: 51.2 * tera,
		Host:    64 * giga,
		Aliases: []string{"h100pcie80g", "h10080gpcie"},
		Source:  Source{Rates: sheet, Total: reports, Context: sameChip + "H200"},
	},
	{
		Name: "h100-94g", Title: "H100 NVL 94 GB", Memory: 94 * units.GiB, Context: 748 * units.MiB,
		Major: 9, Minor: 0, SMs: 132, ThreadsPerSM: 2048,
		Bandwidth: 3900 * giga, BF16: 835 * tera, FP16: 835 * tera, TF32: 417 * tera, FP32: 60 * tera,
		NVLink: 300 * giga, Host: 64 * giga,
		Aliases: []string{"h100nvl", "h100nvl94g"},
		Source:  Source{Rates: sheet, Context: sameChip + "H200"},
	},
	{
		Name: "h20", Title: "H20 96 GB", Memory: 96 * units.GiB,
		Major: 9, Minor: 0, SMs: 78, ThreadsPerSM: 2048,
		Bandwidth: 4000 * giga, BF16: 148 * tera, FP16: 148 * tera, TF32: 74 * tera, FP32: 44 * tera,
		NVLink: 450 * giga, Host: 64 * giga,
		Aliases: []string{"h20", "h20sxm", "h20sxm5", "h20sxm596g"},
		Source:  Source{Rates: "NVIDIA H20 datasheet as quoted by resellers (willitrunai.com/es/gpus/h20-96gb); multiprocessors as Geekbench reported them"},
	},
	{
		Name: "h20-141g", Title: "H20 141 GB", Memory: 141 * units.GiB,
		Major: 9, Minor: 0, SMs: 78, ThreadsPerSM: 2048,
		Bandwidth: 4800 * giga, BF16: 148 * tera, FP16: 148 * tera, TF32: 74 * tera, FP32: 44 * tera,
		NVLink: 450 * giga, Host: 64 * giga,
		Aliases: []string{"h203e", "h20sxm5141g"},
		Source:  Source{Rates: "the 96 GB card's rates with the bandwidth of H200's memory, which it carries"},
	},
	{
		Name: "gh200-96g", Title: "GH200 96 GB", Memory: 96 * units.GiB,
		Major: 9, Minor: 0, SMs: 132, ThreadsPerSM: 2048,
		Bandwidth: 4000 * giga, BF16: 989 * tera, FP16: 989 * tera, TF32: 494 * tera, FP32: 66.9 * tera,
		NVLink: 450 * giga, Host: 64 * giga,
		Aliases: []string{"gh200", "gh200480g"},
		Source:  Source{Rates: sheet},
	},
	{
		Name: "gh200-144g", Title: "GH200 144 GB", Memory: 144 * units.GiB,
		Major: 9, Minor: 0, SMs: 132, ThreadsPerSM: 2048,
		Bandwidth: 4900 * giga, BF16: 989 * tera, FP16: 989 * tera, TF32: 494 * tera, FP32: 66.9 * tera,
		NVLink: 450 * giga, Host: 64 * giga,
		Source: Source{Rates: sheet},
	},
	{
		Name: "b200", Title: "B200", Memory: 180 * units.GiB,
		Major: 10, Minor: 0, SMs: 148, ThreadsPerSM: 2048,
		Bandwidth: 8000 * giga, BF16: 2250 * tera, FP16: 2250 * tera, TF32: 1125 * tera, FP32: 75 * tera,
		NVLink: 900 * giga, Host: 64 * giga,
		Aliases: []string{"b200180g", "b200192g"},
		Source:  Source{Rates: sheet},
	},
	{
		Name: "b300", Title: "B300", Memory: 270 * units.GiB,
		Major: 10, Minor: 3, SMs: 148, ThreadsPerSM: 2048,
		Bandwidth: 8000 * giga, BF16: 2250 * tera, FP16: 2250 * tera, TF32: 1125 * tera, FP32: 75 * tera,
		NVLink: 900 * giga, Host: 64 * giga,
		Aliases: []string{"b300sxm6", "b300sxm6ac", "b300288g", "b300270g"},
		Source:  Source{Rates: "NVIDIA HGX B300 datasheet: 270 GB usable of 288 GB, 36 PFLOP/s with sparsity for eight cards"},
	},
}

// dataCentre lists data-centre and workstation cards before Hopper, and workstation Blackwell.
var dataCentre = []Card{
	{
		Name: "a100-40g", Title: "A100 40 GB", Memory: 40 * units.GiB, Total: 40335 * units.MiB, Context: 501 * units.MiB,
		Major: 8, Minor: 0, SMs: 108, ThreadsPerSM: 2048,
		Bandwidth: 1555 * giga, BF16: 312 * tera, FP16: 312 * tera, TF32: 156 * tera, FP32: 19.5 * tera,
		NVLink: 300 * giga, Host: 32 * giga,
		Aliases: []string{"a100", "a100sxm440g", "a100pcie40g", "a100sxm40g"},
		Source:  Source{Rates: sheet, Total: reports, Context: "A100-SXM4-40GB, PyTorch 2.11 cu130, NVML around a first allocation (agilerl commit c838977a)"},
	},
	{
		Name: "a100-80g", Title: "A100 SXM 80 GB", Memory: 80 * units.GiB, Total: 81050 * units.MiB, Context: 504 * units.MiB,
		Major: 8, Minor: 0, SMs: 108, ThreadsPerSM: 2048,
		Bandwidth: 2039 * giga, BF16: 312 * tera, FP16: 312 * tera, TF32: 156 * tera, FP32: 19.5 * tera,
		NVLink: 300 * giga, Host: 32 * giga,
		Aliases: []string{"a100sxm480g", "a100sxm80g", "a10080gsxm"},
		Source:  Source{Rates: sheet, Total: reports, Context: inMessages + "github.com/lianqi1008/Control-GIC/issues/6; 408 in github.com/HiDream-ai/VAREdit/issues/6"},
	},
	{
		Name: "a100-80g-pcie", Title: "A100 PCIe 80 GB", Memory: 80 * units.GiB, Total: 81050 * units.MiB, Context: 504 * units.MiB,
		Major: 8, Minor: 0, SMs: 108, ThreadsPerSM: 2048,
		Bandwidth: 1935 * giga, BF16: 312 * tera, FP16: 312 * tera, TF32: 156 * tera, FP32: 19.5 * tera,
		Host:    32 * giga,
		Aliases: []string{"a100pcie80g", "a10080gpcie"},
		Source:  Source{Rates: sheet, Total: reports, Context: sameChip + "A100 SXM"},
	},
	{
		Name: "a800-80g", Title: "A800 SXM 80 GB", Memory: 80 * units.GiB, Total: 81050 * units.MiB,
		Major: 8, Minor: 0, SMs: 108, ThreadsPerSM: 2048,
		Bandwidth: 2039 * giga, BF16: 312 * tera, FP16: 312 * tera, TF32: 156 * tera, FP32: 19.5 * tera,
		NVLink: 200 * giga, Host: 32 * giga,
		Aliases: []string{"a800", "a800sxm480g", "a800sxm80g", "a80080gsxm"},
		Source:  Source{Rates: sheet + ": an A100 with NVLink at 400 GB/s", Total: "that of an A100 SXM 80 GB, the same chip and memory"},
	},
	{
		Name: "a800-80g-pcie", Title: "A800 PCIe 80 GB", Memory: 80 * units.GiB, Total: 81050 * units.MiB,
		Major: 8, Minor: 0, SMs: 108, ThreadsPerSM: 2048,
		Bandwidth: 1935 * giga, BF16: 312 * tera, FP16: 312 * tera, TF32: 156 * tera, FP32: 19.5 * tera,
		Host:    32 * giga,
		Aliases: []string{"a800pcie80g", "a80080gpcie"},
		Source:  Source{Rates: sheet, Total: "that of an A100 PCIe 80 GB, the same chip and memory"},
	},
	{
		Name: "a30", Title: "A30", Memory: 24 * units.GiB, Total: 24095 * units.MiB,
		Major: 8, Minor: 0, SMs: 56, ThreadsPerSM: 2048,
		Bandwidth: 933 * giga, BF16: 165 * tera, FP16: 165 * tera, TF32: 82 * tera, FP32: 10.3 * tera,
		Host:   32 * giga,
		Source: Source{Rates: sheet, Total: reports},
	},
	{
		Name: "a10", Title: "A10", Memory: 24 * units.GiB, Total: 22733 * units.MiB, Context: 224 * units.MiB,
		Major: 8, Minor: 6, SMs: 72, ThreadsPerSM: 1536,
		Bandwidth: 600 * giga, BF16: 125 * tera, FP16: 125 * tera, TF32: 62.5 * tera, FP32: 31.2 * tera,
		Host:   32 * giga,
		Source: Source{Rates: sheet, Total: reports, Context: inMessages + "github.com/zai-org/CogVLM/issues/236 (by its 21.99 GiB)"},
	},
	{
		Name: "a10g", Title: "A10G", Memory: 24 * units.GiB, Total: 22733 * units.MiB, Context: 442 * units.MiB,
		Major: 8, Minor: 6, SMs: 80, ThreadsPerSM: 1536,
		Bandwidth: 600 * giga, BF16: 70 * tera, FP16: 70 * tera, TF32: 35 * tera, FP32: 35 * tera,
		Host:   32 * giga,
		Source: Source{Rates: "AWS G5 documentation; multiprocessors as PyTorch reports them", Total: reports, Context: "no report of its own: 224 MiB on an A10 and up to 442 on an RTX 3090, the same chip; the larger is taken"},
	},
	{
		Name: "a16", Title: "A16 (one of four)", Memory: 16 * units.GiB,
		Major: 8, Minor: 6, SMs: 10, ThreadsPerSM: 1536,
		Bandwidth: 200 * giga, BF16: 17.9 * tera, FP16: 17.9 * tera, TF32: 9 * tera, FP32: 4.5 * tera,
		Host:   32 * giga,
		Source: Source{Rates: sheet},
	},
	{
		Name: "a2", Title: "A2", Memory: 16 * units.GiB,
		Major: 8, Minor: 6, SMs: 10, ThreadsPerSM: 1536,
		Bandwidth: 200 * giga, BF16: 18 * tera, FP16: 18 * tera, TF32: 9 * tera, FP32: 4.5 * tera,
		Host:   16 * giga,
		Source: Source{Rates: sheet},
	},
	{
		Name: "a40", Title: "A40", Memory: 48 * units.GiB, Total: 45629 * units.MiB,
		Major: 8, Minor: 6, SMs: 84, ThreadsPerSM: 1536,
		Bandwidth: 696 * giga, BF16: 149.7 * tera, FP16: 149.7 * tera, TF32: 74.8 * tera, FP32: 37.4 * tera,
		Host:   32 * giga,
		Source: Source{Rates: sheet, Total: reports},
	},
	{
		Name: "l4", Title: "L4", Memory: 24 * units.GiB, Total: 22702 * units.MiB, Context: 226 * units.MiB,
		Major: 8, Minor: 9, SMs: 58, ThreadsPerSM: 1536,
		Bandwidth: 300 * giga, BF16: 121 * tera, FP16: 121 * tera, TF32: 60 * tera, FP32: 30.3 * tera,
		Host:   32 * giga,
		Source: Source{Rates: sheet, Total: reports, Context: "PyTorch 2.11 cu130, NVML around a first allocation (agilerl commit c838977a)"},
	},
	{
		Name: "l40", Title: "L40", Memory: 48 * units.GiB, Total: 45599 * units.MiB, Context: 507 * units.MiB,
		Major: 8, Minor: 9, SMs: 142, ThreadsPerSM: 1536,
		Bandwidth: 864 * giga, BF16: 181 * tera, FP16: 181 * tera, TF32: 90.5 * tera, FP32: 90.5 * tera,
		Host:   32 * giga,
		Source: Source{Rates: sheet, Total: reports, Context: inMessages + "github.com/QwenLM/Qwen3-VL/issues/2097"},
	},
	{
		Name: "l40s", Title: "L40S", Memory: 48 * units.GiB, Total: 45599 * units.MiB, Context: 514 * units.MiB,
		Major: 8, Minor: 9, SMs: 142, ThreadsPerSM: 1536,
		Bandwidth: 864 * giga, BF16: 362 * tera, FP16: 362 * tera, TF32: 183 * tera, FP32: 91.6 * tera,
		Host:   32 * giga,
		Source: Source{Rates: sheet, Total: reports, Context: inMessages + "github.com/huggingface/sentence-transformers/issues/3214; 419 in github.com/stepfun-ai/Step-Video-T2V/issues/8"},
	},
	{
		Name: "rtx-a6000", Title: "RTX A6000", Memory: 48 * units.GiB, Total: 48681 * units.MiB,
		Major: 8, Minor: 6, SMs: 84, ThreadsPerSM: 1536,
		Bandwidth: 768 * giga, BF16: 154.8 * tera, FP16: 154.8 * tera, TF32: 77.4 * tera, FP32: 38.7 * tera,
		Host:    32 * giga,
		Aliases: []string{"a6000"},
		Source:  Source{Rates: sheet, Total: reports},
	},
	{
		Name: "rtx-a5000", Title: "RTX A5000", Memory: 24 * units.GiB, Total: 24248 * units.MiB,
		Major: 8, Minor: 6, SMs: 64, ThreadsPerSM: 1536,
		Bandwidth: 768 * giga, BF16: 111.1 * tera, FP16: 111.1 * tera, TF32: 55.6 * tera, FP32: 27.8 * tera,
		Host:    32 * giga,
		Aliases: []string{"a5000"},
		Source:  Source{Rates: sheet, Total: reports},
	},
	{
		Name: "rtx-a4000", Title: "RTX A4000", Memory: 16 * units.GiB, Total: 15985 * units.MiB,
		Major: 8, Minor: 6, SMs: 48, ThreadsPerSM: 1536,
		Bandwidth: 448 * giga, BF16: 76.7 * tera, FP16: 76.7 * tera, TF32: 38.3 * tera, FP32: 19.2 * tera,
		Host:    32 * giga,
		Aliases: []string{"a4000"},
		Source:  Source{Rates: sheet, Total: reports},
	},
	{
		Name: "rtx-6000-ada", Title: "RTX 6000 Ada", Memory: 48 * units.GiB, Total: 48640 * units.MiB, Context: 426 * units.MiB,
		Major: 8, Minor: 9, SMs: 142, ThreadsPerSM: 1536,
		Bandwidth: 960 * giga, BF16: 364 * tera, FP16: 364 * tera, TF32: 182 * tera, FP32: 91.1 * tera,
		Host:    32 * giga,
		Aliases: []string{"6000ada", "rtx6000ada"},
		Source:  Source{Rates: sheet, Total: reports, Context: "PyTorch 2.10 cu130 (unslothai/unsloth-zoo#1053)"},
	},
	{
		Name: "rtx-pro-6000", Title: "RTX PRO 6000 Blackwell", Memory: 96 * units.GiB, Total: 97249 * units.MiB,
		Major: 12, Minor: 0, SMs: 188, ThreadsPerSM: 1536,
		Bandwidth: 1792 * giga, BF16: 503 * tera, FP16: 503 * tera, TF32: 251 * tera, FP32: 125 * tera,
		Host:    64 * giga,
		Aliases: []string{"pro6000", "rtxpro6000blackwell", "rtxpro6000blackwellworkstationedition", "rtxpro6000blackwellserveredition", "rtxpro6000blackwellmaxqworkstationedition"},
		Source:  Source{Rates: sheet, Total: "94.97 GiB reported by CUDA (github.com/antirez/ds4/issues/431)"},
	},
	{
		Name: "v100-16g", Title: "V100 16 GB", Memory: 16 * units.GiB, Total: 16148 * units.MiB, Context: 504 * units.MiB,
		Major: 7, Minor: 0, SMs: 80, ThreadsPerSM: 2048,
		Bandwidth: 900 * giga, FP16: 125 * tera, FP32: 15.7 * tera,
		NVLink: 150 * giga, Host: 16 * giga,
		Aliases: []string{"v100", "v100sxm216g", "v100pcie16g"},
		Source:  Source{Rates: sheet, Total: reports, Context: "no report with kernels that are loaded as they are needed: 303 MiB on the card before it (P100) and 504 on the one after it (A100); the larger is taken"},
	},
	{
		Name: "v100-32g", Title: "V100 32 GB", Memory: 32 * units.GiB, Total: 32502 * units.MiB, Context: 504 * units.MiB,
		Major: 7, Minor: 0, SMs: 80, ThreadsPerSM: 2048,
		Bandwidth: 900 * giga, FP16: 125 * tera, FP32: 15.7 * tera,
		NVLink: 150 * giga, Host: 16 * giga,
		Aliases: []string{"v100sxm232g", "v100pcie32g", "v100sxm332g"},
		Source:  Source{Rates: sheet, Total: reports, Context: "no report with kernels that are loaded as they are needed: 303 MiB on the card before it (P100) and 504 on the one after it (A100); the larger is taken"},
	},
	{
		Name: "t4", Title: "T4", Memory: 16 * units.GiB, Total: 15843721216, Context: 141 * units.MiB,
		Major: 7, Minor: 5, SMs: 40, ThreadsPerSM: 1024,
		Bandwidth: 320 * giga, FP16: 65 * tera, FP32: 8.1 * tera,
		Host:   16 * giga,
		Source: Source{Rates: sheet, Total: "deviceQuery of a T4, CUDA 11.0", Context: inMessages + "github.com/FoundationVision/GenerateU/issues/10; 135 in github.com/Zheng-Chong/CatVTON/issues/133, 99 in github.com/hpcaitech/Open-Sora/issues/697"},
	},
	{
		Name: "p100", Title: "P100 16 GB", Memory: 16 * units.GiB, Total: 16282 * units.MiB, Context: 303 * units.MiB,
		Major: 6, Minor: 0, SMs: 56, ThreadsPerSM: 2048,
		Bandwidth: 732 * giga, FP16: 21.2 * tera, FP32: 10.6 * tera,
		Host:    16 * giga,
		Aliases: []string{"p10016g", "p100pcie16g", "p100sxm216g"},
		Source:  Source{Rates: sheet, Total: reports, Context: inMessages + "github.com/andimarafioti/florence2-finetuning/issues/17 (by its 15.89 GiB)"},
	},
}

// geForce lists GeForce and TITAN cards.
var geForce = []Card{
	{
		Name: "titan-rtx", Title: "TITAN RTX", Memory: 24 * units.GiB, Total: 24218 * units.MiB,
		Major: 7, Minor: 5, SMs: 72, ThreadsPerSM: 1024,
		Bandwidth: 672 * giga, FP16: 130 * tera, FP32: 16.3 * tera,
		Host:   16 * giga,
		Source: Source{Rates: sheet, Total: reports},
	},
	{
		Name: "rtx-2080-ti", Title: "RTX 2080 Ti", Memory: 11 * units.GiB, Total: 11008 * units.MiB, Context: 197 * units.MiB,
		Major: 7, Minor: 5, SMs: 68, ThreadsPerSM: 1024,
		Bandwidth: 616 * giga, FP16: 53.8 * tera, FP32: 13.4 * tera,
		Host:    16 * giga,
		Aliases: []string{"2080ti"},
		Source:  Source{Rates: paper, Total: reports, Context: inMessages + "github.com/lllyasviel/FramePack/issues/369 (by its 10.74 GiB)"},
	},
	{
		Name: "gtx-1080-ti", Title: "GTX 1080 Ti", Memory: 11 * units.GiB, Total: 11182 * units.MiB,
		Major: 6, Minor: 1, SMs: 28, ThreadsPerSM: 2048,
		Bandwidth: 484 * giga, FP32: 11.3 * tera,
		Host:    16 * giga,
		Aliases: []string{"1080ti"},
		Source:  Source{Rates: sheet, Total: reports},
	},
	{
		Name: "rtx-3050-8g", Title: "RTX 3050 8 GB", Memory: 8 * units.GiB,
		Major: 8, Minor: 6, SMs: 20, ThreadsPerSM: 1536,
		Bandwidth: 224 * giga, BF16: 18.2 * tera, FP16: 18.2 * tera, TF32: 9.1 * tera, FP32: 9.1 * tera,
		Host:   16 * giga,
		Source: Source{Rates: paper},
	},
	{
		Name: "rtx-3060-12g", Title: "RTX 3060 12 GB", Memory: 12 * units.GiB, Total: 12042 * units.MiB, Context: 141 * units.MiB,
		Major: 8, Minor: 6, SMs: 28, ThreadsPerSM: 1536,
		Bandwidth: 360 * giga, BF16: 25.4 * tera, FP16: 25.4 * tera, TF32: 12.7 * tera, FP32: 12.7 * tera,
		Host:    32 * giga,
		Aliases: []string{"rtx3060", "3060", "306012g"},
		Source:  Source{Rates: paper, Total: reports, Context: nvml},
	},
	{
		Name: "rtx-3060-ti", Title: "RTX 3060 Ti", Memory: 8 * units.GiB, Total: 7977 * units.MiB,
		Major: 8, Minor: 6, SMs: 38, ThreadsPerSM: 1536,
		Bandwidth: 448 * giga, BF16: 32.4 * tera, FP16: 32.4 * tera, TF32: 16.2 * tera, FP32: 16.2 * tera,
		Host:   32 * giga,
		Source: Source{Rates: paper, Total: reports},
	},
	{
		Name: "rtx-3070", Title: "RTX 3070", Memory: 8 * units.GiB, Total: 7977 * units.MiB,
		Major: 8, Minor: 6, SMs: 46, ThreadsPerSM: 1536,
		Bandwidth: 448 * giga, BF16: 40.6 * tera, FP16: 40.6 * tera, TF32: 20.3 * tera, FP32: 20.3 * tera,
		Host:    32 * giga,
		Aliases: []string{"3070"},
		Source:  Source{Rates: paper, Total: reports},
	},
	{
		Name: "rtx-3070-ti", Title: "RTX 3070 Ti", Memory: 8 * units.GiB, Total: 7977 * units.MiB,
		Major: 8, Minor: 6, SMs: 48, ThreadsPerSM: 1536,
		Bandwidth: 608 * giga, BF16: 43.4 * tera, FP16: 43.4 * tera, TF32: 21.7 * tera, FP32: 21.7 * tera,
		Host:   32 * giga,
		Source: Source{Rates: paper, Total: reports},
	},
	{
		Name: "rtx-3080-10g", Title: "RTX 3080 10 GB", Memory: 10 * units.GiB, Total: 10004 * units.MiB,
		Major: 8, Minor: 6, SMs: 68, ThreadsPerSM: 1536,
		Bandwidth: 760 * giga, BF16: 59.6 * tera, FP16: 59.6 * tera, TF32: 29.8 * tera, FP32: 29.8 * tera,
		Host:    32 * giga,
		Aliases: []string{"rtx3080", "3080"},
		Source:  Source{Rates: paper, Total: reports},
	},
	{
		Name: "rtx-3080-12g", Title: "RTX 3080 12 GB", Memory: 12 * units.GiB,
		Major: 8, Minor: 6, SMs: 70, ThreadsPerSM: 1536,
		Bandwidth: 912 * giga, BF16: 61.2 * tera, FP16: 61.2 * tera, TF32: 30.6 * tera, FP32: 30.6 * tera,
		Host:   32 * giga,
		Source: Source{Rates: paper},
	},
	{
		Name: "rtx-3080-ti", Title: "RTX 3080 Ti", Memory: 12 * units.GiB, Total: 12042 * units.MiB,
		Major: 8, Minor: 6, SMs: 80, ThreadsPerSM: 1536,
		Bandwidth: 912 * giga, BF16: 68.2 * tera, FP16: 68.2 * tera, TF32: 34.1 * tera, FP32: 34.1 * tera,
		Host:   32 * giga,
		Source: Source{Rates: paper, Total: reports},
	},
	{
		Name: "rtx-3090", Title: "RTX 3090", Memory: 24 * units.GiB, Total: 24259 * units.MiB, Context: 442 * units.MiB,
		Major: 8, Minor: 6, SMs: 82, ThreadsPerSM: 1536,
		Bandwidth: 936 * giga, BF16: 71.2 * tera, FP16: 71.2 * tera, TF32: 35.6 * tera, FP32: 35.6 * tera,
		Host:    32 * giga,
		Aliases: []string{"3090"},
		Source:  Source{Rates: paper, Total: reports, Context: "the larger of 420 and 442 MiB: PyTorch's message in two public reports of cards with 23.56 and 23.69 GiB, process less what PyTorch holds"},
	},
	{
		Name: "rtx-3090-ti", Title: "RTX 3090 Ti", Memory: 24 * units.GiB, Total: 24259 * units.MiB,
		Major: 8, Minor: 6, SMs: 84, ThreadsPerSM: 1536,
		Bandwidth: 1008 * giga, BF16: 80 * tera, FP16: 80 * tera, TF32: 40 * tera, FP32: 40 * tera,
		Host:    32 * giga,
		Aliases: []string{"3090ti"},
		Source:  Source{Rates: paper, Total: reports},
	},
	{
		Name: "rtx-4060", Title: "RTX 4060", Memory: 8 * units.GiB, Total: 8318222336, Context: 113 * units.MiB,
		Major: 8, Minor: 9, SMs: 24, ThreadsPerSM: 1536,
		Bandwidth: 272 * giga, BF16: 30.2 * tera, FP16: 30.2 * tera, TF32: 15.1 * tera, FP32: 15.1 * tera,
		Host:    16 * giga,
		Aliases: []string{"4060"},
		Source:  Source{Rates: paper, Total: "the data of the xMem paper", Context: nvml},
	},
	{
		Name: "rtx-4060-ti-8g", Title: "RTX 4060 Ti 8 GB", Memory: 8 * units.GiB,
		Major: 8, Minor: 9, SMs: 34, ThreadsPerSM: 1536,
		Bandwidth: 288 * giga, BF16: 44.2 * tera, FP16: 44.2 * tera, TF32: 22.1 * tera, FP32: 22.1 * tera,
		Host:    16 * giga,
		Aliases: []string{"rtx4060ti", "4060ti"},
		Source:  Source{Rates: paper},
	},
	{
		Name: "rtx-4060-ti-16g", Title: "RTX 4060 Ti 16 GB", Memory: 16 * units.GiB, Total: 15974 * units.MiB,
		Major: 8, Minor: 9, SMs: 34, ThreadsPerSM: 1536,
		Bandwidth: 288 * giga, BF16: 44.2 * tera, FP16: 44.2 * tera, TF32: 22.1 * tera, FP32: 22.1 * tera,
		Host:    16 * giga,
		Aliases: []string{"4060ti16g"},
		Source:  Source{Rates: paper, Total: reports},
	},
	{
		Name: "rtx-4070", Title: "RTX 4070", Memory: 12 * units.GiB, Total: 11878 * units.MiB,
		Major: 8, Minor: 9, SMs: 46, ThreadsPerSM: 1536,
		Bandwidth: 504 * giga, BF16: 58.2 * tera, FP16: 58.2 * tera, TF32: 29.1 * tera, FP32: 29.1 * tera,
		Host:    32 * giga,
		Aliases: []string{"4070"},
		Source:  Source{Rates: paper, Total: reports},
	},
	{
		Name: "rtx-4070-super", Title: "RTX 4070 SUPER", Memory: 12 * units.GiB,
		Major: 8, Minor: 9, SMs: 56, ThreadsPerSM: 1536,
		Bandwidth: 504 * giga, BF16: 71 * tera, FP16: 71 * tera, TF32: 35.5 * tera, FP32: 35.5 * tera,
		Host:   32 * giga,
		Source: Source{Rates: paper},
	},
	{
		Name: "rtx-4070-ti", Title: "RTX 4070 Ti", Memory: 12 * units.GiB,
		Major: 8, Minor: 9, SMs: 60, ThreadsPerSM: 1536,
		Bandwidth: 504 * giga, BF16: 80.2 * tera, FP16: 80.2 * tera, TF32: 40.1 * tera, FP32: 40.1 * tera,
		Host:   32 * giga,
		Source: Source{Rates: paper},
	},
	{
		Name: "rtx-4070-ti-super", Title: "RTX 4070 Ti SUPER", Memory: 16 * units.GiB,
		Major: 8, Minor: 9, SMs: 66, ThreadsPerSM: 1536,
		Bandwidth: 672 * giga, BF16: 88.2 * tera, FP16: 88.2 * tera, TF32: 44.1 * tera, FP32: 44.1 * tera,
		Host:   32 * giga,
		Source: Source{Rates: paper},
	},
	{
		Name: "rtx-4080", Title: "RTX 4080", Memory: 16 * units.GiB, Total: 16077 * units.MiB,
		Major: 8, Minor: 9, SMs: 76, ThreadsPerSM: 1536,
		Bandwidth: 717 * giga, BF16: 97.4 * tera, FP16: 97.4 * tera, TF32: 48.7 * tera, FP32: 48.7 * tera,
		Host:    32 * giga,
		Aliases: []string{"4080"},
		Source:  Source{Rates: paper, Total: reports},
	},
	{
		Name: "rtx-4080-super", Title: "RTX 4080 SUPER", Memory: 16 * units.GiB,
		Major: 8, Minor: 9, SMs: 80, ThreadsPerSM: 1536,
		Bandwidth: 736 * giga, BF16: 104.4 * tera, FP16: 104.4 * tera, TF32: 52.2 * tera, FP32: 52.2 * tera,
		Host:   32 * giga,
		Source: Source{Rates: paper},
	},
	{
		Name: "rtx-4090", Title: "RTX 4090", Memory: 24 * units.GiB, Total: 24207 * units.MiB, Context: 520 * units.MiB,
		Major: 8, Minor: 9, SMs: 128, ThreadsPerSM: 1536,
		Bandwidth: 1008 * giga, BF16: 165.2 * tera, FP16: 165.2 * tera, TF32: 82.6 * tera, FP32: 82.6 * tera,
		Host:    32 * giga,
		Aliases: []string{"4090"},
		Source:  Source{Rates: paper, Total: reports, Context: inMessages + "github.com/huggingface/lora-fast/issues/1; 503 in github.com/3DTopia/Phidias-Diffusion/issues/8, 416 in github.com/eosphoros-ai/DB-GPT-Hub/issues/248"},
	},
	{
		Name: "rtx-5060", Title: "RTX 5060", Memory: 8 * units.GiB,
		Major: 12, Minor: 0, SMs: 30, ThreadsPerSM: 1536,
		Bandwidth: 448 * giga, BF16: 38.4 * tera, FP16: 38.4 * tera, TF32: 19.2 * tera, FP32: 19.2 * tera,
		Host:   32 * giga,
		Source: Source{Rates: paper},
	},
	{
		Name: "rtx-5060-ti-8g", Title: "RTX 5060 Ti 8 GB", Memory: 8 * units.GiB,
		Major: 12, Minor: 0, SMs: 36, ThreadsPerSM: 1536,
		Bandwidth: 448 * giga, BF16: 47.4 * tera, FP16: 47.4 * tera, TF32: 23.7 * tera, FP32: 23.7 * tera,
		Host:   32 * giga,
		Source: Source{Rates: paper},
	},
	{
		Name: "rtx-5060-ti-16g", Title: "RTX 5060 Ti 16 GB", Memory: 16 * units.GiB,
		Major: 12, Minor: 0, SMs: 36, ThreadsPerSM: 1536,
		Bandwidth: 448 * giga, BF16: 47.4 * tera, FP16: 47.4 * tera, TF32: 23.7 * tera, FP32: 23.7 * tera,
		Host:    32 * giga,
		Aliases: []string{"rtx5060ti", "5060ti"},
		Source:  Source{Rates: paper},
	},
	{
		Name: "rtx-5070", Title: "RTX 5070", Memory: 12 * units.GiB,
		Major: 12, Minor: 0, SMs: 48, ThreadsPerSM: 1536,
		Bandwidth: 672 * giga, BF16: 61.8 * tera, FP16: 61.8 * tera, TF32: 30.9 * tera, FP32: 30.9 * tera,
		Host:   64 * giga,
		Source: Source{Rates: paper},
	},
	{
		Name: "rtx-5070-ti", Title: "RTX 5070 Ti", Memory: 16 * units.GiB,
		Major: 12, Minor: 0, SMs: 70, ThreadsPerSM: 1536,
		Bandwidth: 896 * giga, BF16: 87.8 * tera, FP16: 87.8 * tera, TF32: 43.9 * tera, FP32: 43.9 * tera,
		Host:   64 * giga,
		Source: Source{Rates: paper},
	},
	{
		Name: "rtx-5080", Title: "RTX 5080", Memory: 16 * units.GiB,
		Major: 12, Minor: 0, SMs: 84, ThreadsPerSM: 1536,
		Bandwidth: 960 * giga, BF16: 112.6 * tera, FP16: 112.6 * tera, TF32: 56.3 * tera, FP32: 56.3 * tera,
		Host:    64 * giga,
		Aliases: []string{"5080"},
		Source:  Source{Rates: paper},
	},
	{
		Name: "rtx-5090", Title: "RTX 5090", Memory: 32 * units.GiB, Total: 32113 * units.MiB, Context: 595 * units.MiB,
		Major: 12, Minor: 0, SMs: 170, ThreadsPerSM: 1536,
		Bandwidth: 1792 * giga, BF16: 209.6 * tera, FP16: 209.6 * tera, TF32: 104.8 * tera, FP32: 104.8 * tera,
		Host:    64 * giga,
		Aliases: []string{"5090"},
		Source:  Source{Rates: paper, Total: reports, Context: inMessages + "github.com/Wan-Video/Wan2.1/issues/465; 308 in github.com/murong-xu/CADS/issues/4 (by its 31.47 GiB)"},
	},
}

// instinct lists AMD cards.
var instinct = []Card{
	{
		Name: "mi250x", Title: "Instinct MI250X (one of two dies)", Memory: 64 * units.GiB,
		Major: 9, Minor: 0, SMs: 110, ThreadsPerSM: 2048, ROCm: true,
		Bandwidth: 1600 * giga, BF16: 191.5 * tera, FP16: 191.5 * tera, FP32: 23.9 * tera,
		Host:    32 * giga,
		Aliases: []string{"mi250"},
		Source:  Source{Rates: amd},
	},
	{
		Name: "mi300x", Title: "Instinct MI300X", Memory: 192 * units.GiB,
		Major: 9, Minor: 4, SMs: 304, ThreadsPerSM: 2048, ROCm: true,
		Bandwidth: 5300 * giga, BF16: 1307 * tera, FP16: 1307 * tera, TF32: 654 * tera, FP32: 163.4 * tera,
		Host:   64 * giga,
		Source: Source{Rates: amd},
	},
	{
		Name: "mi325x", Title: "Instinct MI325X", Memory: 256 * units.GiB,
		Major: 9, Minor: 4, SMs: 304, ThreadsPerSM: 2048, ROCm: true,
		Bandwidth: 6000 * giga, BF16: 1307 * tera, FP16: 1307 * tera, TF32: 654 * tera, FP32: 163.4 * tera,
		Host:   64 * giga,
		Source: Source{Rates: amd},
	},
}
