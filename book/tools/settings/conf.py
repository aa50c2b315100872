"""The settings of `make watch` and `make links`: those of `make book`, in the form that Sphinx's own programs read."""

from pathlib import Path

from jupyter_book.config import get_final_config

ROOT = Path(__file__).resolve().parents[3]


def settings(root: Path = ROOT) -> dict:
    """What _config.yml says, as jupyter-book reads it; paths are absolute, since this file does not lie beside it."""
    options = {"latex_individualpages": False}
    config, _ = get_final_config(user_yaml=root / "_config.yml", cli_config=options, sourcedir=root)
    for name in ("html_static_path", "templates_path", "bibtex_bibfiles"):
        config[name] = [str(root / path) for path in config[name]]
    return config | {"html_favicon": str(root / config["html_favicon"])}


globals().update(settings())

# For `make links`. A host that is slow is asked again, and told apart from a page that is gone.
linkcheck_timeout, linkcheck_retries, linkcheck_workers = 20, 3, 8
linkcheck_report_timeouts_as_broken = False
linkcheck_rate_limit_timeout = 60
linkcheck_anchors_ignore_for_url = [r"https://github\.com/"]  # a script makes them
