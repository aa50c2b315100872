"""What the classroom's pages say: exact counts over a class with real verdicts, nothing of a student let through."""

import csv
import io
import random
import re
from dataclasses import replace

import pytest
from book_fixtures import ROOT
from bs4 import BeautifulSoup
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

from attnlab.classroom.assignments import chapter
from attnlab.classroom.feedback import feedback_page
from attnlab.classroom.links import anchors
from attnlab.classroom.pages import in_order, section_of
from attnlab.classroom.report import class_report, misunderstandings, misunderstandings_csv
from attnlab.classroom.results import Result
from attnlab.classroom.understanding import HARD, everywhere, ordered, points_in_bins, tally, to_reteach, unknown
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
    bins = points_in_bins(ASSIGNMENT, the_class())
    assert sum(count for *_, count in bins) == 40
    assert bins[0][:2] == (0, 0) and bins[0][2] == 2 and bins[-1][1] == ASSIGNMENT.points == 10
    wide = assignment([each.number for n in "12345" for each in exercises_of(chapter(n))])
    bins = points_in_bins(wide, [Result("a", "", "")])
    assert len(bins) <= 13 and bins[-1][1] == wide.points
    assert all(low == before + 1 for (low, *_), (_, before, _) in zip(bins[1:], bins, strict=False))


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
    assert first["who"].startswith("'=s18; =s19")


# ---- the feedback page -----------------------------------------------------------------------------------------------


def page_of(student: str, site: str | None = SITE, sources: dict | None = None) -> str:
    result = next(each for each in the_class() if each.student == student)
    return feedback_page(ASSIGNMENT, result, sources or {}, site)


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
    page = feedback_page(ASSIGNMENT, result, {"1.2": "x = 1\r\n" * 10_000 + "\udfff"})
    assert len(page.encode("utf-8")) < 100_000  # a lone surrogate would raise here
    assert "characters more)" in page and not re.search(r"[\x00\x1b\r]", page)


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
        "feedback": lambda: feedback_page(ASSIGNMENT, hostile(), sources, SITE),
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
