"""Chapter 5's exercises: what the chapter must have. Answers as people type them: `test_exercises_ch5_*.py`.

The proof of the checker: `test_exercises.py`, which runs every BY_HAND.
"""

import numpy as np
import test_exercises_ch5_cache
import test_exercises_ch5_linear
import test_exercises_ch5_tiles

from attnlab.exercises import ch5_efficient_variants as ch5
from attnlab.exercises.engine import exercises_of

EXERCISES = exercises_of(ch5)
BY_HAND = [
    *test_exercises_ch5_tiles.BY_HAND,
    *test_exercises_ch5_cache.BY_HAND,
    *test_exercises_ch5_linear.BY_HAND,
]


def test_what_the_chapter_must_have():
    assert {e.name for e in EXERCISES} == set(ch5.__all__) == {e.name for e, *_ in BY_HAND}
    for one in EXERCISES:
        kinds = {a.dtype.char for p in [*one.ordinary(), *one.hard] for a in p.arguments if isinstance(a, np.ndarray)}
        assert kinds.isdisjoint("fd") or {"f", "d"} <= kinds, one.name  # numbers alone have no such choice
