package explain

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/internal/answer/report"
	"github.com/plimsoll/plimsoll/internal/evidence/oomtext"
)

// TestPublicMessages scores explain on messages people posted in public threads. They are not ours to keep, so the test
// runs where PLIMSOLL_MESSAGES names the files, separated by colons (make messages). What each should get is in testdata/messages.json; rows that say
// what their thread concluded are counted by themselves, and at least 85 of 100 must be right.
func TestPublicMessages(t *testing.T) {
	paths := os.Getenv("PLIMSOLL_MESSAGES")
	if paths == "" {
		t.Skip("PLIMSOLL_MESSAGES is not set")
	}
	want := map[string][]string{}
	b, err := os.ReadFile("testdata/messages.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	right, all, concluded, agrees := 0, 0, 0, 0
	for path := range strings.SplitSeq(paths, ":") {
		for _, m := range publicMessages(t, path) {
			r := explained(t, m.ID, m.Message)
			if len(want[m.ID]) == 0 {
				if len(r.Findings) > 0 && !m.Expect.Lenient {
					t.Errorf("%s: not a memory failure, and told %s", m.ID, r.Findings[0].ID)
				}
				continue
			}
			all++
			got := len(r.Findings) > 0 && slices.Contains(want[m.ID], r.Findings[0].ID)
			if m.Truth != "" {
				concluded++
			}
			if got {
				right++
			}
			if got && m.Truth != "" {
				agrees++
			}
			if !got {
				t.Logf("%s: %s, want one of %v", m.ID, told(r), want[m.ID])
			}
			checkAdvice(t, m.ID, r)
		}
	}
	t.Logf("%d of %d public messages get a right first finding; of %d whose thread came to a conclusion, %d", right, all, concluded, agrees)
	if 100*right < 85*all || 100*agrees < 85*concluded {
		t.Error("fewer than 85 of 100")
	}
}

type publicMessage struct {
	ID, Message, Truth string
	Expect             struct{ Lenient bool }
}

func publicMessages(t *testing.T, path string) []publicMessage {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []publicMessage
	for line := range strings.SplitSeq(strings.TrimSpace(string(b)), "\n") {
		var m publicMessage
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

func explained(t *testing.T, name, text string) *report.Explain {
	t.Helper()
	log, err := oomtext.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return Build([]Evidence{{Name: name, Messages: log.Messages, Hints: log.Hints}})
}

func told(r *report.Explain) string {
	if len(r.Findings) == 0 {
		return "nothing"
	}
	return r.Findings[0].ID
}

// Messages written to PyTorch's formats, and what each must be told.
func TestMessagesGetTheirCause(t *testing.T) {
	t.Parallel()
	const advice = " If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
	for _, c := range []struct{ name, text, want string }{
		{"another process", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 79.10 GiB of which 300.00 MiB is free. Process 4711 has 70.00 GiB memory in use. Including non-PyTorch memory, this process has 8.80 GiB memory in use. Of the allocated memory 8.10 GiB is allocated by PyTorch, and 200.00 MiB is reserved by PyTorch but unallocated." + advice, "other-process"},
		{"fragmentation", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB of which 0.50 GiB is free. Including non-PyTorch memory, this process has 23.10 GiB memory in use. Of the allocated memory 15.00 GiB is allocated by PyTorch, and 7.60 GiB is reserved by PyTorch but unallocated." + advice, "fragmentation"},
		{"a limit below the card", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 139.80 GiB of which 120.00 GiB is free. Including non-PyTorch memory, this process has 16.20 GiB memory in use. 16.00 GiB allowed; Of the allocated memory 15.40 GiB is allocated by PyTorch, and 62.00 MiB is reserved by PyTorch but unallocated." + advice, "free-but-fails"},
		{"more than the card", "RuntimeError: CUDA out of memory. Tried to allocate 1862.65 GiB (GPU 0; 15.90 GiB total capacity; 1.00 GiB already allocated; 14.00 GiB free; 1.10 GiB reserved in total by PyTorch)", "absurd-request"},
		{"spilled into main memory", "RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 8.00 GiB total capacity; 12.00 GiB already allocated; 0 bytes free; 13.00 GiB reserved in total by PyTorch)", "sysmem-fallback"},
		{"an unseen holder", "RuntimeError: CUDA out of memory. Tried to allocate 64.00 MiB (GPU 0; 23.70 GiB total capacity; 2.00 GiB already allocated; 10.00 MiB free; 2.10 GiB reserved in total by PyTorch)", "other-process"},
		{"the host", "RuntimeError: [enforce fail at alloc_cpu.cpp:75] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 1234567890 bytes. Error code 12 (Cannot allocate memory)", "host-oom"},
		{"shared memory of workers", "RuntimeError: DataLoader worker (pid 99) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.", "host-oom"},
		{"cuBLAS", "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "library-oom"},
		{"Triton", "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 200000, Hardware limit: 101376. Reducing block sizes or `num_stages` may help.", "not-an-oom"},
		{"the model does not load", "Traceback (most recent call last):\n  File \"train.py\", line 12, in <module>\n    model = Net().cuda()\n  File \"/x/site-packages/torch/nn/modules/module.py\", line 1050, in cuda\n    return self._apply(lambda t: t.cuda(device))\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 200.00 MiB. GPU 0 has a total capacity of 8.00 GiB of which 10.00 MiB is free. Including non-PyTorch memory, this process has 7.98 GiB memory in use. Of the allocated memory 7.50 GiB is allocated by PyTorch, and 2.00 MiB is reserved by PyTorch but unallocated." + advice, "model-load"},
		{"simply full", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 768.00 MiB. GPU 0 has a total capacity of 16.00 GiB of which 500.00 MiB is free. Including non-PyTorch memory, this process has 15.50 GiB memory in use. Of the allocated memory 15.00 GiB is allocated by PyTorch, and 62.00 MiB is reserved by PyTorch but unallocated." + advice, "activations-dominate"},
	} {
		log, err := oomtext.Read(strings.NewReader(c.text))
		if err != nil {
			t.Fatal(err)
		}
		r := Build([]Evidence{{Name: c.name, Messages: log.Messages}})
		if len(r.Findings) == 0 || r.Findings[0].ID != c.want {
			t.Errorf("%s: %v, want %s first", c.name, r.Findings, c.want)
		}
	}
}

// Retries inside an except block: the requests shrink, the memory stays.
func TestRetriesThatKeepTheirMemoryAreTold(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, q := range []string{"512.00", "256.00", "128.00"} {
		b.WriteString("OOM, retrying: CUDA out of memory. Tried to allocate " + q + " MiB. GPU 0 has a total capacity of 8.00 GiB of which 100.00 MiB is free. Including non-PyTorch memory, this process has 7.90 GiB memory in use. Of the allocated memory 7.20 GiB is allocated by PyTorch, and 20.00 MiB is reserved by PyTorch but unallocated.\n")
	}
	log, err := oomtext.Read(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	r := Build([]Evidence{{Name: "log", Messages: log.Messages}})
	if len(r.Findings) == 0 || r.Findings[0].ID != "exception-holds-tensors" {
		t.Errorf("%d messages, findings %v", len(log.Messages), r.Findings)
	}
}
