"""What other libraries do with masks, by calling them: writes src/attnlab/data/conventions.json.

`make conventions` installs the libraries into a place of their own (2 GB) and runs this.  Each row is a call, small
enough to read, made by `attnlab.conventions.measure`; and the same masks through `attnlab.masks` must give the output
of `attnlab.attention`, or nothing is written.
"""

import dataclasses
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version

import numpy as np
from records import DATA, write

from attnlab import attention, masks
from attnlab.conventions import measure

RECORD = DATA / "conventions.json"
LIBRARIES = ("jax", "flax", "keras", "transformers", "onnx", "onnxruntime", "torch", "numpy")
TOLERANCE = 1e-5  # float32; a mask transposed, inverted or given to another sample moves some output by 1e-1


@dataclasses.dataclass(frozen=True)
class Row:
    """A call to measure.  `make` imports the library and returns `run` and `same`, and `causal` where there is a flag.

    same(query, key, value, mask) → output (B, H, n_q, d) for inputs (B, H, n, d) and a mask of this course, in NumPy.
    """

    call: str
    make: Callable[[], dict]
    library: str
    backend: str = ""  # keras reads its backend once a process
    cases: str = "all"  # which masks it takes: "all", "one for all heads", "padding"
    padding: bool = False


ROWS: list[Row] = []


def row(call, library, **options):
    return lambda make: ROWS.append(Row(call, make, library, **options)) or make


# ---------------------------------------------------------------------------------------------------------- jax, flax


def one_head(x):
    """(B, n, d) → (B, n, 1, d)"""
    return x[:, :, None]


def by_position(call):
    """A call on (B, n, H, d), as one on this course's (B, H, n, d), NumPy in and out."""
    return lambda *inputs: np.asarray(call(*(x.swapaxes(1, 2) for x in inputs))).swapaxes(1, 2)


def jax_rows(function, argument, translate, flag=True):
    def run(query, key, value, mask):
        return function(*map(one_head, (query, key, value)), **{argument: mask[None, None]})[:, :, 0]

    def causal(query, key, value):
        return function(*map(one_head, (query, key, value)), is_causal=True)[:, :, 0]

    def same(query, key, value, mask):
        import jax

        mask = jax.numpy.asarray(translate(mask))
        return by_position(lambda *inputs: function(*inputs, **{argument: mask}))(query, key, value)

    return {"run": run, "same": same} | ({"causal": causal} if flag else {})


def as_bias(mask):
    return masks.to_additive(masks.to_four_axes(mask), np.float32)


@row("jax dot_product_attention, mask=", "jax")
def _():
    import jax

    return jax_rows(jax.nn.dot_product_attention, "mask", masks.to_four_axes)


@row("jax dot_product_attention, bias=", "jax")
def _():
    import jax

    return jax_rows(jax.nn.dot_product_attention, "bias", as_bias)


@row("jax softmax, add −∞", "jax")
def _():
    import jax

    def run(query, key, value, mask):
        return jax.nn.softmax(query @ key.mT / query.shape[-1] ** 0.5 + mask) @ value

    return {"run": run, "same": lambda q, k, v, mask: run(*map(jax.numpy.asarray, (q, k, v, as_bias(mask))))}


@row("jax softmax, where=", "jax")
def _():
    import jax

    def run(query, key, value, mask):
        return jax.nn.softmax(query @ key.mT / query.shape[-1] ** 0.5, where=mask) @ value

    def same(query, key, value, mask):
        return run(*map(jax.numpy.asarray, (query, key, value, masks.to_four_axes(mask))))

    return {"run": run, "same": same}


@row("flax.linen dot_product_attention, mask=", "jax")
def _():
    from flax import linen

    return jax_rows(linen.dot_product_attention, "mask", masks.to_four_axes, flag=False)


@row("flax.nnx dot_product_attention, mask=", "jax")
def _():
    from flax import nnx

    return jax_rows(nnx.dot_product_attention, "mask", masks.to_four_axes)


# -------------------------------------------------------------------------------------------------------------- keras


def keras_rows(**options):
    """MultiHeadAttention whose projections are the identity."""
    import keras

    def layer(n_heads, width, **kwargs):
        made = keras.layers.MultiHeadAttention(n_heads, width // n_heads)
        nothing = np.zeros((1, 1, width), np.float32)
        made(nothing, nothing)
        for weight in made.weights:
            is_bias = "bias" in weight.name
            weight.assign(np.zeros(weight.shape) if is_bias else np.eye(width).reshape(weight.shape))

        def call(query, key, value, **arguments):
            output = made(query, value, key, **options, **arguments)
            return output[0] if options else output

        return call

    single = layer(1, 4)

    def same(query, key, value, mask):
        n_batch, n_heads, _, width = query.shape
        flat = [x.swapaxes(1, 2).reshape(n_batch, -1, n_heads * width) for x in (query, key, value)]
        output = layer(n_heads, n_heads * width)(*flat, attention_mask=masks.to_keras(mask))
        return keras.ops.convert_to_numpy(output).reshape(n_batch, -1, n_heads, width).swapaxes(1, 2)

    return {
        "run": lambda query, key, value, mask: single(query, key, value, attention_mask=mask),
        "causal": lambda query, key, value: single(query, key, value, use_causal_mask=True),
        "same": same,
    }


for backend in ("jax", "torch"):
    options = {"library": backend, "backend": backend, "cases": "one for all heads"}
    row(f"keras MultiHeadAttention on {backend}", **options)(keras_rows)
    row(f"keras MultiHeadAttention on {backend}, scores returned", **options)(
        lambda: keras_rows(return_attention_scores=True)
    )


# ------------------------------------------------------------------------------------------------------- transformers


def bert(kind, translate, four_axes=False):
    """A BERT of one layer that gets [query, key, value] as its embedding and projects each out of it again."""
    import torch
    import transformers

    width = 4
    config = transformers.BertConfig(
        hidden_size=3 * width,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=1,
        vocab_size=1,
        attn_implementation=kind,
    )
    model = transformers.BertModel(config, add_pooling_layer=False).eval()
    model.embeddings.LayerNorm = torch.nn.Identity()
    inner = model.encoder.layer[0].attention.self
    with torch.no_grad():
        for embedding in (model.embeddings.position_embeddings, model.embeddings.token_type_embeddings):
            embedding.weight.zero_()
        for i, projection in enumerate((inner.query, inner.key, inner.value)):
            projection.bias.zero_()
            projection.weight.zero_()
            projection.weight[:width, i * width : (i + 1) * width] = torch.eye(width)
        inner.query.weight *= 3**0.5  # its scale is 1/√(3 · width)
    outputs = []
    inner.register_forward_hook(lambda module, inputs, output: outputs.append(output[0]))

    def run(query, key, value, mask):
        mask = mask.expand(len(query), 1, *mask.shape) if four_axes else mask
        model(inputs_embeds=torch.cat([query, key, value], dim=-1), attention_mask=mask)
        return outputs.pop()[..., :width]

    def same(query, key, value, mask):
        inputs = torch.cat([torch.tensor(x[:, 0]) for x in (query, key, value)], dim=-1)
        model(inputs_embeds=inputs, attention_mask=torch.tensor(translate(mask)))
        return outputs.pop()[:, None, :, :width].detach().numpy()

    return {"run": run, "same": same}


for kind in ("eager", "sdpa"):
    row(f"transformers BERT, {kind}", "torch", padding=True, cases="padding")(
        lambda kind=kind: bert(kind, masks.to_hugging_face)
    )
    row(f"transformers BERT, {kind}, mask of four axes", "torch", cases="padding")(
        lambda kind=kind: bert(kind, as_bias, four_axes=True)
    )


def left_padding():
    """What a causal model without `position_ids` makes of padding on the left: its logits against those without it."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=9, n_embd=8, n_layer=1, n_head=2, n_positions=8, bos_token_id=0, eos_token_id=0
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    torch.nn.init.normal_(model.transformer.wpe.weight)
    tokens, mask = torch.tensor([[0, 0, 5, 6, 7]]), torch.tensor([[0, 0, 1, 1, 1]])
    with torch.no_grad():
        alone = model(input_ids=tokens[:, 2:]).logits
        without = model(input_ids=tokens, attention_mask=mask).logits[:, 2:]
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        given = model(input_ids=tokens, attention_mask=mask, position_ids=positions).logits[:, 2:]
    without, given = (float((logits - alone).abs().max()) for logits in (without, given))
    return (
        "transformers GPT-2, two tokens of padding on the left: without position_ids the logits of the real tokens "
        f"differ by {without:.1g} from those without padding, with them by {given:.1g}."
    )


# --------------------------------------------------------------------------------------------------------------- ONNX


def onnx_model(inputs, **attributes):
    from onnx import TensorProto, helper

    dtypes = {"float32": TensorProto.FLOAT, "bool": TensorProto.BOOL}
    node = helper.make_node("Attention", list(inputs), ["output"], **attributes)
    known = [helper.make_tensor_value_info(name, dtypes[x.dtype.name], x.shape) for name, x in inputs.items()]
    output = helper.make_tensor_value_info("output", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "attention", known, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=11)


def reference(inputs, **attributes):
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(onnx_model(inputs, **attributes)).run(None, inputs)[0]


def runtime(inputs, **attributes):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised; it need not print them too
    model = onnx_model(inputs, **attributes).SerializeToString()
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, inputs)[0]


def onnx_rows(evaluate, mask_beside_flag=None):
    def named(query, key, value, mask=None):
        return {"query": query, "key": key, "value": value} | ({} if mask is None else {"mask": mask})

    def run(query, key, value, mask=None, **attributes):
        return evaluate(named(query[:, None], key[:, None], value[:, None], mask), **attributes)[:, 0]

    def causal(query, key, value):
        mask = None if mask_beside_flag is None else np.ones((1, key.shape[1]), dtype=bool)
        return run(query, key, value, mask, is_causal=1)

    def same(query, key, value, mask):
        return evaluate(named(query, key, value, masks.to_four_axes(mask)))

    return {"run": run, "causal": causal, "same": same}


for name, evaluate in (("onnx reference", reference), ("onnxruntime", runtime)):
    row(f"{name}, Attention", "numpy")(lambda evaluate=evaluate: onnx_rows(evaluate))
    row(f"{name}, Attention, is_causal and mask (1, n_k)", "numpy")(
        lambda evaluate=evaluate: onnx_rows(evaluate, mask_beside_flag=True)
    )


# -------------------------------------------------------------------------------------------------- measuring, writing


def agreement(same, cases):
    """The largest difference from `attnlab.attention` for masks of two, three and four axes, none with an empty row."""
    rng = np.random.default_rng(0)
    n_heads, n_q, n_k = (1, 5, 5) if cases == "padding" else (2, 3, 5)
    query, key, value = (rng.normal(size=(2, n_heads, n, 4)).astype(np.float32) for n in (n_q, n_k, n_k))

    def random(*shape):
        return (rng.random(shape) < 0.5) | np.eye(n_q, n_k, dtype=bool)  # each query may attend to one key at least

    given = [masks.padding([5, 2], n_k), masks.padding([[4], [1]], n_k)]
    if cases != "padding":
        given += [masks.causal(n_q, n_k), random(n_q, n_k), random(2, n_q, n_k), random(2, 1, n_q, n_k)]
    if cases == "all":
        given += [random(2, n_heads, n_q, n_k), random(1, n_heads, n_q, n_k)]
    differences = []
    for mask in given:
        ours = attention(query, key, value, mask if mask.ndim != 3 else mask[:, None]).output
        differences.append(float(np.abs(np.asarray(same(query, key, value, mask)) - ours).max()))
    return max(differences)


def measure_row(row):
    made = row.make()
    same = made.pop("same")
    found = measure(row.call, made.pop("run"), library=row.library, padding=row.padding, **made)
    return dataclasses.asdict(found) | {"agreement": float(f"{agreement(same, row.cases):.1e}")}


def measure_all():
    """Every row; those of keras in a process for each backend."""
    found = {}
    for backend in dict.fromkeys(row.backend for row in ROWS):
        environment = os.environ | {"KERAS_BACKEND": backend or "jax", "HF_HUB_OFFLINE": "1"}
        command = [sys.executable, __file__, "--backend", backend]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        found |= {row["call"]: row for row in json.loads(done.stdout)["rows"]}
    return [found[row.call] for row in ROWS]


def main(arguments):
    if arguments[:1] == ["--backend"]:
        rows = [measure_row(row) for row in ROWS if row.backend == arguments[1]]
        print(json.dumps({"rows": rows}))
        return
    rows = measure_all()
    apart = [f"{row['call']}: {row['agreement']}" for row in rows if not row["agreement"] <= TOLERANCE]
    if apart:
        sys.exit(
            "Through attnlab.masks these differ from attnlab.attention, so nothing is written.\n" + "\n".join(apart)
        )
    record = {
        "platform": f"{platform.system()} {platform.machine()}, CPU, float32",
        "versions": {name: version(name).split("+")[0] for name in LIBRARIES},
        "rows": rows,
        "remarks": [left_padding()],
    }
    write(RECORD, record)
    print(f"{RECORD.name}: {len(rows)} calls")


if __name__ == "__main__":
    main(sys.argv[1:])
