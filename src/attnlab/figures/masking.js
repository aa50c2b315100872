// <attn-masking preset="causal" mask="10000 11000 …" equal>: a mask painted on a grid of scores, and what follows it.

const SCORES = [[1, 2, 0, -1, 0], [0, 1, 3, 0, -1], [2, 0, 1, 2, 0], [-1, 1, 0, 2, 3], [1, 0, 2, -1, 1]];
const VALUES = [1, 2, 3, 4, 5], KEYS = [0, 1, 2, 3, 4];

// The mask is a text of 25 digits, query after query: 1 where it may attend to the key.
function compute({ mask, equal }) {
  const scores = KEYS.map((i) => KEYS.map((j) => +mask[5 * i + j] ? equal ? 0 : SCORES[i][j] : -Infinity)); // S + M
  const empty = scores.map((row) => !row.some(isFinite));
  const weights = scores.map((row, i) => empty[i] ? [0, 0, 0, 0, 0] : softmax(row)); // the rule: never 0/0
  const mix = (values) => weights.map((row) => row.reduce((sum, w, j) => sum + w * values[j], 0));
  return { scores, empty, weights, totals: mix([1, 1, 1, 1, 1]), output: mix(VALUES) };
}

const rule = (allows) => ({ mask: KEYS.map((i) => KEYS.map((j) => +allows(i, j)).join('')).join('') });
const sub = (i) => '₁₂₃₄₅'[i], rowOf = (k) => Math.floor(k / 5), list = (texts) => `[${texts.join(', ')}]`;
const whole = (x) => isFinite(x) ? fixed(x, 0) : '−∞';
const share = (w) => w === 0 || w === 1 ? `${w}` : fixed(w, 3); // 0 and 1 only where they are exact

class Masking extends Figure {
  static title = 'A mask on a grid of scores';
  static first = 'Click or drag to mask. Rows: queries; columns: keys.';
  static controls = { equal: { value: false, label: 'equal scores' } };
  static presets = { none: rule(() => true), causal: rule((i, j) => j <= i), padding: rule((i, j) => j < 3),
    window: rule((i, j) => j <= i && j > i - 2), block: rule((i, j) => i < 2 === j < 2),
    'off by one': rule((i, j) => j < i) }; // causal with the diagonal blocked: the first row is empty
  static compute = compute;
  static get observedAttributes() { return [...super.observedAttributes, 'mask']; }
  state = { ...this.state, ...Masking.presets.causal };
  row = 2; // the one spelled out
  at = 0; // the cell with the Tab stop

  attributeChangedCallback(name, old, value) {
    const mask = `${value}`.replace(/\s/g, '');
    if (name !== 'mask') return super.attributeChangedCallback(name, old, value);
    const good = /^[01]{25}$/.test(mask);
    this.faults.mask = good || value === null ? '' : `mask="${value}" is not 25 digits, 0 or 1.`;
    Object.assign(this.state, good ? { mask } : Masking.presets.causal);
    if (this.shadowRoot) this.update();
  }

  glide(target) { this.change(target); } // between allowed and forbidden lies nothing

  body(controls) {
    const cell = (k) => `<div class="cell" role="gridcell"><small data-t="s${k}"></small><b data-t="w${k}"></b></div>`;
    const row = (i) => `<div class="row" role="row"><span role="rowheader">q${sub(i)}</span>${
      KEYS.map((j) => cell(5 * i + j)).join('')}<span role="gridcell" data-t="t${i}"></span><b role="gridcell"
      data-t="o${i}"></b><span class="badge" role="gridcell">nothing allowed: 0/0<i> in plain softmax</i>; here
      zeros</span></div>`;
    return `<style>
      .flow{display:grid;grid-template-columns:1fr 11.5rem;gap:.3rem 1.5rem}
      [role=grid]{user-select:none;-webkit-user-select:none}i{font-style:normal}
      .rim{color:var(--dim);font-size:.8125rem}
      .row{display:grid;grid-template-columns:1.5rem repeat(5,minmax(0,1fr)) 1.5rem 3rem;gap:2px;margin-top:2px;
      align-items:center;text-align:center;position:relative}
      .cell{--w:0%;min-height:2.75rem;box-sizing:border-box;padding:.2rem 0;border:1px solid var(--line);
      border-radius:4px;line-height:1.25;cursor:pointer;touch-action:pan-y;background:linear-gradient(color-mix(in
      srgb,var(--k1) 30%,var(--bg)) 0 0) bottom/100% var(--w) no-repeat}
      .cell *{display:block;pointer-events:none}.cell small,.badge{font-size:.6875rem}
      [aria-selected=false]{background:repeating-linear-gradient(135deg,var(--line) 0 2px,var(--soft) 2px 6px)}
      @media(forced-colors:active){[aria-selected=false]{background:none;border-style:dashed}}
      .now [role=rowheader]{background:var(--ink);color:var(--bg);border-radius:4px}
      .badge{display:none;position:absolute;grid-column:2/7;inset:auto 0 3px;margin:auto;width:max-content;
      padding:0 .4rem;border:1px solid var(--k2);border-radius:.6rem;background:var(--bg);line-height:1.1rem;
      pointer-events:none}.empty .badge{display:block}.empty .cell b{visibility:hidden}
      @container(max-width:36rem){.flow{grid-template-columns:minmax(0,1fr)}.controls{margin:0}.badge i{display:none}
      .row{grid-template-columns:1.2rem repeat(5,minmax(0,1fr)) .8rem 2.4rem}.row,.formula{font-size:.8125rem}
      .cell{min-height:2.5rem;padding:.1rem 0}.formula{margin-top:.5rem;padding:.4rem .6rem}.formula p:last-child{min-height:2.9em}}
      @container(max-width:20rem){[role=grid]{margin:0 -.3rem}.formula p:first-child{min-height:2.9em}.wide{display:none}
      .cell b{font-size:.75rem}}</style>
    <div class="flow">
    <div role="grid" ref="grid" aria-label="mask, selected is allowed" aria-multiselectable="true">
    <div class="row rim" role="row"><span></span>${
      [...KEYS.map((j) => 'k' + sub(j)), 'Σ', 'O'].map((h) => `<span role="columnheader">${h}</span>`).join('')}</div>${
      KEYS.map(row).join('')}
    <div class="row rim" role="row"><span role="rowheader">v</span>${
      VALUES.map((v) => `<span role="gridcell">${v}</span>`).join('')}</div></div>${controls}</div>
    <div class="formula"><p><b>q<i data-t="q"></i></b>: <span>S + M = <i data-t="s"></i></span>
    <span>+ <i data-t="m"></i></span></p><p><b class="wide">softmax:</b> <span>α = <i data-t="a"></i></span></p>
    <p>O = <i data-t="o"></i></p></div>
    <p class="caption">In each cell the score above, the weight below. α = softmax(S + M), row by row: M is 0 where
    a key is allowed and −∞ where not; e<sup>−∞</sup> = 0. The allowed weights keep their ratios. With nothing allowed,
    plain softmax is 0/0, not a number: libraries disagree, this course gives zeros.</p>`;
  }

  draw({ equal }, { scores, empty, weights, totals, output }) {
    const { row: r } = this, texts = {};
    this.cells.forEach((el, k) => {
      const i = rowOf(k), j = k % 5, score = scores[i][j], weight = weights[i][j];
      const s = texts[`s${k}`] = whole(score), w = texts[`w${k}`] = share(weight);
      el.style.setProperty('--w', `${100 * weight}%`);
      el.tabIndex = k === this.at ? 0 : -1;
      el.setAttribute('aria-selected', isFinite(score));
      el.setAttribute('aria-label', `query ${i + 1}, key ${j + 1}: score ${s}, weight ${w}`);
    });
    this.rows.forEach((el, i) => {
      el.classList.toggle('now', i === r);
      el.classList.toggle('empty', empty[i]);
      texts[`t${i}`] = `${+totals[i].toFixed(9)}`;
      texts[`o${i}`] = empty[i] ? '0' : fixed(output[i], 3);
    });
    const alpha = weights[r].map(share), o = texts[`o${r}`], kept = KEYS.filter((j) => weights[r][j]);
    this.text({ ...texts, q: sub(r), s: list(SCORES[r].map((s) => whole(equal ? 0 : s))),
      m: list(scores[r].map((s) => isFinite(s) ? '0' : '−∞')), a: (empty[r] ? '0/0; here ' : '') + list(alpha),
      o: empty[r] ? o : `${kept.map((j) => `${alpha[j]}·${VALUES[j]}`).join(' + ')} = ${o}` });
    return `Query ${r + 1}${empty[r] ? ', nothing allowed' : ''}: weights ${alpha.join(', ')}. Output ${o}`;
  }

  ready() {
    const { grid } = this.ref, cells = this.cells = [...grid.querySelectorAll('.cell')];
    this.rows = [...grid.children].slice(1, -1);
    const set = (k, to) => {
      const mask = [...this.state.mask];
      mask[k] = to;
      this.row = rowOf(k);
      this.change({ mask: mask.join('') });
    };
    const flipped = (k) => `${1 - this.state.mask[k]}`;
    const under = (x, y) => cells.indexOf(this.shadowRoot.elementFromPoint(x, y));
    let to, before, x, y; // what the first cell became, while a stroke lasts; the mask before it; where the hand is
    const paint = (e) => {
      for (let t = 1; t <= 16; t++) { // a quick hand skips cells
        const k = under(x + (e.clientX - x) * t / 16, y + (e.clientY - y) * t / 16);
        if (k >= 0 && this.state.mask[k] !== to) set(k, to);
      }
      ({ clientX: x, clientY: y } = e);
    };
    const on = (types, listener) => types.split(' ').forEach((type) => grid.addEventListener(type, listener));
    on('pointerdown', (e) => {
      const k = cells.indexOf(e.target);
      if (e.button || k < 0) return;
      ({ clientX: x, clientY: y } = e);
      [to, before] = [flipped(k), this.state.mask];
      grid.setPointerCapture(e.pointerId);
      if (e.pointerType === 'mouse') paint(e); // a finger may be about to scroll
    });
    on('pointermove pointerup', (e) => to && paint(e));
    on('pointercancel', () => to && this.change({ mask: before }));
    on('pointerup pointercancel', () => { to = ''; });
    on('pointerover focusin', ({ type, target }) => {
      const k = cells.indexOf(target);
      const at = type === 'focusin' ? k : this.at, row = rowOf(k);
      if (k < 0 || (at === this.at && row === this.row)) return;
      Object.assign(this, { at, row });
      this.update();
    });
    on('keydown', (e) => {
      const k = this.at, j = k % 5, next = { ArrowLeft: k - (j > 0), ArrowRight: k + (j < 4), ArrowUp: k - 5,
        ArrowDown: k + 5, Home: k - j, End: k - j + 4 }[e.key];
      if (next !== undefined) cells[next]?.focus();
      else if (e.key === ' ' || (e.key === 'Enter' && !(e.shiftKey || e.ctrlKey || e.metaKey))) set(k, flipped(k));
      else if (!e.key.startsWith('Page')) return;
      e.preventDefault();
    });
  }
}

customElements.define('attn-masking', Masking);
