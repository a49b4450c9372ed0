"""No model and no optimizer: four numbers are fitted by hand."""
import torch

x = torch.linspace(-3, 3, 1 << 20, device="cuda")
y = torch.sin(x)
numbers = [torch.randn((), device="cuda", requires_grad=True) for _ in range(4)]
for t in range(6):
    a, b, c, d = numbers
    loss = (a + b * x + c * x**2 + d * x**3 - y).pow(2).sum()
    loss.backward()
    with torch.no_grad():
        for n in numbers:
            n -= 1e-6 * n.grad
            n.grad = None
print(f"{loss.item():.3f}")
