"""The still of `split_merge`."""

from .drawing import LIVE, Static

N, D = 4, 8
WAYS = ("right", "no swap in split", "no swap in merge", "no swap")


def forgets(way, step):
    return way.endswith(("swap", step))


def split_merge(token, feature, n_heads, way):
    d = D // n_heads
    followed, swapped = D * token + feature, [_swap(p, d) for p in range(N * D)]
    heads = list(range(N * D))  # the number of x at each place of the heads, in flat order
    if not forgets(way, "split"):
        heads = [swapped.index(p) for p in heads]
    merged = heads if forgets(way, "merge") else [heads[p] for p in swapped]
    at, landed = heads.index(followed), merged.index(followed)
    h, i, c = at // (N * d), at // d % N, at % d
    kin = heads[N * d * h : N * d * (h + 1)]
    r = landed // D
    line = merged[D * r : D * (r + 1)]

    where = (f"x[{token}, {feature}]", f"heads[{h}, {i}, {c}]", f"merged[{r}, {landed % D}]")
    beside = [heads[(j // d * N + i) * d + j % d] for i in range(N) for j in range(D)]  # the heads side by side
    shapes = ""
    for number, (title, places) in enumerate(
        (("x (4, 8)", range(N * D)), (f"heads ({n_heads}, 4, {d})", beside), ("merged (4, 8)", merged))
    ):
        left = 16 + 208 * number
        gap = 3 if number == 1 else 0
        shapes += f"<text x='{left}' y='26' class='dim'>{title}</text>"
        shapes += f"<text x='{left}' y='46' class='b'>{where[number]} = {_name(followed)}</text>"
        for k, p in enumerate(places):
            x, y = left + 23 * (k % D) + gap * (k % D // d), 56 + 24 * (k // D)
            shapes += _cell(x, y, 23, p, p == followed, p in kin)
    for number, (title, places) in enumerate((("x", range(N * D)), ("heads", heads))):
        y = 176 + 52 * number
        shapes += f"<text x='16' y='{y}' class='dim'>{title} in flat order: {_name(followed)} at position "
        shapes += f"{places.index(followed)}</text>"
        shapes += "".join(_cell(16 + 19 * k, y + 8, 19, p, p == followed, p in kin) for k, p in enumerate(places))

    cut = len({p // D for p in kin}) < N
    home = line == list(range(D * r, D * (r + 1)))
    there = " → ".join(where)
    note = f"Head {h} holds {holds(kin)}{', and no other token' * cut}. Row {r} of merged " + (
        f"is token {'abcd'[r]} again" + ": a round trip shows no fault" * cut
        if home
        else f"should be token {'abcd'[r]}, and holds {holds(line)}"
    )
    split = f"x.reshape({n_heads}, 4, {d})" if forgets(way, "split") else f"x.reshape(4, {n_heads}, {d}).swapaxes(0, 1)"
    merge = "heads.reshape(4, 8)" if forgets(way, "merge") else "heads.swapaxes(0, 1).reshape(4, 8)"
    caption = (
        f"{_name(followed)}, feature {feature} of token {'abcd'[token]}, H = {n_heads}, {way}: {there}. Split: "
        f"{split}. Merge: {merge}. {note}. A reshape keeps the flat order; only the swap of axes changes it. {LIVE}"
    )
    text = f"attn-split-merge   {_name(followed)}, H = {n_heads}, {way}\n  {there}\n  {note}"
    for title, places, width in (("x", range(N * D), D), ("heads", heads, d), ("merged", merged, D)):
        rows = [" ".join(_name(p) for p in places[start : start + width]) for start in range(0, N * D, width)]
        text += f"\n  {title:6}  " + " | ".join(rows)
    alt = f"The numbers of x, of the heads and of the merged array, with {_name(followed)} marked: {there}. {note}."
    return Static(shapes, 268, alt, caption, text)


def holds(places):
    """Every set here is some features of some tokens."""
    features, tokens = sorted({p % D for p in places}), sorted({p // D for p in places})
    some_features = "all features" if len(features) == D else _some("feature", features)
    return f"{some_features} of " + ("every token" if len(tokens) == N else _some("token", ["abcd"[i] for i in tokens]))


def _some(word, members):
    if len(members) == 1:
        return f"{word} {members[0]}"
    return f"{word}s {members[0]} {'and' if len(members) == 2 else 'to'} {members[-1]}"


def _swap(p, d):
    """Where x[i, j] goes among the heads, in flat order: heads[j // d, i, j % d]."""
    i, j = divmod(p, D)
    return (j // d * N + i) * d + j % d


def _name(p):
    return "abcd"[p // D] + str(p % D)


def _cell(x, y, width, place, now, kin):
    box = f"<path class='grid' d='M{x} {y}h{width}v24h-{width}z'/>"
    if now:
        box = f"<rect x='{x}' y='{y}' width='{width}' height='24' class='k1'/><path d='M{x} {y}h{width}v24h-{width}z'/>"
    elif kin:
        box += f"<rect x='{x}' y='{y}' width='{width}' height='24' class='k1' opacity='.2'/>"
        box += f"<path class='s1' d='M{x + 1} {y + 22}h{width - 2}'/>"
    ink = "m b inv" if now else "m"
    return f"{box}<text x='{x + width / 2:g}' y='{y + 16}' class='{ink}' font-size='11'>{_name(place)}</text>"
