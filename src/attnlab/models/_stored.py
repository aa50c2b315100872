"""Weights of small models in files: kept in float16, which halves them, computed with in float32.  Imports torch."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import nn

Model = TypeVar("Model", bound=nn.Module)


def keep(model: nn.Module, path: Path) -> None:
    """Write the model's weights in float16."""
    np.savez_compressed(path, **{name: p.numpy().astype(np.float16) for name, p in model.state_dict().items()})


def restored(build: Callable[[], Model], path: Path) -> Model:
    """The model that `build` makes, with the weights of a file by `keep`; in eval mode, no gradients."""
    with torch.device("meta"):  # shapes without numbers: nothing is drawn, and the session's random numbers stay
        model = build()
    with np.load(path) as stored:
        weights = {name: torch.from_numpy(array.astype(np.float32)) for name, array in stored.items()}
    model.load_state_dict(weights, assign=True)
    return model.eval().requires_grad_(False)
