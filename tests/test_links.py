"""`make links`: what it calls gone, and what it only mentions. Hosts are played by a server on this machine."""

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "book/tools"))

import links  # noqa: E402

STATUS = {"/good": 200, "/gone": 404, "/removed": 410, "/refuses": 403, "/tired": 503, "/moved": 301}


class Host(BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'<h1 id="here">A page</h1>'
        self.send_response(STATUS[self.path])
        if self.path == "/moved":
            self.send_header("Location", "/good")
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *args):
        pass


@pytest.fixture
def host():
    with ThreadingHTTPServer(("127.0.0.1", 0), Host) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def judged(tmp_path, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)

    def judge(*addresses, name="README.md"):
        (tmp_path / "papers").mkdir(exist_ok=True)
        text = "# Links\n\n" + "\n\n".join(f"<{address}>" for address in addresses) + "\n\n[a paper](other.md)\n"
        (tmp_path / "papers" / name).write_text(text, encoding="utf-8")
        return links.judged(links.asked(tmp_path / "papers", tmp_path / "out", *links.PAPERS))

    return judge


def names(verdicts, host):
    return {verdict: {link.address.removeprefix(host) for link in found} for verdict, found in verdicts.items()}


def test_pages_that_are_gone_fail_and_hosts_that_do_not_answer_are_listed(judged, host):
    verdicts = judged(*(f"{host}{path}" for path in STATUS), f"{host}/good#here", f"{host}/good#nowhere")
    assert names(verdicts, host) == {
        "gone": {"/gone", "/removed", "/good#nowhere"},
        "unsure": {"/refuses", "/tired"},
        "moved": {"/moved"},
        "there": {"/good", "/good#here"},
    }
    assert links.fails(verdicts)
    text = links.report(verdicts)
    assert f"| README.md:5 | {host}/gone | 404" in text and "2 addresses are there." in text


def test_a_host_that_refuses_alone_does_not_fail(judged, host):
    verdicts = judged(f"{host}/good", f"{host}/refuses", f"{host}/moved")
    assert names(verdicts, host)["unsure"] == {"/refuses"}
    assert not links.fails(verdicts)


def test_without_a_network_it_fails_and_says_so(judged):
    verdicts = judged("http://127.0.0.1:9/discarded")
    assert links.fails(verdicts) and "is there a network?" in links.report(verdicts)


def test_the_settings_of_the_book_ask_as_those_of_the_papers_do():
    text = (links.SETTINGS / "conf.py").read_text(encoding="utf-8")
    options = [option.partition("=")[0] for option in links.PAPERS if option.startswith("linkcheck_")]
    assert len(options) >= 4 and all(option in text for option in options)


def test_every_paper_at_the_root_is_asked(tmp_path):
    """The papers are found by their ending: none is left out."""
    out = tmp_path / "out"
    command = [sys.executable, "-m", "sphinx", "-b", "dummy", "--quiet", str(ROOT), str(out), *links.PAPERS]
    done = subprocess.run(
        [*command, "--doctree-dir", str(tmp_path / "trees")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert {path.stem for path in (tmp_path / "trees").glob("*.doctree")} == {path.stem for path in ROOT.glob("*.md")}
