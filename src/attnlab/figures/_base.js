// What the live figures share.  attnlab.figures puts this text in front of a figure's own, inside one function, so
// that every output carries one classic script: no imports, no requests, one definition of the element a page.

const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
const fixed = (x, digits) => x.toFixed(digits).replace(/^-(?=[0.]+$)/, '').replace('-', '−'); // never "−0.0"
const percent = (x) => fixed(100 * x, 1) + ' %';
const softmax = (scores) => {
  const top = Math.max(...scores), e = scores.map((s) => Math.exp(s - top)), sum = e.reduce((a, b) => a + b);
  return e.map((x) => x / sum);
};

// A figure has a static `title` and `first`, what to do first in a few words; static `controls` (name → value, min, max, step, label; `log`: the slider moves in powers of ten; with
// `options`, names → words, it is a choice of one; without either it is a checkbox), static `presets`, a static pure
// `compute(state)`, where it has stored numbers `data`, the name of their attribute without data-, and load(numbers);
// body() for its HTML, ready() for listeners of its own, and draw(state, result), which returns a
// summary to be spoken.  In the HTML, data-t="name" is a text that this.text() writes, and ref="name" an element kept
// in this.ref.
class Figure extends HTMLElement {
  static get observedAttributes() { return ['preset', ...Object.keys(this.controls)]; }
  state = Object.fromEntries(Object.entries(this.constructor.controls).map(([name, c]) => [name, c.value]));
  ref = {};
  faults = {}; // what is wrong with an attribute: said in the figure
  #texts = {};

  attributeChangedCallback(name, _, value) {
    const { controls, presets } = this.constructor, c = controls[name];
    const expect = (good, what) => {
      this.faults[name] = good || value === null ? '' : `${name}="${value}" is not ${what}.`;
    };
    const oneOf = (all) => expect(Object.hasOwn(all, value), `one of ${Object.keys(all).join(', ')}`);
    if (!c) {
      oneOf(presets);
      Object.assign(this.state, presets[value]);
    } else if (c.options) {
      oneOf(c.options);
      this.state[name] = Object.hasOwn(c.options, value) ? value : c.value;
    } else if (c.min === undefined) this.state[name] = value !== null && value !== 'false';
    else {
      const [low, high] = [c.min, c.max].map((x) => (c.log ? 10 ** x : x)), number = value?.trim() ? +value : NaN;
      expect(number >= low && number <= high, `a number from ${low} to ${high}`);
      this.state[name] = value && isFinite(value) ? this.#value(c, this.#place(c, +value)) : c.value;
    }
    if (this.isConnected && this.shadowRoot) this.update();
  }

  #place = (c, value) => clamp(c.log ? Math.log10(Math.max(value, 1e-9)) : value, c.min, c.max);
  #value = (c, place) => (c.log ? +(10 ** place).toPrecision(3) : c.step === 1 ? Math.round(place) : place);

  connectedCallback() {
    if (!this.shadowRoot) {
      const { data } = this.constructor;
      try {
        if (data) this.load(JSON.parse(this.dataset[data]));
      } catch {
        if (!this.media) this.insertAdjacentHTML('afterbegin', `<p role="alert">${this.localName} cannot start: data-${
          data} is missing or damaged. A picture of it follows.</p>`);
        return void (this.media = {});
      }
      this.#build();
    }
    this.dataset.lmSuppressShortcuts = 'true'; // or JupyterLab takes the arrow keys
    this.media = matchMedia('(prefers-color-scheme: dark)');
    this.media.addEventListener('change', this.theme);
    this.observer = new MutationObserver(this.theme);
    const attributeFilter = ['data-theme', 'theme', 'data-jp-theme-light', 'data-vscode-theme-kind'];
    for (const el of [document.documentElement, document.body]) this.observer.observe(el, { attributeFilter });
    this.theme();
    this.update();
  }

  disconnectedCallback() {
    this.media.removeEventListener?.('change', this.theme);
    this.observer?.disconnect();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
  }

  // The page's own choice of theme counts (pydata, Colab, VS Code, JupyterLab), and only then the system's.
  theme = () => {
    const html = document.documentElement, body = document.body.dataset;
    const name = `${html.dataset.theme || html.getAttribute('theme') || body.vscodeThemeKind
      || { true: 'light', false: 'dark' }[body.jpThemeLight]}`;
    this.ref.card.classList.toggle('dark', /dark|contrast$/.test(name) || (!/light/.test(name) && this.media.matches));
  };

  #build() {
    const { controls, presets, title, first } = this.constructor, root = this.attachShadow({ mode: 'open' });
    let chips = Object.keys(presets).map((p) => `<button type="button" class="chip">${p}</button>`).join('');
    let sliders = '', checks = '', choices = '';
    for (const [id, c] of Object.entries(controls)) {
      if (c.options) choices += `<div class="chips pick" role="radiogroup" aria-label="${c.label}">${
        Object.keys(c.options).map((o) => `<label class="chip"><input type="radio" name="${id}" value="${o}">${
          c.options[o]}</label>`).join('')}</div>`;
      else if (c.min === undefined)
        checks += `<label class="chip"><input type="checkbox" id="${id}">${c.label}</label>`;
      else sliders += `<div class="slider"><label for="${id}">${c.label}</label><b data-t="${id}"></b>
        <input type="range" id="${id}" min="${c.min}" max="${c.max}" step="${c.step}"></div>`;
    }
    if (sliders) sliders = `<div class="sliders">${sliders}</div>`;
    if (chips + checks) chips = `<div class="chips" ${chips && 'role="group" aria-label="presets"'}>${chips}${checks}</div>`;
    root.innerHTML = `<style>${CSS}</style><div class="card" ref="card" role="group" aria-label="${title}"><p
      class="first"><b>${title}.</b> ${first}</p><p class="fault" role="alert" data-t="fault"></p>${
      this.body(`<div class="controls">${choices}${sliders}${chips}</div>`)}<p class="sr" role="status" data-t="live"></p></div>`;
    for (const el of root.querySelectorAll('[ref]')) this.ref[el.getAttribute('ref')] = el;
    for (const el of root.querySelectorAll('[data-t]'))
      (this.#texts[el.dataset.t] ??= []).push(el.appendChild(document.createTextNode('')));
    this.inputs = [...root.querySelectorAll('input')];
    this.buttons = [...root.querySelectorAll('button')];
    this.ready?.();
    root.addEventListener('input', ({ target: i }) => this.change(i.name ? { [i.name]: i.value } : {
      [i.id]: i.type === 'range' ? this.#value(controls[i.id], i.valueAsNumber) : i.checked }));
    root.addEventListener('click', ({ target: b }) => presets[b.textContent] && this.glide(presets[b.textContent]));
    root.addEventListener('keydown', (e) => { // a book turns its pages on ← and →
      if (/^(Arrow|Page|Home|End)/.test(e.key)) e.stopPropagation();
      if (e.key !== 'Escape') return; // JupyterLab leaves all keys to a figure that has the focus: give them back
      root.activeElement?.blur();
      this.closest('.jp-Cell, .jp-Notebook')?.focus();
    });
  }

  // A change by the reader: drawn at once, told to the page.  What changes nothing is not drawn.
  change(changes) {
    cancelAnimationFrame(this.frame);
    if (Object.keys(changes).every((name) => changes[name] === this.state[name])) return;
    Object.assign(this.state, changes);
    const detail = { ...this.state, ...this.update() };
    this.dispatchEvent(new CustomEvent('attn-change', { bubbles: true, composed: true, detail }));
  }

  // Moves there in a third of a second, so that the eye can follow; at once for readers who want no motion.
  glide(target) {
    const { controls } = this.constructor, from = { ...this.state }, start = performance.now();
    if (matchMedia('(prefers-reduced-motion: reduce)').matches) return this.change(target);
    const step = (now) => {
      const t = clamp((now - start) / 350, 0, 1), s = t * t * (3 - 2 * t), between = {};
      for (const name in target) {
        const c = controls[name];
        if (c.min === undefined) continue;
        const a = this.#place(c, from[name]), b = this.#place(c, target[name]);
        between[name] = this.#value(c, a + s * (b - a));
      }
      this.change(t < 1 ? between : target);
      if (t < 1) this.frame = requestAnimationFrame(step);
    };
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(step);
  }

  // Writes text nodes and attributes; never creates a node.
  update() {
    const { controls, presets, compute } = this.constructor, { state } = this, result = compute(state);
    const summary = this.draw(state, result);
    this.text({ fault: Object.values(this.faults).filter(Boolean).join(' ') });
    for (const i of this.inputs) {
      if (i.type !== 'range') i.checked = i.name ? state[i.name] === i.value : state[i.id];
      else {
        i.value = this.#place(controls[i.id], state[i.id]);
        i.setAttribute('aria-valuetext', i.previousElementSibling.textContent); // the summary is spoken once, below
      }
    }
    for (const b of this.buttons)
      b.setAttribute('aria-pressed', Object.entries(presets[b.textContent]).every(([name, v]) => state[name] === v));
    clearTimeout(this.timer); // speak when the reader has stopped, and not at the start
    if (this.drawn) this.timer = setTimeout(() => this.text({ live: summary }), 700);
    this.drawn = true;
    return result;
  }

  text(values) {
    for (const name in values)
      for (const node of this.#texts[name]) if (node.data !== values[name]) node.data = values[name];
  }
}

// The ring of a slider goes around its thumb, and leaves its label alone.  Where the system sets the colours, they stand in
// for the figure's own, and a grid stays behind what is drawn on it.  A letter twice as large on a phone leaves room for a smaller drawing only.
const CSS = `
.card{--bg:#fff;--ink:#1c2530;--dim:#5a6673;--line:#dfe4ea;--soft:#f3f5f8;--k1:#0a66b0;--k2:#b44a00;
  container-type:inline-size;box-sizing:border-box;max-width:46rem;margin:1rem 0;padding:1rem;
  border:1px solid var(--line);border-radius:.6rem;background:var(--bg);color:var(--ink);color-scheme:light;
  font:400 .875rem/1.45 system-ui,sans-serif;font-variant-numeric:tabular-nums;text-align:left;
  print-color-adjust:exact;forced-color-adjust:none}
@media screen{.dark{--bg:#14181e;--ink:#e8edf3;--dim:#a3afbb;--line:#343c46;--soft:#212831;--k1:#6db5f7;--k2:#ffa45c;
  color-scheme:dark}}
:host{display:block}:host([hidden]){display:none}
@media screen and (forced-colors:active){.card,.dark{--bg:Canvas;--ink:CanvasText;--dim:CanvasText;
  --line:color-mix(in srgb,GrayText 60%,Canvas);--soft:Canvas;--k1:LinkText;--k2:CanvasText}.card .chip{border-color:CanvasText}.halo b,i.halo{background:Canvas}}
@media(max-width:24rem){.card{padding:.75rem .6rem}}
p{margin:0}.first{margin-bottom:.5rem}.first b{white-space:normal}.fault:empty{display:none}
.fault{margin-bottom:.5rem;padding-left:.5rem;border-left:4px solid var(--k2)}.h{font-size:.8125rem;color:var(--dim)}.h+*{font-size:.9375rem;font-weight:600;white-space:nowrap}
.formula{margin-top:.75rem;padding:.5rem .75rem;border-radius:.4rem;background:var(--soft)}
.formula p+p{margin-top:.2rem}.formula span,.nw{white-space:nowrap}sup{line-height:0;font-size:.78em}
.caption{margin-top:.75rem;color:var(--dim);font-size:.8125rem}
.c1{color:var(--k1)}.c2{color:var(--k2)}b{font-weight:600;white-space:nowrap}
path,line{fill:none;stroke:currentColor;stroke-width:1.5px;vector-effect:non-scaling-stroke}
.dash{stroke-dasharray:4 3;stroke:var(--dim)}
.mark{position:absolute;transform:translate(-50%,-50%);white-space:nowrap}
.disk{width:1.5rem;height:1.5rem;border-radius:50%;text-align:center;font-weight:600;line-height:1.45rem;
  background:var(--ink);color:var(--bg);box-shadow:0 0 0 2px var(--bg)}
.f1,.f2{background:var(--k1)}.f2{background:repeating-linear-gradient(135deg,var(--k2) 0 4px,var(--bg) 4px 6px);
  box-shadow:inset 0 0 0 1.5px var(--k2)}
.controls{margin-top:.5rem}.sliders{display:flex;flex-wrap:wrap;gap:.5rem 1.5rem}
.slider{flex:1 9rem;display:grid;grid-template-columns:1fr auto}
input[type=range]{grid-column:1/3;width:100%;height:2.5rem;margin:-.35rem 0 0;background:none;cursor:pointer;
  appearance:none}
::-webkit-slider-runnable-track{height:4px;border-radius:2px;background:var(--dim)}
::-moz-range-track{height:4px;border-radius:2px;background:var(--dim)}
::-webkit-slider-thumb{appearance:none;width:1.25rem;height:1.25rem;margin-top:calc(2px - .625rem);border-radius:50%;
  background:var(--ink);border:2px solid var(--bg)}
::-moz-range-thumb{box-sizing:border-box;width:1.25rem;height:1.25rem;border-radius:50%;background:var(--ink);
  border:2px solid var(--bg)}
.chips{display:flex;flex-wrap:wrap;gap:.5rem}
.chip{position:relative;display:inline-flex;align-items:center;gap:.4rem;min-height:2.5rem;box-sizing:border-box;
  padding:0 .75rem;font:inherit;color:inherit;background:var(--soft);border:1px solid var(--line);border-radius:1.25rem;
  cursor:pointer}
.chip[aria-pressed=true]{border-color:currentColor;box-shadow:inset 0 0 0 1px currentColor}
.chip:hover{border-color:var(--dim)}
.chip input{width:1.1rem;height:1.1rem;margin:0;accent-color:var(--ink)}
.pick{gap:.25rem;margin-bottom:.5rem}.pick input{position:absolute;opacity:0}
.pick :has(:checked){background:var(--ink);color:var(--bg)}
:focus-visible,.pick :has(:focus-visible){outline:3px solid var(--k1);outline-offset:2px}
input[type=range]:focus-visible{outline:0}
:focus-visible::-webkit-slider-thumb{outline:3px solid var(--k1);outline-offset:1px}
:focus-visible::-moz-range-thumb{outline:3px solid var(--k1);outline-offset:1px}
@container(max-width:36rem){.first{font-size:.8125rem}}
@container(max-width:20rem){.chip{padding:0 .6rem}.chips{gap:.4rem}.slider{flex-basis:6.5rem}}
@container(max-width:15rem){.card>:not(p,style,.formula,.controls){zoom:.6}.formula *{white-space:normal!important}}
.sr{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
@media print{.controls{display:none}.card{break-inside:avoid}}`;
