"""nn.AdaptiveLogSoftmaxWithLoss where targets have no values: each cluster has at most all rows.

PyTorch's own forward counts the rows of all clusters and raises an error where they are not those of the batch (torch/nn/modules/adaptive.py). How many go to each cluster, only
values would tell, so that every one is bounded by the batch, and they add up to more. Otherwise this does the same, operator by operator.
"""


def install(torch, without_data):
    from torch.nn import functional as F
    from torch.nn.modules.adaptive import AdaptiveLogSoftmaxWithLoss, _ASMoutput

    original = AdaptiveLogSoftmaxWithLoss.forward

    def forward(self, input_, target_):
        if not without_data(target_) or target_.dim() != 1 or input_.dim() != 2:
            return original(self, input_, target_)
        output, chosen = input_.new_zeros(target_.size(0)), target_.new_empty(target_.size(0))
        edges = [0, *self.cutoffs]
        for i, (low, high) in enumerate(zip(edges, edges[1:])):
            mask = (target_ >= low) & (target_ < high)
            rows = mask.nonzero().squeeze()
            if i == 0:
                chosen.index_copy_(0, rows, target_[mask])
                continue
            relative = target_[mask] - low
            scores = self.tail[i - 1](input_.index_select(0, rows))
            chosen.index_fill_(0, rows, self.shortlist_size + i - 1)
            logarithms = F.log_softmax(scores, dim=1)
            output.index_copy_(0, rows, logarithms.gather(1, relative.unsqueeze(1)).squeeze(1))
        head = F.log_softmax(self.head(input_), dim=1)
        output += head.gather(1, chosen.unsqueeze(1)).squeeze()
        return _ASMoutput(output, (-output).mean())

    AdaptiveLogSoftmaxWithLoss.forward = forward
