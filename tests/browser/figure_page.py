"""What the tests of the live figures share: a figure by its name, and what its page says."""

from attnlab import figures


def figure(name, **options):
    return getattr(figures, name)(**options)


def text(page, name, which=0):
    """All the text of a figure, spaces evened out."""
    return " ".join(page.locator(figures.tag(name)).nth(which).locator(".card").inner_text().split())


def state(page, name):
    return page.locator(figures.tag(name)).evaluate("el => el.state")


def written(page, name, slot):
    return page.locator(f"{figures.tag(name)} [data-t={slot}]").first.text_content()
