// Paper is light, and has nothing to click: print in the light theme, with every folded part open.
(() => {
  const html = document.documentElement;
  let restore = () => {};
  addEventListener("beforeprint", () => {
    const theme = html.dataset.theme;
    const folded = document.querySelectorAll(".bd-article details:not([open])");
    html.dataset.theme = "light";
    for (const part of folded) part.open = true;
    restore = () => {
      html.dataset.theme = theme;
      for (const part of folded) part.open = false;
    };
  });
  addEventListener("afterprint", () => restore());
})();
