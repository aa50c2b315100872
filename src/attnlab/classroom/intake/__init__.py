"""Files from outside: read within limits, matched with students, and put where nbgrader looks for them."""
