"""What a tool has measured, kept as JSON beside the package, laid out so that two runs can be compared line by line."""

import json
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "src/attnlab/data"
LINE = 120  # characters


def write(file: Path, record: dict) -> None:
    file.write_text(as_text(record), encoding="utf-8")


def as_text(record: dict) -> str:
    """JSON: on one line what fits there, and every list or dictionary of plain values; of all else, each part."""
    return _lines(record, "") + "\n"


def _lines(found: object, indent: str) -> str:
    line = json.dumps(found, ensure_ascii=False)
    if not isinstance(found, dict | list | tuple):
        return line
    parts = list(found.values() if isinstance(found, dict) else found)
    if len(indent + line) <= LINE or not any(isinstance(part, dict | list | tuple) for part in parts):
        return line
    names = (
        [json.dumps(name, ensure_ascii=False) + ": " for name in found]
        if isinstance(found, dict)
        else [""] * len(parts)
    )
    inner = indent + " "
    lines = ",\n".join(inner + name + _lines(part, inner) for name, part in zip(names, parts, strict=True))
    return f"{line[0]}\n{lines}\n{indent}{line[-1]}"


def rounded(found: object, digits: int = 4) -> object:
    """The same record, its floats rounded; arrays and tensors as lists."""
    if isinstance(found, dict):
        return {name: rounded(part, digits) for name, part in found.items()}
    if isinstance(found, list | tuple):
        return [rounded(part, digits) for part in found]
    if hasattr(found, "tolist"):
        return rounded(found.tolist(), digits)
    return round(found, digits) if isinstance(found, float) else found
