"""Follows sparse tensors on a GPU: their indices and values are on it, the matrix they stand for is not.

A sparse tensor becomes a tensor without data of its whole shape, whose own storage is not counted; what it consists of is counted and lives as long as it does. PyTorch then runs as on a
dense matrix: products and sums have the right shapes. Results that are sparse again are treated alike. What cuSPARSE and sorting take meanwhile is not known: it is bounded, and told as such.
"""
import weakref

from . import _graph

PRODUCTS = ("mm", "addmm", "mv", "addmv", "bmm", "baddbmm", "_sparse_addmm", "_sparse_mm")
# A product may sort the indices of a matrix that lies transposed, and writes its rows as offsets
# (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/sparse/cuda/SparseCUDATensorMath.cu, s_addmm_out_sparse_dense_cuda, and
# https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/sparse/cuda/SparseCUDATensor.cu, _coalesce_sparse_cuda): indices of one number each, three times, beside what sorting takes.
SORTING = 128  # bytes an entry, at most
COMPRESSED = {"sparse_csr": ("crow_indices", "col_indices"), "sparse_csc": ("ccol_indices", "row_indices"), "sparse_bsr": ("crow_indices", "col_indices"), "sparse_bsc": ("ccol_indices", "row_indices")}


class Sparse:
    def __init__(self, torch, trace):
        self.torch, self.trace = torch, trace
        self.known = {}  # by storage of the matrix that is stood for: [what it consists of, values last]; its layout; a reference that forgets it

    def of(self, tensor):
        """Indices and values of a tensor that stands for a sparse one; None of others."""
        if not isinstance(tensor, self.trace.FakeTensor):
            return None
        entry = self.known.get(tensor.untyped_storage()._cdata)
        return None if entry is None else entry[0]

    # Made, or moved ------------------------------------------------------------------------------------------------------------

    def arrives(self, tensor):
        """A sparse tensor of the host's goes to the GPU."""
        torch, base = self.torch, self.torch.Tensor
        if tensor.layout is torch.sparse_coo:
            parts = [base._indices(tensor), base._values(tensor)]
        else:
            parts = [getattr(base, name)(tensor) for name in (*COMPRESSED[str(tensor.layout).removeprefix("torch.")], "values")]
        return self.stands_for(tuple(tensor.shape), tensor.dtype, [self.trace.to_gpu(p.detach()) for p in parts], tensor.layout).requires_grad_(tensor.requires_grad)

    def stands_for(self, shape, dtype, parts, layout=None):
        with self.trace.turn, self.trace.uncounted(), self.trace.fake:
            made = self.torch.empty(shape, dtype=dtype)
        return self.adopt(made, parts, layout)

    def adopt(self, made, parts, layout=None):
        storage = made.untyped_storage()
        key = storage._cdata
        self.known[key] = parts, layout or self.torch.sparse_coo, weakref.ref(storage, lambda _: self.known.pop(key, None))
        self.trace.note("sparse tensors were followed as their indices and values; what sorting them and cuSPARSE take is bounded, and gradients of their values are not followed")
        return made

    # What operators do to them -------------------------------------------------------------------------------------------------

    def saw(self, func, args, kwargs, out):
        """An operator ran, in the midst of it. True: it was a product with a sparse matrix, which cuBLAS has no part in."""
        given = [t for t in _graph.tensors(self.torch, (args, kwargs)) if isinstance(t, self.trace.FakeTensor)]
        sparse = [t for t in given if self.of(t) is not None]
        if not sparse:
            return False
        for t in _graph.tensors(self.torch, out):
            key = t.untyped_storage()._cdata
            if key in self.known:
                if len(sparse) > 1 and "add_" in str(func):
                    self.known[key] = self.joined(sparse, func), *self.known[key][1:]
            elif key not in self.trace.live:
                alike = [g for g in given if g.shape == t.shape]
                if alike and all(self.of(g) is not None for g in alike):
                    self.adopt(t, self.joined(alike, func))
        product = getattr(getattr(func, "overloadpacket", None), "__name__", "") in PRODUCTS
        if product:
            self.passing(sum(SORTING * self.of(t)[-1].shape[0] + 8 * sum(t.shape[-2:]) for t in sparse), sparse[0], func)
        elif self.of(given[0]) is None and "add_" in str(func):  # into a dense one: values are scaled first
            self.passing(sum(_bytes(self.of(t)[-1]) for t in sparse), sparse[0], func)
        return product

    def joined(self, sparse, func):
        """Indices and values of a sum: those of all, one after the other. Entries lie along the last dimension of indices and the first of values."""
        made = []
        for place, pieces in enumerate(zip(*map(self.of, sparse))):
            along = 0 if place == len(self.of(sparse[0])) - 1 else -1
            shape = list(pieces[0].shape)
            shape[along] = sum(p.shape[along] for p in pieces)
            with self.trace.uncounted():
                made.append(pieces[0].new_empty(shape))
            self.trace.begin(made[-1], func, self.trace.among(pieces, self.trace.tainted), False)
        return made

    def passing(self, size, like, func):
        """Memory for the time of a kernel, at most this much."""
        with self.trace.uncounted():
            made = like.new_empty(max(size, 1), dtype=self.torch.uint8)
        self.trace.tainted.add(made.untyped_storage()._cdata)
        self.trace.reasons.setdefault(self.trace.here(), None)
        self.trace.begin(made, func, True, False)

    # What scripts and optimizers ask -------------------------------------------------------------------------------------------

    def functions(self, usual):
        """By function of PyTorch's: what it does to a tensor that stands for a sparse one. usual(function, args, kwargs) is for all others."""
        torch, Tensor = self.torch, self.torch.Tensor
        about = lambda answer: lambda function, args, kwargs: usual(function, args, kwargs) if self.of(args[0]) is None else answer(*args, **kwargs)
        made = {
            Tensor.is_sparse.__get__: about(lambda t, *_: self.layout(t) is torch.sparse_coo), Tensor.is_sparse_csr.__get__: about(lambda t, *_: self.layout(t) is torch.sparse_csr),
            Tensor.layout.__get__: about(lambda t, *_: self.layout(t)), Tensor.coalesce: about(self.coalesced), Tensor.is_coalesced: about(lambda t: True),
            Tensor._nnz: about(lambda t: self.of(t)[-1].shape[0]), Tensor.to_dense: about(lambda t, dtype=None, **_: self.dense(t, dtype)),
            Tensor.to_sparse: about(lambda t, *_, **__: t), Tensor.new: about(self.new), Tensor.sparse_mask: self.masked(usual),
            torch.sparse.mm: self.product(usual), torch.smm: self.product(usual), torch.sparse_coo_tensor: self.coo(usual), torch.sparse_csr_tensor: self.csr(usual),
        }
        for name, place in {"_indices": 0, "indices": 0, "_values": -1, "values": -1, "crow_indices": 0, "col_indices": 1, "ccol_indices": 0, "row_indices": 1}.items():
            made[getattr(Tensor, name)] = about(lambda t, place=place: self.of(t)[place])
        return made

    def layout(self, t):
        return self.known[t.untyped_storage()._cdata][1]

    def coalesced(self, t):
        """Each place once: how many there are depends on data."""
        indices, values = self.of(t)[0], self.of(t)[-1]
        if self.layout(t) is not self.torch.sparse_coo:
            return t
        with self.torch.no_grad(), self.trace.recording():
            several = [values.new_empty(values.shape[0], dtype=self.torch.int64) for _ in range(6)]
            parts = [indices.new_empty(indices.shape), values.new_empty(values.shape)]
        for p in (*several, *parts):
            self.trace.depends(p)
        return self.stands_for(tuple(t.shape), values.dtype, parts)

    def dense(self, t, dtype):
        with self.trace.recording():
            return self.torch.empty(tuple(t.shape), dtype=dtype or t.dtype)

    def new(self, t, *given, **kwargs):
        indices, values, *shape = given
        return self.stands_for(tuple(shape[0]) if shape else tuple(t.shape), values.dtype, [indices, values])

    def masked(self, usual):
        """The values of a dense tensor where a sparse one has some."""
        def sparse_mask(function, args, kwargs):
            parts = self.of(args[1])
            if parts is None:
                return usual(function, args, kwargs)
            with self.torch.no_grad(), self.trace.recording():
                made = [p.new_empty(p.shape) for p in parts]
            return self.stands_for(tuple(args[0].shape), args[0].dtype, made, self.layout(args[1]))

        return sparse_mask

    def product(self, usual):
        return lambda function, args, kwargs: usual(function if all(self.of(a) is None for a in args) else self.torch.mm, args, kwargs)

    def coo(self, usual):
        def sparse_coo_tensor(function, args, kwargs):
            given = dict(zip(("indices", "values", "size"), args)) | kwargs
            indices, values = given.get("indices"), given.get("values")
            if not isinstance(values, self.trace.FakeTensor) or given.get("size") is None:
                return usual(function, args, kwargs)
            return self.stands_for(tuple(given["size"]), values.dtype, [indices, values])

        return sparse_coo_tensor

    def csr(self, usual):
        def sparse_csr_tensor(function, args, kwargs):
            given = dict(zip(("crow_indices", "col_indices", "values", "size"), args)) | kwargs
            if not isinstance(given.get("values"), self.trace.FakeTensor) or given.get("size") is None:
                return usual(function, args, kwargs)
            return self.stands_for(tuple(given["size"]), given["values"].dtype, [given["crow_indices"], given["col_indices"], given["values"]], self.torch.sparse_csr)

        return sparse_csr_tensor

    def embedding_gradient(self, library):
        """nn.Embedding(sparse=True): its gradient has a row for every index
        (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/Embedding.cpp, embedding_sparse_backward)."""

        def embedding_sparse_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq):
            values = grad.reshape(-1, grad.shape[-1])
            return self.stands_for((num_weights, grad.shape[-1]), grad.dtype, [indices.reshape(1, -1), values])

        library.impl("embedding_sparse_backward", embedding_sparse_backward, "AutogradCPU")


def _bytes(t):
    return t.numel() * t.element_size()
