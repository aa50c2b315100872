"""What heads of SmolLM2 do, by weights and by interventions: writes src/attnlab/data/smollm2_heads.json.

Ten minutes on one core.  Each part says in `what` what was measured.  `python book/tools/smollm2_heads.py single`
measures that part anew and leaves the others as they are.  The functions with which a reader computes a part again are
in `attnlab.models.smollm2_heads` and `attnlab.models.smollm2_sinks`.  One sequence of random words, or one passage, is
one run: what is recorded run by run is for `attnlab.evidence.spread`.
"""

import json
import sys
from contextlib import ExitStack
from importlib.metadata import version

import numpy as np
import torch
from records import DATA, rounded, write

from attnlab import evidence
from attnlab.models import smollm2, smollm2_heads, smollm2_sinks, snippets
from attnlab.models.smollm2_heads import HEADS, Last, losses, pattern, repeated, top
from attnlab.models.smollm2_measures import passages

RECORD = DATA / "smollm2_heads.json"
N = 25  # words, and the same again
N_SEQUENCES = 8
N_ABLATED = 5  # of the judging sequences, the first, are read without heads
CHOOSING, JUDGING, REFERENCE = 0, 1, 2  # seeds: heads are chosen on the first, judged on the second
FRESH = 3  # the seed of those on which heads are judged that were chosen on the judging ones
SIZES = (1, 2, 4, 8)
N_DRAWS = 20
N_PROMPTS = 12  # six for choosing, six for judging
PLACE = 10  # of the other key that is taken away for comparison
N_DIRECTIONS = 10  # of a value turned at random
EPS = 0.1  # of a difference of logits


def of_list(table, heads):
    return [table[head].item() for head in heads]


def texts(model):
    """Five passages of 128 tokens to be judged, and the 128 after each as a reference."""
    return passages(model, 5, 256).split(128, dim=1)


def unrepeated(model):
    return repeated(model, N_SEQUENCES, 2 * N, times=1, seed=REFERENCE)


def chosen_scores(model):
    return pattern(model, repeated(model, N_SEQUENCES, N, seed=CHOOSING)).mean(dim=0)


# ------------------------------------------------------------------------------------------------------------ pattern


def by_pattern(model):
    scores, judged = chosen_scores(model), pattern(model, repeated(model, N_SEQUENCES, N, seed=JUDGING))
    heads = top(scores, 16)
    others = {"words": unrepeated(model), "text": texts(model)[0][:, : 2 * N]}
    uniform = (1 / torch.arange(N + 1, 2 * N + 1)).mean()  # the key i + 1 among N + i + 1
    lengths = {n: pattern(model, repeated(model, N_SEQUENCES, n, seed=JUDGING)).mean(dim=0) for n in (15, 50)}
    print([(head, scores[head].item(), judged.mean(dim=0)[head].item()) for head in heads], flush=True)
    return {
        "what": "25 random words and the same again, 8 sequences for choosing and 8 for judging: the mean weight from "
        "each word of the repeat on the one after its first occurrence, layer by head; the 16 highest of the choosing "
        "sequences, and `runs`, each of the judging ones; without a repeat, the same distance in random "
        "words and in reviews; with 15 and with 50 words",
        "n": N,
        "choosing": rounded(scores),
        "judging": rounded(judged.mean(dim=0)),
        "top": [list(head) for head in heads],
        "runs": rounded([judged[:, layer, head] for layer, head in heads]),
        "uniform": rounded(uniform.item()),
        "unrepeated": {name: rounded(pattern(model, ids).mean(dim=0)) for name, ids in others.items()},
        "at_other_lengths": {str(n): rounded(of_list(table, heads)) for n, table in lengths.items()},
    }


# ----------------------------------------------------------------------------------------------------------- ablation


class Reader:
    """Losses of ids (B, n) from position `first` on, each text's mean (B,).  Layers below a change are run once."""

    def __init__(self, model, ids, first):
        self.model, self.ids, self.first = model, ids, first
        self.states = [model.words(ids), *(states for states, _ in model.layers(ids))]
        self.whole = losses(model, ids, first).mean(dim=1)

    def change(self, heads, means):
        """What each text's loss gains without these heads: (B,)"""
        layer = min(layer for layer, _ in heads)
        with smollm2_heads.without(self.model, heads, means):
            found = losses(self.model, self.ids, self.first, self.states[layer], layer)
        return found.mean(dim=1) - self.whole


def ablation(model):
    heads = top(chosen_scores(model), max(SIZES))
    judged, reference = texts(model)
    means = {
        "zero": None,
        "words": smollm2_heads.mean_outputs(model, unrepeated(model)),
        "text": smollm2_heads.mean_outputs(model, reference),
    }
    readers = {
        "repeat": Reader(model, repeated(model, N_ABLATED, N, seed=JUDGING), N + 1),
        "text": Reader(model, judged[:, :64], 1),
    }
    found = {name: {"loss": rounded(reader.whole)} for name, reader in readers.items()}
    for name, kind, sizes, columns in (
        ("repeat", "words", SIZES, ("random", "same_layers")),
        ("repeat", "zero", SIZES, ("random",)),
        ("repeat", "text", SIZES, ()),
        ("text", "text", SIZES[2:], ("random",)),
        ("text", "zero", SIZES[2:], ()),
    ):
        rows = {name: [] for name in ("k", "top", *columns)}
        for k in sizes:
            rows["k"].append(k)
            rows["top"].append(readers[name].change(heads[:k], means[kind]).tolist())
            for column in columns:
                among = None if column == "random" else [layer for layer, _ in heads[:k]]
                draws = [smollm2_heads.random_heads(k, i, among=among, but=heads) for i in range(N_DRAWS)]
                rows[column].append([readers[name].change(drawn, means[kind]).mean().item() for drawn in draws])
            print(name, kind, k, *(np.mean(rows[column][-1]).round(3) for column in ("top", *columns)), flush=True)
        found[name][kind] = rounded(rows)
    return {
        "what": "the loss, and what it gains without k heads: `repeat`, the second 25 words of five judging sequences "
        "but the first of them; `text`, five passages of reviews of 64 tokens.  `top`: the k highest by pattern on "
        "the choosing sequences, text by text; `random`: k of the other 262 heads, 20 draws; "
        "`same_layers`: k others from the layers of the top ones, 20 draws.  In place of a head stands 0 (`zero`), or "
        "its mean over random words without a repeat (`words`), or over other reviews (`text`)",
        "heads": [list(head) for head in heads],
        **found,
    }


def single(model):
    means = smollm2_heads.mean_outputs(model, unrepeated(model))
    reader = Reader(model, repeated(model, N_ABLATED, N, seed=JUDGING), N + 1)
    change = torch.stack([reader.change([head], means) for head in HEADS])  # (270, 5)
    effect, scores = change.mean(dim=1).reshape(30, 9), chosen_scores(model)
    before = torch.stack([weights.diagonal(-1, -2, -1).mean(dim=(0, 2)) for _, weights in model.layers(reader.ids)])
    heads, by_scores = top(effect, 10), top(scores, 10)
    fresh = Reader(model, repeated(model, N_SEQUENCES, N, seed=FRESH), N + 1)
    judged = torch.stack([fresh.change([head], means) for head in heads])  # (10, 8)
    found = [effect[head].item() for head in heads], judged.mean(dim=1).tolist(), of_list(scores, heads)
    print(*zip(heads, *found, of_list(before, heads), strict=True), sep="\n", flush=True)
    return {
        "what": "the repeat of five judging sequences without one head, its mean over random words in its place: the "
        "gain of the loss, layer by head; the ten heads that it needs most, `runs`, the gain of each sequence, by "
        "which they were chosen, `judged`, the gain of each of eight fresh sequences, their "
        "pattern scores on the choosing sequences, and their mean weight on the token before; Kendall's tau-b with the "
        "pattern score over all heads and over those whose score is above .1, `n_above`; how many of the ten "
        "are among the ten highest scores",
        "gain": rounded(effect),
        "top": [list(head) for head in heads],
        "runs": rounded([change[HEADS.index(head)] for head in heads]),
        "judged": rounded(judged),
        "pattern": rounded(of_list(scores, heads)),
        "token_before": rounded(of_list(before, heads)),
        "tau": rounded(evidence.rank_agreement(scores.flatten(), effect.flatten())),
        "tau_above": rounded(evidence.rank_agreement(scores[scores > 0.1], effect[scores > 0.1])),
        "n_above": int((scores > 0.1).sum()),
        "in_common": len(set(heads) & set(by_scores)),
    }


# ----------------------------------------------------------------------------------------------------------- patching


def wanted_over_other(logits):
    return logits[..., 0] - logits[..., 1]


class Pair:
    """A prompt as read clean and corrupted, and the logit of the wanted word minus that of the other in both."""

    def __init__(self, model, prompt):
        self.model, self.prompt = model, prompt
        self.tokens = torch.tensor([prompt.wanted, prompt.other])
        self.clean, self.corrupted = Last(model, prompt.clean), Last(model, prompt.corrupted)
        self.out = [wanted_over_other(one.logits(self.tokens)) for one in (self.clean, self.corrupted)]  # (1,) each

    def at_last(self, backwards=False):
        """The share that each head's output at the last position brings from one text to the other: (30, 9)"""
        one, other = (self.corrupted, self.clean) if backwards else (self.clean, self.corrupted)
        start, end = self.out if backwards else self.out[::-1]
        return evidence.restored(end, start, wanted_over_other(other.patched(one, self.tokens)))

    def everywhere(self, layers=range(30)):
        """As above, with the head's output at all positions, from clean to corrupted: (layers, 9)"""
        model, rows = self.model, []
        projections = [block.attention.W_o for block in model.blocks]
        with ExitStack() as stack:
            seen = [stack.enter_context(evidence.captured(W_o)) for W_o in projections]
            for _ in model.layers(self.prompt.clean):
                pass
        below = [model.words(self.prompt.corrupted), *(x for x, _ in model.layers(self.prompt.corrupted))]
        turn = smollm2.turns(torch.arange(self.prompt.clean.shape[1]))
        own = torch.eye(9, dtype=torch.bool).repeat_interleave(64, dim=1)[:, None]  # (9, 1, 576)
        for layer in layers:
            states, new = below[layer].expand(9, -1, -1), seen[layer].inputs[0]
            with evidence.edited(projections[layer], lambda x, new=new: torch.where(own, new, x), where="input"):
                for block in model.blocks[layer:]:
                    states, _ = block(states, turn, None, None)
            logits = torch.nn.functional.linear(model.norm(states[:, -1]), model.words.weight[self.tokens])
            rows.append(wanted_over_other(logits))
        return evidence.restored(*self.out, torch.stack(rows))

    def together(self, heads):
        """The share that comes back with all of these heads' outputs at the last position."""
        with self.clean.given(heads):
            logits = self.model(self.prompt.corrupted, last=True)[0, 0, self.tokens]
        return evidence.restored(*self.out, wanted_over_other(logits)).item()


def patching(model):
    pairs = [Pair(model, prompt) for prompt in smollm2_heads.prompts(model, N_PROMPTS)]
    shares, half = {"last": [], "backwards": [], "everywhere": []}, N_PROMPTS // 2
    for pair in pairs:
        shares["last"].append(pair.at_last())
        shares["backwards"].append(pair.at_last(backwards=True))
        if len(shares["everywhere"]) < half:
            shares["everywhere"].append(pair.everywhere())
        print(len(shares["last"]), [one.item() for one in pair.out], top(shares["last"][-1], 3), flush=True)
    tables = {name: torch.stack(found) for name, found in shares.items()}  # (12, 30, 9), and (6, 30, 9) everywhere
    scores = chosen_scores(model)
    orders = {"pattern": top(scores, 16), "restored": top(tables["last"][:half].mean(dim=0), 16)}
    judged = pairs[half:]
    together = {
        name: [[pair.together(order[:k]) for pair in judged] for k in (*SIZES, 16)] for name, order in orders.items()
    }
    drawn = [smollm2_heads.random_heads(8, i, but={*orders["pattern"], *orders["restored"]}) for i in range(N_DRAWS)]
    together["random_8"] = [float(np.mean([pair.together(heads) for pair in judged])) for heads in drawn]
    print(together, flush=True)
    means = {name: table.mean(dim=0) for name, table in tables.items()}
    return {
        "what": "24 random words, then their beginning again, up to a word A; in the corrupted text the word after the "
        "first A is another one, C in place of B.  Measured: logit of B - logit of C after the last A.  12 prompts. "
        "`last`: one head's output at the last position, taken from clean to corrupted, the share of the difference "
        "that comes back, layer by head, mean and standard deviation over prompts; `backwards`: from corrupted to "
        "clean; `everywhere`: its output at all positions, from clean to corrupted, in the first 6 prompts.  "
        "`together`: all of the first 1, 2, 4, 8, 16 heads of an order at once, at the last position, each of the last "
        "6 prompts; the order `restored` is that of the first 6 prompts, `pattern` that of the choosing sequences; "
        "`random_8`: 20 draws of 8 others, mean over these prompts.  `runs`: `last` prompt by prompt, for the heads of "
        "both orders; `runs_everywhere`, for those of the order `pattern`",
        "difference": {
            name: rounded([pair.out[i].item() for pair in pairs]) for i, name in enumerate(("clean", "corrupted"))
        },
        **{name: rounded(mean) for name, mean in means.items()},
        "sd": rounded(tables["last"].std(dim=0)),
        "orders": {name: [list(head) for head in order] for name, order in orders.items()},
        "runs": {
            name: rounded([tables["last"][:, layer, head] for layer, head in order]) for name, order in orders.items()
        },
        "runs_everywhere": rounded([tables["everywhere"][:, layer, head] for layer, head in orders["pattern"]]),
        "pattern_of_restored": rounded(of_list(scores, orders["restored"])),
        "sum_of_all": rounded(tables["last"].sum(dim=(1, 2))),
        "in_common_of_8": len(set(orders["pattern"][:8]) & set(orders["restored"][:8])),
        "tau": {
            "pattern, last": rounded(evidence.rank_agreement(scores.flatten(), means["last"].flatten())),
            "last, backwards": rounded(evidence.rank_agreement(means["last"].flatten(), means["backwards"].flatten())),
            "last, everywhere": rounded(
                evidence.rank_agreement(means["last"].flatten(), means["everywhere"].flatten())
            ),
        },
        "together_k": [*SIZES, 16],
        "together": rounded(together),
    }


# -------------------------------------------------------------------------------------------------------------- sinks


def turned(value, number):
    """Values (…, 64) of the same lengths, in directions drawn at random."""
    drawn = torch.randn(value.shape, generator=torch.Generator().manual_seed(number))
    return drawn / drawn.norm(dim=-1, keepdim=True) * value.norm(dim=-1, keepdim=True)


def sinks(model):
    judged, reference = texts(model)
    found, before = smollm2_sinks.first_key(model, judged), smollm2_sinks.first_key(model, reference)
    heads = before.weight > 0.5
    other = before.values.roll(1, dims=0)[0]  # (30, 9, 64)
    whole = losses(model, judged).mean(dim=1)
    first, tenth, heaviest = smollm2_sinks.key(0), smollm2_sinks.key(PLACE), smollm2_sinks.heaviest

    def gain(choose, **options):  # (5,)
        with smollm2_sinks.without_keys(model, heads, choose, **options):
            return losses(model, judged).mean(dim=1) - whole

    by_direction = torch.stack([gain(first, value=turned(other, i)) for i in range(N_DIRECTIONS)])  # (10, 5)
    gains = {
        "first, value 0": gain(first),
        "first, forbidden": gain(first, forbid=True),
        "first, value of another text": gain(first, value=other),
        "first, value of that length in another direction": by_direction.mean(dim=0),
        "first, the same for all queries": gain(first, added=before.added),
        "token 10, value 0": gain(tenth),
        "token 10, forbidden": gain(tenth, forbid=True),
        "heaviest other, value 0": gain(heaviest),
        "heaviest other, forbidden": gain(heaviest, forbid=True),
    }
    print(*((name, evidence.spread(rows)) for name, rows in gains.items()), by_direction, sep="\n", flush=True)
    values = torch.nn.functional.normalize(found.values, dim=-1)
    alike = torch.stack([(values[i] * values[j]).sum(dim=-1) for i in range(5) for j in range(i)]).mean(dim=0)
    weight_elsewhere = {}
    for name, choose in {"token 10": tenth, "heaviest other": heaviest}.items():
        taken = [(weights * choose(weights)).sum(dim=-1) for _, weights in model.layers(judged)]  # (5, 9, 128) each
        rows = [weights[:, :, PLACE + 1 :].mean(dim=(0, 2)) for weights in taken]
        weight_elsewhere[name] = rounded(torch.stack(rows)[heads].mean().item())
    quartiles = torch.tensor([0.25, 0.5, 0.75])
    tables = {"weight": found.weight, "norm": found.norm, "after": found.after, "share": found.share, "alike": alike}
    return {
        "what": "five passages of reviews, 128 tokens each, and the first token of each: layer by head its mean weight "
        "for the queries after it, the norm of its value over the mean norm of the others, before and behind W_o, and "
        "its share of the sum of weight times norm behind W_o; `alike`: the mean cosine of the five first values. "
        "`sinks`: the heads that give it more than half their weight on five other passages; for these the quartiles "
        "of each; what the loss of each passage gains when in all of them its value counts as 0, or it is forbidden "
        "and the other weights are divided by their sum; or its value is that of another text, or one of that length "
        "in a random direction, the mean over ten draws, or what it adds is the same for all queries, a mean over the "
        "other passages; the same with token 10, and with each query's heaviest other key; and the mean weights of "
        "these two.  `gain_by_direction`: each of the ten draws, passage by passage",
        "sinks": [list(head) for head in HEADS if heads[head]],
        "loss": rounded(whole),
        "gain": rounded(gains),
        "gain_by_direction": rounded(by_direction),
        "quartiles": {name: rounded(table[heads].quantile(quartiles)) for name, table in tables.items()},
        "weight_of_others": weight_elsewhere,
        **{name: rounded(table, 3) for name, table in tables.items()},
    }


# ----------------------------------------------------------------------------------------------------------- protocol


def protocol(model):
    pairs = [Pair(model, prompt) for prompt in smollm2_heads.prompts(model, N_PROMPTS)]
    found = {}
    chosen = {"induction": top(chosen_scores(model), 1)[0], "sink": sink_head(model)}
    for name, (layer, head) in chosen.items():
        rows = {
            key: [] for key in ("weight", "at", "moved", "lost", "lost_at", "lost_alone", "one_key", "curved", "tau")
        }
        for pair in pairs:
            predict = pair.clean.head(layer, head, pair.prompt.wanted, pair.prompt.other)
            weights = pair.clean.weights[layer, head]
            own = predict(weights[None])[0]
            target = pair.prompt.clean[0].tolist().index(pair.prompt.wanted) if name == "induction" else 0
            rows["weight"].append(weights[target].item())
            rows["at"].append(int(weights.argmax()) == target)
            rows["moved"].append(evidence.permute(predict, weights, 100).abs().median().item())
            lost = evidence.leave_one_out(predict, weights)
            rows["lost"].append(lost[target].item())
            rows["lost_at"].append(int(lost.abs().argmax()) == target)
            alone = evidence.leave_one_out(predict, weights, renormalize=False)
            rows["lost_alone"].append(alone[target].item())
            rows["tau"].append(evidence.rank_agreement(weights, lost.abs()))
            one_hot = torch.eye(len(weights))
            outputs = predict(one_hot)
            near = (outputs - own).abs() <= EPS
            apart = evidence.jensen_shannon(one_hot, weights.expand(len(weights), -1))
            rows["one_key"].append(apart[near].max().item() if near.any() else 0.0)
            middle = predict(torch.full_like(one_hot[:1], 1 / len(weights)))[0]
            rows["curved"].append(((outputs.mean() - middle).abs() / (outputs.max() - outputs.min())).item())
            try:
                evidence.adversary(predict, weights, own - EPS, own + EPS)
                refused = ""
            except ValueError as error:
                refused = str(error)
        found[name] = {
            "head": [layer, head],
            **{key: rounded(sum(row) if isinstance(row[0], bool) else row) for key, row in rows.items()},
            "adversary_says": refused,
        }
        print(name, found[name], flush=True)
    return {
        "what": "one head at the last position of the 12 clean prompts, its weights as the argument, logit of the "
        "wanted word - logit of the other as the output; prompt by prompt.  Of the key where the head "
        "is expected to look (the wanted word; the first token): `weight`; `at`, in how many prompts it is the "
        "heaviest; `lost`, the output lost by leaving it out; `lost_at`, in how many prompts no key is felt more; "
        "`lost_alone`, where the other weights are not divided by their sum. "
        "`moved`: the median change of the output over 100 shuffles of the weights; `tau`: between the weights and the "
        "size of what leaving out loses; `one_key`: the largest Jensen-Shannon divergence of all weight on one key "
        "that moves the output by at most .1, 0 where there is none; `curved`: how far the output of equal "
        "weights is from the mean over those of single keys, where it lay if the output were affine in the weights, "
        "over the range of these",
        "eps": EPS,
        **found,
    }


def sink_head(model):
    """The head from layer 15 on with the largest weight on the first token, in the reference passages."""
    weight = smollm2_sinks.first_key(model, texts(model)[1]).weight.clone()
    weight[:15] = 0
    return top(weight, 1)[0]


PARTS = {
    "pattern": by_pattern,
    "ablation": ablation,
    "single": single,
    "patching": patching,
    "sinks": sinks,
    "protocol": protocol,
}


def main(names):
    torch.set_num_threads(1)
    model = smollm2.load()
    for name in names or PARTS:
        found = PARTS[name](model)
        record = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
        packages = ("gguf", "numpy", "scipy", "tokenizers", "torch")
        record |= {
            "model": {"name": "SmolLM2-135M-Instruct", "sha256": smollm2.SHA256},
            "texts": {"products_sha256": snippets.SHA256["amazon"]},
            "versions": {package: version(package).split("+")[0] for package in packages},
            name: found,
        }
        order = ["model", "texts", "versions", *PARTS]
        write(RECORD, {key: record[key] for key in order if key in record})


if __name__ == "__main__":
    main(sys.argv[1:])
