// <attn-heads layer="0" head="2" sentence="0" data-heads='[{"tokens": […], "weights": "base64"}, …]'>: the heads of a
// real model.  The weights of a sentence are bytes, round(255·w), in the order layer, head, query, key.

const LAYERS = 6, HEADS = 12, range = (n) => [...Array(n).keys()];

function measure(rows) { // of one head: a row for each query
  const n = rows.length, mean = (f, from = 0, to = n) =>
    rows.slice(from, to).reduce((sum, row, i) => sum + f(row, from + i), 0) / (to - from);
  return {
    'previous token': mean((row, i) => row[i - 1], 1),
    'itself': mean((row, i) => row[i]),
    'next token': mean((row, i) => row[i + 1], 0, n - 1),
    '[CLS] or [SEP]': mean((row) => row[0] + row[n - 1]),
    'entropy, nats': mean((row) => row.reduce((sum, w) => sum - (w && w * Math.log(w)), 0)),
  };
}

function compute({ data, layer, head, sentence }) {
  const { tokens: { length: n }, weights } = data[sentence], here = HEADS * layer + head, measures = {};
  const row = (start) => Array.from(weights.subarray(start, start + n), (w) => w / 255);
  const heads = range(LAYERS * HEADS).map((k) => range(n).map((i) => row(n * (n * k + i)))), found = heads.map(measure);
  const uniform = measure(Array(n).fill(Array(n).fill(1 / n)));
  for (const name in uniform) {
    const all = found.map((one) => one[name]), mean = all.reduce((a, b) => a + b) / all.length;
    measures[name] = { here: all[here], mean, uniform: uniform[name], all };
  }
  return { weights: heads[here], measures };
}

const two = (x) => fixed(x, 2); // a step of the stored weights is 0.004
const join = (list, html) => list.map(html).join('');
const paint = (canvas, { tokens: { length: n }, weights }, k) => { // a pixel for each weight
  canvas.width = canvas.height = n;
  const image = new ImageData(n, n);
  weights.subarray(n * n * k, n * n * (k + 1)).forEach((w, i) =>
    image.data.set([10, 102, 176, Math.sqrt(255 * w)], 4 * i));
  canvas.getContext('2d').putImageData(image, 0, 0);
};
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

class Heads extends Figure {
  static title = '72 heads of a real model';
  static first = 'Click a head, then a query.';
  static controls = {
    layer: { value: 0, min: 0, max: LAYERS - 1, step: 1, label: 'layer' },
    head: { value: 2, min: 0, max: HEADS - 1, step: 1, label: 'head' },
    query: { value: 3, min: 0, max: 12, step: 1, label: 'query' },
    sentence: { value: '0', options: { 0: '1', 1: '2', 2: '3' }, label: 'sentence' },
  };
  static presets = { 'previous token': { layer: 0, head: 2 }, sink: { layer: 2, head: 7 },
    even: { layer: 0, head: 3 } };
  static compute = compute;
  glide = this.change; // between two heads lies nothing

  static data = 'heads';

  load(sentences) {
    this.state.data = sentences.map(({ tokens, weights }) =>
      ({ tokens, weights: Uint8Array.from(atob(weights), (c) => c.charCodeAt()) }));
  }

  body(controls) {
    const most = range(Math.max(...this.state.data.map(({ tokens }) => tokens.length)));
    const token = (i) => `<span data-t="t${i}"></span>`;
    return `<style>
      .flow{display:flex;flex-wrap:wrap;gap:.75rem 1.5rem}.flow>*{flex:1 18rem;min-width:0}.dim{color:var(--dim)}
      .dim,.map,table{font-size:min(.75rem,4.2cqi)}
      .row{display:grid;grid-template-columns:.9rem repeat(12,1fr);gap:4px;margin-top:4px;text-align:center;
      align-items:center}.row canvas{aspect-ratio:1.1}.row canvas,.rows div{cursor:pointer}
      canvas{width:100%;image-rendering:pixelated;background:#0a66b012;color:#1c2530}
      @media screen{.dark canvas{filter:invert(1) hue-rotate(180deg)}}
      @media(forced-colors:active){.card canvas{background:#fff;color:LinkText;filter:none}}[aria-selected=true]{outline:2px solid}
      .map{--l:4rem;display:grid;grid-template-columns:2fr 1fr;gap:.25rem .75rem;line-height:1;
      align-content:start}.map p{place-self:end start;line-height:1.3}
      .cols{display:grid;grid-template-columns:var(--l) repeat(var(--n),minmax(0,1fr))}
      .cols span{writing-mode:vertical-rl;transform:rotate(180deg);place-self:end center;font-size:min(.75rem,3.2cqw)}
      .rows,.list{height:12rem;display:grid;grid-template-rows:repeat(var(--n),1fr);position:relative}
      .rows canvas{position:absolute;left:var(--l);width:calc(100% - var(--l));height:100%}
      .rows div,.list div{position:relative;display:flex;align-items:center;justify-content:space-between;
      padding:0 .25rem}.list div{margin-bottom:1px;background:linear-gradient(color-mix(in srgb,var(--k1) 30%,var(--bg))
      0 0) 0/var(--w) 100% no-repeat var(--soft)}.cols span:empty,.rows :has(:empty),.list :has(:empty){display:none}
      .pick::before{content:"sentence"}.pick{align-items:center;margin:0 0 .5rem}.pick .chip{min-width:2.5rem;
      justify-content:center}.sliders{display:grid;grid-template-columns:1fr 1fr 1.2fr;gap:0 1rem}
      table{width:100%;border-collapse:collapse}th,td{padding:.1rem .4rem .1rem 0;font-weight:400;line-height:1.2;
      text-align:left}
      tr+tr th{white-space:nowrap}:is(th,td):nth-child(2){width:50%}
      :is(th,td):nth-child(n+3){padding:0 0 0 .4rem;text-align:right}svg{display:block;width:100%;height:1rem}
      .all{opacity:.35;stroke-width:1px}.now{stroke-width:4px}</style>
    <div class="flow"><div><p class="dim">6 layers ↓ × 12 heads →</p><div role="grid" ref="grid" tabindex="0"
    aria-label="heads, 6 layers by 12; arrow keys choose"><div class="row dim" role="row"><p></p>${
      join(range(HEADS), (h) => `<p role="columnheader">${h}</p>`)}</div>${
      join(range(LAYERS), (l) => `<div class="row" role="row"><p class="dim" role="rowheader">${l}</p>${
      join(range(HEADS), (h) => `<canvas role="gridcell" id="h${HEADS * l + h}" aria-label="layer ${l}, head ${h}"
      ></canvas>`)}</div>`)}</div>${controls}</div>
    <div class="map" ref="map"><div class="cols"><p><b>layer <b data-t="layer"></b><br>head <b
    data-t="head"></b></b><br>keys →<br>queries ↓</p>${join(most, token)}</div>
    <p>weights of query<br><b data-t="q"></b></p>
    <div class="rows" ref="rows" role="listbox" tabindex="0" aria-label="query"><canvas ref="big"></canvas>${
      join(most, (i) => `<div role="option" id="q${i}">${token(i)}</div>`)}</div>
    <div class="list">${join(most, (i) => `<div>${token(i)}<b data-t="w${i}"></b></div>`)}</div></div></div>
    <div class="formula"><table><tr>${
      join(['mean weight on', 'all 72 heads', 'this head', 'mean of 72', 'uniform'], (h) => `<th>${h}</th>`)}</tr>${
      join(Object.keys(measure([])), (name, m) => `<tr><th>${name}</th><td><svg role="img" ref="m${m}" viewBox="0 0 1 1"
      preserveAspectRatio="none"><path class="all"/><path class="dash"/><path class="c1 now"/></svg></td><td class="c1"><b
      data-t="m${m}0"></b></td><td data-t="m${m}1"></td><td data-t="m${m}2"></td></tr>`)}</table></div>
    <p class="caption">One forward pass of all-MiniLM-L6-v2; depth of colour is √weight. Uniform (dashed): equal weights
    on this sentence. Previous and next: over the queries that have one. <b>Not shown:</b> values and Wₒ; a large weight need not move anything. 72 pictures invite
    picking: the presets are picked. A name for a head is a hypothesis.</p>`;
  }

  draw({ data, layer, head, sentence, query }, { weights, measures }) {
    const { ref, thumbs } = this, { tokens } = data[sentence], n = tokens.length, here = HEADS * layer + head;
    const q = this.state.query = Math.min(query, n - 1), row = weights[q], shares = row.map(two);
    const texts = { layer, head, q: tokens[q], query: tokens[q] };
    this.inputs.find((i) => i.id === 'query').max = n - 1;
    if (this.shown !== (this.shown = sentence)) thumbs.forEach((el, k) => paint(el, data[sentence], k));
    paint(ref.big, data[sentence], here);
    thumbs.forEach((el, k) => { el.ariaSelected = k === here; });
    ref.grid.setAttribute('aria-activedescendant', `h${here}`);
    ref.rows.setAttribute('aria-activedescendant', `q${q}`);
    ref.map.style.setProperty('--n', n);
    this.options.forEach((option, i) => {
      texts[`t${i}`] = tokens[i] ?? ''; // what is empty is not shown
      texts[`w${i}`] = shares[i] ?? '';
      this.lines[i].style.setProperty('--w', `${100 * row[i]}%`);
      option.ariaSelected = i === q;
      option.ariaLabel = i === q ? `${tokens[i]}: ${tokens.map((t, j) => `${t} ${shares[j]}`)}` : null;
    });
    Object.entries(measures).forEach(([name, { all, ...shown }], m) => {
      const tick = (x) => `M${name[0] === 'e' ? x / Math.log(n) : x} 0V1`, strip = ref[`m${m}`];
      [join(all, tick), tick(shown.uniform), tick(shown.here)].forEach((d, i) =>
        strip.children[i].setAttribute('d', d));
      strip.ariaLabel = `${two(Math.min(...all))} to ${two(Math.max(...all))}`;
      Object.values(shown).forEach((x, i) => { texts[`m${m}${i}`] = two(x); });
    });
    this.text(texts);
    const top = row.indexOf(Math.max(...row));
    return `Layer ${layer}, head ${head}. Query ${tokens[q]} looks most at ${tokens[top]}, ${shares[top]}`;
  }

  ready() {
    const { grid, rows } = this.ref, { data } = this.state;
    const [thumbs, options, lines] = ['.row canvas', '.rows div', '.list div'].map((kind) =>
      [...this.shadowRoot.querySelectorAll(kind)]);
    Object.assign(this, { thumbs, options, lines });
    const pick = (layer, head) => this.change({ layer: clamp(layer, 0, LAYERS - 1), head: clamp(head, 0, HEADS - 1) });
    const look = (q) => this.change({ query: clamp(q, 0, data[this.state.sentence].tokens.length - 1) });
    grid.onclick = ({ target }) => {
      const k = thumbs.indexOf(target);
      if (k >= 0) pick(Math.floor(k / HEADS), k % HEADS);
    };
    rows.onpointerover = rows.onclick = ({ target }) => {
      const q = options.indexOf(target.closest('div'));
      if (q >= 0) look(q);
    };
    rows.onkeydown = grid.onkeydown = (e) => {
      if (!(e.key in STEPS)) return;
      const [down, right] = STEPS[e.key];
      e.preventDefault();
      if (e.currentTarget === grid) pick(this.state.layer + down, this.state.head + right);
      else look(this.state.query + down + right);
    };
  }
}

customElements.define('attn-heads', Heads);
