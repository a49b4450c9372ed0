"""Shortens the loops of a traced script: of every pass over a DataLoader the first batches and the last are enough."""
import functools

BATCHES = 3  # at the start of a pass, and as many optimizer steps where batches are accumulated
PASSES = 2  # over a loader that trains
KEPT = 4096  # bytes of every batch that stay: less is not followed to the end of a pass
LIKE = 40  # optimizer steps without a new highest level, of a script without DataLoaders


class Loops:
    def __init__(self, trace):
        self.trace = trace
        self.passes = {}  # by id of a loader that trained: passes finished
        self.skipped = 0

    def watch(self, module):
        """Of torch.utils.data.dataloader: iterators end early."""
        original = module.DataLoader.__iter__

        @functools.wraps(original)
        def __iter__(loader):
            if self.passes.get(id(loader), 0) >= PASSES:
                self.trace.finish("repeats")
            return Short(original(loader), loader, self)

        module.DataLoader.__iter__ = __iter__


def generation(module):
    """Of transformers.generation.utils: text ends at its longest. Whether it ends earlier only its tokens would tell."""
    longest = module.MaxLengthCriteria
    check, ask = longest.__call__, module.GenerationMixin._has_unfinished_sequences
    done = [False]

    def __call__(criteria, input_ids, scores=None, **kwargs):
        done[0] = input_ids.shape[1] >= criteria.max_length
        return check(criteria, input_ids, scores, **kwargs)

    def _has_unfinished_sequences(model, this_peer_finished, *args, **kwargs):
        over, done[0] = done[0], False
        return False if over else ask(model, this_peer_finished, *args, **kwargs)

    longest.__call__, module.GenerationMixin._has_unfinished_sequences = __call__, _has_unfinished_sequences


class Short:
    """An iterator over the first batches and the last."""

    def __init__(self, iterator, loader, loops):
        self.__dict__.update(iterator=iterator, loader=loader, loops=loops, count=0, steps=loops.trace.steps, backwards=loops.trace.backwards, last=False, over=False, endless=_endless(loader), levels=[])

    def __getattr__(self, name):
        return getattr(self.iterator, name)

    def __iter__(self):
        return self

    def __len__(self):
        """A script that asks how many batches are left calls next() as often itself: none may be left out."""
        self.__dict__["endless"] = True
        return len(self.iterator)

    def __next__(self):
        trace = self.loops.trace
        if self.over:
            raise StopIteration
        if self.last:
            self.end()
        if self.endless:  # its end is not known: cutting it short would fail a script that only calls next()
            return next(self.iterator)
        self.levels.append(trace.level)
        enough = self.count >= BATCHES and (trace.steps - self.steps >= BATCHES or trace.backwards == self.backwards and not self.grows())
        if enough or trace.hurried() and self.count:
            if self.grows():
                trace.cut = True
            self.__dict__["last"] = True
            batch = self.final()
            if batch is None:
                self.end()
            return batch[0]
        self.__dict__["count"] = self.count + 1
        try:
            return next(self.iterator)
        except StopIteration:
            self.end()

    def grows(self):
        """Whether a pass without backward keeps something of every batch: predictions that are gathered on the GPU, say. Then all of its batches count."""
        last = self.levels[-BATCHES:]
        return self.loops.trace.backwards == self.backwards and len(last) == BATCHES and all(b - a > KEPT for a, b in zip(last, last[1:]))

    def end(self):
        self.__dict__["over"] = True
        if self.loops.trace.steps > self.steps:
            self.loops.passes[id(self.loader)] = self.loops.passes.get(id(self.loader), 0) + 1
        raise StopIteration

    def final(self):
        """The last batch, which may be a short one; None where it cannot be had without reading all before it."""
        inner = self.iterator
        if not hasattr(inner, "_sampler_iter") or getattr(inner, "_dataset_kind", 1) != 0:
            self.loops.skipped += 1
            return None
        last, seen = None, 0
        for last in inner._sampler_iter:
            seen += 1
            if seen > 1_000_000:
                return None
        self.loops.skipped += max(seen - 1, 0)
        return None if last is None else (inner._dataset_fetcher.fetch(last),)


def _endless(loader):
    """Whether a loader's length is not known: its data set is a stream, or its sampler repeats for ever behind a length that the loader tells for one pass (InfiniteDataLoader of the YOLO repositories)."""
    try:
        len(loader)
        len(getattr(loader, "_index_sampler", ()))
        return False
    except TypeError:
        return True
