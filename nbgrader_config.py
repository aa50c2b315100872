"""So that nbgrader takes the course's notebooks as they are: copy this file into your course directory.

nbgrader reads it from there, or from the folder it is started in. Nothing here names a path or a machine.
"""

import sys

try:
    from attnlab.classroom.preprocessors import configure
except ModuleNotFoundError as error:
    sys.exit(
        f"{__file__}: {error}. nbgrader needs the course's package in its own Python, {sys.executable}: "
        "install it there with `pip install 'COURSE[classroom]'`, COURSE being the folder with the course's files."
    )

c = get_config()  # noqa: F821 - nbgrader puts it here
configure(c)
