# # Which layers learn?
# In[1]:
import torch
from torch import nn
import torch.nn.functional as F

# In[2]:
device = torch.device("cuda:0")
model = nn.Sequential(*[m for i in range(6) for m in (nn.Linear(1024, 1024), nn.BatchNorm1d(1024), nn.ReLU())], nn.Linear(1024, 100)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

# In[3]:
grad_history = []
for it in range(300):
    xb = torch.randn(512, 1024, device=device)
    yb = torch.randint(0, 100, (512,), device=device)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(xb), yb)
    loss.backward()
    grad_history.append({name: p.grad.clone() for name, p in model.named_parameters()})
    optimizer.step()

# In[4]:
norms = [[g.norm().item() for g in step.values()] for step in grad_history]
print(len(norms), norms[-1][:3])
