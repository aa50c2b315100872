"""Chapter 5's exercises 5.3 and 5.10: numbers of the reports, and answers as people type them."""

import numpy as np
import pytest
import torch  # here: the first import takes longer than a check may
from test_exercises_ch5_tiles import INF, drawn, near, twin

from attnlab import softmax
from attnlab.exercises.ch5_efficient_variants.causal_linear_attention import causal_linear_attention
from attnlab.exercises.ch5_efficient_variants.kv_cache_bytes import kv_cache_bytes


def test_the_cache_of_a_real_model_and_the_report_s_factor_of_eight():
    llama = {"n_layers": 32, "n_heads": 32, "n_kv_heads": 8, "d_head": 128, "itemsize": 2}
    assert kv_cache_bytes.reference(n=1, **llama) == 131_072
    assert kv_cache_bytes.reference(n=4096, **llama) == 512 * 2**20
    assert twin(kv_cache_bytes, "heads: of the queries")(n=1, **llama) == 524_288
    # The formula of jranaraki/vllm-fit#2 for a 7B model with as many key heads as query heads, in bytes.
    seven = llama | {"n_kv_heads": 32}
    assert kv_cache_bytes.reference(n=1, **seven) == 2 * 32 * 32 * (32 * 128) * 4 / 8 / 8
    keys = np.zeros((32, 8, 5, 128), np.float16)
    assert kv_cache_bytes.reference(n=5, **llama) == 2 * keys.nbytes


def test_the_report_on_the_normaliser_of_causal_linear_attention():
    Q, K, V = np.array([[1.0, 1.0], [1.0, 2.0]]), np.eye(2), np.array([[10.0], [20.0]])
    near(causal_linear_attention.reference(Q, K, V), [[10], [50 / 3]])
    assert twin(causal_linear_attention, "normaliser: per feature")(Q, K, V)[1] == 50
    Q, K, V = np.exp(drawn(3, 5, 4))[0], np.exp(drawn(5, 4, seed=1)), drawn(5, 3, seed=2)
    weights = np.tril(Q @ K.T)
    near(causal_linear_attention.reference(Q, K, V), weights / weights.sum(-1, keepdims=True) @ V)
    later = V.copy()
    later[3] += 1
    near(causal_linear_attention.reference(Q, K, later)[:3], causal_linear_attention.reference(Q, K, V)[:3], atol=0)


def test_the_examples_of_the_statements():
    assert "536,870,912 bytes, which is 512 MiB" in " ".join(kv_cache_bytes.statement.split())
    assert "[10], [16.6667]" in " ".join(causal_linear_attention.statement.split())


@pytest.mark.parametrize("one", [kv_cache_bytes, causal_linear_attention])
def test_right_answers_hear_nothing_and_both_dtypes_are_probed(one):
    assert one.judge(one.reference).words == []
    arrays = [a for p in one.ordinary() for a in p.arguments if isinstance(a, np.ndarray)]
    assert {a.dtype.char for a in arrays} == (set() if one is kv_cache_bytes else set("fd"))


def test_no_two_counts_of_a_model_are_the_same():
    for case in (p.arguments for p in kv_cache_bytes.ordinary()):
        _, n_heads, n_kv_heads, d_head, n, _ = case
        counts = [n_heads, n_kv_heads, n_heads // n_kv_heads, n_heads + n_kv_heads, d_head, n, 1, 3]
        assert len(set(counts)) == len(counts) and n_heads % n_kv_heads == 0, case


# ---- typed by hand: (exercise, answer, turns expected; () for correct) -----------------------------------------------


def linear(normaliser=None, S=None, z=None):
    """An answer with sums over all tokens so far at once, and one line of its own."""

    def answer(Q, K, V):
        sums = S(K, V) if S else np.cumsum(np.einsum("nr,nv->nrv", K, V), axis=0)
        keys = z(K) if z else np.cumsum(K, axis=0)
        below = normaliser(Q, keys, K) if normaliser else (Q * keys).sum(axis=1)
        return np.einsum("nr,nrv->nv", Q, sums) / np.reshape(below, (-1, 1))

    return answer


def performer_before_the_report(Q, K, V):
    context = np.cumsum(np.einsum("nr,nv->nrv", K, V), axis=0)
    context /= np.cumsum(K, axis=0)[:, :, None]
    return np.einsum("nrv,nr->nv", context, Q)


def performer_without_1_over(Q, K, V):
    D_inv = np.einsum("nr,nr->n", Q, np.cumsum(K, axis=0))
    return np.einsum("nr,nrv,n->nv", Q, np.cumsum(np.einsum("nr,nv->nrv", K, V), axis=0), D_inv)


def read_before_added(Q, K, V):
    S, z, out = np.zeros((K.shape[1], V.shape[1])), np.zeros(K.shape[1]), []
    for q, k, v in zip(Q, K, V, strict=True):
        out.append(q @ S / max(q @ z, 1e-300))
        S, z = S + np.outer(k, v), z + k
    return np.array(out)


def read_while_empty(Q, K, V):
    S, z, out = np.zeros((K.shape[1], V.shape[1])), np.zeros(K.shape[1]), []
    for q, k, v in zip(Q, K, V, strict=True):
        out.append(q @ S / (q @ z))
        S, z = S + np.outer(k, v), z + k
    return np.array(out)


def table(lower=np.tril, through=lambda scores: scores):
    def answer(Q, K, V):
        weights = lower(through(Q @ K.T))
        return weights / weights.sum(axis=1, keepdims=True) @ V

    return answer


def masked_softmax(Q, K, V):
    return softmax(np.where(np.tri(len(V), dtype=bool), Q @ K.T, -INF)) @ V


def not_causal(Q, K, V):
    return Q @ (K.T @ V) / (Q @ K.sum(axis=0))[:, None]


def linear_torch_style(Q, K, V):
    Q, K, V = (torch.as_tensor(a, dtype=torch.float64) for a in (Q, K, V))
    S = torch.einsum("nr,nv->nrv", K, V).cumsum(dim=0)
    return torch.einsum("nr,nrv->nv", Q, S) / (Q * K.cumsum(dim=0)).sum(dim=-1, keepdim=True)


def cumsum_in_place(Q, K, V):
    S = np.cumsum(K[:, :, None] * V[:, None, :], axis=0)
    np.cumsum(K, axis=0, out=K)
    return np.einsum("nr,nrv->nv", Q, S) / (Q * K).sum(axis=1)[:, None]


def keys_ask(query_features, key_features, values):
    A = np.tril(key_features @ query_features.T)
    return A @ values / A.sum(axis=1, keepdims=True)


BY_HAND = [
    (causal_linear_attention, keys_ask, ("roles exchanged",)),
    (kv_cache_bytes, lambda L, H, kv, d, n, b: 2 * L * H * d * n * b, ("heads: of the queries",)),
    (kv_cache_bytes, lambda L, H, kv, d, n, b: 2 * L * (H // kv) * d * n * b, ("heads: queries in a group",)),
    (kv_cache_bytes, lambda L, H, kv, d, n, b: 2 * d * b * L * n, ("heads: one",)),
    (kv_cache_bytes, lambda L, H, kv, d, n, b: L * kv * d * n * b, ("arrays: one",)),
    (kv_cache_bytes, lambda L, H, kv, d, n, b: 3 * L * kv * d * n * b, ("arrays: three",)),
    (kv_cache_bytes, lambda L, H, kv, d, n, b: (H + 2 * kv) * L * d * n * b, ("queries too",)),
    (kv_cache_bytes, lambda L, H, kv, d, n, b: 2 * kv * d * n * b, ("layers: one",)),
    (kv_cache_bytes, lambda L, H, kv, d, n, b: 2 * L * kv * (H * d) * n * b, ("width: of the model",)),
    (
        kv_cache_bytes,
        lambda L, H, kv, d, n, b: 2 * L * H * (H * d) * n * b,
        ("heads: of the queries", "width: of the model"),
    ),
    (kv_cache_bytes, lambda L, H, kv, d, n, b: 2 * L * kv * d * b, ("tokens: one",)),
    (kv_cache_bytes, lambda L, H, kv, d, n, b: 2 * L * kv * d * n * n * b, ("tokens: squared",)),
    (kv_cache_bytes, lambda L, H, kv, d, n, b: 2 * L * kv * d * n * b * 8, ("unit: bits",)),
    (kv_cache_bytes, lambda L, H, kv, d, n, b: 2 * L * kv * d * n, ("unit: numbers",)),
    (kv_cache_bytes, lambda L, H, kv, d, n, b: 2 * L * kv * d * n * b / 2**20, ("unit: MiB",)),
    (kv_cache_bytes, lambda L, H, kv, d, n, b: 2 * L * kv * d * n * b / 1024**3, ("unit: GiB",)),
    (kv_cache_bytes, lambda L, H, kv, d, n, b: L * H * d * n * b, ("heads: of the queries", "arrays: one")),
    (kv_cache_bytes, lambda L, H, kv, d, n, b: sum(2 * kv * n * d * b for _ in range(L)), ()),
    (kv_cache_bytes, lambda L, H, kv, d, n, b: torch.tensor([2, L, kv, d, n]).prod() * b, ()),
    (kv_cache_bytes, lambda L, H, kv, d, n, b: np.prod([2.0, L, kv, d, n, b]), ()),
    (causal_linear_attention, performer_before_the_report, ("normaliser: per feature",)),
    (causal_linear_attention, performer_without_1_over, ("normaliser: times",)),
    (causal_linear_attention, linear(lambda Q, z, K: np.ones(len(Q))), ("normaliser: none",)),
    (causal_linear_attention, lambda Q, K, V: np.tril(Q @ K.T) @ V, ("normaliser: none",)),
    (causal_linear_attention, linear(lambda Q, z, K: z.sum(axis=1)), ("normaliser: without the query",)),
    (causal_linear_attention, linear(lambda Q, z, K: Q @ K.sum(axis=0)), ("normaliser: all keys",)),
    (causal_linear_attention, linear(lambda Q, z, K: (Q * K).sum(axis=1)), ("normaliser: own key",)),
    (causal_linear_attention, linear(lambda Q, z, K: np.arange(len(Q)) + 1), ("normaliser: number of keys",)),
    (causal_linear_attention, linear(z=lambda K: K.cumsum(axis=-1)), ("normaliser: along the features",)),
    (causal_linear_attention, linear(lambda Q, z, K: (Q * z).sum(axis=1) + 1e-6), ("normaliser: 1e-6 more",)),
    (causal_linear_attention, linear(lambda Q, z, K: (Q * z).sum(axis=1) + 1e-8), ("normaliser: 1e-8 more",)),
    (causal_linear_attention, not_causal, ("sees: all",)),
    (causal_linear_attention, table(lower=lambda w: w), ("sees: all",)),
    (causal_linear_attention, table(lower=np.triu), ("sees: later ones",)),
    (causal_linear_attention, read_before_added, ("sees: earlier ones",)),
    (causal_linear_attention, read_while_empty, ("read before the first is added",)),
    (causal_linear_attention, table(lower=lambda w: np.tril(w, -1)), ("read before the first is added",)),
    (causal_linear_attention, masked_softmax, ("weights: softmax",)),
    (causal_linear_attention, lambda Q, K, V: table()(Q + 1, K + 1, V), ("weights: mapped again",)),
    (causal_linear_attention, lambda Q, K, V: softmax(Q @ K.T) @ V, ("sees: all", "weights: softmax")),
    (causal_linear_attention, lambda Q, K, V: Q @ (K.T @ V), ("normaliser: none", "sees: all")),
    (causal_linear_attention, cumsum_in_place, ("overwritten",)),
    (causal_linear_attention, linear(), ()),
    (causal_linear_attention, table(), ()),
    (causal_linear_attention, table(through=lambda s: s / np.sqrt(s.shape[0])), ()),
    (causal_linear_attention, linear_torch_style, ()),
]
