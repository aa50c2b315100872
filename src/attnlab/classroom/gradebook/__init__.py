"""nbgrader's gradebook: results go in, what a person has given comes out."""
