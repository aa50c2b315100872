"""What `make bench` counts on a page: bytes without pictures, requests, refused ones, what first paint waits for."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "book/tools"))

import bench_pages  # noqa: E402

DOT = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="
PAGE = f"""<!DOCTYPE html><title>x</title><link rel="stylesheet" href="a.css"><link rel="icon" href="data:,">
<script src="https://elsewhere.example/x.js" async></script>
<p>text</p><img src="a.png"><img src="{DOT}">
<script defer src="a.js"></script>"""


@pytest.fixture
def site(tmp_path):
    folder = tmp_path / "notebooks"
    folder.mkdir()
    (folder / "x.html").write_text(PAGE, encoding="utf8")
    (folder / "a.css").write_text("p { color: red }", encoding="utf8")
    (folder / "a.js").write_text("1;" * 50, encoding="utf8")
    (folder / "a.png").write_bytes(b"no picture, and not counted")
    return tmp_path


def test_a_visit_counts_what_the_page_asked_for(browser, site):
    with bench_pages.served(site) as origin:
        found = bench_pages.load(browser, origin, "x")
        assert found["bytes"] == len(PAGE) - len(DOT) + len("p { color: red }") + 100
        assert found["scripts"] == 100
        assert (found["requests"], found["refused"], found["blocking"]) == (4, 1, 1)
        assert 0 < found["first"] <= found["largest"] and found["shift"] >= 0
        both = bench_pages.compare(browser, {"a": origin, "b": origin}, "x", rounds=2)
    assert both["a"]["bytes"] == both["b"]["bytes"] == found["bytes"]
    assert len(bench_pages.line("x", "a", both["a"]).split()) == len(bench_pages.HEAD.split())
