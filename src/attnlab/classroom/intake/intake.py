"""Submissions as they come, brought into nbgrader's layout: course/submitted/STUDENT/ASSIGNMENT/NOTEBOOK.ipynb.

    collected = collect(Path("week1.zip"), Path("."), "week1", ["01_weights"])
    for submission in collected.submissions: ...
    for problem in collected.problems: print(problem)

A source is a folder or a zip: `layouts` says which are known, `naming` how names are read, `sources` what keeps the
reading safe.  No file stops the rest of a class: what is refused becomes a `Problem`, and its student appears with
`path` None.  What one student sends is read up to a limit of its own; only what is taken counts for the whole class,
and past that limit a problem asks for the source in parts.  Nothing is lost: the source stays as it is, and a file that
is replaced stays beside the new one as 01_weights.ipynb.~1~.  The result does not depend on the order of files, nor on
their times.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from nbgrader.utils import parse_utc

from . import attempts, misplaced, naming, shelf
from .layouts import Claim, Layout, Problem, compiled, is_notebook, is_zip, opened
from .limits import Limits, Reader, Refused
from .naming import Sender
from .sources import Found, in_folder, in_zip, open_zip, read_file, shown

TIMESTAMP = "timestamp.txt"  # nbgrader's file beside a submission: when it was handed in
LATE = "Canvas marks it as handed in late."


@dataclass(frozen=True, order=True)
class Submission:
    """One student's file for one notebook. `path` is None where nothing readable came; `problems` are sentences."""

    student: str
    assignment: str
    notebook: str
    path: Path | None = field(default=None, compare=False)
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Collected:
    """What lies in course/submitted for an assignment, after the source was brought in.

    submissions   one a student and notebook, sorted: those that lay there before too
    problems      what was refused, and what a teacher should know of names and replaced files
    names         id → the name as the source wrote it, of those who came from the source
    """

    submissions: list[Submission]
    problems: list[Problem]
    names: dict[str, str]


def collect(
    source: Path | None,
    course: Path,
    assignment: str,
    notebooks: list[str],
    pattern: str | None = None,
    *,
    limits: Limits | None = None,
    progress: Callable[[Iterable], Iterable] = iter,
) -> Collected:
    """Bring the submissions of `source` into `course`; None takes what lies in course/submitted.

    source      a folder, a zip, or one notebook; the course directory stands for its submitted/
    notebooks   the stems of the assignment's notebooks: ["01_weights"]
    pattern     a regular expression, searched for in each file's path, with a group `student` and perhaps `notebook`
                (nbgrader's names `student_id`, `file_id`, `timestamp` do too); in place of the guess
    progress    wraps the loop over students, as tqdm does

    FileNotFoundError where there is no such source; ValueError for a name, pattern or source that cannot be used: one
    that cannot be opened, a part of the course directory, one whose files are all something else than notebooks of the
    assignment, and where there is no submission at all. Then nothing is written. Who was called what is written to
    course/submitted/ASSIGNMENT-names.csv.
    """
    for name in (assignment, *notebooks):
        if not name or name.startswith(".") or re.search(r"[/\\\0]", name):
            raise ValueError(f"{name!r} is no name for a folder or file; give the name alone, without a path")
    intake = Intake(course, assignment, list(notebooks), Reader(limits or Limits()))
    for path in (course / "source").glob("*/*.ipynb"):
        intake.others |= {path.stem} - set(notebooks)
        if path.parent.name != assignment:
            intake.elsewhere.setdefault(path.parent.name, set()).add(path.stem)
    made = compiled(pattern)
    if source is not None and not source.exists():
        raise FileNotFoundError(f"There is no {source}. Give a folder with submissions, or a zip.")
    origin = source and misplaced.origin(source, course, assignment, pattern)
    if origin:
        intake.bring(origin, made, progress)
    collected = intake.done()
    if not collected.submissions:
        raise misplaced.of_nobody(origin, intake.submitted, assignment, list(notebooks), collected.problems)
    return collected


@dataclass
class Intake:
    """One run of `collect`."""

    course: Path
    assignment: str
    notebooks: list[str]
    reader: Reader
    others: set[str] = field(default_factory=set)  # notebooks of other assignments
    elsewhere: dict[str, set[str]] = field(default_factory=dict)  # other assignments, each with its notebooks
    problems: list[Problem] = field(default_factory=list)
    remarks: dict[tuple[str, str], list[str]] = field(default_factory=dict)  # (student, notebook) → sentences
    left_out: set[tuple[str, str]] = field(default_factory=set)  # files came for it, and none could be taken
    late: set[tuple[str, str]] = field(default_factory=set)
    rows: list[shelf.Row] = field(default_factory=list)

    @property
    def submitted(self) -> Path:
        return self.course / "submitted"

    def refuse(self, student: str | None, file: str, message: str) -> str:
        problem = Problem(student, shown(file), message)
        self.problems.append(problem)
        return str(problem)

    # ---- the whole source ------------------------------------------------------------------------------------------

    def bring(self, source: Path, pattern: re.Pattern | None, progress: Callable[[Iterable], Iterable]) -> None:
        layout = Layout(self.assignment, self.notebooks, sorted(self.others), source.stem, pattern, self.elsewhere)
        with contextlib.ExitStack() as stack:
            try:
                claims, problems = layout.claims(self._listed(source, stack))
            except Refused as refused:
                raise ValueError(f"{source} {refused}.") from None
            self.problems += problems
            if not claims and shelf.students(self.submitted, self.assignment)[0]:
                self.refuse(None, source.name, "gives no student's file, so what lay in submitted/ before is graded")
            expected = misplaced.Expected(
                self.course, self.assignment, self.notebooks, self.others, self.elsewhere, self.reader
            )
            expected.check(claims)
            by_sender: dict[Sender, list[Claim]] = {}
            for claim in claims:
                by_sender.setdefault(claim.sender, []).append(claim)
            table = shelf.read_names(self.submitted, self.assignment)
            here = {sender.printable(): sender for sender in by_sender}
            known = {here.get(row.sender, row.sender): row.student for row in table}
            ids = naming.ids_of(by_sender, known, shelf.folders(self.submitted))
            for sender in progress(sorted(by_sender)):
                self._report_name(sender, ids[sender])
                self._bring_one(ids[sender], sender, by_sender[sender])
        shelf.write_names(self.submitted, self.assignment, table, self.rows)

    def _listed(self, source: Path, stack: contextlib.ExitStack) -> list[Found]:
        """The files of the source. A folder with one zip and nothing else stands for that zip."""
        if source.is_dir():
            found = in_folder(source, self.reader)
            if len(found) != 1 or found[0].refused or len(found[0].parts) != 1 or not is_zip(found[0].parts[0]):
                return found
            source = source / found[0].parts[0]
        elif is_notebook(source.name):
            return [Found((source.name,), source.name, lambda: read_file(source, self.reader))]
        elif not source.is_file():
            raise Refused("is no ordinary file. Give a folder with submissions, or a zip")
        return in_zip(stack.enter_context(open_zip(source)), self.reader)

    def _report_name(self, sender: Sender, student: str) -> None:
        wish = naming.student_id(sender.name)
        if student != wish:
            message = f"shares the id “{wish}” with another student, and is called “{student}” here"
            self.refuse(student, str(sender), message)

    # ---- one student -----------------------------------------------------------------------------------------------

    def _bring_one(self, student: str, sender: Sender, claims: list[Claim]) -> None:
        self.reader.sender = sender
        latest = sorted(claims, key=lambda each: (each.said.attempt, each.said.order, each.found.label), reverse=True)
        with contextlib.ExitStack() as stack:
            files = [each for claim in latest for each in opened(claim, self.reader, stack)]
            wanted, said = self._sorted_out(student, files)
            times = []
            for notebook in self.notebooks:
                taken = self._take(student, notebook, wanted.get(notebook, []), said)
                file, late = (taken.found.label, taken.said.late) if taken else ("", False)
                self.rows.append(shelf.Row(student, sender, notebook, file, late))
                times += [taken.said.time] if taken and taken.said.time else []
            stamp = max(times).isoformat(" ") if times else self._stamp(student, files)
        try:
            folder = shelf.folder(self.submitted, student, self.assignment)
            if stamp:
                shelf.store(folder / TIMESTAMP, stamp.encode(), self.submitted)
        except Refused as refused:
            self.refuse(student, f"submitted/{student}", str(refused))

    def _sorted_out(self, student: str, files: list[Claim]) -> tuple[dict[str, list[Claim]], list[str]]:
        """notebook → its candidates, and what there is to say of the other files."""
        wanted: dict[str, list[Claim]] = {}
        said, strange = [], []
        for each in files:
            if each.file == TIMESTAMP and each.exact:
                continue
            notebook = naming.notebook_of(each.file, self.notebooks, self.others)
            if notebook:
                wanted.setdefault(notebook, []).append(each)
            elif each.found.refused:
                said.append(self.refuse(student, each.found.label, each.found.refused))
            elif not is_notebook(each.file):
                strange.append(each.found.label)
            elif naming.other_of(each.file, self.notebooks, self.others):
                said.append(self.refuse(student, each.found.label, "is the notebook of another assignment"))
            else:
                expected = " or ".join(f"{name}.ipynb" for name in self.notebooks)
                message = f"is none of the assignment's notebooks, as far as its name tells. Call it {expected}"
                said.append(self.refuse(student, each.found.label, message))
        if strange and not wanted:
            message = "is no notebook" if len(strange) == 1 else "are no notebooks"
            names = ", ".join(shown(each) for each in sorted(strange)[:3]) + " …" * (len(strange) > 3)
            said.append(self.refuse(student, names, f"{message}. Hand in the .ipynb file"))
        return wanted, said

    def _take(self, student: str, notebook: str, files: list[Claim], said: list[str]) -> Claim | None:
        """Store the latest of `files` that can be read."""
        remarks = self.remarks.setdefault((student, notebook), [])
        ranked = attempts.ranked(files, notebook)
        for place, each in enumerate(ranked):
            if place == self.reader.limits.failed:
                left = f"{len(ranked) - place} more files for {notebook}"
                message = f"are not tried, since {place} could not be taken. Hand in the notebook alone"
                remarks.append(self.refuse(student, left, message))
                break
            try:
                data = each.found.read()
                self.reader.take(len(data))
                home = shelf.folder(self.submitted, student, self.assignment) / f"{notebook}.ipynb"
                if kept := shelf.store(home, data, self.submitted):
                    self.refuse(student, f"{student}/{home.name}", f"is replaced; the earlier file is now {kept}")
            except Refused as refused:
                remarks.append(self.refuse(student, each.found.label, str(refused)))
                continue
            remarks += filter(None, [attempts.remark_on(each, ranked, notebook)])
            if doubt := attempts.doubt_on(each, ranked[place:], notebook):
                self.refuse(student, each.found.label, doubt)
            return each
        remarks += said
        if remarks:
            self.left_out.add((student, notebook))
        return None

    def _stamp(self, student: str, files: list[Claim]) -> str:
        """nbgrader's time of a submission in nbgrader's layout, if nbgrader will be able to read it."""
        for each in files:
            if each.file == TIMESTAMP and each.exact:
                try:
                    text = each.found.read().decode().strip()
                    parse_utc(text)
                    return text
                except (Refused, ValueError, OverflowError):
                    self.refuse(student, each.found.label, "holds no time, and is left out")
        return ""

    # ---- what lies there -------------------------------------------------------------------------------------------

    def done(self) -> Collected:
        marked = [*self.rows, *shelf.read_names(self.submitted, self.assignment)]
        self.late = {(row.student, row.notebook) for row in marked if row.late}
        here, strange = shelf.students(self.submitted, self.assignment)
        for name in strange:
            self.refuse(None, f"submitted/{name}", "has a name that is no student's id. Rename the folder")
        submissions = [
            Submission(student, self.assignment, notebook, *self._standing(student, notebook))
            for student in here
            for notebook in sorted(self.notebooks)
        ]
        names = {row.student: row.sender.name for row in self.rows}
        problems = sorted(set(self.problems), key=lambda each: (each.student or "", each.file, each.message))
        return Collected(submissions, problems, names)

    def _standing(self, student: str, notebook: str) -> tuple[Path | None, tuple[str, ...]]:
        """The path that is graded, and what there is to say of it."""
        remarks = list(dict.fromkeys(self.remarks.get((student, notebook), [])))
        mine = lambda file: naming.notebook_of(file, self.notebooks, self.others) == notebook  # noqa: E731
        try:
            path = shelf.look(self.submitted, student, self.assignment, notebook, mine)
        except Refused as refused:
            said = self.refuse(student, f"submitted/{student}/{self.assignment}/{notebook}.ipynb", str(refused))
            return None, (*remarks, said)
        if path is None:
            remarks = remarks or [f"No {notebook}.ipynb was handed in."]
        elif path.stem != notebook:
            remarks.append(f"It was handed in under the name {shown(path.name)}.")
        elif (student, notebook) in self.left_out:
            remarks.append("What is graded is the file that was handed in before.")
        if path and (student, notebook) in self.late:
            remarks.append(LATE)
        return path, tuple(remarks)
