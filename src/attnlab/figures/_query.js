// What the figures share in which a query is dragged over the plane of the keys: from −3 to 3, in tenths.

const Q1 = { value: 1, min: -3, max: 3, step: 0.1, label: 'query q₁' }, Q2 = { ...Q1, label: 'query q₂' };
const keyPlane = new Plot(-3.4, 3.4, -3.4, 3.4);
const axes = (...t) => ({ x: 'component 1', y: 'component 2', xTicks: t, yTicks: t });
const pair = (a, digits) => `[${a.map((x) => fixed(x, digits)).join(', ')}]`;
const place = (el, plot, x, y) => { el.style.left = plot.left(x); el.style.top = plot.top(y); };

const HANDLE = `<div class="handle" ref="handle" role="slider" tabindex="0" aria-label="tip of the query"
  aria-valuemin="-3" aria-valuemax="3"><span class="disk">q</span></div>`;
const HANDLE_CSS = `.handle{position:absolute;width:3rem;height:3rem;margin:-1.5rem;display:grid;place-items:center;
  border-radius:50%;cursor:grab;touch-action:none;user-select:none;-webkit-user-select:none}
  .handle:active{cursor:grabbing}.handle:focus-visible{outline:0}
  .handle:focus-visible .disk{outline:3px solid var(--k1);outline-offset:3px}.mark b{position:relative}`;

// The query is dragged by its handle, pushed by the arrow keys, and goes to where the plane is clicked.
class QueryFigure extends Figure {
  ready() {
    const { handle } = this.ref, plot = handle.parentElement;
    const to = (...q) => {
      const [q1, q2] = q.map((x) => clamp(Math.round(x * 10) / 10, -3, 3));
      return { q1, q2 };
    };
    const point = (e) => {
      const box = plot.getBoundingClientRect();
      return [(e.clientX - box.left) / box.width * 6.8 - 3.4, 3.4 - (e.clientY - box.top) / box.height * 6.8];
    };
    let grip; // where the finger sits beside the tip: the tip does not jump to it
    handle.addEventListener('pointerdown', (e) => {
      if (e.button) return;
      const [x, y] = point(e);
      grip = [x - this.state.q1, y - this.state.q2];
      handle.setPointerCapture(e.pointerId);
    });
    handle.addEventListener('pointermove', (e) => {
      if (!handle.hasPointerCapture(e.pointerId)) return;
      const [x, y] = point(e);
      this.change(to(x - grip[0], y - grip[1]));
    });
    handle.addEventListener('keydown', (e) => {
      const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1] }[e.key];
      if (step || /^(Home|End|Page)/.test(e.key)) e.preventDefault(); // a page must not run away under the figure
      if (!step) return;
      const size = e.shiftKey ? 0.5 : 0.1;
      this.change(to(this.state.q1 + size * step[0], this.state.q2 + size * step[1]));
    });
    plot.firstElementChild.addEventListener('click', (e) => this.glide(to(...point(e))));
  }
}
