"""A figure's script without what no machine needs: comments, and the spaces around signs."""

import re

TOKEN = re.compile(
    r"""(?P<space>\s+)|(?P<comment>//[^\n]*)|(?P<string>'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")|(?P<word>[\w$#]+)|(?P<sign>.)""",
    re.DOTALL,
)
REGEX = re.compile(r"/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\[\n])+/\w*")
JOINS = re.compile(r"[\w$#]{2}|\+\+|--|//|/\*")  # what two neighbours must not become


def lean(source):
    """The JavaScript `source` with the same tokens. Text in quotes and templates stays, but for indentation."""
    out, at = [], 0
    depths = []  # of braces, for each template that is open: at 0 its code ends
    space = ""
    while at < len(source):
        last = out[-1][-1] if out else ";"
        if source[at] == "`" or (source[at] == "}" and depths and depths[-1] == 0):
            if source[at] == "}":
                depths.pop()
            text = re.compile(r".(?:\\.|(?!\$\{)[^`\\])*(?:`|\$\{)", re.DOTALL).match(source, at)[0]
            if text.endswith("${"):
                depths.append(0)
            out.append(re.sub(r"\n\s+", "\n", text))
            at, space = at + len(text), ""
            continue
        if source[at] == "/" and source[at + 1] not in "/" and last in "(,=:[!&|?{};":
            token = REGEX.match(source, at)[0]
        else:
            match = TOKEN.match(source, at)
            token = match[0]
            if match["space"] or match["comment"]:
                space = "\n" if "\n" in space + token else " "
                at += len(token)
                continue
        if depths:
            depths[-1] += {"{": 1, "}": -1}.get(token, 0)
        # A line stays a line where a statement may end.
        if (
            out
            and space
            and (JOINS.match(last + token[0]) or (space == "\n" and last in ";}])" and token[0] not in ".)]},;:?&|"))
        ):
            out.append(space)
        out.append(token)
        at, space = at + len(token), ""
    return "".join(out) + "\n"
