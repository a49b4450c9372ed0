"""A step recorded as a CUDA graph."""
import torch

net = torch.nn.Linear(4, 4).cuda()
x = torch.randn(2, 4, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    net(x).sum().backward()
