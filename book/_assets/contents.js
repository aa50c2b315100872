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
})();
