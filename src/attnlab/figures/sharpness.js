// <attn-sharpness temperature="1" delta="0.7071" copies="1" masked>: what changes a mixture without touching the query.

function compute({ temperature, delta, copies, masked }) {
  const scores = [...Array(copies).fill(delta / temperature), masked ? -Infinity : 0]; // only s₁ − s₂ counts: s₂ = 0
  const weights = softmax(scores);
  const logit = masked ? Infinity : delta / temperature + Math.log(copies);
  return { scores, weights, logit, total: sigma(logit) };
}
const sigma = (x) => 1 / (1 + Math.exp(-x));

const MOST = 10, EDGE = 8, curve = new Plot(-13, EDGE, -0.34, 1); // weights stand left of −EDGE, the pieces below zero
const start = { temperature: 1, delta: Math.SQRT1_2, copies: 1, masked: false };
const real = (x) => Math.abs(x) === Infinity ? '∞' : fixed(x, Math.abs(x) < 10 ? 3 : 2);
const share = (x, digits, scale, exact) => { // 1 and 0 only for a mask: a rounded weight says on which side it lies
  const unit = 10 ** -digits;
  if (exact && (x === 0 || x === 1)) return `${x * scale}`;
  if (x * scale < unit / 2) return `< ${unit.toFixed(digits)}`;
  return (1 - x) * scale < unit / 2 ? `> ${fixed(scale - unit, digits)}` : fixed(x * scale, digits);
};

class Sharpness extends Figure {
  static title = 'Sharp or even weights';
  static first = 'Move T or Δ, add copies, or mask key 2.';
  static controls = {
    temperature: { value: 1, min: -1, max: 1, step: 0.05, log: true, label: 'temperature T' },
    delta: { value: Math.SQRT1_2, min: -4, max: 4, step: 0.05, label: 'Δ = s₁ − s₂' },
    copies: { value: 1, min: 1, max: MOST, step: 1, label: 'copies n of key 1' },
    masked: { value: false, label: 'mask key 2' },
  };
  static presets = { start, 'T = 0.1': { ...start, temperature: 0.1 }, 'T = 10': { ...start, temperature: 10 },
    'n = 3': { ...start, copies: 3 }, 'n = 10': { ...start, copies: MOST } };
  static compute = compute;

  body(controls) {
    const xs = Array.from({ length: 81 }, (_, i) => (i - 40) / 5);
    const piece = (name, y, html) => `<span class="mark name" style="top:${curve.top(y)}">${html} =
      <b data-t="${name}"></b></span><div class="piece" ref="${name}" style="top:${curve.top(y)}"></div>`;
    return `<style>${PLOT_CSS}
      .chart{display:grid;grid-template-columns:7rem 1fr;gap:0 1.5rem;align-items:center}.plot{height:17rem}
      .read{display:grid;gap:1rem}.read i{display:inline-block;width:.8rem;height:.8rem;
      margin-right:.4rem;border-radius:2px;vertical-align:-.06rem}
      .stack{position:absolute;left:0;width:11%;top:0;height:${curve.top(0)};display:flex;flex-direction:column-reverse}
      .stack div{flex:none;box-sizing:border-box;border-top:1px solid var(--bg)}.xl{left:${curve.left(-EDGE)}}
      .axis{stroke:var(--dim);stroke-width:1px}.s{stroke-width:2.5px}
      .point{width:1rem;height:1rem;border-radius:50%;background:var(--k1);box-shadow:0 0 0 2px var(--bg)}
      .limit{width:.5rem;height:.5rem;border-radius:50%;border:2px solid var(--dim);background:var(--bg)}
      .tag{transform:translate(calc(-100% - .4rem),calc(-100% - .4rem))}
      .name{left:-1.25rem;transform:translate(0,-50%);font-size:.75rem}
      .piece{position:absolute;height:0;border-top:2px solid var(--ink);margin-top:-1px}
      .piece[ref=logn]{border-top-style:dashed}
      .piece::after{content:"";position:absolute;right:-1px;top:-6px;border:5px solid transparent;
      border-left:8px solid var(--ink);border-right:0}
      .left::after{right:auto;left:-1px;border-left:0;border-right:8px solid var(--ink)}.nil{visibility:hidden}.far{display:block}
      @container(max-width:36rem){.chart{grid-template-columns:1fr}.read{grid-template-columns:repeat(3,auto);gap:.5rem;
      justify-content:space-between}.plot{height:15rem}.far{min-height:2.9em}.formula{font-size:.8125rem}}
      @container(max-width:23rem){.formula p:last-child{min-height:2.9em}}
      @container(max-width:20rem){.slider{font-size:.8125rem}}</style>
    <div class="chart"><div class="read">
    <div><p class="h"><i class="f1"></i>each copy</p><b class="c1" data-t="each"></b></div>
    <div><p class="h"><i class="f1"></i>× <span data-t="copies"></span> = key 1</p><b class="c1" data-t="all"></b></div>
    <div><p class="h"><i class="f2"></i>key 2</p><b class="c2" data-t="other"></b></div></div>
    ${curve.html({
      label: 'The weights as a stack, and the logistic curve that gives the total weight of key 1', x: 'Δ/T + ln n',
      y: 'total weight of key 1', xTicks: [-8, -4, 0, 4, 8], yTicks: [0, 0.5, 1],
      shapes: `<path class="axis" d="M${-EDGE} 0H${EDGE}"/>
        <path class="s" d="M${xs.map((x) => `${x} ${sigma(x)}`).join('L')}"/>
        <path class="dash" ref="guide"/>`,
      marks: `<div class="stack" ref="stack">${'<div class="f1"></div>'.repeat(MOST)}<div class="f2"></div></div>
        ${piece('ratio', -0.11, 'Δ/T')}${piece('logn', -0.24, 'ln n')}<span class="mark limit" ref="limit"></span>
        <span class="mark point" ref="point"></span>
        <span class="mark tag halo c1" ref="tag"><b data-t="tag"></b></span>`,
    })}</div>${controls}
    <div class="formula"><p><span>total weight of key 1</span>
    <span>= n·e<sup>Δ/T</sup> / (n·e<sup>Δ/T</sup> + <span data-t="s2"></span>)</span>
    </p><p><span>= σ(Δ/T + ln n)</span> <span>= σ(<span data-t="ratio"></span> + <span data-t="logn"></span>)</span>
    <span>= <b class="c1" data-t="total"></b></span></p></div>
    <p class="caption">Nothing here touches the query. T divides the score difference Δ. Copies of key 1 add ln n, which
    T does not divide. A mask adds −∞ to the score of key 2. <span class="far">As <span class="nw">T → 0</span> the maximum
    becomes hard: <span data-t="hard"></span>.</span> <span class="far">As <span class="nw">T → ∞</span> the weights become
    uniform: key 1 has <span data-t="even" class="nw"></span> (the ring).</span></p>`;
  }

  draw({ temperature, delta, copies: n, masked }, { weights, logit, total }) {
    const { ref } = this, other = weights[n], ratio = masked ? Infinity : delta / temperature, logn = Math.log(n);
    const even = masked ? 1 : n / (n + 1), at = clamp(logit, -EDGE, EDGE);
    const inPercent = (x) => `${share(x, 1, 100, masked)} %`;
    const tag = share(total, 5, 1, masked);
    this.text({
      temperature: temperature.toPrecision(3), delta: fixed(delta, 3), copies: `${n}`,
      each: inPercent(weights[0]), all: inPercent(total), other: inPercent(other) + (masked ? ' exactly' : ''),
      ratio: real(ratio), logn: real(logn), total: tag, s2: masked ? '0' : '1',
      tag: logit > EDGE ? `${tag} →` : logit < -EDGE ? `← ${tag}` : tag,
      even: masked ? 'all of it' : `n/(n + 1) = ${fixed(even, 3)}`,
      hard: masked ? 'the only key left has all the weight' : delta === 0 ? 'equal scores stay equal'
        : `key ${delta > 0 ? 1 : 2}, with the larger score, takes all`,
    });
    [...ref.stack.children].forEach((el, i) => {
      const w = i === MOST ? other : i < n ? weights[i] : 0;
      el.style.height = `${100 * w}%`;
      el.style.display = w ? '' : 'none';
    });
    const place = (el, x, y) => { el.style.left = curve.left(x); el.style.top = curve.top(y); };
    place(ref.point, at, total);
    place(ref.tag, Math.max(at + 0.3, -4), total);
    place(ref.limit, masked ? EDGE : logn, even);
    ref.guide.setAttribute('d', `M-10.7 ${total}H${at}V-0.24`);
    const span = (el, from, to) => {
      const [a, b] = [from, to].map((x) => clamp(x, -EDGE, EDGE));
      el.style.left = curve.left(Math.min(a, b));
      el.style.width = `${(100 * Math.abs(b - a)) / (EDGE + 13)}%`;
      el.classList.toggle('left', to < from);
      el.classList.toggle('nil', a === b);
    };
    span(ref.ratio, 0, ratio);
    span(ref.logn, ratio, ratio + logn);
    return `Total weight of key 1 ${inPercent(total)}, key 2 ${inPercent(other)}`;
  }
}

customElements.define('attn-sharpness', Sharpness);
