// <attn-null-space values="different" data-weights="0.2 0.6 0.2">: three weights in a triangle, and the line on which
// the output stays.

const SETS = { different: [1, 2, 4], 'two equal': [1, 4, 4], 'all equal': [3, 3, 3], sink: [-2, 0, 2] };
const KEYS = [0, 1, 2];
const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
const mix = (t, a, b) => a.map((x, i) => (1 - t) * x + t * b[i]);
const corner = (j) => KEYS.map((i) => +(i === j));
const divergence = (p, q) => { // Jensen–Shannon, in nats
  const part = (x, y) => (x > 0 ? x * Math.log((2 * x) / (x + y)) : 0);
  return KEYS.reduce((sum, i) => sum + part(p[i], q[i]) + part(q[i], p[i]), 0) / 2;
};

// The corners of the set of all weights with one output: on the edges of the triangle, so none has three keys.
// Values never fall from key to key, which keeps the two ends apart as the line moves across.
const corners = (v, output) => KEYS.flatMap((i) => {
  const j = (i + 1) % 3, t = (output - v[i]) / (v[j] - v[i]);
  return [...Math.abs(output - v[i]) < 1e-8 ? [corner(i)] : [],
    ...t > 1e-9 && t < 1 - 1e-9 ? [mix(t, corner(i), corner(j))] : []];
});

// Where the dot is, in weights and by the sliders.  Where all values are equal, the lines of other values will do.
const steered = (values) => SETS[values === 'all equal' ? 'different' : values];
const range = (v) => [Math.min(...v), Math.max(...v) - Math.min(...v)];
const line = (values, across) => {
  const v = steered(values), [low, wide] = range(v), all = corners(v, low + across * wide);
  return [all[0], all.at(-1)];
};
const weightsAt = ({ values, along, across }) => mix(clamp(along, 0, 1), ...line(values, clamp(across, 0, 1)));
function placeOf(values, weights, along = 0.5) { // on a line that is one point, `along` may be anything
  const v = steered(values), [low, wide] = range(v), across = (dot(v, weights) - low) / wide;
  const [a, b] = line(values, across), way = b.map((x, i) => x - a[i]), size = dot(way, way);
  return { across, along: size < 1e-9 ? along : (dot(way, weights) - dot(way, a)) / size };
}

function compute({ values, along, across, start }) {
  const v = SETS[values], weights = weightsAt({ values, along, across }), output = dot(v, weights);
  const ends = corners(v, output), far = ends.map((w) => divergence(w, weights)), most = Math.max(...far);
  return { v, weights, output, ends, // the first of those that are as far, but for rounding
    farthest: ends[far.findIndex((x) => x > most - 1e-9)], most, moved: divergence(start, weights),
    changed: output - dot(v, start) };
}

const left = (x) => `${(x + 0.1) / 0.012}%`, top = (y) => `${(0.94 - y) / 0.0102}%`; // in the box of the triangle
const at = ([, b, c]) => [c + b / 2, b * Math.sqrt(0.75)];
const path = (points) => `M${points.map((w) => at(w).join(' ')).join('L')}Z`;
const three = (x) => fixed(x, 3), list = (w) => `[${w.map((x) => (x % 1 ? three(x) : fixed(x, 0))).join(', ')}]`;
const put = (el, w) => { [el.style.left, el.style.top] = [left(at(w)[0]), top(at(w)[1])]; };
const map = (html) => KEYS.map(html).join('');

class NullSpace extends Figure {
  static title = 'Other weights, same output';
  static first = 'Drag α along the line.';
  static controls = {
    along: { value: 0.5, min: 0, max: 1, step: 0.01, label: 'along the line' },
    across: { value: 0.5, min: 0, max: 1, step: 0.01, label: 'across it' },
    values: { value: 'different', label: 'values', options: Object.fromEntries(Object.keys(SETS).map((s) =>
      [s, s])) },
  };
  static presets = { start: { home: true }, 'one end': { along: 0 }, 'other end': { along: 1 } };
  static compute = compute;

  connectedCallback() {
    const { state } = this, usual = '0.2 0.6 0.2', given = this.dataset.weights ?? usual, w = given.split(' ').map(Number);
    const good = w.length === 3 && w.every((x) => x >= 0) && Math.abs(dot(w, [1, 1, 1]) - 1) < 1e-6;
    this.faults.weights = good ? '' : `data-weights="${given}" is not three weights of sum 1.`;
    if (!state.start) {
      Object.assign(state, placeOf(state.values, state.start = good ? w : usual.split(' ').map(Number)));
      for (const name of NullSpace.observedAttributes) // what else was asked for counts from there
        if (this.hasAttribute(name)) this.attributeChangedCallback(name, '', this.getAttribute(name));
    }
    super.connectedCallback();
  }

  attributeChangedCallback(name, old, value) {
    const { state } = this;
    if (name === 'preset' && value === 'start' && state.start) Object.assign(state, placeOf(state.values, state.start));
    super.attributeChangedCallback(name, old, value);
  }

  body(controls) {
    return `<style>
      .flow{display:grid;grid-template-columns:1fr 1fr;gap:0 1.5rem;align-items:center}
      .plot{position:relative;aspect-ratio:1.2/1.02;margin:1.3rem 0}.plot svg{position:absolute;inset:0;overflow:visible}.bold{stroke-width:4px;fill:var(--line)}
      .k0,.k2{transform:translate(-50%,.7rem)}.k1{transform:translate(-50%,-2.1rem)}
      .handle{position:absolute;width:3rem;height:3rem;margin:-1.5rem;display:grid;place-items:center;cursor:grab;
      border-radius:50%;touch-action:none;user-select:none}.disk,.end,.ring{pointer-events:none}
      .ring{width:1.9rem;height:1.9rem;border:2px dashed var(--k2);border-radius:50%}
      .end{width:.6rem;height:.6rem;background:var(--bg);border:2px solid var(--k1);rotate:45deg;transform-origin:0 0}
      .far{background:var(--k1)}.key p{display:flex;justify-content:space-between}
      .track{position:relative;height:1rem;margin-bottom:.4rem;background:var(--soft)}.track div{height:100%}
      .track i{position:absolute;top:-3px;bottom:-3px;border-left:2px dashed var(--k2)}
      .line{position:relative;height:3rem;margin:0 1.2rem}.line .mark{top:1rem}.line .t{top:2.6rem;color:var(--dim)}
      .line hr{margin:0;border:0;border-bottom:2px solid var(--dim);height:1rem}
      .big{font-size:1.25rem}.slider{flex-basis:7rem}.sliders{gap:0 1rem}
      @container(max-width:36rem){.flow{gap:0 .75rem}.chip{padding:0 .5rem;min-width:2.5rem}.card :not(.first *,.disk,sup){font-size:.8125rem}.formula p>span{display:block}}
      @container(max-width:22rem){.key *,.line *,.chip,.slider *,.formula *,.caption{font-size:.75rem!important}.chips{gap:.25rem}}</style>
    <div class="flow"><div class="plot"><svg viewBox="-0.1 -0.94 1.2 1.02" role="img" aria-label="triangle of weights">
    <g transform="scale(1 -1)"><path d="${path(KEYS.map(corner))}"/><path class="dash" ref="home"/><path
    class="c1 bold" ref="line"/></g></svg>${map((i) => `<span class="mark k${i}" style="left:${
      left(at(corner(i))[0])};top:${top(at(corner(i))[1])}">key ${i + 1}</span>`)}${
    map((i) => `<span class="mark end" ref="end${i}"></span>`)}<span class="mark ring" ref="ring"></span><div
    class="handle" ref="handle"><span class="disk">α</span></div></div>
    <div>${map((i) => `<div class="key"><p><span>α${'₁₂₃'[i]} = <b data-t="a${i}"></b></span><span>v${'₁₂₃'[i]} = <b
    data-t="v${i}"></b></span></p><div class="track"><div class="f1" ref="bar${i}"></div><i ref="tick${i}"></i></div></div>`)}</div></div>
    <div class="line" ref="axis" role="img"><hr>${map((i) => `<span class="mark t" ref="at${i}" data-t="t${i}"></span>`)
    }<span class="mark ring" ref="was"></span><span class="mark disk" ref="out">O</span></div>
    <p><b class="big c1">output <span data-t="output"></span></b> <span data-t="changed"></span></p>${controls}
    <div class="formula"><p>O = Σ αᵢvᵢ = <span><span data-t="sum"></span> = <b class="c1" data-t="output"></b></span></p>
    <p data-t="null"></p><p>◆ Farthest from the dot with this output: <span data-t="far"></span></p></div>
    <p class="caption">Corner: all weight on one key. Thick line (all equal: the whole triangle): all weights with the
    output of the dot; its ends have at most two keys. Near the dashed line of the start (ring, ticks) the dot holds to
    it. JSD: divergence of weights (slider: from the start), at most 0.693.</p>`;
  }

  draw({ start }, { v, weights, output, ends, farthest, most, moved, changed }) {
    const { ref } = this, texts = {}, [low, wide] = range(v), [a, b, c] = v;
    const place = (x) => `${wide ? (100 * (x - low)) / wide : 50}%`;
    ref.home.setAttribute('d', path(corners(v, output - changed)));
    ref.line.setAttribute('d', path(ends)); // where all is equal, the whole triangle
    put(ref.handle, weights);
    put(ref.ring, start);
    KEYS.forEach((i) => {
      const end = ends[i] ?? farthest;
      put(ref[`end${i}`], end);
      ref[`end${i}`].classList.toggle('far', end === farthest);
      ref[`bar${i}`].style.width = `${100 * weights[i]}%`;
      ref[`tick${i}`].style.left = `${100 * start[i]}%`;
      ref[`at${i}`].style.left = place(v[i]);
      texts[`a${i}`] = three(weights[i]);
      texts[`v${i}`] = fixed(v[i], 0);
      texts[`t${i}`] = v[i] === v[i - 1] ? '' : texts[`v${i}`]; // equal numbers would lie on each other
    });
    this.state.home = moved < 1e-9; // presses the button “start”
    ref.out.style.left = place(output);
    ref.was.style.left = place(output - changed);
    texts.changed = Math.abs(changed) < 1e-9 ? 'as at the start'
      : `${changed > 0 ? '+' : ''}${three(changed)} from the start`;
    const o = three(output), jsd = `JSD ${three(moved)}`;
    const summary = `Output ${o}, ${texts.changed}. Weights ${list(weights)}, ${jsd}`;
    ref.axis.setAttribute('aria-label', summary);
    this.text({ ...texts, output: o, along: jsd, across: `O = ${o}`,
      sum: v.map((x, i) => `${three(weights[i])} · ${x < 0 ? `(${fixed(x, 0)})` : x}`).join(' + '),
      null: `Stays along ${wide ? `d = ${list([b - c, c - a, a - b])}: Σ dᵢ = Σ dᵢvᵢ` : 'any d with Σ dᵢ'} = 0`,
      far: `${list(farthest)}, JSD ${three(most)} from it` });
    return summary;
  }

  change(changes) { // other values keep the weights
    const { state } = this, { values } = changes;
    super.change(values ? { ...placeOf(values, weightsAt(state), state.along), ...changes } : changes);
  }

  glide(target) {
    const { start, values } = this.state;
    super.glide(target.home ? placeOf(values, start) : target);
  }

  ready() {
    const { handle } = this.ref, box = handle.parentElement;
    const to = (e, [dx, dy]) => { // the weights there; outside the triangle, on its rim
      const { left, top, width, height } = box.getBoundingClientRect();
      const b = (0.94 - ((e.clientY - dy - top) / height) * 1.02) / Math.sqrt(0.75);
      const c = ((e.clientX - dx - left) / width) * 1.2 - 0.1 - b / 2, { values, start, along } = this.state;
      const w = [1 - b - c, b, c].map((x) => Math.max(x, 0)), sum = w[0] + w[1] + w[2], home = placeOf(values, start);
      const there = placeOf(values, w.map((x) => x / sum), along);
      if (Math.abs(there.across - home.across) < 0.02) there.across = home.across;
      return there;
    };
    let grip; // where the finger sits beside the dot: the dot does not jump to it
    handle.onpointerdown = (e) => {
      if (e.button) return;
      const half = handle.offsetWidth / 2;
      grip = [e.offsetX - half, e.offsetY - half];
      handle.setPointerCapture(e.pointerId);
    };
    handle.onpointermove = (e) => handle.hasPointerCapture(e.pointerId) && this.change(to(e, grip));
    box.firstElementChild.onclick = (e) => this.glide(to(e, [0, 0]));
  }
}

customElements.define('attn-null-space', NullSpace);
