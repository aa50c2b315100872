// "On this page" keeps in step with the reader, and on a phone it makes room for the heading that was chosen.
(() => {
  const list = document.getElementById("pst-page-toc-nav");
  const sheet = document.getElementById("pst-secondary-sidebar-modal");
  if (!list) return;

  // Not scrollIntoView, which would move the page as well.
  const follow = () => {
    const box = list.closest(".bd-sidebar-secondary"), current = list.querySelector("a[aria-current]");
    if (!box || !current) return;
    const frame = box.getBoundingClientRect(), entry = current.getBoundingClientRect(), air = 2 * entry.height;
    const above = Math.min(0, entry.top - air - frame.top), below = Math.max(0, entry.bottom + air - frame.bottom);
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (above || below) box.scrollBy({ top: above || below, behavior: calm ? "instant" : "smooth" });
  };
  new MutationObserver(follow).observe(list, { subtree: true, attributeFilter: ["aria-current"] });
  document.addEventListener("click", (event) => { if (event.target.closest(".secondary-toggle")) follow(); });

  sheet?.addEventListener("click", (event) => { if (event.target.closest("a[href^='#']")) sheet.close(); });

  // The theme marks a heading that it sees pass. Where a jump ended between two headings, or the reader went up, it sees
  // none: so when the page has come to rest, the last heading above the place that is read.
  const links = [...list.querySelectorAll("a[href^='#']")];
  const headings = links.map((link) => document.getElementById(decodeURIComponent(link.hash.slice(1))));
  const mark = () => {
    const end = scrollY + innerHeight >= document.documentElement.scrollHeight - 2;
    const aim = document.querySelector(":target")?.getBoundingClientRect().top;
    const place = aim >= 0 && aim < (end ? innerHeight : 0.3 * innerHeight) ? aim + 1 : 0.3 * innerHeight;
    const current = links.findLast((_, i) => headings[i]?.getBoundingClientRect().top <= place);
    for (const link of links) {
      link.classList.toggle("active", link === current);
      if (link !== current) link.removeAttribute("aria-current");
      else if (!link.hasAttribute("aria-current")) link.setAttribute("aria-current", "true");
    }
    for (const entry of list.querySelectorAll(".toc-entry")) entry.classList.toggle("active", entry.contains(current ?? null));
  };
  let waiting;
  const later = () => { clearTimeout(waiting); waiting = setTimeout(mark, 150); };
  for (const change of ["scroll", "hashchange", "load", "resize"]) addEventListener(change, later, { passive: true });
})();
