"""What a split means to the other ranks of a job: gradients are shared once for a batch, whatever the number of its parts on each rank."""
import functools
import weakref


class Ranks:
    def __init__(self, torch):
        self.torch, self.models = torch, weakref.WeakSet()

    def install(self):
        """Remember every model that is wrapped for data-parallel training."""
        parallel, ranks = self.torch.nn.parallel.DistributedDataParallel, self
        original = parallel.__init__

        @functools.wraps(original)
        def __init__(model, *args, **kwargs):
            original(model, *args, **kwargs)
            ranks.models.add(model)

        parallel.__init__ = __init__

    def share(self, now):
        """Whether the next backward shares its gradients. DDP reads this in forward, as set by its own no_sync (torch/nn/parallel/distributed.py)."""
        for model in self.models:
            model.require_backward_grad_sync = now

    def several(self):
        """Whether this process trains together with others."""
        distributed = self.torch.distributed
        return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1

    def reduces_early(self):
        """Whether gradients may be shared before the last part of a batch: other ranks are there, and it is not DDP that shares."""
        return self.several() and not self.models
