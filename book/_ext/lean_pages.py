"""Weight off the pages: one small stylesheet of fonts instead of two megabytes of icon scripts and fonts.

After the build this scans the written pages, cuts STIX Two Math down to the characters that their formulas use and the
theme's icon fonts down to the icons that they show, and puts them as data into _static/fonts.css (some browsers block
font files when a page is opened from a folder). The stylesheets lose what no page can show (lean_styles.py).
Names, punctuation and spaces in code have the colour of the text: the tag that each carries goes, a third of a page.
Neighbours of one colour share a tag.
Names in tables and headings break after a dot, an underscore or a slash alone, so that a narrow screen shows whole
words; in the text so do names that are longer than a phone's line. No option leaves its hyphens behind.
The templates in book/_templates leave out what would ask for the originals.
"""

import base64
import hashlib
import html
import importlib.util
import io
import re
import shutil
import unicodedata
from pathlib import Path

import pydata_sphinx_theme
from fontTools import subset
from fontTools.ttLib import TTFont
from lean_styles import prune_styles
from sphinx.errors import ExtensionError

MATH_FONT = ("ziamath", "fonts/STIXTwoMath-Regular.ttf")  # SIL Open Font License 1.1
MATH_FONT_SHA256 = "8f42cb183a85043a4dc3f8e41ac3821eb27bf178d68ace929ba439523622323c"
THEME = Path(pydata_sphinx_theme.__file__).parent / "theme/pydata_sphinx_theme/static"
ICON_FONTS = {"Font Awesome 6 Free": (900, "fa-solid-900.ttf"), "Font Awesome 6 Brands": (400, "fa-brands-400.ttf")}
ICON_RULE = re.compile(r'\.fa-[\w-]+:before\{content:"(.)"\}')
FACE = '@font-face{{font-family:"{}";font-weight:{};font-display:block;src:url(data:font/woff2;base64,{})}}\n'
LEFT_OUT = ("_static/**/*.map", "_static/scripts/fontawesome*", "_static/*.html")  # of what the theme brings


# As Pygments writes them: names, names of modules, punctuation, spaces.
UNCOLOURED = re.compile(r'<span class="(?:nn?|p|w)">([^<]*)</span>')
NEIGHBOURS = re.compile(r'<span class="(\w+)">([^<]*)</span><span class="\1">')


NARROW = re.compile(r"<(table|h[1-4])\b.*?</\1>", flags=re.S)
NAME = re.compile(r'(?<=<span class="pre">)[^<]*')
LONG = 24  # characters: what a line of the narrowest phone holds, in a list too
OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")


def plain_code(app, pagename, templatename, context, doctree):
    context["default_mode"] = "light"  # where no script says otherwise; "auto" would leave the page without colours
    if "body" in context:
        context["body"] = with_breaks(with_fewer_tags(context["body"]))


def with_breaks(body: str) -> str:
    """Where names in code may break, and where they may not."""
    texts, end = [], 0
    for part in NARROW.finditer(body):
        texts += [NAME.sub(in_text, body[end : part.start()]), NAME.sub(breaking, part[0])]
        end = part.end()
    return "".join([*texts, NAME.sub(in_text, body[end:])])


def in_text(name: re.Match) -> str:
    """Browsers break after a hyphen and before a bracket: not in what fits on any line."""
    if len(html.unescape(name[0])) > LONG:
        return breaking(name)
    return f'<span class="unbroken">{name[0]}</span>' if re.search(r"[-[]", name[0]) else name[0]


def breaking(name: re.Match) -> str:
    parts = re.sub(r"(?<=\w)([._/])(?=\w)", r"\1<wbr>", name[0])
    return OPTION.sub(r'<span class="unbroken">\g<0></span>', parts)


def with_fewer_tags(body: str) -> str:
    """Code looks the same in both themes: what is put into a string, `si`, has the colour of the string, `s2`."""
    body, merged = UNCOLOURED.sub(r"\1", body).replace('<span class="si">', '<span class="s2">'), -1
    while merged:
        body, merged = NEIGHBOURS.subn(r'<span class="\1">\2', body)
    return body


def scripts_later(app, pagename, templatename, context, doctree):
    """Scripts of the theme wait until the text is read; what they set at once is for parts that this book leaves out.

    The search page keeps its order: its scripts call each other while it is read.
    """
    if pagename != "search":
        tag = context["js_tag"]
        context["script_files"] = [script for script in context["script_files"] if script.filename]
        context["js_tag"] = lambda script: tag(script).replace("<script src=", "<script defer src=")


def math_font() -> bytes:
    data = Path(importlib.util.find_spec(MATH_FONT[0]).origin).parent.joinpath(MATH_FONT[1]).read_bytes()
    if hashlib.sha256(data).hexdigest() != MATH_FONT_SHA256:
        raise ExtensionError(f"{MATH_FONT} is not the font that this book was made with")
    return data


def narrow_tall_roots(face: TTFont) -> None:
    """Make tall root signs as wide as the small one: Chromium leaves room for the widest after every root."""
    variants, widths = face["MATH"].table.MathVariants, face["hmtx"]
    root = face.getBestCmap().get(ord("√"))
    if root in variants.VertGlyphCoverage.glyphs:
        signs = variants.VertGlyphConstruction[variants.VertGlyphCoverage.glyphs.index(root)]
        tall = [record.VariantGlyph for record in signs.MathGlyphVariantRecord]
        for name in tall + [part.glyph for part in signs.GlyphAssembly.PartRecords]:
            glyph, width = face["glyf"][name], widths[root][0]
            glyph.coordinates.scale((width / widths[name][0], 1))
            glyph.coordinates.toInt()
            glyph.recalcBounds(face["glyf"])
            widths[name] = (width, glyph.xMin)


def cut(font: bytes, characters: set[int], features=()) -> str:
    """The font with these characters alone, as base64 of WOFF2."""
    options = subset.Options(flavor="woff2", hinting=False, layout_features=list(features), name_IDs=[0, 1, 2, 13, 14])
    face = TTFont(io.BytesIO(font), recalcTimestamp=False)
    if "MATH" in face:
        narrow_tall_roots(face)
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=characters)
    cutter.subset(face)
    face.flavor = "woff2"
    out = io.BytesIO()
    face.save(out)
    return base64.b64encode(out.getvalue()).decode()


def formula_characters(pages: list[str]) -> set[int]:
    formulas = "".join(found for page in pages for found in re.findall(r"<math.*?</math>", page, flags=re.S))
    used = set(map(ord, html.unescape(re.sub(r"<[^>]*>", "", formulas)) + "√"))  # no text says √: msqrt draws it
    # A browser sets a lone letter in mathematical italic: those are the characters that it looks for.
    for letter in re.findall(r"<mi>(\w)</mi>", formulas):
        name = unicodedata.name(letter).replace("LATIN ", "").replace("GREEK ", "").replace("LETTER ", "")
        try:
            used.add(ord(unicodedata.lookup(f"MATHEMATICAL ITALIC {name}")))
        except KeyError:
            used.add(0x210E)  # italic h has a place of its own: ℎ
    return used


def write_fonts(app, exception):
    if exception or app.builder.format != "html":
        return
    out = Path(app.outdir)
    for left_over in {path for pattern in LEFT_OUT for path in out.glob(pattern)}:
        left_over.unlink()
    for folder in ("vendor", "locales"):
        shutil.rmtree(out / "_static" / folder, ignore_errors=True)
    pages = [path.read_text(encoding="utf8") for path in sorted(out.rglob("*.html"))]
    css = (THEME / "styles/pydata-sphinx-theme.css").read_text(encoding="utf8")
    theme = out / "_static/styles/pydata-sphinx-theme.css"
    theme.write_text(re.sub(r"@font-face\{[^}]*\}", "", css), encoding="utf8")
    (out / "_static/fonts.css").unlink(missing_ok=True)
    prune_styles(out, pages)
    icons = {ord(icon) for icon in ICON_RULE.findall(theme.read_text(encoding="utf8"))}
    fonts = FACE.format("STIX Two Math", "normal", cut(math_font(), formula_characters(pages), ["ssty"]))
    for family, (weight, file) in ICON_FONTS.items():
        font = (THEME / "vendor/fontawesome/webfonts" / file).read_bytes()
        if shown := icons & TTFont(io.BytesIO(font)).getBestCmap().keys():  # browsers refuse a font without a glyph
            fonts += FACE.format(family, weight, cut(font, shown))
    (out / "_static/fonts.css").write_text(fonts, encoding="utf8")


def setup(app):
    app.add_config_value("comments_config", {}, "")  # set by Jupyter Book for an extension that is not loaded here
    app.connect("html-page-context", plain_code)
    app.connect("html-page-context", scripts_later, priority=900)  # after all that add some
    app.connect("build-finished", write_fonts, priority=900)  # after all that write styles
    return {"parallel_read_safe": True, "parallel_write_safe": True}
