"""The engine: observations, recognition in two tiers, cards, and the proof of all that."""

from .model import Exercise, Probe, Wrong, exercise
from .proving import exercises_of, prove, table

__all__ = ["Exercise", "Probe", "Wrong", "exercise", "exercises_of", "prove", "table"]
