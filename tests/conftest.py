"""What all tests share."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # book_fixtures

pytest_plugins = ["book_fixtures"]


@pytest.fixture(params=["numpy", "torch"])
def array(request):
    """`array(values, dtype)` in one of the two libraries."""
    import both_libraries

    return getattr(both_libraries, f"to_{request.param}")
