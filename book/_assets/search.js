// Search: an extract is made of the article's text alone, and words are marked where a hit led, nowhere else.
// Sphinx hands the words over in storage, where the next page finds them, however it is reached: here the hit's address
// carries them. This script runs before sphinx_highlight.js, which then finds nothing to mark.
(() => {
  const KEY = "sphinx_highlight_terms";
  const FURNITURE = "svg, nav, header, button, annotation, .claim-tags, attn-selftest details > p"; // no reason before an answer
  const UNMARKED = "svg, math, script, style, button, select, textarea, [data-script]";
  const here = new URL(location.href);

  if (typeof Search !== "undefined") {
    const textOf = Search.htmlToText;
    Search.htmlToText = (html, anchor) => {
      const article = new DOMParser().parseFromString(html, "text/html").querySelector(".bd-article");
      for (const part of article?.querySelectorAll(FURNITURE) ?? []) part.remove();
      return textOf(`<div role="main">${article?.innerHTML ?? ""}</div>`, anchor).replace(/\s+/g, " ").trim();
    };
    new MutationObserver(() => {
      const words = localStorage.getItem(KEY);
      for (const hit of document.querySelectorAll("ul.search a:not([href*='?'])")) {
        const address = new URL(hit.getAttribute("href"), here);
        address.searchParams.set("highlight", words ?? "");
        hit.setAttribute("href", address.href);
      }
    }).observe(document.getElementById("search-results"), { childList: true, subtree: true });
    return;
  }

  const words = (here.searchParams.get("highlight") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  localStorage.removeItem(KEY);
  if (!here.searchParams.has("highlight")) return;
  here.searchParams.delete("highlight");
  history.replaceState(history.state, "", here);

  document.addEventListener("DOMContentLoaded", () => {
    const article = document.querySelector(".bd-article");
    const wanted = (node) => (node.nodeType === Node.ELEMENT_NODE && node.matches(UNMARKED)
      ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT);
    for (const word of words) {
      const walk = document.createTreeWalker(article, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT, wanted);
      const texts = [];
      while (walk.nextNode()) if (walk.currentNode.nodeType === Node.TEXT_NODE) texts.push(walk.currentNode);
      for (const text of texts) _highlight(text, [], word, "highlighted");
    }
    if (!article.querySelector(".highlighted")) return;
    const line = document.createElement("p");
    line.className = "highlight-link";
    line.innerHTML = '<button type="button">Hide search matches</button>';
    line.firstChild.onclick = SphinxHighlight.hideSearchWords;
    document.getElementById("searchbox")?.append(line);
  });
})();
