# truth: the agent's replay memory lies on the card
# holder: variable agent.memory[*][0]
import torch
from torch import nn

import kit

class Agent:
    def __init__(self):
        self.model = kit.net()
        self.memory = []

    def learn(self):
        for step in kit.steps():
            state, action = kit.batch()
            self.memory.append((state, action))


agent = Agent()
agent.learn()
