"""What the teaching guide is made of: teaching.yml, the registry of exercises, the sections of the notebooks.

teaching.yml says what an exercise teaches, what to ask in a lecture, and what is done when. Names, points, sections and
mistakes come from the registry, minutes of sections and figures from the notebooks. `problems` lists what does not fit.
"""

import importlib
import json
import pkgutil
import re
from collections import Counter
from pathlib import Path

import yaml
from course_map import NOT_READ, length, place, plan, read
from docutils import nodes

SHOWN = 3  # mistakes of an exercise


def teaching(root: Path) -> dict:
    return yaml.safe_load((Path(root) / "book/teaching.yml").read_text(encoding="utf8"))


# ---- what the registry knows


def registry() -> dict[str, object]:
    """Every exercise and open question by its number, in order. Nothing of it needs torch."""
    import attnlab.exercises
    from attnlab.exercises.engine import exercises_of, questions_of

    found = {}
    for module in pkgutil.iter_modules(attnlab.exercises.__path__):
        if re.match(r"ch\d+_", module.name):
            chapter = importlib.import_module(f"attnlab.exercises.{module.name}")
            found |= {each.number: each for each in [*exercises_of(chapter), *questions_of(chapter)]}
    return found


def registry_files() -> list[Path]:
    import attnlab.exercises

    return sorted(Path(attnlab.exercises.__file__).parent.rglob("*.py"))


def usual(exercise) -> list[tuple[str, object]]:
    """The first mistakes in the order of the registry, those with a public report before the others."""
    found = {}
    for name, wrong in sorted(exercise.wrong.items(), key=lambda item: not item[1].seen_in):
        found.setdefault(first_sentence(wrong.text), (name, wrong))
    return list(found.values())[:SHOWN]


def first_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?])\s+(?=[A-Z“(`‘])", text, maxsplit=1)[0]


def anchor(asked) -> str:
    """Of its heading in the chapter."""
    kind = "Exercise" if hasattr(asked, "wrong") else "Open question"
    return nodes.make_id(f"{kind} {asked.number} · {asked.name}")


def chapter_of(number: str) -> int:
    return int(number.split(".")[0])


# ---- what the notebooks know


def facts_of_sections(root: Path) -> dict[str, tuple[bool, list[str]]]:
    """ "1 / Move the query" → whether the section asks to predict, and its live figures."""
    found = {}
    for chapter in read(root).values():
        heading = None
        cells = json.loads((Path(root) / f"{chapter.docname}.ipynb").read_text(encoding="utf8"))["cells"]
        for cell in cells:
            source = "".join(cell["source"])
            if cell["cell_type"] == "markdown" and (title := re.search(r"^## (.+)$", source, flags=re.M)):
                heading = f"{chapter.number} / {title[1]}"
            asks, shown = found.get(heading, (False, []))
            asks = asks or (cell["cell_type"] == "markdown" and "**Predict, then" in source)
            if cell["cell_type"] == "code":
                shown = shown + re.findall(r"^figures\.(\w+)\(", source, flags=re.M)
            found[heading] = asks, shown
    return found


# ---- syllabi


def sections(sitting: dict, course: dict) -> list[str]:
    """What is presented: of a syllabus, or of a path on the map of the course."""
    if "path" in sitting:
        return next(path["sections"] for path in course["paths"] if path["name"] == sitting["path"])
    return sitting.get("sections", [])


def minutes_of(known, names: list[str]) -> int:
    return sum(length(known, name) for name in names)


def about(known, names: list[str]) -> int:
    """To five minutes, as on the map of the course."""
    return 5 * round(minutes_of(known, names) / 5)


def exercise_minutes(taught: dict, numbers: list[str]) -> int:
    return sum(taught["exercises"][number]["minutes"] for number in numbers)


def listed(sitting: dict) -> list[str]:
    keys = ("exercises", "lab", "homework", "may_skip_exercises")
    return [number for key in keys for number in sitting.get(key, [])]


def problems(root: Path) -> list[str]:
    """What teaching.yml says that registry, chapters and map do not."""
    taught, known, course, asked = teaching(root), read(root), plan(root), registry()
    sittings = [sitting for syllabus in taught["syllabi"].values() for sitting in syllabus]
    names = [*taught["lessons"]]
    names += [name for one in sittings for key in ("read", "may_skip") for name in one.get(key, [])]
    names += [name for one in sittings for name in sections(one, course)]
    there = {f"{chapter.number} / {heading}" for chapter in known.values() for heading in chapter.sections}
    numbers = [*taught["exercises"], *(number for one in sittings for number in listed(one))]
    wrong = [f"there is no section “{name}”" for name in dict.fromkeys(names) if name not in there]
    wrong += [f"there is no exercise {number}" for number in dict.fromkeys(numbers) if number not in asked]
    wrong += [f"exercise {number} has no row" for number in asked if number not in taught["exercises"]]
    if wrong:
        return wrong
    for chapter in known.values():
        estimated = exercise_minutes(taught, [n for n in asked if chapter_of(n) == chapter.number])
        if estimated != chapter.practice:
            wrong.append(f"exercises of chapter {chapter.number}: {estimated} minutes, it states {chapter.practice}")
    wrong += wrong_lessons(root, taught, [name for one in sittings for name in sections(one, course)])
    for name, syllabus in taught["syllabi"].items():
        wrong += [f"{name}: {text}" for text in wrong_syllabus(known, taught, course, syllabus)]
    return wrong + [f"half-term: {text}" for text in wrong_half_term(there, asked, taught["syllabi"]["half-term"])]


def wrong_lessons(root: Path, taught: dict, presented: list[str]) -> list[str]:
    facts, wrong = facts_of_sections(root), []
    for name in dict.fromkeys(presented):
        asks, shown = facts[name]
        lesson = taught["lessons"].get(name)
        if lesson is None:
            wrong.append(f"“{name}” is presented and has no lesson")
        elif "ask" in lesson and not asks:
            wrong.append(f"“{name}” has nothing to predict, but its lesson asks")
        elif ("drive" in lesson) != bool(shown):
            wrong.append(f"“{name}” shows {shown}, and its lesson says otherwise")
    return wrong


def wrong_syllabus(known, taught, course, syllabus) -> list[str]:
    """Sittings that are too long, and sections that build on what nobody hears or reads."""
    wrong, done = [], set()
    for sitting in syllabus:
        presented = sections(sitting, course)
        total = minutes_of(known, presented), exercise_minutes(taught, sitting.get("lab", sitting.get("exercises", [])))
        if max(total) > sitting.get("lasts", max(total)):
            wrong.append(f"{sitting['name']} takes {max(total)} minutes, not {sitting['lasts']}")
        done |= {*presented, *sitting.get("read", [])}
    for name in done:
        lost = [part for part in course["needs"].get(name, []) if part not in done]
        if lost and not taught["lessons"].get(name, {}).get("skip"):
            wrong.append(f"“{name}” builds on {lost}, which has no place and is not left out")
    return wrong


def wrong_half_term(there: set[str], asked: dict, weeks: list[dict]) -> list[str]:
    """The half-term is the whole course: everything has one place."""
    parts = [name for week in weeks for key in ("sections", "read", "may_skip") for name in week.get(key, [])]
    places = Counter([*parts, *(number for week in weeks for number in listed(week))])
    wanted = {name for name in there if place(name)[1] not in NOT_READ} | set(asked)
    return [f"“{name}” has {places[name]} places" for name in sorted(wanted | set(places)) if places[name] != 1]
