import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical

gamma = 0.99


class Policy(nn.Module):
    def __init__(self):
        super(Policy, self).__init__()
        self.conv1 = nn.Conv2d(4, 32, 8, stride=4)
        self.conv2 = nn.Conv2d(32, 64, 4, stride=2)
        self.affine = nn.Linear(64 * 9 * 9, 512)
        self.head = nn.Linear(512, 6)
        self.saved_log_probs = []
        self.rewards = []

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = F.relu(self.affine(x.flatten(1)))
        return F.softmax(self.head(x), dim=1)


policy = Policy().cuda()
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)


def select_action(state):
    probs = policy(state)
    m = Categorical(probs, validate_args=False)
    action = m.sample()
    policy.saved_log_probs.append(m.log_prob(action))
    return action


def finish_episode():
    R, returns = 0, []
    for r in policy.rewards[::-1]:
        R = r + gamma * R
        returns.insert(0, R)
    recent = policy.saved_log_probs[-len(returns):]
    loss = torch.stack([-lp.mean() * R for lp, R in zip(recent, returns)]).sum()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
    del policy.rewards[:]


for episode in range(200):
    state = torch.rand(64, 4, 84, 84, device="cuda")
    for t in range(8):
        action = select_action(state)
        state = torch.rand(64, 4, 84, 84, device="cuda")
        policy.rewards.append(1.0)
    finish_episode()
print("finished")
