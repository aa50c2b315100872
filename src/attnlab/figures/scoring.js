// <attn-scoring q1="1" q2="1" score="gaussian">: five keys, one query, and the score that decides which key wins.

const KEYS = [[3, 2], [1, 2], [-2, 1], [-1, -2], [0.5, 0]]; // long · three of equal norm · short
const W_Q = [[1, 0], [-1, 1], [1, 0]], W_K = [[-1, 1], [-1, -1], [1, 0]], V = [1, 2, 3];
const times = ([a, b], [x, y]) => a * x + b * y;
const SCORES = { // formula, remark, and the score itself
  dot: ['q · k', 'Norm counts: long k₁ wins even where q lies on k₂; k₅, amid the others, nowhere.', times],
  scaled_dot: ['q · k / √2', 'The same keys win as with dot; weights are more even.',
    (q, k) => times(q, k) / Math.SQRT2],
  additive: ['v · tanh(W_q q + W_k k)', `W_q = [[1, 0], [−1, 1], [1, 0]], W_k = [[−1, 1], [−1, −1], [1, 0]],
    v = [1, 2, 3]. At [1, 1] k₅ wins, neither long nor nearest; |s| < 6.`,
    (q, k) => V.reduce((sum, v, i) => sum + v * Math.tanh(times(W_Q[i], q) + times(W_K[i], k)), 0)],
  gaussian: ['−‖q − k‖² / (2√2)',
    'The nearest key wins. Width² is √2: keys of equal norm keep the ratios of scaled dot.',
    ([a, b], [x, y]) => -((a - x) ** 2 + (b - y) ** 2) / Math.sqrt(8)],
};
const scoresAt = (score, q) => KEYS.map((key) => SCORES[score][2](q, key));

function compute({ q1, q2, score }) {
  const scores = scoresAt(score, [q1, q2]), most = Math.max(...scores) - 1e-9;
  return { scores, weights: softmax(scores), winners: scores.flatMap((s, i) => s > most ? i : []) };
}

// Who leads where: numbers at places clear of all borders, and a dot wherever a line of the grid meets a border.
const PLACES = [[-3, -3], [-3, 0], [-3, 1.5], [-3, 3], [-2, -3], [-2, -1.5], [-2, 3], [-1.2, 0.4], [-0.5, 3], [0, -2],
  [0.3, 2.5], [1, -1.5], [1.5, -3], [1.5, 0.5], [2.5, -1], [3, -2.5], [3, 0]];
const GRID = [...Array(67).keys()].map((i) => i / 10 - 3.37), borders = {}, name = (i) => `k${'₁₂₃₄₅'[i]}`;
const leader = (scores) => scores.indexOf(Math.max(...scores));
const bordersOf = (score) => GRID.flatMap((x) => GRID.flatMap((y) => [[0.1, 0], [0, 0.1]].map(([right, up]) => {
  const s = scoresAt(score, [x, y]), e = scoresAt(score, [x + right, y + up]), i = leader(s), j = leader(e);
  const t = (s[i] - s[j]) / (s[i] - s[j] + e[j] - e[i]); // the scores are all but linear on so short a way
  return i === j ? '' : `M${x + t * right} ${y + t * up}h0`;
}))).join('');

class Scoring extends QueryFigure {
  static title = 'Which key wins';
  static first = 'Drag q, then choose another score.';
  static controls = { q1: Q1, q2: Q2, score: { value: 'dot', label: 'score',
    options: { dot: 'dot', scaled_dot: 'scaled dot', additive: 'additive', gaussian: 'Gaussian' } } };
  static presets = { '[1, 1]': { q1: 1, q2: 1 }, '[0, 0]': { q1: 0, q2: 0 }, 'q = k₂': { q1: 1, q2: 2 },
    'q = k₅': { q1: 0.5, q2: 0 } };
  static compute = compute;

  body(controls) {
    return `<style>${PLOT_CSS}
      .two,.notes{display:grid}.two{grid-template-columns:1fr 1fr;gap:0 2rem}.plot{aspect-ratio:1}${HANDLE_CSS}
      .notes *{grid-area:1/1}.notes :not(.on){visibility:hidden}
      .edge{stroke:var(--dim);stroke-width:2px;stroke-linecap:round}.plot i{position:absolute;font-style:normal;
      translate:-50% -50%}.plot :is(i,.mark){pointer-events:none}.disc,.point{border-radius:50%}
      .disc{aspect-ratio:1;outline:1.5px solid;background:var(--soft)}.point{border:.2rem solid}
      .key p{display:grid;grid-template-columns:1fr auto 4em;margin-top:2.2cqw;padding:.2rem;text-align:right;
      white-space:nowrap;background:linear-gradient(var(--line) 0 0) 0/0 no-repeat}
      .key p>:first-child{text-align:left}.win{font-weight:700}.win.disc{background:var(--k1)}
      @container(max-width:36rem){.two{grid-template-columns:1.2fr 1fr;gap:0 1rem}.w{display:none}
      .key{font-size:.8125rem}}@container(max-width:20rem){.key{font-size:.6875rem}}</style>
    <div class="two"><div><p class="h">query</p><p>q = [<span data-t="q1"></span>, <span data-t="q2"></span>]</p>${
    keyPlane.html({
      label: 'Plane: keys k1 to k5, query q, who wins where', ...axes(-2, 0, 2),
      shapes: '<path class="edge" ref="edge"/>',
      marks: PLACES.map(([x, y], i) => `<i class="xt halo" aria-hidden="true" data-t="at${i}" style="left:${
        keyPlane.left(x)};top:${keyPlane.top(y)}"></i>`).join('') + KEYS.map(([x, y], i) =>
        keyPlane.mark(x, y, '', `disc" ref="disc${i}`) + keyPlane.mark(x, y, '', 'point')
        + keyPlane.mark(x, y, `<b ref="k${i}">${name(i)}</b>`, 'halo')).join('') + HANDLE,
    })}</div><div><p class="h">weights</p><p data-t="who"></p><div class="key"><p><span>key</span><span>score</span><span>weight</span></p>${
    KEYS.map((key, i) => `<p ref="row${i}"><span>${name(i)}<span class="w"> = ${
      `[${key.join(', ')}]`.replaceAll('-', '−')
    }</span></span><span data-t="s${i}"></span><span data-t="p${i}"></span></p>`).join('')}</div></div></div>${controls}
    <div class="formula"><p><span>score s = <span data-t="formula"></span></span></p><p><span>‖k₂‖ = ‖k₃‖:</span> <span>ln(α₂/α₃) = s₂ − s₃ = <b
    data-t="gap"></b></span></p></div><p class="caption notes">${
    Object.keys(SCORES).map((one) => `<span ref="${
    one}">Discs are weights; small numbers say who wins for a query there. ${
    SCORES[one][1]}</span>`).join('')}</p>`;
  }

  draw({ q1, q2, score }, { scores, weights, winners }) {
    const { ref } = this, [formula] = SCORES[score];
    const who = winners[4] ? 'all five tie' : winners.map(name).join(', ') + (winners[1] ? ' tie' : ' wins');
    this.text({ q1: fixed(q1, 1), q2: fixed(q2, 1), who, formula, gap: fixed(scores[1] - scores[2], 3) });
    PLACES.forEach((q, i) => this.text({ ['at' + i]: `${leader(scoresAt(score, q)) + 1}` }));
    KEYS.forEach(([, y], i) => {
      this.text({ ['s' + i]: fixed(scores[i], 3), ['p' + i]: percent(weights[i]) });
      ref['row' + i].style.backgroundSize = `${100 * weights[i]}%`;
      ref['disc' + i].style.width = `${2 * Math.sqrt(weights[i])}rem`;
      for (const part of ['row', 'disc']) ref[part + i].classList.toggle('win', winners.includes(i));
      ref['k' + i].style.top = q2 > y ? '1.4rem' : '-1.4rem'; // letters keep to the side where the query is not
    });
    for (const one in SCORES) ref[one].classList.toggle('on', one === score);
    ref.edge.setAttribute('d', borders[score] ??= bordersOf(score));
    place(ref.handle, keyPlane, q1, q2);
    ref.handle.setAttribute('aria-valuenow', q1);
    ref.handle.setAttribute('aria-valuetext', `Query ${pair([q1, q2], 1)}`);
    return `${who} with ${percent(weights[winners[0]])}. Weights ${weights.map(percent).join(', ')}`;
  }
}

customElements.define('attn-scoring', Scoring);
