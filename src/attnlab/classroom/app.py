"""The command line: `attnlab handout`, `grade`, `report`, `protections`.  Each is run in the course directory."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .results import Result

NAMED = 20  # ids in one line
INSTALL = "in the course's folder, pip install --editable '.[classroom]' (for a cluster '.[classroom,cluster]')."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit status: 0, or 1 where something could not be done."""
    asked = parser().parse_args(arguments)
    try:
        return asked.run(asked)
    except ModuleNotFoundError as error:
        print(f"attnlab: {error.name} is missing. The classroom needs more packages: {INSTALL}", file=sys.stderr)
    except KeyboardInterrupt:
        print("\nattnlab: stopped. What was graded is kept: the same command goes on from there.", file=sys.stderr)
    except (OSError, RuntimeError, ValueError) as error:
        print(f"attnlab: {error}", file=sys.stderr)
    return 1


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(
        prog="attnlab", description="The classroom of the course: hand out, grade, understand a class."
    )
    commands = whole.add_subparsers(required=True, metavar="COMMAND")

    one = commands.add_parser("handout", help="make an assignment: source/, release/ and colab/")
    one.add_argument("name", metavar="NAME", help="what the assignment is called: week1")
    what = one.add_mutually_exclusive_group()
    what.add_argument("--chapter", metavar="N", help="a whole chapter: 1")
    what.add_argument("--exercises", nargs="+", default=(), metavar="N", help="exercises, in this order: 1.2 1.3 4.1")
    one.add_argument(
        "--notebooks", type=Path, metavar="FOLDER", help="the chapters (found beside the package otherwise)"
    )
    _site(one)
    one.add_argument("--wheel", metavar="ADDRESS", help="the wheel of attnlab that Colab installs")
    one.add_argument("--replace", action="store_true", help="overwrite a notebook in source/NAME that is different")
    one.set_defaults(run=_hand_out)

    one = commands.add_parser("grade", help="grade what was handed in")
    one.add_argument("name", metavar="NAME", help="the assignment")
    one.add_argument(
        "source",
        nargs="?",
        type=Path,
        metavar="FOLDER|ZIP",
        help="submissions as they came: a folder, or a learning platform's zip (submitted/ without it)",
    )
    one.add_argument("--pattern", metavar="REGEX", help="who handed in a file, from its path: (?P<student>…)")
    one.add_argument("--seconds", type=_positive, default=10.0, metavar="S", help="for one exercise (10)")
    one.add_argument("--memory", type=_positive, default=2.0, metavar="GIB", help="for one submission (2)")
    one.add_argument("--workers", type=int, metavar="N", help="processes (one a core)")
    one.add_argument("--scheduler", metavar="ADDRESS", help="grade on a Dask cluster: tcp://…:8786")
    one.add_argument(
        "--again", action="store_true", help="judge everybody anew (after time-outs on a busy machine, say)"
    )
    one.add_argument("--unprotected", action="store_true", help="grade without a sandbox: work that you trust")
    _site(one)
    one.set_defaults(run=_grade)

    one = commands.add_parser("report", help="write the students' pages, the class report and the tables anew")
    one.add_argument("name", metavar="NAME", help="the assignment")
    _site(one)
    one.set_defaults(run=_report)

    one = commands.add_parser("protections", help="say what submissions are kept from on this machine")
    one.set_defaults(run=_protections)
    return whole


def _site(one: argparse.ArgumentParser) -> None:
    one.add_argument("--site", metavar="ADDRESS", help="where the book is published, for links to its sections")


def _positive(text: str) -> float:
    number = float(text)
    if not number > 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return number


def _hand_out(asked: argparse.Namespace) -> int:
    from .handout.handout import hand_out

    written = hand_out(
        Path(),
        asked.name,
        chapter=asked.chapter,
        numbers=asked.exercises,
        notebooks=asked.notebooks,
        site=asked.site,
        wheel=asked.wheel,
        replace=asked.replace,
    )
    for path in written:
        print(path)
    if not (asked.site or asked.wheel):
        print("colab/: these copies do not install attnlab. With --site ADDRESS or --wheel ADDRESS they would.")
    return 0


def _grade(asked: argparse.Namespace) -> int:
    from tqdm import tqdm

    from .course import Unprotected, grade
    from .sandbox.isolation import Limits
    from .sandbox.sandbox import protections

    off = [] if asked.scheduler else [each.name for each in protections() if not each.on]
    if off:
        print(f"! not protected: {', '.join(off)} (attnlab protections says more)")
    try:
        outcome = grade(
            Path(),
            asked.name,
            source=asked.source,
            pattern=asked.pattern,
            limits=Limits(seconds=asked.seconds, memory=int(asked.memory * 2**30)),
            workers=asked.workers,
            scheduler=asked.scheduler,
            unprotected=asked.unprotected,
            again=asked.again,
            site=asked.site,
            progress=functools.partial(tqdm, disable=None),
        )
    except Unprotected as error:
        print(
            f"attnlab: nothing was graded: a submission is code from outside, and there is no sandbox.\n{error}\n"
            "If you trust this work, or the machine holds nothing of worth: attnlab grade … --unprotected (on Linux)",
            file=sys.stderr,
        )
        return 1
    for problem in outcome.problems:
        print(f"! {problem.student or '?'} · {problem.file}: {problem.message}")
    for student, words in outcome.failed:
        print(f"! {student} was not graded: {words}")
    empty = sorted({each.student for each in outcome.results if not _begun(each)})
    print(f"{len(outcome.results)} graded, {len(outcome.failed)} failed, {len(empty)} without an answer")
    if empty:
        print(f"  without an answer: {', '.join(empty[:NAMED])}{' …' if len(empty) > NAMED else ''}")
    for path in outcome.written:
        print(path)
    return 1 if outcome.failed else 0


def _begun(result: Result) -> bool:
    """Whether there is anything in a submission that somebody wrote."""
    statuses = {verdict.status for verdict in result.verdicts.values()}
    return bool(statuses - {"missing", "untouched"}) or any(text.strip() for text in result.words.values())


def _report(asked: argparse.Namespace) -> int:
    from tqdm import tqdm

    from .course import report

    for path in report(Path(), asked.name, asked.site, functools.partial(tqdm, disable=None)):
        print(path)
    return 0


def _protections(_: argparse.Namespace) -> int:
    from .sandbox.sandbox import protections

    for each in protections():
        print(f"{'on ' if each.on else 'OFF'}  {each.name}: {each.words}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
