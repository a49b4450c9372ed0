"""Everything at the top level."""
import torch
from torch.utils.data import DataLoader, TensorDataset

device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Sequential(torch.nn.Linear(2048, 8192), torch.nn.ReLU(), torch.nn.Linear(8192, 8192), torch.nn.ReLU(), torch.nn.Linear(8192, 100)).to(device)
loader = DataLoader(TensorDataset(torch.randn(3 * 4096, 2048), torch.randint(0, 100, (3 * 4096,))), batch_size=4096, shuffle=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for x, y in loader:
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
