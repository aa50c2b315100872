// <attn-saturation power="6" draw="7">: one query and sixteen keys of d = 2^power coordinates, unscaled beside scaled.

const KEYS = 16, DRAWS = 64, MOST = 10;

// Coordinate c of the query (j = 0) or of key j.  Its place in the draw is hashed (the finalizer of MurmurHash3, Austin
// Appleby) and spread evenly over ±√3, so that the mean is 0, the variance 1, and a larger d adds to the same vectors.
function coordinate(draw, c, j) {
  let h = (draw * 1024 + c) * (KEYS + 1) + j;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (((h ^ (h >>> 16)) >>> 0) / 2 ** 32 + 2 ** -33 - 0.5) * Math.sqrt(12);
}

const kept = [];
function scoresOf(power) { // of every draw; kept, and continued where d doubles
  return kept[power] ??= Array.from({ length: DRAWS }, (_, n) => {
    const sums = power ? [...scoresOf(power - 1)[n]] : Array(KEYS).fill(0);
    for (let c = power && 2 ** (power - 1); c < 2 ** power; c++) {
      const q = coordinate(n + 1, c, 0);
      for (let j = 0; j < KEYS; j++) sums[j] += q * coordinate(n + 1, c, j + 1);
    }
    return sums;
  });
}

function measure(scores, all) {
  const weights = softmax(scores), sum = (f) => weights.reduce((s, w, i) => s + f(w, i), 0);
  const largest = all.map((s) => Math.max(...softmax(s))); // of every draw
  return {
    weights, all: largest, largest: Math.max(...weights), mean: largest.reduce((a, b) => a + b) / DRAWS,
    entropy: sum((w) => (w ? -w * Math.log(w) : 0)),
    jacobian: Math.sqrt(sum((a, i) => sum((b, j) => (a * ((i === j) - b)) ** 2))), // of diag α − ααᵀ
  };
}

function compute({ power, draw }) {
  const d = 2 ** power, all = scoresOf(power), scores = all[draw - 1];
  const divided = (s) => s.map((x) => x / Math.sqrt(d)), mean = scores.reduce((a, b) => a + b) / KEYS;
  const deviation = Math.sqrt(scores.reduce((s, x) => s + (x - mean) ** 2, 0) / KEYS);
  return { d, scores, deviation, unscaled: measure(scores, all), scaled: measure(divided(scores), all.map(divided)) };
}

const plot = new Plot(0.5, 20.5, 0, 1), FROM = 17.2, TO = 20.2; // keys 1 to 16, then a tick for each draw
const part = (x) => (1 - x < 5e-4 ? '> 0.999' : fixed(x, 3)); // a rounded weight never claims to be all
const small = (x) => (x < 5e-4 ? '< 0.001' : fixed(x, 3));
const KINDS = ['unscaled', 'scaled'], NAMES = ['q·k', 'q·k/√d'];

class Saturation extends Figure {
  static title = 'Why scores are divided by √d';
  static first = 'Raise d, compare the bars.';
  static controls = {
    power: { value: 6, min: 0, max: MOST, step: 1, label: 'dimension d' },
    draw: { value: 7, min: 1, max: DRAWS, step: 1, label: 'draw' }, // 7: close to the means of all
  };
  static presets = {}; // the slider itself stops at every power of two
  static compute = compute;

  body(controls) {
    const bars = (kind, i) => plot.html({
      label: kind,
      x: i ? `<i>key</i><i>ticks: all ${DRAWS} draws</i>` : '', xTicks: i ? [1, 4, 8, 12, 16] : [],
      y: `${kind}: softmax(${NAMES[i]})`, yTicks: [0, 0.5, 1],
      shapes: `<path class="all" ref="all${i}"/><path class="c${2 - i} now" ref="now${i}"/>`,
      marks: `<div class="bars" ref="bars${i}">${`<div class="f${2 - i}"></div>`.repeat(KEYS)}</div>
        <span class="yl mean">largest, mean <span data-t="mean${i}"></span></span>`,
    });
    const row = (name, id) => `<tr><th scope="row">${name}</th><td class="c2" data-t="${id}0"></td>
      <td class="c1" data-t="${id}1"></td></tr>`;
    return `<style>${PLOT_CSS}
      .chart{display:grid;grid-template-columns:1fr 17.5rem;gap:0 1.5rem;align-items:center}.plot{height:7rem}
      .plot:first-child{margin-bottom:2.25rem}.bars{position:absolute;inset:0 20% 0 0;display:flex;
      align-items:flex-end}.bars div{flex:1;margin:0 1px}
      .all{opacity:.4;stroke-width:1px}.now{stroke-width:4px}.mean{left:auto;right:0;color:var(--ink)}
      .xl{display:flex;justify-content:space-between;padding-left:38%}i{font-style:normal}
      table{width:100%;border-collapse:collapse}th{font-weight:400;text-align:left}
      th,td{padding:.15rem 0 .15rem .5rem;border-bottom:1px solid var(--line)}th:first-child{padding-left:0}
      td,thead th{text-align:right;white-space:nowrap}td,thead th{font-weight:600}
      thead i{display:inline-block;width:.8rem;height:.8rem;margin-right:.3rem;border-radius:2px;vertical-align:-.06rem}
      @container(max-width:36rem){.chart{grid-template-columns:1fr}.plot{height:4.375rem}
      .plot:first-child{margin-top:1rem}.formula{margin-top:.25rem}th,td{padding-block:0}
      .sliders{gap:1rem}.slider{flex-basis:7rem}}</style>
    <div class="chart"><div>${KINDS.map(bars).join('')}</div>
    <table><thead><tr><td></td>${NAMES.map((name, i) =>
      `<th scope="col"><i class="f${2 - i}"></i>${name}</th>`).join('')}</tr></thead>
    <tbody>${row('measured deviation', 's') + row('largest weight', 'l') + row('entropy H, nats', 'h')
      + row('e<sup>H</sup> of 16 keys', 'e') + row('Jacobian norm ‖J‖', 'j')}</tbody></table></div>${controls}
    <div class="formula"><p><span>expected:</span>
    <span>√Var(q·k) = √d = <b data-t="root"></b>,</span> <span>scaled 1</span></p></div>
    <p class="caption">Coordinates: pseudo-random, uniform on ±√3 (mean 0, variance 1); a larger d adds to the same
    vectors. Unscaled, as d grows, one key takes nearly all in most draws, and <span class="nw">J = diag α − ααᵀ,</span>
    the Jacobian of softmax, nears 0: weights stop answering to scores. Dividing by √d keeps the order of the keys and
    undoes the effect of d, as long as coordinates are independent.</p>`;
  }

  draw({ draw }, { d, deviation, ...result }) {
    const { ref } = this, root = Math.sqrt(d);
    const texts = { power: `${d}`, draw: `${draw} of ${DRAWS}`, root: fixed(root, 2) };
    const [u, s] = KINDS.map((kind, i) => {
      const { weights, all, largest, mean, entropy, jacobian } = result[kind];
      Object.assign(texts, {
        [`s${i}`]: fixed(i ? deviation / root : deviation, 2), [`l${i}`]: part(largest), [`h${i}`]: small(entropy),
        [`e${i}`]: fixed(Math.exp(entropy), 2), [`j${i}`]: small(jacobian), [`mean${i}`]: part(mean),
      });
      ref[`bars${i}`].previousElementSibling.ariaLabel = `Bars: the ${kind} weights of one query over 16 keys, ${
        weights.map((w) => (w < 0.5 ? small : part)(w)).join(', ')}; ticks: the largest weight in each of ${DRAWS} draws`;
      weights.forEach((w, k) => { ref[`bars${i}`].children[k].style.height = `${100 * w}%`; });
      ref[`all${i}`].setAttribute('d', all.map((w) => `M${FROM} ${w}H${TO}`).join(''));
      ref[`now${i}`].setAttribute('d', `M${FROM - 0.5} ${largest}H${TO + 0.3}`);
      return `largest weight ${part(largest)}, Jacobian norm ${small(jacobian)}`;
    });
    this.text(texts);
    return `Unscaled: ${u}. Scaled: ${s}`;
  }
}

customElements.define('attn-saturation', Saturation);
