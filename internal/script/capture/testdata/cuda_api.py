"""Everything a script may ask of torch.cuda and of tensors on it before it trains."""
import torch
import torch.nn as nn

assert torch.cuda.is_available() and torch.cuda.device_count() == 1 and torch.cuda.is_initialized()
dev = torch.device("cuda", torch.cuda.current_device())
p = torch.cuda.get_device_properties(dev)
print(p, p.name, p.total_memory, p.major, p.minor, p.multi_processor_count)
free, total = torch.cuda.mem_get_info(dev)
assert 0 < free <= total
stats = torch.cuda.memory_stats()
print(stats.get("allocated_bytes.all.peak", 0), stats["num_ooms"] if "num_ooms" in stats else 0, torch.cuda.memory_summary(), torch.cuda.utilization() if hasattr(torch.cuda, "utilization") else 0)
x = torch.randn(4, 8, device="cuda:0")
assert x.is_cuda and x.device.type == "cuda" and x.device.index == 0 and str(x.device) == "cuda:0" and x.get_device() == 0
assert not x.cpu().is_cuda and x.cpu().device.type == "cpu" and x.to("cpu").device == torch.device("cpu")
assert (x + 1).is_cuda and x[:2].is_cuda and torch.cat([x, x]).device == x.device and torch.zeros_like(x).is_cuda and x.new_zeros(3).is_cuda
assert not torch.zeros(2).is_cuda and torch.zeros(2).to(x).is_cuda and torch.zeros(2).to(x.device).is_cuda and torch.zeros(2).cuda(0).is_cuda
assert torch.tensor([1.0], device=0).is_cuda and torch.zeros(2).to(0).is_cuda
assert x.type() == "torch.cuda.FloatTensor" and isinstance(x, torch.Tensor) and isinstance(x, torch.cuda.FloatTensor)
assert x.type(torch.float16).is_cuda and x.half().is_cuda and torch.zeros(2).type("torch.cuda.LongTensor").is_cuda
pinned = torch.zeros(3).pin_memory()
assert pinned.is_pinned() and torch.empty(3, pin_memory=True).is_pinned()
s, e = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True)
with torch.cuda.stream(s):
    e.record(s)
torch.cuda.current_stream().wait_stream(s)
torch.cuda.default_stream().synchronize()
s.wait_event(e)
x.record_stream(torch.cuda.current_stream())
g = torch.Generator("cuda")
g.manual_seed(3)
assert isinstance(g, torch.Generator) and g.device.type == "cuda"
torch.randn(2, generator=g, device="cuda")
torch.cuda.manual_seed_all(1)
state = torch.cuda.get_rng_state()
torch.cuda.set_rng_state(state)
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.benchmark = True
print(torch.backends.cudnn.version(), torch.backends.cudnn.is_available(), torch.backends.cuda.is_built())
torch.backends.cuda.enable_flash_sdp(True)
torch.backends.cuda.preferred_linalg_library()
with torch.cuda.device(0):
    torch.cuda.empty_cache()
torch.cuda.nvtx.range_push("a")
torch.cuda.nvtx.range_pop()
torch.cuda.reset_peak_memory_stats()
print(torch.cuda.nccl.version() if hasattr(torch.cuda, "nccl") else None)
with torch.device("cuda"):
    model = nn.Linear(8, 3)
    assert torch.zeros(1).is_cuda
assert model.weight.is_cuda and next(model.parameters()).device == dev, model.weight.device
assert not torch.zeros(1).is_cuda
if hasattr(torch, "accelerator"):
    assert torch.accelerator.is_available() and torch.accelerator.current_accelerator().type == "cuda"
    torch.accelerator.synchronize()
opt = torch.optim.Adam(model.parameters(), capturable=False, fused=True)
scaler = torch.cuda.amp.GradScaler(init_scale=2.0**10)
class Double(torch.autograd.Function):
    @staticmethod
    @torch.cuda.amp.custom_fwd
    def forward(ctx, x):
        return x * 2
    @staticmethod
    @torch.cuda.amp.custom_bwd
    def backward(ctx, g):
        return g * 2
with torch.autocast(device_type=x.device.type, dtype=torch.float16):
    out = model(x)
    assert out.is_cuda and out.device == x.device == dev, (out.device, x.device)
    loss = Double.apply(out).float().square().mean()
assert loss.device == dev and loss.detach().cpu().device.type == "cpu"
scaler.scale(loss).backward()
assert model.weight.grad.is_cuda and model.weight.grad.device == dev
scaler.step(opt)
print("trained")
