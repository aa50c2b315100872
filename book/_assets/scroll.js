// What scrolls sideways in its own box (a wide formula, a long line) can be reached by keyboard; what fits is passed over.
(() => {
  const boxes = document.querySelectorAll(".bd-article :is(div.formula, .cell_output, .pst-scrollable-table-container, div.highlight pre)");
  const mark = () => {
    for (const box of boxes) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  };
  addEventListener("load", mark);
  addEventListener("resize", mark);
})();
