"""A real browser for the tests: Chromium, watched, and cut off from every other host."""

import contextlib
import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "book/tools"))

from serving import Quiet, served

NO_BROWSER = (
    "no Chromium found. Install one (Debian, Ubuntu: sudo apt-get install chromium; anywhere: "
    "python -m playwright install chromium), or set CHROMIUM=/path/to/the/browser"
)
NO_PLAYWRIGHT = "Playwright is not installed: python -m pip install playwright"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge", "microsoft-edge")
PLACES = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
    r"C:\Program Files\Microsoft\Edge\Application\msedge.exe",
)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

DESKTOP = {"viewport": {"width": 1280, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}
NO_MOTION = {"reduced_motion": "reduce"}


def pytest_collection_modifyitems(items):
    """Browser tests run last: Playwright keeps an event loop running, and asyncio.run elsewhere would not bear it."""
    here = Path(__file__).parent
    items.sort(key=lambda item: here in item.path.parents)


def without(reason):
    """A machine without a browser skips these tests; continuous integration may not."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)


def find_browser(playwright):
    named = os.environ.get("CHROMIUM")
    if named:
        return shutil.which(named)
    on_path = filter(None, map(shutil.which, NAMES))
    places = (*PLACES, playwright.chromium.executable_path)
    return next(on_path, None) or next((place for place in places if Path(place).is_file()), None)


@pytest.fixture(scope="session")
def browser():
    """Chromium, launched once a session."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        without(NO_PLAYWRIGHT)
    with sync_playwright() as playwright:
        path = find_browser(playwright)
        if path is None:
            without(NO_BROWSER)
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def serve():
    """serve(directory) → the address of a local server of it; serve.origins are all of them."""
    with contextlib.ExitStack() as stack:

        def serve(directory, handler=Quiet):
            serve.origins.add(origin := stack.enter_context(served(directory, handler)))
            return origin

        serve.origins = set()
        yield serve


@dataclass
class Watched:
    page: object
    requests: list = field(default_factory=list)  # every address asked for outside this machine: aborted, and kept
    errors: list = field(default_factory=list)  # console errors and uncaught exceptions


@pytest.fixture
def page_options(request):
    """Options of the browser context; parametrize with indirect=True: PHONE, {"color_scheme": "dark"}, …"""
    return NO_MOTION | getattr(request, "param", {})


@pytest.fixture
def watched_page(browser, serve, page_options):
    """A fresh page → .page, .requests, .errors."""
    context = browser.new_context(**{"service_workers": "block"} | DESKTOP | page_options)
    watched = Watched(context.new_page())

    def route(route):
        address = urlsplit(route.request.url)
        if address.scheme in ("file", "data", "blob") or f"{address.scheme}://{address.netloc}" in serve.origins:
            route.continue_()
        else:
            watched.requests.append(route.request.url)
            route.abort()

    context.route("**/*", route)
    watched.page.on("websocket", lambda socket: watched.requests.append(socket.url))
    watched.page.on("console", lambda message: message.type == "error" and watched.errors.append(message.text))
    watched.page.on("pageerror", lambda error: watched.errors.append(str(error)))
    yield watched
    context.close()


@pytest.fixture
def show(watched_page, tmp_path):
    """show(html or a figure, …) opens it as a file; at the end nothing was requested and nothing went wrong."""

    def show(*parts, head=""):
        html = "\n".join(part if isinstance(part, str) else part._repr_html_() for part in parts)
        file = tmp_path / "page.html"
        viewport = '<meta name="viewport" content="width=device-width">'
        file.write_text(f'<!doctype html><html><head><meta charset="utf-8">{viewport}{head}</head>{html}', "utf-8")
        watched_page.page.goto(file.as_uri())
        return watched_page.page

    yield show
    assert watched_page.requests == []
    assert watched_page.errors == []
