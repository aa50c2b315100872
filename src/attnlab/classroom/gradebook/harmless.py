r"""Markdown from outside that reads as it was written and does nothing.

nbgrader shows a notebook's Markdown as nbconvert renders it, in a page of the teacher's own Jupyter: HTML and scripts
run there in the teacher's name, and a link needs one click.  Any link: formgrader runs the nbgrader_config.py of the
folder that its address `formgrader/?path=…` names.  MathJax then typesets the page, and `\href` is a link too.

Nothing that can be seen is taken out: an invisible character parts what would be live.
"""

from __future__ import annotations

import re
from collections.abc import Container

BREAK = "\u200b"  # takes no room and shows nothing: "<", BREAK, "script" is read as it was written, and is no tag

# What formulas are written with.  Every other command is taken apart: beside \href, MathJax has a dozen that write an
# address, a style, a class or an id into the page (\mmlToken, \bbox, \fcolorbox, …), loads more (\require), and mhchem
# makes new ones of pieces: \ce{\hr$ef{…}{…}$} is \href.
LETTERS = """
alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa varkappa lambda mu nu xi omicron pi varpi
rho varrho sigma varsigma tau upsilon phi varphi chi psi omega digamma Gamma Delta Theta Lambda Xi Pi Sigma Upsilon
Phi Psi Omega aleph beth ell hbar hslash imath jmath Re Im wp partial nabla infty emptyset varnothing forall exists
nexists top bot angle triangle prime backprime dagger ddagger star ast bullet circ diamond square blacksquare
checkmark dots ldots cdots vdots ddots dotsb dotsc dotsi dotsm dotso S P
"""
RELATIONS = """
le leq leqslant leqq ge geq geqslant geqq ne neq lt gt ll gg lll ggg equiv approx approxeq sim simeq cong doteq propto
asymp prec preceq succ succeq in notin ni subset subseteq subsetneq supset supseteq supsetneq sqsubseteq sqsupseteq
mid nmid parallel nparallel perp models vdash dashv vDash therefore because triangleq to gets mapsto longmapsto
leftarrow rightarrow leftrightarrow longleftarrow longrightarrow longleftrightarrow Leftarrow Rightarrow
Leftrightarrow Longleftarrow Longrightarrow Longleftrightarrow uparrow downarrow updownarrow Uparrow Downarrow
Updownarrow nearrow searrow nwarrow swarrow hookrightarrow hookleftarrow rightharpoonup rightharpoondown leftharpoonup
leftharpoondown rightleftharpoons rightsquigarrow leadsto implies impliedby iff xrightarrow xleftarrow
"""
OPERATORS = """
pm mp times div cdot cdotp oplus ominus otimes oslash odot cup cap uplus sqcup sqcap setminus smallsetminus land lor
lnot neg wedge vee wr amalg ltimes rtimes bowtie sum prod coprod int iint iiint oint bigcup bigcap biguplus bigsqcup
bigvee bigwedge bigoplus bigotimes bigodot lim limsup liminf max min sup inf arg argmax argmin exp log ln lg sin cos
tan cot sec csc sinh cosh tanh coth arcsin arccos arctan det dim ker gcd deg hom Pr mod bmod pmod pod operatorname
limits nolimits
"""
LAYOUT = """
frac dfrac tfrac cfrac binom dbinom tbinom choose over atop sqrt root left right middle big Big bigg Bigg bigl bigr
bigm Bigl Bigr Bigm biggl biggr biggm Biggl Biggr Biggm lfloor rfloor lceil rceil langle rangle lvert rvert lVert
rVert vert Vert lbrace rbrace lbrack rbrack backslash colon begin end hline hat widehat tilde widetilde bar vec dot
ddot dddot check breve acute grave mathring overline underline overbrace underbrace overset underset stackrel substack
overrightarrow overleftarrow overleftrightarrow not phantom hphantom vphantom boxed tag notag nonumber label ref eqref
quad qquad thinspace enspace space displaystyle textstyle scriptstyle scriptscriptstyle tiny small normalsize large
Large color textcolor mathbf mathrm mathbb mathcal mathsf mathit mathtt mathfrak mathscr boldsymbol bf rm it cal sf tt
text textbf textit textrm textsf texttt textnormal mbox mathop mathbin mathrel mathord mathopen mathclose
"""
COMMANDS = frozenset(f"{LETTERS}{RELATIONS}{OPERATORS}{LAYOUT}".split())

CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")  # a reader that drops one joins what stands around it
LIVE = re.compile(  # what each finds is live with what it sees ahead: the break comes between
    "|".join(
        (
            r"(?P<picture>(?<!\\)!\[[^][`\\$<>{}|&/\n]*\]\(attachment:(?P<attached>[A-Za-z0-9_.-]+)\))",
            r"\](?=[(:])",  # links, pictures from elsewhere, and the definitions of both
            r"<(?=[A-Za-z/!?]|[^\s<>@]+@)",  # tags, comments, <an:address>, <name@host>
            r":(?=//)",  # an address is a link by itself
            r"&(?=#|[A-Za-z][A-Za-z0-9]*;)",  # entities: &#36; is a dollar, and what follows would be a formula
            r"\\(?P<command>[A-Za-z]+)",
            # A heading gets an id from its words, and formgrader finds the field for a cell's points by such an id.
            r"^[ \t>*+\-.:)\d]*#{1,6}(?!#)[ \t]*",
            r"(?<=[^\n]\n)[ \t>]*(?=[=-]+[ \t]*$)",  # the line below makes the line above a heading
            r"[`~]\s*(?=mermaid)",  # a drawing, whose text nbconvert writes into the page as it is
        )
    ),
    re.MULTILINE,
)


def harmless(markdown: str, pictures: Container[str] = ()) -> str:
    """Markdown that reads as before, without links, HTML, and commands of MathJax that formulas do not need.

    `pictures` are the names of those attached to the cell: they are shown.  For others nbconvert refuses the notebook.
    """
    text = CONTROL.sub("", markdown.replace("\r\n", "\n").replace("\r", "\n"))
    return LIVE.sub(lambda found: _parted(found, pictures), text)


def _parted(found: re.Match, pictures: Container[str]) -> str:
    if found["picture"]:
        return found[0] if found["attached"] in pictures else found[0].replace("](", f"]{BREAK}(")
    if name := found["command"]:
        return found[0] if name in COMMANDS else f"\\{BREAK}{name}"
    return found[0] + BREAK
