"""What the classroom's pages say: exact counts over a class with real verdicts, nothing of a student let through."""

import csv
import io
import random
import re
import shutil
from dataclasses import replace

import nbformat
import pytest
from book_fixtures import ROOT
from bs4 import BeautifulSoup
from classroom_grading import Course, a_copy
from classroom_results import (
    NOT_SCALED,
    NUMBERS,
    SITE,
    TURNED,
    assignment,
    of,
    of_twin,
    raises_html,
    students,
    the_class,
    three_zeros,
    untouched,
)
from mdit_py_plugins.anchors.index import slugify
from nbformat.v4 import new_code_cell, new_markdown_cell

from attnlab.classroom.assignments import assignments, chapter
from attnlab.classroom.gradebook.gradebook import Recorder
from attnlab.classroom.gradebook.grades import grades_csv
from attnlab.classroom.gradebook.marks import marks_of
from attnlab.classroom.handout.handout import hand_out
from attnlab.classroom.handout.links import anchors
from attnlab.classroom.pages.feedback import feedback_page
from attnlab.classroom.pages.pages import in_order, section_of
from attnlab.classroom.pages.report import class_report, misunderstandings, misunderstandings_csv, points_in_bins
from attnlab.classroom.pages.understanding import HARD, everywhere, ordered, tally, to_reteach, unknown
from attnlab.classroom.results import Result
from attnlab.exercises import ch1_weights as ch1
from attnlab.exercises import ch3_matrix_and_masks as ch3
from attnlab.exercises.engine import exercises_of, questions_of

ASSIGNMENT = assignment()
BAD = "<script>alert(1)</script>\"'&amp;<img src=x onerror=alert(2)>"


def soup(page: str) -> BeautifulSoup:
    return BeautifulSoup(page, "html.parser")


def words(part) -> str:
    return " ".join(part.get_text(" ").split())


def found(number: str, kind: str = "mistake", results=None) -> dict[tuple[str, ...], int]:
    """The misunderstandings of an exercise: {names of turns: how many students}."""
    every = misunderstandings(ASSIGNMENT, the_class() if results is None else results)
    return {each.turns: each.count for each in every if each.exercise == number and each.kind == kind}


# ---- counting --------------------------------------------------------------------------------------------------------


def test_each_answer_is_counted_once_in_its_exercise():
    counts = {each.exercise.number: tuple(each.counts.values()) for each in tally(ASSIGNMENT, the_class())}
    # right, recognised, not recognised, not attempted, missing, not judged
    assert counts == {
        "1.2": (17, 15, 3, 2, 3, 0),
        "1.4": (29, 9, 0, 0, 2, 0),
        "1.8": (20, 10, 0, 8, 2, 0),
        "3.1": (38, 0, 0, 0, 2, 0),
        "3.2": (38, 0, 0, 0, 2, 0),
        "3.3": (36, 0, 0, 2, 2, 0),
    }


def test_two_mistakes_at_once_count_for_each_and_either_or_counts_for_one_entry():
    assert found("1.2") == {NOT_SCALED: 8 + 3 + 1, TURNED: 3 + 1}
    assert found("1.2", HARD) == {("a zero query",): 1 + 2}
    # 7 may be either of two; so may the 2 whose sign is turned besides, which is certain
    assert found("1.4") == {("use: exponent", "use: times"): 9, TURNED: 2}
    assert found("1.8") == {NOT_SCALED: 10}
    assert found("3.1") == {}


def test_a_misunderstanding_says_its_words_its_question_where_it_was_seen_and_the_share():
    first = misunderstandings(ASSIGNMENT, the_class())[0]
    wrong = ch1.scaled_scores.wrong["scale: none"]
    assert (first.text, first.questions, first.seen_in) == (wrong.text, (wrong.hint,), (wrong.seen_in,))
    assert first.students == (*students(28)[17:], "s30")
    assert (first.attempted, first.share) == (35, 12 / 35)
    (either,) = [each for each in misunderstandings(ASSIGNMENT, the_class()) if len(each.readings) > 1]
    known = ch1.weights_at_temperature.wrong
    assert either.text == f"Either: {known['use: times'].text} Or: {known['use: exponent'].text}"


def test_turns_with_the_same_words_are_one_entry():
    one = ch3.masked_softmax
    several = assignment(["3.5"])
    results = [
        Result(turn, "week1", "x", verdicts={"3.5": of_twin(one, turn)})
        for turn in ("some: of the numbers", "some: of the numbers, cleaned")
    ]
    (entry,) = misunderstandings(several, results)
    assert (entry.count, len(entry.readings), len(entry.turns)) == (2, 1, 2)


def test_hard_inputs_with_the_same_remark_are_one_entry():
    def even_without_keys(scores, M):  # a row that allows nothing: neither NaN nor equal shares, but something else
        weights = (scores + M).softmax(dim=-1)
        empty = M.isneginf().all(dim=-1, keepdim=True)
        return weights.masked_fill(empty, 0.0) + empty * scores.tanh()

    verdict = ch3.masked_softmax.judge(even_without_keys)
    assert verdict.remarks == ("a row that allows nothing", "no row allows anything")
    entries = misunderstandings(assignment(["3.5"]), [Result("a", "week1", "x", verdicts={"3.5": verdict})])
    (entry,) = [each for each in entries if each.kind == HARD]
    assert (entry.count, entry.turns) == (1, verdict.remarks)


def test_the_same_words_in_several_exercises_are_summed_and_each_student_counted_once():
    (one,) = everywhere(misunderstandings(ASSIGNMENT, the_class()))
    assert [(each.exercise, each.count) for each in one.found] == [("1.2", 12), ("1.8", 10)]
    assert one.answers == 22
    assert one.students == tuple(students(30)[17:])  # s18 to s28 and s30 in 1.2; s21 to s30 in 1.8


def test_what_to_teach_again_is_ordered_by_students_not_by_mistakes():
    results = ordered(the_class())
    reteach = to_reteach(ASSIGNMENT, results, misunderstandings(ASSIGNMENT, results))
    assert [(each.section.heading, len(each.students), each.exercises) for each in reteach] == [
        ("From query and keys to scores", 18, ("1.2",)),
        ("Any number of pairs", 10, ("1.8",)),
        ("Temperature", 9, ("1.4",)),
    ]
    assert reteach[0].questions[0] == ch1.scaled_scores.wrong["scale: none"].hint


def test_unrecognised_answers_that_look_alike_stand_together_without_their_code():
    shape, raised = unknown(ASSIGNMENT, ordered(the_class()))
    assert (shape.students, shape.words) == (("s33", "s34"), "Its shape is (3,); expected (7,).")
    assert raised.students == ("s35",)
    assert raised.words == "It raised KeyError. The inputs: `query` (3,), `keys` (7, 3)."
    assert raised.example.startswith("raise KeyError(")


def test_messages_of_a_failing_test_are_left_out_of_what_answers_share():
    verdict = of(ch3.check_causal, raises_html)
    results = [Result("a", "", "", verdicts={"3.10": verdict})]
    (one,) = unknown(assignment(["3.10"]), results)
    assert "onerror" not in one.words and "fails: KeyError. Only AssertionError and False" in one.words


def test_code_that_stops_in_its_cell_is_grouped_by_what_it_says():
    said = [f"Running it stops with `NameError: name 'np' is not defined`, at `w{i} = np.exp(`x`)`." for i in range(3)]
    stopped = [replace(of(ch1.scaled_scores, three_zeros), title="It does not run", words=[each]) for each in said]
    results = [Result(f"s{i}", "", "", verdicts={"1.2": each}) for i, each in enumerate(stopped)]
    (one,) = unknown(ASSIGNMENT, results)
    assert one.words == "Running it stops with `NameError: name 'np' is not defined`."
    assert (one.example, one.students) == ("w0 = np.exp(`x`)", ("s0", "s1", "s2"))


def test_points_fall_into_at_most_thirteen_bins_that_hold_everybody():
    bins = points_in_bins([result.points for result in the_class()], ASSIGNMENT.points)
    assert sum(count for *_, count in bins) == 40
    assert bins[0][:2] == (0, 0) and bins[0][2] == 2 and bins[-1][1] == ASSIGNMENT.points == 10
    wide = assignment([each.number for n in "12345" for each in exercises_of(chapter(n))])
    bins = points_in_bins([0], wide.points)
    assert len(bins) <= 13 and bins[-1][1] == wide.points
    assert all(low == before + 1 for (low, *_), (_, before, _) in zip(bins[1:], bins, strict=False))
    # half points count with their whole number, and extra credit has bins of its own
    assert points_in_bins([0.5, 2, 2.75, 4.25], 3) == [(0, 0, 1), (1, 1, 0), (2, 2, 2), (3, 3, 0), (4, 4, 1)]


def test_unavailable_and_internal_are_neither_right_nor_wrong_nor_attempted():
    right = of_twin(ch1.scaled_scores)
    results = [
        Result(status, "", "", verdicts={"1.2": replace(right, status=status)})
        for status in ("unavailable", "internal", "correct")
    ]
    (each,) = tally(assignment(["1.2"]), results)
    assert (each.counts["unjudged"], each.attempted) == (2, 1)
    page = soup(class_report(assignment(["1.2"]), results))
    assert "could not be judged" in words(page.select_one(".glance thead"))
    assert "could not be judged" not in class_report(ASSIGNMENT, the_class())


# ---- the class report ------------------------------------------------------------------------------------------------


def test_the_report_says_the_numbers():
    page = soup(class_report(ASSIGNMENT, the_class(), SITE))
    row = page.select(".glance tbody tr")[0]
    assert [cell.text for cell in row.select("td")] == ["17", "15", "3", "2", "3"]
    widths = [(i["class"][0], int(i["style"].split(":")[1])) for i in row.select(".bar i")]
    assert widths == list(
        zip(["correct", "recognised", "unrecognised", "untouched", "missing"], [17, 15, 3, 2, 3], strict=True)
    )
    text = words(page)
    assert "40 submissions · median" in text
    assert "17 of 35 who attempted it are right (49%); 15 made a recognised mistake, 3 another one." in text
    assert "Worth a look: 3 answers nobody has a name for" in text
    assert "2 of 40 hold no answer that could be read" in text
    assert "4 × The answer cell of exercise 1.2 was there twice" in text
    assert "Open question 6.11 is read by a person; 19 of 40 wrote something." in text
    entry = words(page.select_one('[id="ex-1.2"]').find_parent("section").select_one("li"))
    wrong = ch1.scaled_scores.wrong["scale: none"]
    assert entry.startswith(f"12 students · 34% {wrong.text} Ask the class: {wrong.hint}")
    assert entry.endswith("Who s18 , s19 , s20 , s21 , s22 , s23 , s24 , s25 , s26 , s27 , s28 , s30")
    assert f'href="https://github.com/{wrong.seen_in.replace("#", "/issues/")}"' in str(page)


@pytest.mark.parametrize("seed", range(5))
def test_any_order_and_any_run_give_the_same_bytes(seed):
    results = the_class()
    random.Random(seed).shuffle(results)
    assert class_report(ASSIGNMENT, iter(results), SITE) == class_report(ASSIGNMENT, the_class(), SITE)
    assert misunderstandings_csv(ASSIGNMENT, results) == misunderstandings_csv(ASSIGNMENT, the_class())
    stored = [Result.from_json(result.to_json()) for result in results]
    assert misunderstandings(ASSIGNMENT, stored) == misunderstandings(ASSIGNMENT, the_class())


def test_the_same_class_twice_doubles_every_count():
    once = the_class()
    twice = once + [replace(result, student=f"t{result.student}") for result in once]
    assert [2 * one.count for one in misunderstandings(ASSIGNMENT, once)] == [
        one.count for one in misunderstandings(ASSIGNMENT, twice)
    ]
    for one, two in zip(tally(ASSIGNMENT, once), tally(ASSIGNMENT, twice), strict=True):
        assert {state: 2 * n for state, n in one.counts.items()} == two.counts


def test_a_student_with_two_results_is_refused():
    with pytest.raises(ValueError, match=r"Several results of 's01'.*one result a student"):
        class_report(ASSIGNMENT, the_class() + the_class()[:1])


def test_without_names_no_id_and_no_code_of_a_student_is_there():
    results = [replace(result, student=f"id-{result.student}-x") for result in the_class()]
    zeros = of(ch1.scaled_scores, three_zeros)
    for i, said in enumerate(["It raised id-s01-x.", "It raised id-s01-x.", "It says `Ann Other`."]):  # two, and one
        verdicts = results[i].verdicts | {"1.2": replace(zeros, words=[said])}
        results[i] = replace(results[i], verdicts=verdicts, remarks=("id-s01-x.ipynb is odd",))
    assert "Ann Other" in class_report(ASSIGNMENT, results)
    page = class_report(ASSIGNMENT, results, SITE, anonymous=True, page_of=lambda student: f"{student}.html")
    assert not any(text in page for text in ("id-s", "onerror", "Ann Other"))
    assert "12 students" in page and "6 answers nobody has a name for" in page
    worth = words(soup(page).select_one("#unknown").find_next("ol"))
    assert worth == "4 × Not right yet 2 × Not right yet: Its shape is (3,); expected (7,)."
    table = misunderstandings_csv(ASSIGNMENT, results, anonymous=True)
    assert "id-s" not in table and "12,35" in table


def test_three_thousand_students_stay_below_a_megabyte():
    longest = [f"first.middle.last-{i:05}@students.some-university.example" for i in range(3000)]
    pool = {
        each.number: [each.judge(twin.function) for twin in each.twins[:40]]
        + [
            replace(of(each, three_zeros), words=[f"It raised E{i} at `{'x' * 200}{i}`. The inputs: {'y' * 500}"])
            for i in range(150)
        ]
        for each in ASSIGNMENT.exercises
    }
    chance = random.Random(1)
    results = [
        Result(
            student,
            "week1",
            "01_weights",
            verdicts={number: chance.choice(some) for number, some in pool.items()},
            remarks=(f"remark {i} " + "z" * 1000,),
        )
        for i, student in enumerate(longest)
    ]
    page = class_report(ASSIGNMENT, results, SITE, page_of=lambda student: f"../../feedback/{student}/week1/page.html")
    assert 200_000 < len(page.encode()) < 1_000_000
    usual = [replace(result, student=f"s{i}", remarks=()) for i, result in enumerate(results)]
    assert re.search(r"</bdi>\s+and [\d,]+ more", class_report(ASSIGNMENT, usual, SITE))
    same = [Result(f"s{i}", "", "", verdicts={"1.2": of_twin(ch1.scaled_scores, *TURNED)}) for i in range(3000)]
    page = class_report(assignment(["1.2"]), same)
    assert "3,000 students" in page and "and 2,880 more" in page


def test_an_empty_class_has_a_report_too():
    assert "Nobody has handed in anything yet" in class_report(ASSIGNMENT, [])
    assert misunderstandings(ASSIGNMENT, []) == []


def test_an_address_that_is_none_is_refused():
    for page in (lambda: class_report(ASSIGNMENT, [], "javascript:x"), lambda: page_of("s01", site="book")):
        with pytest.raises(ValueError, match="begins with https://"):
            page()


def test_csv_has_a_line_for_each_and_starts_no_formula():
    results = [replace(result, student=f"={result.student}") for result in the_class()]
    rows = list(csv.DictReader(io.StringIO(misunderstandings_csv(ASSIGNMENT, results))))
    assert len(rows) == len(misunderstandings(ASSIGNMENT, results)) == 6
    first = rows[0]
    assert (first["exercise"], first["kind"], first["turns"], first["students"]) == (
        "1.2",
        "mistake",
        *NOT_SCALED,
        "12",
    )
    assert (first["share"], first["section"]) == ("0.343", "From query and keys to scores")
    assert first["who"].startswith("'=s18; '=s19")


# ---- the feedback page -----------------------------------------------------------------------------------------------


def page_of(student: str, site: str | None = SITE, sources: dict | None = None) -> str:
    result = next(each for each in the_class() if each.student == student)
    return feedback_page(ASSIGNMENT, replace(result, sources=sources or {}), site)


def test_a_page_shows_the_points_the_answer_the_same_card_and_the_next_step():
    text = page_of("s30", sources={"1.2": "def scaled_scores(query, keys):\n    return keys @ query"})
    page = soup(text)
    assert page.title.text == "Feedback on week1 for s30"
    assert "6 of 10 points" in words(page.header) and "6.11 is read by a person" in words(page.header)
    part = page.select_one('[id="ex-1.2"]').find_parent("section")
    assert words(part.select_one("pre.answer")) == "def scaled_scores(query, keys): return keys @ query"
    card = next(each for each in the_class() if each.student == "s30").verdicts["1.2"]._repr_html_()
    assert card.replace("<pre ", '<pre tabindex="0" ') in text
    step = part.select_one(".next")
    assert words(step).startswith(f"Next step. {ch1.scaled_scores.hints[0]}".replace("`", "").split(" row ")[0])
    address = "https://book.example.org/attention/notebooks/01_weights.html#from-query-and-keys-to-scores"
    assert step.a["href"] == address
    assert page.select_one('[id="ex-3.2"]').find_parent("section").select_one(".next") is None  # it is right
    assert SITE not in page_of("s30", site=None) and "chapter 1" in page_of("s30", site=None)


def test_a_page_of_a_submission_that_could_not_be_read_says_why_and_what_next():
    page = soup(page_of("s40"))
    assert "This is no notebook: it begins with “PK”." in words(page.select_one(".remarks"))
    assert "0 of 10 points" in words(page.header)
    assert len(page.select(".attnlab-card")) == len(ASSIGNMENT.exercises) == len(page.select(".next"))
    assert words(page).count("No answer was found") == 2 * len(ASSIGNMENT.exercises)  # at the top, and on the card


def test_no_page_shows_a_solution_or_a_model_answer():
    stubs = {each.number: each.stub for each in ASSIGNMENT.exercises}
    for student in ("s01", "s20", "s37", "s40"):
        page = words(soup(page_of(student, sources=stubs)))
        for each in ASSIGNMENT.exercises:
            body = each.solution_source.splitlines()[-1].strip()
            assert body not in page and "your code\n" not in page
        for question in ASSIGNMENT.questions:
            assert question.model_answer[:40] not in page and not any(line in page for line in question.rubric)
        assert "Your answer" not in page  # every answer cell is as it was handed out


def test_the_same_result_gives_the_same_bytes():
    sources = {number: f"# {number}" for number in NUMBERS}
    turned = dict(reversed(sources.items()))
    assert page_of("s18", sources=sources) == page_of("s18", sources=turned)


def test_long_code_and_what_no_file_can_hold_do_no_harm():
    result = Result("s\ud800\x00", "week1", "01_weights", remarks=("\x1b[31mred",), words={"6.11": "w" * 100_000})
    page = feedback_page(ASSIGNMENT, replace(result, sources={"1.2": "x = 1\r\n" * 10_000 + "\udfff"}))
    assert len(page.encode("utf-8")) < 100_000  # a lone surrogate would raise here
    assert "characters more)" in page and not re.search(r"[\x00\x1b\r]", page)


# ---- what a teacher has given by hand --------------------------------------------------------------------------------

CHECK, ANSWER, ASKED = "ex-1-2-check", "ex-1-2-answer", "ex-6-11-words"
KINDS = ("right", "scale: none", "stub")
ESSAY = "I would take the word out and look."


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """Exercises 1.1, 1.2 and 1.3 and a question, handed out, judged and recorded; nobody has given anything by hand."""
    root = tmp_path_factory.mktemp("by-hand") / "course"
    hand_out(root, "week1", numbers=["1.1", "1.2", "1.3", "6.11"])
    course = Course(root)
    course.results = [course.result(name, *KINDS, words=ESSAY) for name in ("ada", "bob", "cy")]
    course.results.append(course.result("dan", *KINDS))
    for each in course.results:
        words = ESSAY if each.words["6.11"] else None
        course.record((each, course.notebook(words=words, weighted_average="# done", scaled_scores="# done")))
    return course


@pytest.fixture
def by_hand(graded, tmp_path):
    course = a_copy(graded, tmp_path / "course")
    course.results = graded.results
    return course


def given_page(course, student: str) -> str:
    (result,) = [each for each in course.results if each.student == student]
    given = marks_of(course.root, course.name).given(student, result.notebook)
    return feedback_page(course.assignment, result, SITE, given)


def at_a_glance(page) -> dict[str, tuple[str, str]]:
    """{number or name: (verdict, points)} of the table at the top."""
    rows = [[words(cell) for cell in row.select("th, td")] for row in page.select("tbody tr")]
    return {name.split()[0]: (verdict, points) for name, verdict, points in rows}


def section(page, number: str) -> str:
    return words(page.select_one(f'[id="ex-{number}"]').find_parent("section"))


def test_before_a_person_has_read_anything_the_page_says_what_waits(graded):
    page = soup(given_page(graded, "ada"))
    assert words(page.header).endswith("1 of 9 points . A person has still to read 6.11, for up to 5 points more.")
    assert at_a_glance(page) == {
        "1.1": ("✓ Correct", "1 of 1"),
        "1.2": ("✗ A known mistake", "0 of 1"),
        "1.3": ("✗ Not right yet", "0 of 2"),
        "6.11": ("still to be read by a person", "of 5"),
    }
    assert "A person reads them, for up to 5 points." in section(page, "6.11")
    page = soup(given_page(graded, "dan"))
    assert words(page.header).endswith("1 of 9 points .")
    assert at_a_glance(page)["6.11"] == ("○ Nothing written", "0 of 5")
    assert "Nothing was written here: 0 of 5 points . To reread" in section(page, "6.11")
    # nbgrader has "No response." for exercise 1.3 and the question
    assert graded.comments("dan")[ASKED] == ("No response.", None)
    assert not page.select(".comment, tfoot") and "given by hand" not in words(page)


def test_points_extra_credit_comments_and_the_late_penalty_reach_the_student(by_hand):
    by_hand.by_hand("ada", CHECK, 0.5, extra=0.25)
    by_hand.comment("ada", ANSWER, "Nearly.\n\n  Look at the *size* of the scores.\r\nThen ask me.")
    by_hand.by_hand("ada", ASKED, 3, extra=1)
    by_hand.comment("ada", ASKED, "Good.")
    by_hand.late("ada", 1.5)
    page = soup(given_page(by_hand, "ada"))
    assert words(page.header).endswith("4.25 of 9 points , after a late penalty of 1.5.")
    assert at_a_glance(page) == {
        "1.1": ("✓ Correct", "1 of 1"),
        "1.2": ("✗ A known mistake with a comment", "0.5 of 1 + 0.25 extra given by hand"),
        "1.3": ("✗ Not right yet", "0 of 2"),
        "6.11": ("read by a person with a comment", "3 of 5 + 1 extra"),
    }
    foot = [words(row) for row in page.select("tfoot tr")]
    assert foot == ["Points 5.75 of 9", "Late penalty −1.5", "Total 4.25 of 9"]
    one = section(page, "1.2")
    assert "0.5 of 1 point, given by hand in place of what the check gave. With 0.25 points of extra credit." in one
    assert "Your words I would take the word out and look. 3 of 5 points . With 1 point of extra" in section(
        page, "6.11"
    )
    said = [each.get_text() for each in page.select(".comment .said")]
    assert said == ["Nearly.\n\n  Look at the *size* of the scores.\nThen ask me.", "Good."]
    # whose gradebook holds nothing of this sees nothing of it
    assert re.sub(r"\bcy\b", "bob", given_page(by_hand, "cy")) == given_page(by_hand, "bob")
    assert not soup(given_page(by_hand, "bob")).select(".comment, tfoot")


def test_the_total_is_what_nbgrader_exports(by_hand):
    by_hand.by_hand("ada", CHECK, 0.1, extra=0.2)
    by_hand.by_hand("ada", ASKED, 4.7)
    by_hand.late("ada", 0.3)
    by_hand.late("bob", 20)
    by_hand.by_hand("cy", ASKED, None, extra=2)  # nbgrader counts no extra credit on what nobody has read
    marks = marks_of(by_hand.root, by_hand.name)
    with by_hand.gradebook() as gradebook:
        for student in ("ada", "bob", "cy", "dan"):
            row = gradebook.find_submission(by_hand.name, student)
            exported = max(0.0, row.score - row.late_submission_penalty)
            given = marks.given(student, by_hand.assignment.notebook)
            assert (given.total, given.most) == (pytest.approx(exported), row.max_score)
            assert marks.total(student) == (given.total, given.penalty)
            assert words(soup(given_page(by_hand, student)).header.strong) == f"{exported:.10g} of 9 points"
    assert marks.given("nobody", by_hand.assignment.notebook) is None


def test_the_gradebook_gives_the_same_page_whatever_order_its_rows_have(by_hand, tmp_path):
    other = a_copy(by_hand, tmp_path / "other")
    other.results = by_hand.results
    for course, order in ((by_hand, 1), (other, -1)):
        for student in ("ada", "bob")[::order]:
            for cell, points in ((CHECK, 0.1), (ASKED, 0.2), ("ex-1-3-check", 0.3))[::order]:
                course.by_hand(student, cell, points, extra=0.7)
            for cell in (ANSWER, ASKED)[::order]:
                course.comment(student, cell, f"on {cell}")
    with other.gradebook() as gradebook:  # the last row first
        for table in ("grade", "comment"):
            gradebook.db.connection().exec_driver_sql(
                f"CREATE TABLE turned AS SELECT * FROM {table} ORDER BY rowid DESC"
            )
            gradebook.db.connection().exec_driver_sql(f"DELETE FROM {table}")
            gradebook.db.connection().exec_driver_sql(f"INSERT INTO {table} SELECT * FROM turned")
            gradebook.db.connection().exec_driver_sql("DROP TABLE turned")
        gradebook.db.commit()
    assert given_page(other, "ada") == given_page(by_hand, "ada")
    assert "on ex-1-2-answer" in given_page(by_hand, "ada")


def test_points_for_a_question_without_words_and_a_comment_that_was_taken_back(by_hand):
    by_hand.by_hand("dan", ASKED, 2)  # said aloud, perhaps
    by_hand.comment("dan", ASKED, "")
    by_hand.comment("dan", ANSWER, " \n")
    page = soup(given_page(by_hand, "dan"))
    assert at_a_glance(page)["6.11"] == ("○ Nothing written", "2 of 5 given by hand")
    assert "Nothing was written here: 2 of 5 points ." in section(page, "6.11")
    assert not page.select(".comment")


def test_what_a_person_is_to_look_at_again_is_said(by_hand):
    by_hand.by_hand("ada", CHECK, 0.5)
    by_hand.by_hand("ada", ASKED, 4)
    result = by_hand.result("ada", "right", "right", "stub", words="Something else.")
    by_hand.record((result, by_hand.notebook(words="Something else.")))
    by_hand.results = [result]
    page = soup(given_page(by_hand, "ada"))
    assert "given by hand in place of what the check gave. A person looks at this again." in section(page, "1.2")
    assert "4 of 5 points . A person looks at this again." in section(page, "6.11")
    assert words(page.header).endswith("5.5 of 9 points .")


def test_what_could_not_be_judged_waits_for_a_person(by_hand):
    (result, *_) = by_hand.results
    verdicts = result.verdicts | {"1.2": replace(result.verdicts["1.2"], status="unavailable")}
    result = replace(result, verdicts=verdicts)
    by_hand.record((result, by_hand.notebook(words=ESSAY)))
    by_hand.results = [result]
    page = soup(given_page(by_hand, "ada"))
    assert "A person has still to read 1.2, 6.11, for up to 6 points more." in words(page.header)
    assert "A person has still to look at this." in section(page, "1.2")


def test_cells_that_a_teacher_has_added_are_on_the_page(by_hand):
    source = nbformat.read(by_hand.place("source"), as_version=4)
    mark = {"grade": True, "locked": True, "points": 3, "schema_version": 3, "solution": False, "task": False}
    task = mark | {"grade": False, "grade_id": "own-task", "task": True}
    code = mark | {"grade": False, "grade_id": "own-code", "solution": True, "locked": False}
    source.cells += [
        new_code_cell("assert mine()", metadata={"nbgrader": mark | {"grade_id": "own-test"}}),
        new_markdown_cell("Draw it.", metadata={"nbgrader": task}),
        new_code_cell("...", metadata={"nbgrader": code}),
    ]
    root = by_hand.root.parent / "other"
    (root / "source" / "week1").mkdir(parents=True)
    nbformat.write(source, root / "source" / "week1" / by_hand.place("source").name)
    hand_out(root, "week1")
    course = Course(root)
    course.results = by_hand.results[:1]
    course.record((course.results[0], course.notebook(words=ESSAY)))
    course.by_hand("ada", "own-task", 2)
    course.comment("ada", "own-task", BAD)
    course.comment("ada", "own-code", "Well named.")
    page = soup(given_page(course, "ada"))
    assert words(page.header).endswith(
        "3 of 15 points . A person has still to read 6.11, own-test, for up to 8 points more."
    )
    glance = at_a_glance(page)
    assert {name: glance[name] for name in glance if name.startswith("own")} == {
        "own-test": ("still to be read by a person", "of 3"),
        "own-task": ("read by a person with a comment", "2 of 3"),
        "own-code": ("with a comment", ""),
    }
    assert [each.get_text() for each in page.select(".said")] == [BAD, "Well named."]
    assert {a["href"] for a in page.select("tbody a")} <= {f"#{each['id']}" for each in page.select("[id]")}


def test_two_notebooks_of_an_assignment_have_one_total(by_hand):
    hand_out(by_hand.root, "more", numbers=["2.1"])
    shutil.copy(by_hand.root / "source/more/more.ipynb", by_hand.root / "source/week1")
    root = by_hand.root.parent / "other"
    shutil.copytree(by_hand.root / "source/week1", root / "source/week1")
    hand_out(root, "week1")
    more, first = assignments(root, "week1")
    (extra,) = more.exercises
    results = [
        Result("ada", "week1", "more", verdicts={extra.number: of_twin(extra)}),
        replace(by_hand.results[0], notebook=first.notebook),
    ]
    with Recorder(root, [more, first]) as recorder:
        for result in results:
            recorder.record(result, None)
        for notebook, penalty in ((first.notebook, 0.5), ("more", 0.25)):
            row = recorder.gradebook.find_submission_notebook(notebook, "week1", "ada")
            row.late_submission_penalty = penalty
        recorder.gradebook.db.commit()
    marks = marks_of(root, "week1")
    page = soup(feedback_page(first, results[1], None, marks.given("ada", first.notebook)))
    whole, here = 9 + extra.points, 1 + extra.points
    assert words(page.header).endswith(
        f"{here - 0.75:g} of {whole} points in all of week1, after a late penalty of 0.75; 1 of 9 in this notebook."
    )
    assert [words(row) for row in page.select("tfoot tr")] == [
        "This notebook 1 of 9",
        f"The other notebooks of week1 {extra.points} of {extra.points}",
        "Late penalty −0.75",
        f"Total {here - 0.75:g} of {whole}",
    ]
    row = next(csv.DictReader(io.StringIO(grades_csv(root, [more, first], results))))
    assert (row["late penalty"], row["total"]) == ("0.75", f"{here - 0.75:g}")
    (bar,) = [
        row for row in soup(class_report(more, results[:1], marks=marks)).select(".points tbody tr") if "1" in row.td
    ]
    assert words(bar.th) == f"{extra.points - 1}"  # less the penalty of this notebook


@pytest.mark.parametrize("cell", [ANSWER, ASKED])
def test_what_a_teacher_writes_is_text(by_hand, cell):
    by_hand.comment("ada", cell, f"{BAD}\n</div></main>\x00{'long ' * 5_000}")
    text = given_page(by_hand, "ada")
    assert "<script" not in text and "<img" not in text and "\x00" not in text
    (said,) = soup(text).select(".said")
    assert said["dir"] == "auto" and said.get_text().startswith(f"{BAD}\n</div></main>\ufffdlong ")
    assert "characters more)" in said.get_text() and len(text) < 100_000


def test_the_report_counts_points_as_they_are_now_and_says_so(by_hand):
    by_hand.by_hand("ada", ASKED, 4.5, extra=5)
    by_hand.by_hand("bob", CHECK, 1)
    by_hand.late("cy", 5)
    marks = marks_of(by_hand.root, by_hand.name)
    results = [*by_hand.results, replace(by_hand.results[0], student="eve")]  # whom the gradebook does not know
    page = soup(class_report(by_hand.assignment, results, marks=marks))
    counts = {words(row.th): int(row.td.text) for row in page.select(".points tbody tr")}
    assert counts == dict.fromkeys(map(str, range(11)), 0) | {"0": 1, "1": 2, "2": 1, "10": 1}
    assert "5 submissions · median so far 1 of 9 points" in words(page.header)
    said = words(page.select_one(".points").find_previous("p"))
    assert said.startswith("As nbgrader’s gradebook had them when this page was written")
    assert "In 2 submissions something still waits for a person" in said  # bob's and cy's words
    assert said.endswith("2.5 with 2.")
    judged = soup(class_report(by_hand.assignment, results))
    assert {words(row.th): int(row.td.text) for row in judged.select(".points tbody tr")}["1"] == 5
    assert "median 1 of 4 points" in words(judged.header)
    assert words(judged.select_one(".points").find_previous("p")).startswith("Of the exercises, as they were judged")
    shuffled = class_report(by_hand.assignment, results[::-1], marks=marks)
    assert shuffled == class_report(by_hand.assignment, results, marks=marks)


# ---- nothing from outside is code ------------------------------------------------------------------------------------


def hostile() -> Result:
    verdicts = {
        "1.2": of(ch1.scaled_scores, raises_html),
        "1.4": replace(of(ch1.weights_at_temperature, three_zeros), title=BAD, words=[BAD, f"`{BAD}`"], extras=[BAD]),
        "1.8": of(ch1.attend_one_query, untouched),
    }
    return Result(BAD, "week1", "01_weights", verdicts=verdicts, words={"6.11": BAD}, remarks=(BAD,))


@pytest.mark.parametrize("make", ["feedback", "report", "anonymous"])
def test_what_a_student_writes_is_text(make):
    sources = dict.fromkeys(NUMBERS, f"</code></pre>{BAD}")
    page = {
        "feedback": lambda: feedback_page(ASSIGNMENT, replace(hostile(), sources=sources), SITE),
        "report": lambda: class_report(ASSIGNMENT, [*the_class(), hostile()], SITE),
        "anonymous": lambda: class_report(ASSIGNMENT, [*the_class(), hostile()], SITE, anonymous=True),
    }[make]()
    assert "<script" not in page and "<img" not in page
    parsed = soup(page)
    assert parsed.html["lang"] == "en" and parsed.title.text
    assert not parsed.find_all(["script", "img", "iframe", "object", "link", "form", "svg", "base"])
    assert not [name for tag in parsed.find_all(True) for name in tag.attrs if name.startswith("on") or name == "src"]
    assert {a["href"][:1] for a in parsed.find_all("a")} <= {"#", "h"}
    assert "default-src 'none'" in parsed.find("meta", attrs={"http-equiv": True})["content"]
    if make != "anonymous":
        assert BAD in parsed.get_text()


def test_an_address_of_a_page_is_escaped():
    page = class_report(ASSIGNMENT, [hostile()], page_of=lambda student: f'x.html?"><script>{student}')
    assert "<script" not in page and 'href="x.html?&#34;' in page


# ---- places ----------------------------------------------------------------------------------------------------------


def test_every_section_is_a_heading_of_its_chapter_and_has_the_anchor_of_the_built_book():
    for number in "123456":
        for each in [*exercises_of(chapter(number)), *questions_of(chapter(number))]:
            section = section_of(each)
            known = anchors(ROOT / f"notebooks/{section.page}.ipynb")
            address = f"{SITE}notebooks/{section.page}.html#{known[slugify(section.heading)]}"
            assert section.address(SITE) == address, each


def test_ids_are_sorted_as_people_sort_them():
    assert sorted(["s10", "s2", "S1", "2", "10", "", "s2b"], key=in_order) == ["", "2", "10", "S1", "s2", "s2b", "s10"]
