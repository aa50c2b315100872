"""What grading finds out: one `Result` a submission, as plain data that can be stored, sent and compared."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

from attnlab.exercises.engine.cards import Comparison, Verdict


@dataclass(frozen=True)
class Result:
    """One submission, judged.

    student    the student's id: the name of their folder in nbgrader's layout
    assignment, notebook   the assignment, and the stem of its notebook: ("week1", "01_weights")
    key        a digest of all that the result depends on; the same key, the same result
    verdicts   {"1.2": Verdict, …}, every exercise of the assignment, in its order
    sources    {"1.2": the code that was judged, …}, "" where there is none
    words      {"6.11": "what the student wrote", …}, every open question; "" where nothing was written
    remarks    what is to be said of the submission as a whole: that it is no notebook, that a cell was copied, …
    """

    student: str
    assignment: str
    notebook: str
    key: str = ""
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    sources: dict[str, str] = field(default_factory=dict)

    @property
    def points(self) -> int:
        """What the exercises earned; open questions are read by a person."""
        return sum(verdict.points for verdict in self.verdicts.values() if verdict.correct)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Result:
        data: dict[str, Any] = json.loads(text)
        verdicts = {number: _verdict(each) for number, each in data.pop("verdicts").items()}
        return cls(**data | {"remarks": tuple(data["remarks"]), "verdicts": verdicts})


def _verdict(data: dict[str, Any]) -> Verdict:
    shown = data["comparison"]
    return Verdict(
        **data
        | {
            "turns": tuple(tuple(reading) for reading in data["turns"]),
            "remarks": tuple(data["remarks"]),
            "seen_in": tuple(data["seen_in"]),
            "comparison": shown and Comparison(**shown | {"labels": tuple(shown["labels"])}),
        }
    )
