"""Chapter 6's exercises: what the chapter must have. Answers as people type them: `test_exercises_ch6a.py`, `…6b.py`.

The proof of the checker: `test_exercises.py`, which runs every BY_HAND.
"""

import numpy as np
from test_exercises_ch6a import BY_HAND_A
from test_exercises_ch6b import BY_HAND_B

from attnlab.exercises import ch6_interpretability as ch6
from attnlab.exercises.engine import exercises_of

EXERCISES = exercises_of(ch6)
BY_HAND = BY_HAND_A + BY_HAND_B


def test_what_the_chapter_must_have():
    assert {e.name for e in EXERCISES} == {e.name for e, *_ in BY_HAND}
    assert {e.name for e in EXERCISES} <= set(ch6.__all__)  # open questions stand there as well
    for one in EXERCISES:
        kinds = {a.dtype.char for p in [*one.ordinary(), *one.hard] for a in p.arguments if isinstance(a, np.ndarray)}
        assert kinds.isdisjoint("fd") or {"f", "d"} <= kinds, one.name  # tests, and numbers, have no such choice
