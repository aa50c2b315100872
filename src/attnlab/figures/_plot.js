// What the figures share that plot: named in PLOTTED of attnlab.figures.

// A plot is an SVG whose user space is the data, y upwards, stretched over its box.  Letters and handles lie on top as
// HTML, placed in percent: they keep their size at every width.
class Plot {
  constructor(x0, x1, y0, y1) { Object.assign(this, { x0, x1, y0, y1 }); }
  left(x) { return `${(100 * (x - this.x0)) / (this.x1 - this.x0)}%`; }
  top(y) { return `${(100 * (this.y1 - y)) / (this.y1 - this.y0)}%`; }
  mark(x, y, html, kind = '') {
    return `<span class="mark ${kind}" style="left:${this.left(x)};top:${this.top(y)}">${html}</span>`;
  }
  html({ label, x, y, xTicks, yTicks, shapes, marks = '' }) {
    const grid = xTicks.map((t) => `M${t} ${this.y0}V${this.y1}`) + yTicks.map((t) => `M${this.x0} ${t}H${this.x1}`);
    return `<div class="plot"><div role="img" aria-label="${label}"><svg preserveAspectRatio="none"
      viewBox="${this.x0} ${-this.y1} ${this.x1 - this.x0} ${this.y1 - this.y0}"><g transform="scale(1 -1)">
      <path class="grid" d="${grid.replaceAll(',', '')}"/>${shapes}</g></svg>
      ${xTicks.map((t) => this.mark(t, this.y0, fixed(t, 0), 'xt')).join('')}
      ${yTicks.map((t) => this.mark(this.x0, t, fixed(t, t % 1 && 1), 'yt')).join('')}
      <span class="xl">${x}</span><span class="yl">${y}</span></div>${marks}</div>`;
  }
}

const PLOT_CSS = `.plot{position:relative;margin:1.5rem 0 2.1rem 1.25rem}
.plot svg{position:absolute;inset:0;width:100%;height:100%;overflow:visible}
.plot [role=img]{position:absolute;inset:0}
.grid{stroke:var(--line);stroke-width:1px}
.xt,.yt,.xl,.yl{font-size:.6875rem;line-height:1;color:var(--dim);white-space:nowrap}
.xt{transform:translate(-50%,.35rem)}.yt{transform:translate(calc(-100% - .35rem),-50%)}
.xl,.yl{position:absolute;left:0}.xl{right:0;top:calc(100% + 1.2rem);text-align:center}.yl{bottom:calc(100% + .4rem)}
.halo{text-shadow:0 0 2px var(--bg),0 0 2px var(--bg),0 0 3px var(--bg),0 0 4px var(--bg)}`;

