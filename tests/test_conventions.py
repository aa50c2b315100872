"""What is measured about masks: planted functions are seen for what they are, and so is what torch does."""

import importlib.util
import json
import re
import sys
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import scipy
import torch
from scipy import special
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from attnlab import attention, conventions, masks
from attnlab.conventions import Convention, measure
from attnlab.conventions.displaying import HEADINGS

ROOT = Path(__file__).resolve().parents[1]


def answers(found):
    """The cells of a row: True, 1.0, empty row, gradient, causal, NaN in a masked value."""
    return (
        found.true_means,
        found.one_means,
        found.empty_row,
        found.gradient,
        found.causal,
        found.nan_in_masked,
    )


# ---------------------------------------------------------------------------------------- planted, each with one trait


def scores_of(query, key):
    return query @ key.mT / query.shape[-1] ** 0.5


def filled(number, allowed=True):
    """Attention whose forbidden scores are replaced by a number."""

    def run(query, key, value, mask):
        forbidden = (mask != 1) if allowed else (mask == 1)
        return scores_of(query, key).masked_fill(forbidden, number).softmax(dim=-1) @ value

    return run


def ours(query, key, value, mask):
    return attention(query, key, value, mask).output


def added(query, key, value, mask):
    return (scores_of(query, key) + mask).softmax(dim=-1) @ value


def multiplied(query, key, value, mask):
    return (scores_of(query, key) * mask).softmax(dim=-1) @ value


def ignored(query, key, value, mask):
    return scores_of(query, key).softmax(dim=-1) @ value


def removed(query, key, value, mask):
    """Takes the forbidden keys out before anything is computed."""
    rows = [ours(query[:, i, None], key[:, mask[i]], value[:, mask[i]], None) for i in range(query.shape[1])]
    return torch.cat(rows, dim=1)


def only_bool(query, key, value, mask):
    if mask.dtype != torch.bool:
        raise ValueError("The mask must be bool.  Nothing else will do.")
    return ours(query, key, value, mask)


def repaired(query, key, value, mask):
    return torch.nan_to_num((scores_of(query, key) + mask).softmax(dim=-1)) @ value


def filled_and_repaired(query, key, value, mask):
    return torch.nan_to_num(scores_of(query, key).masked_fill(mask != 1, -torch.inf).softmax(dim=-1)) @ value


def residual(query, key, value, mask):
    """As a layer does that adds its input: an empty row is the token itself."""
    return value + ours(value, value, value, mask == 1)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (ours, ("allowed", "added", "0", "finite", "–", "spoils")),
        (only_bool, ("allowed", "error", "0", "finite", "–", "spoils")),
        # The gradient of masked_fill is zero where it fills, even where NaN comes in: that of the values is left.
        (filled(-torch.inf), ("allowed", "allowed", "NaN", "NaN: v", "–", "spoils")),
        (filled(-torch.inf, allowed=False), ("forbidden", "forbidden", "NaN", "NaN: v", "–", "spoils")),
        (filled(-1e9), ("allowed", "allowed", "mean(V)", "finite", "–", "spoils")),
        (added, ("added", "added", "NaN", "NaN: q k v", "–", "spoils")),
        (multiplied, ("other", "other", "–", "–", "–", "–")),
        (ignored, ("ignored", "ignored", "–", "–", "–", "–")),
        (removed, ("allowed", "error", "0", "finite", "–", "harmless")),
        (repaired, ("added", "added", "0", "NaN: q k", "–", "spoils")),
        (filled_and_repaired, ("allowed", "allowed", "0", "finite", "–", "spoils")),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_planted_function_is_recognised(run, expected):
    assert answers(measure("planted", run)) == expected


def test_forbidding_is_done_in_the_words_of_each_function():
    """A float that means `forbidden` is inverted, not used as it is: forbidding all but one row would look empty."""

    def only_float(query, key, value, mask):
        assert mask.dtype == torch.float32
        return ours(query, key, value, mask == 0)

    assert answers(measure("planted", only_float)) == ("error", "forbidden", "0", "finite", "–", "spoils")


def test_a_finite_number_that_is_too_small_leaves_the_row_as_it_was():
    found = measure("planted", added, fill=-20.0)
    assert found.empty_row == "as unmasked"  # the same number added to all keys is nothing to a softmax


def test_padding_masks_have_one_row_a_sequence():
    def run(query, key, value, mask):
        assert mask.shape == (2, 4)
        return ours(query, key, value, ~mask[:, None])

    assert answers(measure("planted", run, padding=True)) == ("forbidden", "error", "0", "finite", "–", "spoils")


def test_self_attention_passes_one_array():
    def run(query, key, value, mask):
        assert query is key is value
        return residual(query, key, value, mask)

    found = measure("planted", run, self_attention=True)
    assert answers(found) == ("allowed", "allowed", "own token", "finite", "–", "spoils")
    found = measure(
        "planted", lambda *inputs: torch.nan_to_num(inputs[0] + filled(-torch.inf)(*inputs)), self_attention=True
    )
    assert (found.empty_row, found.gradient) == ("0", "NaN: x")


def test_other_numbers_of_an_empty_row_are_given():
    def run(query, key, value, mask):
        return torch.where((mask == 1).any(dim=-1)[:, None], ours(query, key, value, mask == 1), 2 * value.sum(1, True))

    found = measure("planted", run).empty_row.split()
    assert found[0] == "other:" and len(found) == 5 and all(np.isfinite([float(number) for number in found[1:]]))


def test_a_nan_that_leaves_its_row_is_told():
    assert (
        measure("planted", lambda *inputs: ours(*inputs) + 0 * filled(-torch.inf)(*inputs).sum()).empty_row
        == "NaN, in all"
    )


@pytest.mark.parametrize("align", ["top-left", "bottom-right"])
def test_alignment_is_recognised(align):
    def causal(query, key, value):
        return ours(query, key, value, masks.causal(query.shape[-2], key.shape[-2], align=align, like=query))

    assert measure("planted", ours, causal=causal).causal == align


def test_a_causal_flag_that_does_nothing_or_something_else():
    assert measure("planted", ours, causal=lambda *inputs: ours(*inputs, None)).causal == "ignored"
    assert measure("planted", ours, causal=lambda *inputs: -ours(*inputs, None)).causal == "other"


def test_heads_are_those_of_the_function():
    def run(query, key, value, mask):
        split = [x.unflatten(-1, (2, 2)).transpose(1, 2) for x in (query, key, value)]
        return attention(*split, mask).output.transpose(1, 2).flatten(-2)

    def causal(query, key, value):
        return run(query, key, value, masks.causal(query.shape[1], key.shape[1], like=query))

    assert measure("planted", run, causal=causal, n_heads=2).causal == "bottom-right"
    assert measure("planted", run, causal=causal, n_heads=1).causal == "other"


def test_no_gradient_where_none_is_kept_or_none_can_be():
    assert measure("planted", torch.no_grad()(ours)).gradient == "none"
    as_numpy = measure("planted", ours, library="numpy")
    assert answers(as_numpy) == ("allowed", "added", "0", "–", "–", "spoils")


def test_the_gradient_is_that_of_a_loss_over_all_finite_outputs():
    def is_empty(mask):
        return ~(mask == 1).any(dim=-1, keepdim=True)

    def lost(query, key, value, mask):
        """NaN in the output of the empty row alone, where no loss would read it."""
        return ours(query, key, value, mask) + torch.where(is_empty(mask), torch.nan, 0.0)

    def infected(query, key, value, mask):
        """NaN as soon as a loss reads the empty row, whose output is 0."""
        output = ours(query, key, value, mask)
        if output.requires_grad:
            output.register_hook(
                lambda gradient: gradient * torch.where(is_empty(mask) & (gradient != 0), torch.nan, 1.0)
            )
        return output

    assert (measure("planted", lost).empty_row, measure("planted", lost).gradient) == ("NaN", "finite")
    assert (measure("planted", infected).empty_row, measure("planted", infected).gradient) == ("0", "NaN: v")


def test_the_row_of_the_masked_token_itself_may_be_spoilt():
    """As in a layer that adds its input; what counts is whether the NaN reaches other tokens."""
    assert measure("planted", lambda *inputs: inputs[2] + removed(*inputs)).nan_in_masked == "harmless"
    assert measure("planted", lambda *inputs: inputs[2] + ours(*inputs)).nan_in_masked == "spoils"


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_inputs_are_the_functions_to_spoil(library):
    """One that writes into what it gets changes no later question."""

    def run(query, key, value, mask):
        output = ours(query, key, value, mask)
        for array in (query, key, value, mask):
            array[...] = 0
        return output

    found = measure("planted", torch.no_grad()(run), library=library)
    assert answers(found) == ("allowed", "added", "0", "none" if library == "torch" else "–", "–", "spoils")


def test_errors_and_warnings_are_noted_and_do_not_leak():
    def run(query, key, value, mask):
        warnings.warn("Take care.  There is more.", FutureWarning, stacklevel=1)
        return only_bool(query, key, value, mask)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = measure("planted", run)
    assert found.notes == ("1.0 means: ValueError: The mask must be bool.", "FutureWarning: Take care.")
    assert caught == []
    assert not torch.is_warn_always_enabled()


# ------------------------------------------------------------------------------- NumPy, SciPy and torch, as they are


def numpy_softmax(query, key, value, mask):
    scores = query @ np.swapaxes(key, -1, -2) / 2 + mask
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True) @ value


def scipy_softmax(query, key, value, mask):
    return special.softmax(query @ np.swapaxes(key, -1, -2) / 2 + mask, axis=-1) @ value


def scipy_log_softmax(query, key, value, mask):
    return np.exp(special.log_softmax(query @ np.swapaxes(key, -1, -2) / 2 + mask, axis=-1)) @ value


@pytest.mark.parametrize("run", [numpy_softmax, scipy_softmax, scipy_log_softmax])
def test_softmax_of_numpy_and_scipy(run):
    found = measure("softmax", run, library="numpy")
    assert answers(found) == ("added", "added", "NaN", "–", "–", "spoils")
    assert found.notes == ("RuntimeWarning: invalid value encountered in subtract",)


def test_softmax_of_torch():
    assert answers(measure("softmax", added)) == ("added", "added", "NaN", "NaN: q k v", "–", "spoils")
    for number in (-1e9, torch.finfo(torch.float32).min):
        found = measure("softmax", added, fill=number)
        assert answers(found) == ("added", "added", "mean(V)", "finite", "–", "spoils")


def sdpa(query, key, value, mask):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def sdpa_is_causal(query, key, value):
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def sdpa_lower_right(query, key, value):
    return sdpa(query, key, value, causal_lower_right(query.shape[-2], key.shape[-2]))


def test_sdpa():
    bool_mask = measure("SDPA", sdpa, causal=sdpa_is_causal)
    assert answers(bool_mask) == ("allowed", "added", "0", "finite", "top-left", "spoils")
    float_mask = measure("SDPA", sdpa, causal=sdpa_lower_right, fill=-np.inf)
    assert answers(float_mask) == ("allowed", "added", "0", "finite", "bottom-right", "spoils")


def multihead(n_heads, is_training, with_gradient, slot, **options):
    layer = torch.nn.MultiheadAttention(4, n_heads, batch_first=True).train(is_training)
    with torch.no_grad():  # projections that change nothing
        layer.in_proj_weight.copy_(torch.eye(4).repeat(3, 1))
        layer.out_proj.weight.copy_(torch.eye(4))

    def run(query, key, value, mask=None, **more):
        with torch.set_grad_enabled(with_gradient and torch.is_grad_enabled()):
            return layer(query, key, value, **{slot: mask}, **options, **more)[0]

    return run


@pytest.mark.parametrize("slot", ["attn_mask", "key_padding_mask"])
@pytest.mark.parametrize("n_heads", [1, 2])
@pytest.mark.parametrize("self_attention", [True, False], ids=["self", "cross"])
def test_multihead_attention_in_every_mode(n_heads, slot, self_attention):
    """The fast path is taken by self-attention with an even number of heads, without weights, in eval, no gradient."""
    bad = "NaN: x" if self_attention else "NaN: q k v"
    for need_weights, is_training, with_gradient in product([True, False], repeat=3):
        run = multihead(n_heads, is_training, with_gradient, slot, need_weights=need_weights)
        found = measure(
            "MultiheadAttention",
            run,
            causal=lambda *inputs, run=run: run(*inputs, is_causal=True),
            padding=slot == "key_padding_mask",
            self_attention=self_attention,
            n_heads=n_heads,
        )
        fast = self_attention and n_heads == 2 and not (need_weights or is_training or with_gradient)
        empty = "NaN" if need_weights or fast else "0"
        gradient = "none" if not with_gradient else bad if need_weights else "finite"
        mode = f"need_weights={need_weights}, is_training={is_training}, with_gradient={with_gradient}"
        assert answers(found) == ("forbidden", "added", empty, gradient, "error", "spoils"), mode
        assert found.notes == ("causal: RuntimeError: Need attn_mask if specifying the is_causal hint.",)


def encoder(nested, is_training, with_gradient):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(4, 2, dim_feedforward=8, dropout=0.0, batch_first=True)
    stack = torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=nested).train(is_training)

    def run(query, key, value, mask):
        with torch.set_grad_enabled(with_gradient and torch.is_grad_enabled()):
            return stack(value, src_key_padding_mask=mask)

    return measure("TransformerEncoder", run, padding=True, self_attention=True)


@pytest.mark.parametrize("nested", [True, False])
def test_transformer_encoder_in_every_mode(nested):
    """Its fast path takes a float mask of ones and zeros for a boolean one; elsewhere the same mask is added."""
    for is_training, with_gradient in [(True, True), (True, False), (False, True)]:
        gradient = "finite" if with_gradient else "none"
        found = encoder(nested, is_training, with_gradient)
        assert answers(found) == ("forbidden", "added", "own token", gradient, "–", "spoils")
        assert found.notes == ()
    found = encoder(nested, is_training=False, with_gradient=False)
    empty, spoilt = ("0", "harmless") if nested else ("NaN", "spoils")
    assert answers(found) == ("forbidden", "forbidden", empty, "none", "–", spoilt)
    assert len(found.notes) == nested and all("nested tensors is in prototype stage" in note for note in found.notes)


def test_flex_attention():
    def run(query, key, value, mask):
        block_mask = create_block_mask(lambda b, h, i, j: mask[i, j], None, None, 4, 4, device="cpu")
        return flex_attention(query[:, None], key[:, None], value[:, None], block_mask=block_mask)[:, 0]

    found = measure("flex_attention", run)
    assert answers(found) == ("allowed", "error", "0", "error", "–", "spoils")
    assert any(note.startswith("gradient: NotImplementedError: FlexAttention does not") for note in found.notes)


# --------------------------------------------------------------------------------------------------------- displaying


ROWS = [
    Convention("some_library.attention(mask=)", "allowed", "error", "mean(V)", "NaN: q k v", "bottom-right", "spoils"),
    Convention("a <b> & c", "forbidden", "added", "0", "finite", "–", "harmless", ("UserWarning: x < y",), 1e-7),
    Convention("d", "forbidden", "added", "0", "finite", "–", "harmless", ("UserWarning: x < y",), 3e-7),
]


def test_a_table_is_shown_as_text():
    text = repr(conventions.table(ROWS, "numpy", "scipy"))
    assert max(map(len, text.splitlines())) <= 75
    first = text.splitlines().index("some_library.       allowed   error     mean(V)  NaN: q k bottom-  spoils")
    assert text.splitlines()[first + 1] == "attention(mask=)                                 v        right"
    for words in (f"Called: numpy {np.__version__}, scipy {scipy.__version__}.", "a <b> & c; d — UserWarning: x < y"):
        assert words in text.splitlines()
    assert "All — UserWarning: x < y" in repr(conventions.table(ROWS[1:], "numpy")).splitlines()
    assert "2 of these 3 calls return what attnlab.attention returns, up to 3e-07." in " ".join(text.splitlines())


def test_a_table_is_shown_as_html():
    page = conventions.table(ROWS, "numpy")._repr_html_()
    assert page.count("<tr>") == 1 + len(ROWS) and page.count('scope="row"') == len(ROWS)
    assert page.count("<td>") == (len(HEADINGS) - 1) * len(ROWS)
    assert ">a &lt;b&gt; &amp; c</th><td>forbidden</td>" in page
    assert "<p>a &lt;b&gt; &amp; c; d — UserWarning: x &lt; y</p>" in page


# ------------------------------------------------------------------------------------- other libraries, as recorded

TOOL = ROOT / "book/tools/conventions.py"
sys.path.append(str(TOOL.parent))
RECORD = json.loads((ROOT / "src/attnlab/data/conventions.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("conventions_tool", TOOL)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_what_is_recorded_is_what_the_tool_calls(tool):
    """None is typed by hand, none is left over: `make conventions` writes the rows of its own calls, in order."""
    assert [row["call"] for row in RECORD["rows"]] == [row.call for row in tool.ROWS]
    assert len({row.call for row in tool.ROWS}) == len(tool.ROWS)
    assert set(RECORD["versions"]) == set(tool.LIBRARIES)
    for library in ("jax", "flax", "keras", "transformers", "onnx", "onnxruntime"):
        assert any(re.match(rf"{library}\b", row.call) for row in tool.ROWS), library


def test_the_record_is_complete():
    words = {
        "true_means": {"allowed", "forbidden", "added", "ignored", "other", "error"},
        "one_means": {"allowed", "forbidden", "added", "ignored", "other", "error"},
        "empty_row": {"0", "NaN", "mean(V)"},
        "gradient": {"finite", "NaN: q k v", "–"},
        "causal": {"top-left", "bottom-right", "other", "error", "–"},
        "nan_in_masked": {"spoils", "harmless"},
    }
    for row in RECORD["rows"]:
        assert list(row) == ["call", *words, "notes", "agreement"]
        assert all(row[column] in known for column, known in words.items()), row
        errors = sum(row[column] == "error" for column in words)
        assert errors == sum(note.split(":")[0] in {"True means", "1.0 means", "causal"} for note in row["notes"])


def test_through_the_translations_all_agree_with_attention(tool):
    assert max(row["agreement"] for row in RECORD["rows"]) <= tool.TOLERANCE <= 1e-5


def test_versions_are_those_that_make_conventions_installs():
    pins = (ROOT / "pyproject.toml").read_text(encoding="utf-8") + (ROOT / "constraints.txt").read_text(
        encoding="utf-8"
    )
    for library, number in RECORD["versions"].items():
        assert f"{library}=={number}" in pins.replace('"', "").replace(",", "").split(), library


def test_recorded_is_the_record():
    table = conventions.recorded()
    assert [row.call for row in table.rows] == [row["call"] for row in RECORD["rows"]]
    assert all(isinstance(row, Convention) for row in table.rows)
    assert f"jax {RECORD['versions']['jax']}" in repr(table) and RECORD["platform"] in repr(table)
    hash(table.rows)  # nothing in them can be changed


def test_a_translation_that_disagrees_is_not_written(tool, monkeypatch, tmp_path):
    def measured(difference):
        return [{"call": "good", "agreement": 1e-7}, {"call": "bad", "agreement": difference}]

    monkeypatch.setattr(tool, "RECORD", tmp_path / "conventions.json")
    for difference in (2e-5, float("nan")):
        monkeypatch.setattr(tool, "measure_all", lambda difference=difference: measured(difference))
        with pytest.raises(SystemExit, match=r"(?s)nothing is written.*bad: ") as stop:
            tool.main([])
        assert "good" not in str(stop.value)
        assert not tool.RECORD.exists()


def test_agreement_compares_every_kind_of_mask(tool):
    """The tool's own comparison: this course agrees with itself, and each wrong turn of a mask shows."""

    def same(query, key, value, mask, turn=lambda mask: mask):
        return attention(query, key, value, turn(masks.to_four_axes(mask))).output

    def wrong(turn):
        return lambda *inputs: same(*inputs, turn=turn)

    assert tool.agreement(same, "all") == 0
    assert tool.agreement(lambda q, k, v, mask: same(q, k, v, masks.to_keras(mask)[:, None]), "one for all heads") == 0
    padding = lambda q, k, v, mask: same(q, k, v, masks.to_hugging_face(mask)[:, None, None] == 1)  # noqa: E731
    assert tool.agreement(padding, "padding") == 0
    for turn in (lambda m: ~m, lambda m: m[::-1], lambda m: m[:1], lambda m: m[:, ::-1], lambda m: m[..., ::-1]):
        assert tool.agreement(wrong(turn), "all") > 0.1
