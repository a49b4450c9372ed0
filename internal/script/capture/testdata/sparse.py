"""Sparse tensors: an adjacency matrix in rows that are compressed, and embeddings with sparse gradients."""
import torch
import torch.nn as nn
from torch.nn.attention import SDPBackend, sdpa_kernel

adj = torch.eye(400).to_sparse_csr().cuda()
embedding = nn.Embedding(5000, 100, sparse=True).cuda()
layer = nn.Linear(100, 64).cuda()
optimizers = torch.optim.SparseAdam(embedding.parameters()), torch.optim.Adam(layer.parameters())
for _ in range(3):
    h = adj @ layer(embedding(torch.randint(0, 5000, (400,)).cuda()))
    q = h.view(1, 4, 100, 64).half()
    with sdpa_kernel([SDPBackend.MATH]):
        h = nn.functional.scaled_dot_product_attention(q, q, q).float()
    h.pow(2).mean().backward()
    for o in optimizers:
        o.step()
        o.zero_grad()
