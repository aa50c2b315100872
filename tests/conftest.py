"""What all tests share."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # book_fixtures

pytest_plugins = ["book_fixtures"]
