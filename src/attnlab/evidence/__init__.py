"""Evidence: what a model's attention weights do and do not tell, asked of any model through one callable.

The protocol is `predict`, a callable from weights to output, for **one** example: r alternative rows of weights (r, n)
over the same n keys → r outputs (r,), each a number such as a logit.  The rest of the model, its values above all,
stays inside of the callable.  Weights and outputs are NumPy arrays or torch tensors, as the caller's weights are.

    def predict(weights):                        # weights (r, n)
        return (weights @ values) @ w + b        # (r,): values (n, d) of this example, a linear readout w (d,), b

leave_one_out, replace_each, gradient_x_input, value_weighted   rank the keys, or the tokens, of one example
rank_agreement, agreement_table, agreements      how far two rankings agree: Kendall's τ-b
permute, adversary                               other weights: shuffled, and the farthest with the same output
jensen_shannon, entropy, null_space              how far apart, how flat, and where weights move without effect
pointing, baselines, task_check                  aim, baseline and task: lines of a checklist
spread, spread_of_pairs, spread_of_difference    and its line for seeds: a mean over runs, with its interval
captured, edited, restored                       what a torch module says, and what the model does when it says another

Importing this package imports none of its files, and neither torch nor SciPy: each is loaded when a name that needs it
is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnlab.evidence.alternatives import Adversary, adversary, entropy, jensen_shannon, null_space, permute
    from attnlab.evidence.checklist import baselines, pointing, task_check
    from attnlab.evidence.patching import Seen, captured, edited, restored
    from attnlab.evidence.ranking import (
        agreement_table,
        agreements,
        gradient_x_input,
        leave_one_out,
        rank_agreement,
        replace_each,
        value_weighted,
    )
    from attnlab.evidence.seeds import Spread, spread, spread_of_difference, spread_of_pairs

__all__ = [
    "Adversary",
    "Seen",
    "Spread",
    "adversary",
    "agreement_table",
    "agreements",
    "baselines",
    "captured",
    "edited",
    "entropy",
    "gradient_x_input",
    "jensen_shannon",
    "leave_one_out",
    "null_space",
    "permute",
    "pointing",
    "rank_agreement",
    "replace_each",
    "restored",
    "spread",
    "spread_of_difference",
    "spread_of_pairs",
    "task_check",
    "value_weighted",
]

_FILES = {
    "alternatives": ["Adversary", "adversary", "entropy", "jensen_shannon", "null_space", "permute"],
    "checklist": ["baselines", "pointing", "task_check"],
    "patching": ["Seen", "captured", "edited", "restored"],
    "ranking": [
        "agreement_table",
        "agreements",
        "gradient_x_input",
        "leave_one_out",
        "rank_agreement",
        "replace_each",
        "value_weighted",
    ],
    "seeds": ["Spread", "spread", "spread_of_difference", "spread_of_pairs"],
}
_FILE_OF = {name: file for file, names in _FILES.items() for name in names}
_NEEDS = dict.fromkeys(("agreement_table", "agreements", "rank_agreement", *_FILES["seeds"]), "scipy")
_NEEDS |= dict.fromkeys(("gradient_x_input", *_FILES["patching"]), "torch")


def __getattr__(name: str) -> Any:
    """Called for names that are not here yet."""
    if name not in _FILE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _NEEDS:
        library = _NEEDS[name]
        try:
            import_module(library)
        except ModuleNotFoundError as error:
            if error.name != library:
                raise
            raise ModuleNotFoundError(
                f"attnlab.evidence.{name} needs {library}, which is not installed: pip install {library}.", name=library
            ) from None
    found = getattr(import_module(f"{__name__}.{_FILE_OF[name]}"), name)
    globals()[name] = found
    return found
