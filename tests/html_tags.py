"""The tags of a piece of HTML, for tests that look into what a notebook stores."""

from html.parser import HTMLParser


class Tags(HTMLParser):
    """`seen`: each opening tag with its attributes, in order."""

    def __init__(self, html):
        super().__init__()
        self.seen = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
