"""How much memory a call takes, counted in bytes: the same number on every run.  Imports torch.

The size of a process also holds what its allocators keep for later, and differs from run to run.  Here each block of
memory is added when an operation of the call returns it, and taken off when the last tensor on it is gone.
"""

import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, UntypedStorage
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__all__ = ["Memory", "memory"]


class Memory(NamedTuple):
    """What a call took, in bytes, and what it returned.

    peak    allocated by the call and alive at one time, at most: with the result, without the inputs
    saved   allocated by the call and, when it returns, saved for the backward pass; a result may be among it
    kept    there before the call (inputs, parameters) and, when it returns, saved for the backward pass
    result  what the call returned

    Views share the memory of what they look at, which counts once, and as a whole.
    """

    peak: int
    saved: int
    kept: int
    result: Any


def memory(function: Callable, *args: Any, **kwargs: Any) -> Memory:
    """Call function(*args, **kwargs), once, and count the bytes that it takes.

    The arguments decide which library is watched, also those inside lists, tuples and dictionaries.

    Tensors: counted is what torch's operations return, on any device.  What an operation takes and gives back inside
    itself is not seen: the count is exact for code of plain operations, and a lower bound for a fused one.  Torch's
    `scaled_dot_product_attention` has buffers of its own on a CPU, and so may products of matrices and sums.
    Saved is what operations and `save_for_backward` save, not what a function keeps in other ways.

    NumPy arrays: `peak` is that of Python's tracemalloc, in which Python's own objects count, about 1 kB; `saved` and
    `kept` are 0.  What is set up once counts at the first call: from the second on, the number is steady.

    Raises TypeError where no array is among the arguments, or arrays of both libraries are.
    """
    arrays = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor | np.ndarray)]
    are_tensors = {isinstance(array, Tensor) for array in arrays}
    if len(are_tensors) != 1:
        found = "both are" if are_tensors else "neither is"
        raise TypeError(f"Pass either NumPy arrays or tensors as arguments of the function; {found} among them.")
    return (_of_torch if are_tensors.pop() else _of_numpy)(lambda: function(*args, **kwargs))


def _of_numpy(call: Callable) -> Memory:
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        result = call()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        if not was_tracing:
            tracemalloc.stop()
    return Memory(peak - before, 0, 0, result)


def _of_torch(call: Callable) -> Memory:
    packed = []  # alive as long as the graph saves them

    def pack(tensor: Tensor) -> Tensor:
        packed.append(weakref.ref(alias := tensor.detach()))  # the tensor itself would keep its own graph alive
        return alias

    with Watch() as watch, saved_tensors_hooks(pack, lambda alias: alias):
        result = call()
    saved = {storage._cdata: storage.nbytes() for storage in _storages([alias() for alias in packed])}
    own = sum(n_bytes for address, n_bytes in saved.items() if address in watch.sizes)
    return Memory(watch.peak, own, sum(saved.values()) - own, result)


class Watch(TorchDispatchMode):
    """Sees each operation that torch runs, also inside of functions and modules, and the storages it returns.

    sizes  the bytes of each storage that is alive, by its address; one that is freed drops out
    peak   their largest sum so far
    """

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[int, int] = {}
        self.peak = 0

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # Known are the storages of the arguments: a result on one of them is a view, or was written in place.
        known = {storage._cdata: storage.nbytes() for storage in _storages((args, kwargs))}
        if operation is torch.ops.aten.lift_fresh.default:
            known = {}  # torch.tensor(...) made its storage unseen, and shows it here for the first time
        result = operation(*args, **(kwargs or {}))
        for storage in _storages(result):
            own = self.sizes.get(storage._cdata, 0)
            grown = storage.nbytes() - known.get(storage._cdata, own)  # of known ones: out=… and resize_ enlarge them
            if grown and storage._cdata not in self.sizes:
                weakref.finalize(storage, self.sizes.pop, storage._cdata).atexit = False
            if grown:
                self.sizes[storage._cdata] = own + grown
        self.peak = max(self.peak, sum(self.sizes.values()))
        return result


def _storages(tree: Any) -> Iterator[UntypedStorage]:
    for leaf in tree_leaves(tree):
        if isinstance(leaf, Tensor) and leaf.layout == torch.strided:
            yield leaf.untyped_storage()
