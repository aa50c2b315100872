// <attn-kv-cache heads="64" share="3" d="128" layers="80" window="18" dtype="4" context="17" batch="0" data-tables='…'>:
// bytes of a key-value cache against the memory of real cards.  window, context and batch are powers of two (window 18:
// none), dtype is that of the bits, share the place of the key/value heads among the divisors of the query heads.
// data-tables: {"models": {name: [layers, query heads, KV heads, head dimension, window or 0, context]},
// "cards": [[size, names, MiB], …]}.

const NONE = 18, FROM = 24, TO = 42, KINDS = ['as it is', 'as MHA', 'as MQA']; // the axis: 2^24 to 2^42 bytes
const divisors = (n) => [...Array(n).keys()].map((i) => i + 1).filter((i) => n % i === 0);
const own = (all, share) => all[Math.min(share, all.length - 1)];

function compute({ heads, share, d, layers, window, dtype, context, batch, cards }) {
  const most = window < NONE ? 2 ** window : Infinity, kept = Math.min(2 ** context, most);
  const kinds = [own(divisors(heads), share), heads, 1].map((n) => {
    const token = 2 * layers * n * d * 2 ** (dtype - 3), every = token * 2 ** batch; // of one sequence; of all
    const limits = cards.map((size) => { // the first power of two that does not fit
      if (every * most <= size) return null;
      let context = 1;
      while (every * context <= size) context *= 2;
      return context;
    });
    return { heads: n, token, bytes: every * kept, limits };
  });
  return { kept, kinds };
}

const whole = (n) => BigInt(n).toLocaleString('en'); // a double would show 16 digits
const binary = (n, units, digits) => {
  const k = n < 1 ? 0 : Math.min(Math.floor(Math.log2(n) / 10), units.length - 1);
  return `${+(n / 1024 ** k).toPrecision(digits)}${units[k]}`;
};
const size = (bytes) => binary(bytes, [' B', ' KiB', ' MiB', ' GiB', ' TiB', ' PiB'], 4);
const tokens = (n) => n === null ? 'none' : binary(n, ['', ' Ki', ' Mi', ' Gi', ' Ti'], 9);
const place = (bytes) => clamp((Math.log2(bytes) - FROM) / (TO - FROM), 0, 1) * 100;
const join = (list, html) => list.map(html).join('');

class KVCache extends Figure {
  static title = 'Bytes of a KV cache';
  static first = 'Choose a model, move a slider.';
  static controls = { // as Llama-3-70B
    heads: { value: 64, min: 1, max: 128, step: 1, label: 'query heads' },
    share: { value: 3, min: 0, max: 15, step: 1, label: 'KV heads' },
    d: { value: 128, min: 16, max: 256, step: 16, label: 'head dim' },
    layers: { value: 80, min: 1, max: 128, step: 1, label: 'layers' },
    dtype: { value: 4, min: 2, max: 5, step: 1, label: 'dtype' },
    window: { value: NONE, min: 7, max: NONE, step: 1, label: 'window' },
    context: { value: 17, min: 7, max: 20, step: 1, label: 'context' },
    batch: { value: 0, min: 0, max: 10, step: 1, label: 'batch' },
  };
  static presets = {}; // the models are a list to choose from
  static compute = compute;

  static data = 'tables';

  load(tables) {
    const { models, cards } = this.tables = tables;
    this.state.cards = cards.map((card) => card[2] * 2 ** 20);
    for (const name in models) {
      const [layers, heads, kv, d, window, context] = models[name];
      models[name] = { heads, share: divisors(heads).indexOf(kv), d, layers,
        window: window ? Math.log2(window) : NONE, context: Math.log2(context) };
    }
  }

  attributeChangedCallback(...change) {
    this.wanted = 0;
    super.attributeChangedCallback(...change);
  }

  // Key/value heads divide the query heads: where those change, the divisor nearest to the last choice.
  change(changes) {
    const { state } = this, { heads, share } = 'share' in changes ? { ...state, ...changes } : state;
    if ('share' in changes || !this.wanted) this.wanted = own(divisors(heads), share);
    const far = divisors(changes.heads ?? heads).map((n) => Math.abs(Math.log(n / this.wanted)));
    super.change({ ...changes, share: far.indexOf(Math.min(...far)) });
  }

  body(controls) {
    const { models, cards } = this.tables;
    return `<style>
      label.chip{gap:.5rem;border-radius:.4rem}select{font:inherit;font-weight:600;color:inherit;background:none;
      border:0;min-height:2.4rem;cursor:pointer}option{color:#1c2530;background:#fff}
      .chart{position:relative;padding:1.9rem 0 1rem}.chart p{position:relative;z-index:1;width:max-content;
      padding-right:.4rem;background:var(--bg);color:var(--dim);font-size:.8125rem}.chart b{color:var(--ink)}
      .track{height:.9rem;margin-bottom:.2rem;border-radius:2px;background:var(--soft)}
      .bar{height:100%;border-radius:2px;width:var(--w);box-sizing:border-box}.outline{border:2px solid var(--ink);
      background:var(--bg)}.over::after{content:"→";float:right;padding:0 .2rem;line-height:.9rem;background:var(--bg)}
      .chart i{position:absolute;inset:1.75rem auto 1rem var(--x);border-left:2px dotted}
      .chart .mark{left:var(--x);top:var(--y);transform:translate(-50%);font-size:.6875rem;line-height:1}
      .chart .xt{top:auto;bottom:0}.sliders{display:grid;grid-template-columns:repeat(4,1fr);gap:.25rem 1rem}
      table{width:100%;border-collapse:collapse;line-height:1.3}
      th,td{width:18%;padding:.1rem 0 .1rem .4rem;border-top:1px solid var(--line);text-align:right;font-weight:400}
      :is(th,td):first-child{width:auto;padding-left:0;text-align:left}
      thead th{border:0;font-size:.6875rem;color:var(--dim);vertical-align:bottom}thead b{display:block;color:var(--ink)}
      tbody tr:first-child *{font-weight:600}
      @container(max-width:41rem){.formula{font-size:.8125rem}}
      @container(max-width:36rem){.sliders{grid-template-columns:repeat(3,1fr);gap:0 .75rem;font-size:.8125rem}
      .slider input{margin:-.65rem 0 -.35rem}table{font-size:.8125rem}th,td{width:auto}thead th{white-space:nowrap}
      .formula p:first-child{min-height:2.9em}.controls,.formula{margin-top:.25rem}.caption{margin-top:.4rem}}
      @container(max-width:20.5rem){.formula{font-size:.75rem}}
      @container(max-width:19rem){.sliders{grid-template-columns:1fr 1fr}.chart p,table{font-size:.75rem}
      table{table-layout:fixed}:is(th,td):first-child{width:34%}td{white-space:nowrap}thead th{white-space:normal}}@container(max-width:12rem){.sliders{grid-template-columns:1fr}}</style>
    <label class="chip">model <select ref="model"><option value="">of your own</option>${
      join(Object.keys(models), (name) => `<option>${name}</option>`)}</select></label>
    <div class="chart">${join(KINDS, (kind, k) => `<p>${kind}: <span data-t="h${k}"></span> <b data-t="b${k}"></b></p>
    <div class="track"><div class="bar ${['f1', 'f2', 'outline'][k]}" ref="bar${k}"></div></div>`)}
    <div aria-hidden="true">${join(cards, ([size], c) => {
      const at = `style="--x:${place(this.state.cards[c])}%;--y:${c % 2 * 0.8 + 0.2}rem"`;
      return `<i ${at}></i><span class="mark" ${at}>${size}</span>`;
    })}${join([30, 40], (t) => `<span class="mark xt" style="--x:${place(2 ** t)}%">${size(2 ** t)}</span>`)}</div></div>
    ${controls}
    <table><thead><tr><th scope="col">first power of two<br>that does not fit</th>${
      join(cards, ([size, names]) => `<th scope="col"><b>${size}</b>${names}</th>`)}</tr></thead><tbody>${
      join(KINDS, (kind, k) => `<tr><th scope="row">${kind}</th>${
      join(cards, (_, c) => `<td data-t="l${k}${c}"></td>`)}</tr>`)}</tbody></table>
    <div class="formula"><p><span>2 · <b data-t="f0"></b> layers</span> <span>· <b data-t="f1"></b> KV heads</span>
    <span>· <b data-t="f2"></b> dimensions</span> <span>· <b data-t="f3"></b> tokens</span>
    <span>· batch <b data-t="f4"></b></span> <span>· <b data-t="f5"></b> bytes</span>
    </p><p><span>= <b data-t="f6"></b> bytes</span> <span>= <b class="c1" data-t="f7"></b></span></p></div><p class="caption">Query heads are no factor. Logarithmic axis; 1&nbsp;KiB is 1024 bytes, 1&nbsp;Ki 1024 tokens.
    Cards hold ${this.state.cards.map((x) => +(x / 2 ** 30).toPrecision(4)).join(', ')} GiB, as drivers report. Not counted: weights, activations, the
    system. What fewer KV heads or a window cost in quality, no byte tells.</p>`;
  }

  draw(state, { kept, kinds }) {
    const { ref } = this, texts = {}, { heads, d, layers, window, dtype, context, batch } = state;
    kinds.forEach(({ heads: n, token, bytes, limits }, k) => {
      texts[`h${k}`] = `${n} KV · ${size(token)} a token ·`;
      texts[`b${k}`] = size(bytes);
      ref[`bar${k}`].style.setProperty('--w', `${place(bytes)}%`);
      ref[`bar${k}`].classList.toggle('over', bytes > 2 ** TO);
      limits.forEach((n, c) => { texts[`l${k}${c}`] = tokens(n); });
    });
    const [now, mha, mqa] = kinds, bytes = 2 ** (dtype - 3);
    [layers, now.heads, d, whole(kept), whole(2 ** batch), bytes < 1 ? '½' : bytes, whole(now.bytes), size(now.bytes),
    ].forEach((x, i) => { texts[`f${i}`] = `${x}`; });
    this.inputs.find((i) => i.id === 'share').max = divisors(heads).length - 1;
    this.text({ ...texts, heads: `${heads}`, share: `${now.heads}`, d: `${d}`, layers: `${layers}`,
      dtype: ['int4', 'int8', 'float16', 'float32'][dtype - 2], window: window < NONE ? whole(2 ** window) : 'none',
      context: whole(2 ** context), batch: whole(2 ** batch) });
    const { models } = this.tables, same = Object.keys(models).filter((name) => { // two may have the same cache
      const model = models[name];
      return ['heads', 'd', 'layers', 'window'].every((key) => model[key] === state[key])
        && divisors(heads)[model.share] === now.heads;
    });
    if (!same.includes(this.model)) this.model = same.find((name) => models[name].context === context) ?? same[0] ?? '';
    ref.model.value = this.model;
    return `Cache ${size(now.bytes)}, as MHA ${size(mha.bytes)}, as MQA ${size(mqa.bytes)}`;
  }

  ready() {
    this.ref.model.oninput = (e) => {
      e.stopPropagation(); // it is no control of the base
      this.model = e.target.value;
      if (this.model) this.change({ ...this.tables.models[this.model] });
      else this.update(); // no model changes nothing, and says what it is
    };
  }
}

customElements.define('attn-kv-cache', KVCache);
