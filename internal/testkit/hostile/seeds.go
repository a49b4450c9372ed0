package hostile

import (
	"fmt"
	"strings"
)

// Snapshot is a small valid recording: a model, three steps of training on two streams, a failure, and what is left.
func Snapshot() []byte {
	var w recorder
	weights := w.alloc(4<<20, "Model.__init__", 10)
	w.note("START", "Optimizer.step#Adam.step")
	for step := range 3 {
		input := w.alloc(1<<20, "main", 30)
		hidden := w.alloc(2<<20, "forward", 14)
		kept := w.alloc(512<<10, "leak", 21) // never freed: it grows
		_ = kept
		gradient := w.alloc(4<<20, "backward", 33)
		w.free(hidden)
		if step == 0 {
			w.alloc(8<<20, "step", 40)
		}
		w.free(gradient)
		w.free(input)
		w.note("END", "Optimizer.step#Adam.step")
	}
	w.event("oom", 0, 64<<20, "forward", 14, `,"device_free":1048576`)
	_ = weights
	return []byte(fmt.Sprintf(`{"segments":[%s],"device_traces":[[%s]],"external_annotations":[%s],"allocator_settings":%s}`,
		strings.Join(w.segments, ","), strings.Join(w.events, ","), strings.Join(w.notes, ","),
		`{"PYTORCH_CUDA_ALLOC_CONF":"","max_split_size":-1,"garbage_collection_threshold":0.0,"expandable_segments":false,"roundup_power2_divisions":{"1":0,"256":0}}`))
}

// recorder writes a recording whose addresses are those of one segment for each allocation.
type recorder struct {
	events, segments, notes []string
	next                    int
	alive                   map[int]int // index into segments
}

type block struct{ addr, size int }

func (w *recorder) alloc(size int, function string, line int) block {
	if w.next == 0 {
		w.next, w.alive = 0x7f0000000000, map[int]int{}
	}
	b := block{w.next, size}
	w.next += (size + 0x1fffff) &^ 0x1fffff
	w.event("segment_alloc", b.addr, size, function, line, "")
	w.event("alloc", b.addr, size, function, line, "")
	w.alive[b.addr] = len(w.segments)
	w.segments = append(w.segments, w.segment(b, "active_allocated", function, line))
	return b
}

func (w *recorder) free(b block) {
	w.event("free_requested", b.addr, b.size, "free", 50, "")
	w.event("free_completed", b.addr, b.size, "free", 50, "")
	w.segments[w.alive[b.addr]] = w.segment(b, "inactive", "free", 50)
}

func (w *recorder) segment(b block, state, function string, line int) string {
	used := b.size
	if state == "inactive" {
		used = 0
	}
	return fmt.Sprintf(`{"device":0,"address":%d,"total_size":%d,"allocated_size":%d,"active_size":%d,"requested_size":%d,"stream":0,"segment_type":"large","segment_pool_id":[0,0],"is_expandable":false,"frames":[],"blocks":[{"address":%d,"size":%d,"requested_size":%d,"state":%q,"frames":%s}]}`,
		b.addr, b.size, used, used, used, b.addr, b.size, used, state, frames(function, line))
}

func (w *recorder) event(action string, addr, size int, function string, line int, more string) {
	w.events = append(w.events, fmt.Sprintf(`{"action":%q,"addr":%d,"size":%d,"stream":0,"time_us":%d,"frames":%s%s}`, action, addr, size, 1000+len(w.events), frames(function, line), more))
}

func (w *recorder) note(stage, name string) {
	w.notes = append(w.notes, fmt.Sprintf(`{"stage":%q,"name":%q,"device":0,"time_us":%d}`, stage, name, 1000+len(w.events)))
}

func frames(function string, line int) string {
	return fmt.Sprintf(`[{"name":%q,"filename":"train.py","line":%d},{"name":"<module>","filename":"train.py","line":60}]`, function, line)
}

// Log is a traceback that ends in PyTorch's message.
const Log = `step 41 loss 2.31
Traceback (most recent call last):
  File "train.py", line 60, in <module>
    main()
  File "train.py", line 33, in main
    loss.backward()
  File "/opt/venv/lib/python3.12/site-packages/torch/_tensor.py", line 647, in backward
    torch.autograd.backward(
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB of which 1.14 GiB is free. Process 4242 has 3.20 GiB memory in use. Including non-PyTorch memory, this process has 19.30 GiB memory in use. Of the allocated memory 17.11 GiB is allocated by PyTorch, and 1.42 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.
[rank1]: RuntimeError: CUDA error: out of memory
slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks have been OOM Killed.
`

// Source is a training script with some of what lint knows.
const Source = `import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 64, 3)
        self.fc = nn.Linear(1024, 10)

    def forward(self, x):
        x = self.conv(x).relu()
        return self.fc(x.flatten(1))


def train(model, loader, optimizer):
    losses = []
    total = 0
    for epoch in range(3):
        for x, y in loader:
            out = model(x.cuda())
            loss = nn.functional.cross_entropy(out, y.cuda())
            loss.backward(retain_graph=True)
            optimizer.step()
            losses.append(loss)
            total += loss
        with torch.no_grad():
            preds = [model(x.cuda()) for x, _ in loader]
    print(f"{total / len(losses):.3f} {len(preds)!r:>{10}}")
    return losses


if __name__ == "__main__":
    net = Net().cuda()
    train(net, [], torch.optim.Adam(net.parameters(), lr=1e-3))
`

// Config is the config.json of a small model.
const Config = `{"model_type":"llama","architectures":["LlamaForCausalLM"],"hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"intermediate_size":128,"vocab_size":100,"max_position_embeddings":64,"hidden_act":"silu","rms_norm_eps":1e-6,"tie_word_embeddings":false,"attention_dropout":0.0,"rope_parameters":{"rope_theta":10000.0,"rope_type":"default"},"torch_dtype":"bfloat16"}`

// Configs are small models of several kinds.
var Configs = []string{
	Config,
	`{"model_type":"gpt2","n_layer":2,"n_embd":64,"n_head":4,"vocab_size":100,"n_positions":64}`,
	`{"model_type":"bert","num_hidden_layers":1,"hidden_size":64,"num_attention_heads":4,"intermediate_size":64,"vocab_size":100,"max_position_embeddings":64,"id2label":{"0":"a","1":"b"}}`,
	`{"model_type":"t5","num_layers":1,"d_model":64,"d_kv":16,"d_ff":64,"num_heads":4,"vocab_size":100,"feed_forward_proj":"gated-gelu"}`,
	`{"model_type":"vit","num_hidden_layers":1,"hidden_size":64,"num_attention_heads":4,"intermediate_size":64,"image_size":32,"patch_size":8}`,
	`{"model_type":"swin","embed_dim":16,"depths":[1,1],"num_heads":[2,4],"image_size":32,"patch_size":4,"window_size":4}`,
	`{"model_type":"whisper","d_model":64,"encoder_layers":1,"decoder_layers":1,"encoder_attention_heads":4,"decoder_attention_heads":4,"encoder_ffn_dim":64,"decoder_ffn_dim":64,"vocab_size":100,"max_source_positions":1500,"max_target_positions":16,"num_mel_bins":8}`,
	`{"model_type":"mixtral","num_hidden_layers":1,"hidden_size":64,"num_attention_heads":4,"num_key_value_heads":2,"intermediate_size":64,"vocab_size":100,"num_local_experts":2,"num_experts_per_tok":1}`,
}

// Job is a job with its model inside.
const Job = `{"id":"a","model":"tiny","config":` + Config + `,"task":"causal-lm","batch":2,"seq":16,"param_dtype":"fp32","autocast":"bf16","optimizer":"adamw","checkpointing":true,"attn":"sdpa","accumulate":2,"loop":"plain","freeze":["model.embed"]}`

// Notes are what the probe writes about a process.
const Notes = `{"schema":"plimsoll.notes/1","run":"1","pid":4242,"rank":0,"world_size":2,"torch":"2.11.0","argv":["train.py"],"cwd":"/work","ended":true,"device":0,"cards":[{"index":0,"name":"H200","capacity":150000000000}],"cap_fraction":0.5,"outside":500000000,"step":3,"phase":"backward","peak":{"allocated":8388608,"reserved":10485760,"step":2,"phase":"backward"},"history":[[0,1048576,2097152],[1,2097152,2097152],[2,3145728,4194304],[3,4194304,4194304]],"ooms":[{"device":0,"requested":2147483648,"limit":75000000000,"device_free":1048576,"allocated":8388608,"reserved":10485760,"step":3,"phase":"backward","stack":[{"file":"train.py","line":33,"function":"main"}]}],"oom_count":1,"error":{"type":"OutOfMemoryError","message":"CUDA out of memory. Tried to allocate 2.00 GiB.","out_of_memory":true,"traceback":"Traceback"},"loaders":[{"batch":32,"sampler":"RandomSampler"}],"optimizers":{"a":{"class":"torch.optim.Adam","momentum":true,"parameter_bytes":4194304}},"host":{"resident":1073741824,"available":8589934592},"recording":{"stacks_every":1,"stack_cost":0.01},"problems":[]}`

// Holders are who keeps the memory of Snapshot alive.
const Holders = `{"schema":"plimsoll.holders/1","when":"oom","pid":4242,"rank":0,"step":3,"phase":"forward","time":1700000000.5,"walk":{"seconds":0.1,"objects":100,"tensors":4,"nodes":2,"complete":true},"running":[{"file":"train.py","line":33,"function":"main"}],"devices":[{"device":0,"allocated":14680064,"named":12582912}],"holders":[{"role":"parameter","name":"model.fc.weight","place":{"file":"train.py","line":10,"function":"main"},"count":1,"bytes":4194304,"addresses":[139637976727552],"sizes":[4194304]},{"role":"saved","op":"MulBackward0","name":"losses","count":2,"bytes":1048576,"addresses":[139637986164736,2097152],"sizes":[524288],"also":[{"name":"total"}]}]}`

// Graph is a linear layer, an activation and a sum, as torch.export writes them.
const Graph = `{"graph_module":{"graph":{"inputs":[{"as_tensor":{"name":"w"}},{"as_tensor":{"name":"x"}}],"outputs":[{"as_tensor":{"name":"loss"}}],"nodes":[` +
	`{"target":"torch.ops.aten.linear.default","inputs":[{"name":"input","arg":{"as_tensor":{"name":"x"}}},{"name":"weight","arg":{"as_tensor":{"name":"w"}}}],"outputs":[{"as_tensor":{"name":"h"}}],"metadata":{}},` +
	`{"target":"torch.ops.aten.softmax.int","inputs":[{"name":"self","arg":{"as_tensor":{"name":"h"}}},{"name":"dim","arg":{"as_int":1}}],"outputs":[{"as_tensor":{"name":"y"}}],"metadata":{}},` +
	`{"target":"torch.ops.aten.sum.default","inputs":[{"name":"self","arg":{"as_tensor":{"name":"y"}}}],"outputs":[{"as_tensor":{"name":"loss"}}],"metadata":{}}],` +
	`"tensor_values":{"w":{"dtype":7,"requires_grad":true,"sizes":[{"as_int":4},{"as_int":4}],"strides":[{"as_int":4},{"as_int":1}]},"x":{"dtype":7,"requires_grad":false,"sizes":[{"as_expr":{"expr_str":"s0"}},{"as_int":4}],"strides":[{"as_int":4},{"as_int":1}]},` +
	`"h":{"dtype":7,"requires_grad":true,"sizes":[{"as_expr":{"expr_str":"s0"}},{"as_int":4}],"strides":[{"as_int":4},{"as_int":1}]},"y":{"dtype":7,"requires_grad":true,"sizes":[{"as_expr":{"expr_str":"s0"}},{"as_int":4}],"strides":[{"as_int":4},{"as_int":1}]},"loss":{"dtype":7,"requires_grad":true,"sizes":[],"strides":[]}}},` +
	`"signature":{"input_specs":[{"parameter":{"arg":{"name":"w"},"parameter_name":"fc.weight"}},{"user_input":{"arg":{"as_tensor":{"name":"x"}}}}],"output_specs":[]}}}`
