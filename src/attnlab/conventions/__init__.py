"""What an attention function takes True for, and what it returns where nothing is allowed: found out by calling it.

`measure("its name", run)` calls `run(query, key, value, mask)` with small inputs and masks and returns a `Convention`,
one row of a `Table`; `table(rows, "torch")` shows rows with the versions of what was called.  Nothing is looked up: a
mask's meaning is seen from **which keys still move the output**, an empty row from the numbers that come back.
`recorded()` is the table of the libraries that `make conventions` installs and calls.
"""

from attnlab.conventions.displaying import Convention, Table, recorded, table
from attnlab.conventions.measuring import measure

__all__ = ["Convention", "Table", "measure", "recorded", "table"]
