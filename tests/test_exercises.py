"""The exercises of every chapter: the proof of the checker. Answers as people type them: `test_exercises_chN.py`."""

import importlib
import pkgutil
import re
from pathlib import Path

import numpy as np
import pytest

import attnlab.exercises
from attnlab.exercises.engine import exercises_of, prove, table
from attnlab.exercises.engine.judging import Answer, recognise
from attnlab.exercises.engine.proving import _as_answer

ROOT = Path(__file__).parents[1]
SEEDS = range(200)
CHAPTERS = sorted(m.name for m in pkgutil.iter_modules(attnlab.exercises.__path__) if m.name.startswith("ch"))
# (exercise, answer, turns expected; () for correct)
BY_HAND = [row for name in CHAPTERS for row in importlib.import_module(f"test_exercises_{name.split('_')[0]}").BY_HAND]


@pytest.fixture(scope="module", params=CHAPTERS)
def exercises(request):
    return exercises_of(importlib.import_module(f"attnlab.exercises.{request.param}"))


@pytest.fixture(scope="module")
def proofs(exercises):
    return [prove(one, SEEDS) for one in exercises]


def test_every_chapter_is_here():
    assert len(CHAPTERS) == len(list((ROOT / "notebooks").glob("*.ipynb"))) >= 3


def test_every_twin_is_rejected_and_recognised_as_itself_over_two_hundred_seeds(proofs, exercises):
    assert [f"{p.exercise.name}: {f}" for p in proofs for f in p.failures] == []
    assert sum(p.mistakes for p in proofs) == sum(len(e.wrong) for e in exercises)


def test_the_proof_table_of_the_book_is_fresh(proofs, exercises):
    printed = (ROOT / "book/_generated/proof.md").read_text("utf-8").splitlines()
    rows = table(proofs).splitlines()[2:-1]  # without the head and the line "together", which counts all chapters
    assert printed[0] == f"Seeds: {len(SEEDS)} for each line." and len(rows) == len(exercises)
    assert [row for row in rows if row not in printed] == []


def test_a_twin_handed_in_anew_is_judged_as_the_proof_judged_it(exercises):
    for one in exercises:
        for i in range(0, len(one.twins), 5):
            answer = Answer(one, one.twins[i].function, seed=7)
            answer.run(60)
            assert recognise(answer) == recognise(_as_answer(one, i, 7))


def test_what_an_exercise_must_have(exercises):
    chapter = exercises[0].number.split(".")[0]
    assert [e.number for e in exercises] == [f"{chapter}.{i}" for i in range(1, len(exercises) + 1)]
    assert len(exercises) >= 6
    for one in exercises:
        assert len(one.hints) >= 2 and len(one.ordinary()) >= 4 and one.statement and one.variants, one.name
        # A notebook's code line holds 75 characters.
        assert max(map(len, one.stub.splitlines() + one.solution_source.splitlines())) <= 75, one.name


def test_what_costs_points_beyond_ordinary_inputs_is_announced(exercises):
    """Whole numbers where ordinary inputs are floating, and scores that overflow: only advice may come unannounced."""
    for one in (each for each in exercises if not each.tests):
        ordinary, statement = one.ordinary()[0].arguments, " ".join(one.statement.split())
        floating = [isinstance(a, np.ndarray) and a.dtype.kind == "f" for a in ordinary]
        for probe in (each for each in one.hard if not each.advice):
            whole = [isinstance(a, np.ndarray) and a.dtype.kind == "i" for a in probe.arguments]
            if any(np.logical_and(floating, whole)):
                assert re.search("whole numbers|integers", statement), f"{one.name}: {probe.name}"
            if probe.name == "huge scores":
                assert re.search("[13]000|thousands|use `torch.softmax`", statement), one.name


@pytest.mark.parametrize(("one", "answer", "expected"), BY_HAND)
def test_answers_as_people_type_them(one, answer, expected):
    verdict = one.judge(answer)
    if not expected:
        assert verdict.correct, str(verdict)
        return
    readings = {expected} if len(expected) == 1 or expected in verdict.turns else {(name,) for name in expected}
    assert set(verdict.turns) == readings and verdict.remarks == (), str(verdict)
