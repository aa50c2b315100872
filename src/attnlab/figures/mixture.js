// <attn-mixture q1="1" q2="0">: a query, two keys, two weights, one mixture of two values.

const KEYS = [[1, 0], [0, 1]], VALUES = [[2, 0], [0, 4]];

function compute({ q1, q2 }) {
  const scores = KEYS.map(([a, b]) => (q1 * a + q2 * b) / Math.SQRT2);
  const weights = softmax(scores);
  const output = [0, 1].map((j) => weights[0] * VALUES[0][j] + weights[1] * VALUES[1][j]);
  return { scores, weights, output };
}

const valuePlane = new Plot(-0.5, 4.4, -0.5, 4.4);
const arrow = (x, y, head, kind) => { // from the origin
  const u = (x / Math.hypot(x, y)) * head, v = (y / Math.hypot(x, y)) * head;
  return `<path class="${kind}" d="M0 0L${x} ${y}"/><path class="${kind} head"
    d="M${x - u - v / 2} ${y - v + u / 2}L${x} ${y}L${x - u + v / 2} ${y - v - u / 2}"/>`;
};

class Mixture extends QueryFigure {
  static title = 'A mixture of two values';
  static first = 'Drag q: the output follows.';
  static controls = { q1: Q1, q2: { ...Q2, value: 0 } };
  static presets = { '[1, 0]': { q1: 1, q2: 0 }, '[0, 0]': { q1: 0, q2: 0 }, '[0, 1]': { q1: 0, q2: 1 },
    '[2, 1]': { q1: 2, q2: 1 } }; // the last lies on the dotted line of the first
  static compute = compute;

  body(controls) {
    const key = (i) => `<div class="key"><p><b class="c${i}">k${'₀₁₂'[i]} = [${KEYS[i - 1].join(', ')}]</b>
      <span>score <b data-t="s${i}"></b></span></p><div class="track"><div class="f${i}" ref="bar${i}"></div></div>
      <p><span>weight α${'₀₁₂'[i]}</span><b class="c${i}" data-t="p${i}"></b></p></div>`;
    return `<style>${PLOT_CSS}
      .flow{display:grid;grid-template-columns:1fr .8fr 1fr;gap:0 1.5rem}.plot{aspect-ratio:1}.weights{display:grid;
      grid-template-rows:auto 1fr}.keys{display:grid;align-content:center;gap:1.5rem;padding:1.5rem 0 2.1rem}
      .key p{display:flex;justify-content:space-between;gap:.5rem}.track{height:1.4rem;margin:.2rem 0;border-radius:3px;
      background:var(--soft);overflow:hidden}.track div{height:100%;border-radius:3px 0 0 3px}
      .arrow,.dots{stroke-width:2.5px}.dots,.way{stroke-linecap:round}.dots{stroke-dasharray:.1 5}
      .way{stroke:var(--line);stroke-width:6px}.part{stroke-width:5px}.two{stroke-dasharray:7 2}
      .head{stroke-dasharray:none}
      ${HANDLE_CSS}.v1,.v2{transform:translate(1.4rem,-50%)}.out{pointer-events:none}
      .ring{background:var(--bg);color:var(--ink);box-shadow:0 0 0 2px var(--ink)}
      @container(max-width:36rem){.flow{grid-template-columns:repeat(2,minmax(0,1fr));gap:0 1rem}
      .weights{order:3;grid-column:1/3}
      .keys{grid-template-columns:1fr 1fr;gap:1rem;padding:.25rem 0}.wide,.weights>p{display:none}}
      @container(max-width:20rem){.flow{gap:0 .5rem}.h+*{font-size:.8125rem}.key p,.key p>*{display:block}}</style>
    <div class="flow"><div><p class="h">query</p>
    <p>q = [<span data-t="q1"></span>, <span data-t="q2"></span>]</p>
    ${keyPlane.html({
      label: 'The plane of the keys: arrows k1, k2 and the query q', ...axes(-2, 0, 2),
      shapes: `<path class="dots" ref="same"/>${arrow(1, 0, 0.35, 'c1 arrow')}
        ${arrow(0, 1, 0.35, 'c2 two arrow')}<line ref="q"/>`,
      marks: keyPlane.mark(1, 0, '<b ref="k1">k₁</b>', 'c1 halo') + keyPlane.mark(0, 1, '<b ref="k2">k₂</b>', 'c2 halo')
        + HANDLE,
    })}</div>
    <div class="weights"><p class="h">weights</p><p>α = [<span data-t="a1"></span>, <span data-t="a2"></span>]</p>
    <div class="keys">${key(1)}${key(2)}</div></div>
    <div><p class="h">output</p><p>O = [<span data-t="o1"></span>, <span data-t="o2"></span>]</p>
    ${valuePlane.html({
      label: 'The plane of the values: the output O on the segment from v1 to v2', ...axes(0, 2, 4),
      shapes: `<path class="way" d="M2 0L0 4"/>${arrow(2, 0, 0.25, 'c1')}${arrow(0, 4, 0.25, 'c2 two')}
        <line class="c1 part" ref="x"/>
        <line class="c2 part two" ref="y"/><path class="dash" ref="drop"/>`,
      marks: valuePlane.mark(2, 0, '<b>v₁<span class="wide"> = [2, 0]</span></b>', 'c1 halo v1')
        + valuePlane.mark(0, 4, '<b>v₂<span class="wide"> = [0, 4]</span></b>', 'c2 halo v2')
        + '<div class="handle out" ref="out"><span class="disk ring">O</span></div>',
    })}</div></div>${controls}
    <div class="formula"><p><span><span class="c1">α₁</span> = e<sup data-t="s1"></sup> /
    (e<sup data-t="s1"></sup> + e<sup data-t="s2"></sup>)</span> <span>= σ((q₁ − q₂)/√2)</span>
    <span>= <b class="c1" data-t="a1"></b></span></p>
    <p><span>O = <span class="c1"><span data-t="a1"></span> · [2, 0]</span> + <span class="c2"><span data-t="a2"></span>
    · [0, 4]</span></span> <span>= <b>[<span data-t="o1"></span>, <span
    data-t="o2"></span>]</b></span></p></div>
    <p class="caption">Scores are q · kᵢ / √2; softmax turns them into two weights that sum to 1. O = α₁v₁ + α₂v₂ is the
    weighted mixture of the two values. O slides along the segment from v₁ to v₂. Move q along the
    dotted line, where <span class="nw">q₁ − q₂</span> stays the same (from [1,\xa00] to [2,\xa01], say), and no weight
    changes.</p>`;
  }

  draw({ q1, q2 }, { scores, weights: [a1, a2], output: [o1, o2] }) {
    const { ref } = this;
    this.text({ q1: fixed(q1, 1), q2: fixed(q2, 1), s1: fixed(scores[0], 3), s2: fixed(scores[1], 3), a1: fixed(a1, 3),
      a2: fixed(a2, 3), p1: percent(a1), p2: percent(a2), o1: fixed(o1, 3), o2: fixed(o2, 3) });
    ref.bar1.style.width = `${100 * a1}%`;
    ref.bar2.style.width = `${100 * a2}%`;
    const back = Math.min(q1, q2) + 3.4, ahead = 3.4 - Math.max(q1, q2); // the same q₁ − q₂: the same weights
    ref.same.setAttribute('d', `M${q1 - back} ${q2 - back}L${q1 + ahead} ${q2 + ahead}`);
    ref.q.setAttribute('x2', q1);
    ref.q.setAttribute('y2', q2);
    place(ref.handle, keyPlane, q1, q2);
    ref.k1.style.top = q2 < 0 && q1 >= 0 ? '-1.4rem' : '1.4rem'; // letters keep to the side where the query is not
    ref.k2.style.left = q1 < 0 && q2 >= 0 ? '1.4rem' : '-1.4rem';
    ref.x.setAttribute('x2', o1);
    ref.y.setAttribute('y2', o2);
    ref.drop.setAttribute('d', `M${o1} 0V${o2}H0`);
    place(ref.out, valuePlane, o1, o2);
    const query = `Query ${pair([q1, q2], 1)}`;
    ref.handle.setAttribute('aria-valuenow', q1);
    ref.handle.setAttribute('aria-valuetext', query);
    return `Weights ${percent(a1)} and ${percent(a2)}. Output ${pair([o1, o2], 3)}`;
  }
}

customElements.define('attn-mixture', Mixture);
