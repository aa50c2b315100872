"""The engine: observations, recognition in two tiers, cards, and the proof of all that."""

from .model import Exercise, exercise
from .parts import Implementation, Probe, Wrong
from .proving import exercises_of, prove, rows_of, table
from .questions import OpenQuestion, questions_of

__all__ = [
    "Exercise",
    "Implementation",
    "OpenQuestion",
    "Probe",
    "Wrong",
    "exercise",
    "exercises_of",
    "prove",
    "questions_of",
    "rows_of",
    "table",
]
