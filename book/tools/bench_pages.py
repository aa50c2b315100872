"""The chapters' pages beside a stock build of the same notebooks: weight, requests, first paint, shifts of the layout.

`make bench` runs this. Both sites come from a server of this machine to the same browser, in turns, with an empty
cache, a slow network (1.6 Mb/s, 150 ms) and a processor slowed down fourfold, as on a phone of the middle class. What
a page asks from other hosts is refused and counted: the stock page's formulas then stay TeX, which makes it lighter.

    bench_pages.py --pages 01_weights --rounds 3        a quick look
"""

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml
from playwright.sync_api import Browser, sync_playwright
from serving import served

ROOT = Path(__file__).resolve().parents[2]
SLOW = {"offline": False, "latency": 150, "downloadThroughput": 1.6e6 / 8, "uploadThroughput": 0.75e6 / 8}
STOCK = {"title": "Stock", "only_build_toc_files": True, "execute": {"execute_notebooks": "off"}}
SEEN = """new Promise(done => {
  let shift = 0, last = 0;
  new PerformanceObserver(list => list.getEntries().forEach(e => { if (!e.hadRecentInput) shift += e.value; }))
    .observe({ type: "layout-shift", buffered: true });
  new PerformanceObserver(list => list.getEntries().forEach(e => { last = e.startTime; }))
    .observe({ type: "largest-contentful-paint", buffered: true });
  setTimeout(() => done({
    first: performance.getEntriesByName("first-contentful-paint")[0].startTime, largest: last, shift,
    blocking: performance.getEntriesByType("resource").filter(e => e.renderBlockingStatus === "blocking").length,
  }), 300);
})"""
VARYING = ("first", "largest", "shift")  # from visit to visit: the median is shown
RATIOS = ("bytes", "requests", "first")


def chapters() -> list[str]:
    return [path.stem for path in sorted((ROOT / "notebooks").glob("*.ipynb"))]


def build(sources: Path, out: Path) -> Path:
    """The pages of a book. RuntimeError, with what the build said, where it fails."""
    program = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()"]
    command = [*program, "build", str(sources), "--path-output", str(out), "--quiet"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(result.stdout + result.stderr)
    return out / "_build/html"


def stock(folder: Path) -> Path:
    """The same notebooks as Jupyter Book builds them by itself."""
    first, *rest = [f"notebooks/{name}" for name in chapters()]
    shutil.copytree(ROOT / "notebooks", folder / "notebooks", ignore=shutil.ignore_patterns(".*", "solutions"))
    (folder / "_config.yml").write_text(yaml.safe_dump(STOCK), encoding="utf-8")
    toc = {"format": "jb-book", "root": first, "chapters": [{"file": name} for name in rest]}
    (folder / "_toc.yml").write_text(yaml.safe_dump(toc), encoding="utf-8")
    return build(folder, folder)


def load(browser: Browser, origin: str, page_name: str) -> dict:
    """One visit with an empty cache: bytes (without the page's pictures), requests, refused ones, times in ms."""
    context = browser.new_context(viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
    page = context.new_page()
    devtools = context.new_cdp_session(page)
    devtools.send("Network.enable")
    devtools.send("Network.emulateNetworkConditions", SLOW)
    devtools.send("Emulation.setCPUThrottlingRate", {"rate": 4})
    sizes, refused = {}, set()

    def only_here(route):
        if route.request.url.startswith((origin, "data:", "blob:")):
            return route.continue_()
        refused.add(route.request.url)
        return route.abort()

    def note(response):
        body = response.body() if response.ok else b""
        inline = sum(map(len, re.findall(rb"data:image/[^\"')]*", body))) if response.url.endswith(".html") else 0
        is_picture = re.search(r"\.(png|jpe?g|webp|gif)$", response.url)
        sizes[response.url] = 0 if is_picture else len(body) - inline

    page.route("**/*", only_here)
    page.on("response", note)
    page.goto(f"{origin}/notebooks/{page_name}.html", wait_until="load")
    found = page.evaluate(SEEN) | {"bytes": sum(sizes.values()), "requests": len(sizes), "refused": len(refused)}
    found["scripts"] = sum(size for url, size in sizes.items() if re.search(r"\.js(\?|$)", url))
    context.close()
    return found


def compare(browser: Browser, sites: dict[str, str], page_name: str, rounds: int) -> dict[str, dict]:
    """The medians of what `load` finds; the sites take turns, so that what else the machine does meets both alike."""
    visits = {name: [] for name in sites}
    for _ in range(rounds):
        for name, origin in sites.items():
            visits[name].append(load(browser, origin, page_name))
    return {
        name: found[-1] | {key: statistics.median(visit[key] for visit in found) for key in VARYING}
        for name, found in visits.items()
    }


def line(page_name: str, name: str, found: dict) -> str:
    weights = f"{found['bytes'] / 2**10:7.0f} {found['scripts'] / 2**10:8.0f}"
    counts = f"{found['requests']:8} {found['refused']:7} {found['blocking']:8}"
    times = f"{found['first']:7.0f} {found['largest']:8.0f} {found['shift']:6.3f}"
    return f"{page_name:24} {name:6} {weights} {counts} {times}"


HEAD = f"{'page':24} {'build':6}  weight  scripts requests refused blocking   first  largest  shift"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", nargs="+", choices=chapters(), default=chapters(), metavar="NAME")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    sys.path.append(str(ROOT / "tests"))
    from browser.conftest import FLAGS, find_browser

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        (Path(folder) / "stock").mkdir()
        sites = {"stock": stock(Path(folder) / "stock"), "ours": build(ROOT, Path(folder) / "ours")}
        browser = playwright.chromium.launch(executable_path=find_browser(playwright), args=FLAGS)
        print(f"Weights in KiB, uncompressed, without pictures; medians of {options.rounds} visits, times in ms.")
        print(
            f"{'page':24} {'build':6} {'weight':>7} {'scripts':>8} {'requests':>8} {'refused':>7} {'blocking':>8}",
            end="",
        )
        print(f" {'first':>7} {'largest':>8} {'shift':>6}")
        with served(sites["stock"]) as theirs, served(sites["ours"]) as ours:
            for name in options.pages:
                found = compare(browser, {"stock": theirs, "ours": ours}, name, options.rounds)
                print(line(name, "stock", found["stock"]), line(name, "ours", found["ours"]), sep="\n")
                ratios = (f"{key} {found['ours'][key] / found['stock'][key]:.2f}" for key in RATIOS)
                print(" " * 25 + "ours / stock:", ", ".join(ratios), flush=True)
        browser.close()


if __name__ == "__main__":
    main()
