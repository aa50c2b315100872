"""The classroom: hand out, grade from outside, understand a class.  Installed with `pip install 'attnlab[classroom]'`.

It stands on nbgrader: its metadata, preprocessors and gradebook.  Written here is what nbgrader lacks: a judge outside
of the submission, a sandbox around it, the recognised mistakes of a whole class.  The command line: `attnlab --help`.
"""
