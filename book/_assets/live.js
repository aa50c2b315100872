// Figures and self-tests start when they come near the view: until then a page shows their still form, and its text
// never waits for them. live_figures.py writes on each element where its script lies; each is asked for once.
(() => {
  const hosts = [...document.querySelectorAll("[data-script]")];
  const asked = new Set();

  const start = (host) => {
    const address = host.dataset.script;
    if (asked.has(address)) return;
    asked.add(address);
    const script = document.createElement("script");
    script.src = address;
    script.onload = () => hosts.filter((other) => other.dataset.script === address).forEach(started);
    script.onerror = () => asked.delete(address); // the still form stays
    document.head.append(script);
  };
  const started = (host) => {
    const focused = host.contains(document.activeElement);
    host.removeAttribute("tabindex");
    if (focused) host.shadowRoot?.querySelector("input, button, [tabindex='0']")?.focus();
  };

  for (const host of hosts) {
    host.tabIndex = 0; // or Tab would pass by what has no controls yet
    host.addEventListener("focusin", () => start(host));
  }
  addEventListener("beforeprint", () => hosts.forEach(start));
  if (!window.IntersectionObserver) return hosts.forEach(start);
  const observer = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) if (isIntersecting) { observer.unobserve(target); start(target); }
  }, { rootMargin: "800px 0px" });
  hosts.forEach((host) => observer.observe(host));
})();
