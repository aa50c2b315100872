// A self-test: it reads question, choices and reasons from its own light DOM, which pages without scripts show folded.
// attnlab.selftests puts this text inside one function, so that every output carries one classic script.
// Colours are inherited or fit any ground: the theme of the page, of JupyterLab and of the system needs no listening.
// The book lends its --line, --soft and --dim; elsewhere a grey stands in.

const KEY = 'attention-measured.selftests'; // {question: {tried: [texts], right: whether the right one is among them}}
let unsaved = null; // what a browser without storage keeps while the page is open

const read = () => {
  if (unsaved) return unsaved;
  try {
    const all = JSON.parse(localStorage.getItem(KEY));
    return all && typeof all === 'object' ? all : {};
  } catch { return {}; }
};
const write = (all) => {
  try {
    localStorage.setItem(KEY, JSON.stringify(all));
    unsaved = null;
  } catch { unsaved = all; }
};

const CSS = `
:host{display:block;position:relative}:host([hidden]),[hidden]{display:none!important}
.card{box-sizing:border-box;max-width:46rem;margin:1rem 0;padding:1rem;border:1px solid var(--line,#80808080);border-radius:.6rem;
  font:400 .9375rem/1.5 system-ui,sans-serif;text-align:left;overflow-wrap:anywhere}
p{margin:0}#head{font-size:.8125rem;line-height:1.25rem}#text{margin:.25rem 0 .75rem}
.choice{margin-top:.5rem}
.choice button{display:flex;gap:.6rem;align-items:center;box-sizing:border-box;width:100%;min-height:2.75rem;
  padding:.5rem .75rem;border:1px solid var(--line,#80808080);border-radius:.4rem;background:var(--soft,#8080801a);color:inherit;
  font:inherit;text-align:left;cursor:pointer}
button:hover{border-color:currentColor}
.choice button:is(.right,.wrong){padding:calc(.5rem - 1px) calc(.75rem - 1px);border:2px solid #1a7f4b}
.choice button.wrong{border:2px dashed #c2410c}
:focus-visible{outline:3px solid #3b82f6;outline-offset:2px}
.mark{flex:none;width:1.4rem;height:1.4rem;border:1px solid var(--dim,#808080);border-radius:50%;line-height:1.4rem;font-weight:600;
  text-align:center;box-sizing:content-box}
.right .mark{background:#1a7f4b;border-color:#1a7f4b;color:#fff}.wrong .mark{background:#c2410c;border-color:#c2410c;color:#fff}
.why:not(:empty){padding:.4rem .75rem .5rem 2.85rem}.letter,.paper{display:none}
.spoken{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.foot{display:flex;flex-wrap:wrap;gap:.25rem 1rem;align-items:center;justify-content:space-between;margin-top:.5rem;
  font-size:.8125rem}
.forget{min-height:2.75rem;padding:0;border:0;background:none;color:inherit;font:inherit;text-decoration:underline;
  cursor:pointer}
code{font:.9em ui-monospace,"SF Mono","Cascadia Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace}
sub,sup{line-height:0;font-size:.75em}
@media print{.card{font-size:10pt;break-inside:avoid}.why:not(:empty),.foot,.mark{display:none}.letter,.paper{display:block}
  #text{margin-bottom:.25rem}.choice{margin:0}.paper{margin-top:.5rem;font-size:8.5pt}
  .choice button:is(*,.right,.wrong){min-height:0;padding:.1rem 0;border:0;background:none}}`;

customElements.define('attn-selftest', class extends HTMLElement {
  connectedCallback() {
    // A parser connects an element before it reads what is inside.
    if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', this.#start, { once: true });
    else this.#start();
  }

  #start = () => {
    if (!this.isConnected || !this.querySelector('details')) return;
    if (!this.shadowRoot) this.#build();
    this.dataset.lmSuppressShortcuts = 'true'; // or JupyterLab takes Enter and Space
    document.addEventListener('attn-answer', this.#draw);
    addEventListener('storage', this.#reread);
    this.#draw();
  };

  disconnectedCallback() {
    document.removeEventListener('attn-answer', this.#draw);
    removeEventListener('storage', this.#reread);
  }

  // Another tab answered, or the page forgot everything.
  #reread = () => { unsaved = null; this.#draw(); };

  #build() {
    const root = this.attachShadow({ mode: 'open' }), [head, text] = this.querySelectorAll(':scope > p');
    this.choices = [...this.querySelectorAll('details')].map((d) => {
      const text = d.firstElementChild;
      return { text: text.textContent, html: text.innerHTML, reason: d.lastElementChild.innerHTML };
    });
    const letters = 'ABCD', place = this.getAttribute('right') - 1;
    const paper = this.choices[place]?.reason.replace(/^<strong>.*?<\/strong>/, `Right: ${letters[place]}.`);
    const choices = this.choices.map(({ html }, i) => `<div class="choice">
      <button type="button" value="${i}"><span class="mark" aria-hidden="true"></span><span class="letter"
      aria-hidden="true">${letters[i]}.</span><span>${html}</span></button><div class="why"></div></div>`);
    root.innerHTML = `<style>${CSS}</style><div class="card" role="group" aria-labelledby="head text">
      <p id="head">${head.innerHTML}</p><p id="text">${text.innerHTML}</p>${choices.join('')}
      <p class="foot" hidden><span></span><button type="button" class="forget">Forget my answer</button></p>
      <p class="paper" aria-hidden="true">${paper}</p></div><div class="spoken" role="status"></div>`;
    this.spoken = root.lastElementChild;
    this.buttons = [...root.querySelectorAll('.choice button')];
    root.addEventListener('click', (e) => {
      const button = e.target.closest('button');
      if (button) this.#answer(this.choices[button.value]);
    });
    root.addEventListener('focusout', () => this.#say('')); // what was said stands below its choice
    root.addEventListener('keydown', (e) => {
      if (e.key !== 'Escape') return; // JupyterLab leaves all keys to it while it has the focus: give them back
      root.activeElement?.blur();
      this.closest('.jp-Cell, .jp-Notebook')?.focus();
    });
  }

  // A region that is written again would be spoken again.
  #say = (html) => {
    if (this.said !== html) this.spoken.innerHTML = html;
    this.said = html;
  };

  #right = (i) => this.getAttribute('right') === `${i + 1}`;

  #tried = () => {
    const { tried } = read()[this.getAttribute('question')] ?? {};
    return this.choices.map(({ text }) => Array.isArray(tried) && tried.includes(text));
  };

  // Without a choice: forget all of this question.
  #answer(choice) {
    const all = { ...read() }, question = this.getAttribute('question'), before = this.#tried();
    const tried = this.choices.filter((c, i) => before[i] || c === choice);
    if (choice) all[question] = { tried: tried.map((c) => c.text), right: tried.some((c) => this.#right(this.choices.indexOf(c))) };
    else delete all[question];
    write(all);
    const detail = { question, choice: choice?.text ?? null, right: !!all[question]?.right };
    this.dispatchEvent(new CustomEvent('attn-answer', { bubbles: true, composed: true, detail }));
    this.#say(choice?.reason ?? '');
    if (!choice) this.buttons[0].focus(); // the button that was pressed is gone
  }

  #draw = () => {
    const tried = this.#tried(), foot = this.shadowRoot.querySelector('.foot');
    this.choices.forEach(({ reason }, i) => {
      const button = this.buttons[i], why = button.nextElementSibling;
      button.setAttribute('aria-pressed', tried[i]);
      button.className = tried[i] ? (this.#right(i) ? 'right' : 'wrong') : '';
      button.firstChild.textContent = tried[i] ? (this.#right(i) ? '✓' : '✗') : '';
      if (!tried[i] === !why.innerHTML) return;
      why.innerHTML = tried[i] ? reason : '';
      why.firstElementChild?.setAttribute('id', `verdict${i}`);
      if (tried[i]) button.setAttribute('aria-describedby', `verdict${i}`);
      else button.removeAttribute('aria-describedby');
    });
    foot.hidden = !tried.includes(true);
    const all = read(), here = [...document.querySelectorAll('attn-selftest')].map((el) => el.getAttribute('question'));
    const right = here.filter((question) => all[question]?.right === true).length;
    foot.firstChild.textContent = here.length > 1 ? `${right} of ${here.length} self-tests right` : '';
  };
});
