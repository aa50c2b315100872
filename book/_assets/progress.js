// Reading progress: which chapters were opened and which self-tests are right, remembered in this browser and nowhere else.
(() => {
  const KEY = "attention-measured.opened";
  const TESTS = "attention-measured.selftests"; // written by the self-tests: {question: {tried, right}}
  const meta = document.querySelector('meta[name="course-chapters"]');
  const chapters = meta ? meta.content.split(" ").filter(Boolean) : [];
  const root = new URL(document.documentElement.dataset.content_root || "./", location.href);
  const pageOf = (address) => {
    const url = new URL(address, location.href);
    return url.href.replace(/[?#].*$/, "").replace(root.href, "").replace(/\.html$/, "");
  };

  const read = () => {
    try {
      const stored = JSON.parse(localStorage.getItem(KEY) || "[]");
      return chapters.filter((chapter) => stored.includes(chapter));
    } catch { return []; }
  };
  const write = (opened) => {
    try { localStorage.setItem(KEY, JSON.stringify(opened)); } catch { /* then this browser remembers nothing */ }
  };
  const answered = () => {
    try { return Object.entries(JSON.parse(localStorage.getItem(TESTS) || "{}")); } catch { return []; }
  };
  const clear = () => {
    try { for (const key of [KEY, TESTS]) localStorage.removeItem(key); } catch { /* nothing was remembered */ }
    dispatchEvent(new StorageEvent("storage", { key: TESTS })); // the self-tests of this page forget, too
  };

  const show = (opened) => {
    const answers = answered();
    const right = new Set(answers.filter(([, answer]) => answer?.right === true).map(([question]) => question));
    for (const tick of document.querySelectorAll(".opened-tick")) tick.remove();
    for (const link of document.querySelectorAll(".bd-docs-nav a, .chapter-map a")) {
      if (!opened.includes(pageOf(link.href))) continue;
      const tick = document.createElement("span");
      tick.className = "opened-tick";
      tick.innerHTML = '<span aria-hidden="true">✓</span><span class="visually-hidden"> (opened)</span>';
      link.append(" ", tick);
    }
    for (const line of document.querySelectorAll("[data-reading-progress]")) {
      const status = line.querySelector("[role=status]");
      line.hidden = false;
      status.textContent =
        (opened.length ? `Opened so far: ${opened.length} of ${chapters.length}.` : "No chapter opened yet.")
        + (right.size ? ` Self-tests right: ${right.size}.` : "");
      const button = line.querySelector("button");
      button.hidden = opened.length + answers.length === 0;
      button.onclick = () => {
        clear();
        show(read());
        status.textContent = "Forgotten: chapters and self-tests.";
        status.focus(); // the button that was pressed is gone
      };
    }
    for (const line of document.querySelectorAll("[data-selftests]")) {
      const asked = line.dataset.selftests.split(" ");
      line.hidden = false;
      line.querySelector("[role=status]").textContent =
        `${asked.filter((question) => right.has(question)).length} of ${asked.length} self-tests of this chapter right.`;
    }
  };

  const here = pageOf(location.href);
  const opened = read();
  if (chapters.includes(here) && !opened.includes(here)) { opened.push(here); write(opened); }
  show(opened);
  document.addEventListener("attn-answer", () => show(read()));
  addEventListener("storage", () => show(read())); // another tab
})();
