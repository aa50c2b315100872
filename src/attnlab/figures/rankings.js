// <attn-rankings token="0" sentence="0" model="bilstm" data-rankings='{"tokens": …, "models": …}'>: a review, six
// rankings of its words by a real model, and what becomes of the prediction without one of them.  All of it is stored;
// a ranking as shares, whose sum is 1.

const range = (n) => [...Array(n).keys()];
const sigmoid = (x) => 1 / (1 + Math.exp(-x));
const JUDGE = 'leave-one-out';

// Pairs of words that two rankings put in the same order, and in opposite orders; no two shares are equal.
function agreement(a, b) {
  const pairs = a.flatMap((x, i) => range(i).map((j) => (x - a[j]) * (b[i] - b[j])));
  const same = pairs.filter((product) => product > 0).length, opposite = pairs.length - same;
  return { same, opposite, tau: (same - opposite) / pairs.length };
}

function compute({ data, token, sentence, model }) {
  const tokens = data.tokens[sentence], { logit, without, rankings: stored } = data.models[model][sentence];
  const gone = Math.min(token, tokens.length), now = gone ? without[gone - 1] : logit, rankings = {};
  for (const name in stored) {
    const shares = stored[name];
    rankings[name] = { shares, first: shares.indexOf(Math.max(...shares)), ...agreement(shares, stored[JUDGE]) };
  }
  return { tokens, token: gone, logit, now, p: sigmoid(logit), p_now: sigmoid(now), rankings };
}

const MOST = 14; // logits on the line
const two = (x) => fixed(x, 2), place = (x) => `${50 + (50 * clamp(x, -MOST, MOST)) / MOST}%`;
const join = (list, html) => list.map(html).join('');
// Never 0 % and never 100 %: as many digits as the smaller of p and 1 − p needs for one or two of its own.
const chance = (p) => fixed(100 * p, Math.ceil(-Math.log10(Math.min(p, 1 - p))) - 1) + '\xa0%';

class Rankings extends Figure {
  static title = 'Six rankings of a review';
  static first = 'Point at a word to remove it.';
  static controls = {
    token: { value: 0, min: 0, max: 9, step: 1, label: 'remove' },
    sentence: { value: '0', label: 'sentence', options: { 0: '1', 1: '2', 2: '3', 3: '4' } },
    model: { value: 'bilstm', label: 'model', options: { bilstm: 'BiLSTM', 'no context': 'no context' } },
  };
  static presets = {};
  static compute = compute;

  static data = 'rankings';

  load(data) { this.state.data = data; }

  body(controls) {
    const { tokens, models } = this.state.data, most = range(Math.max(...tokens.map((t) => t.length)));
    this.names = Object.keys(models.bilstm[0].rankings);
    return `<style>
      table{width:100%;border-spacing:3px 2px;table-layout:fixed;font-size:.8125rem;line-height:1.3}
      tbody{line-height:1.4em}th{font-weight:400;text-align:left;padding:0}th:first-child{width:18%}
      thead th{overflow-wrap:normal;font-size:.75rem;vertical-align:bottom}thead th+th{text-align:right;padding-right:.3rem}
      tbody tr{cursor:pointer}tbody th{padding:.1rem .3rem;font-size:.875rem;white-space:nowrap}
      tr:has(th span:empty){visibility:hidden}
      td{padding:.1rem .3rem;text-align:right;background:linear-gradient(color-mix(in srgb,var(--k1) 35%,var(--bg)) 0 0)
      0/var(--w) 100% no-repeat var(--soft)}td b{font-weight:400}
      .top{outline:2px solid var(--ink);outline-offset:-1px}.top b{font-weight:700}.top b::before{content:"★ "}
      .gone th{text-decoration:line-through;background:var(--ink);color:var(--bg)}
      tfoot td{background:none;font-weight:600;white-space:nowrap}
      .line{position:relative;height:3.1rem;margin:.5rem 1.2rem 0}.line hr{margin:0;border:0;border-bottom:2px solid
      var(--dim);height:1rem}.line .mark{top:1rem}.line .t{top:2.6rem;color:var(--dim)}
      .ring{width:1.9rem;height:1.9rem;border:2px dashed var(--k2);border-radius:50%}.big{font-size:1.25rem}
      .pick{display:inline-flex;align-items:center;margin:0 1rem 0 0}.pick:first-child::before{content:"sentence"}.pick .chip{min-width:2.5rem;justify-content:center}
      .slider{display:flex;align-items:center;gap:.75rem}.slider input{flex:1;margin:0}
      .slider b{order:1;width:6rem}
      @container(max-width:36rem){thead th+th{writing-mode:vertical-rl;transform:rotate(180deg);padding:0}br{display:none}
      thead th{height:5rem}table,tbody th,.formula,.caption,.t,.chip{font-size:.75rem}td,tbody th{padding:.1rem}th:first-child{width:25%}
      .big{font-size:1rem}.say,.pick{font-size:.75rem}.w{display:none}
      .top b::before{content:"★"}.pick.pick{margin:0 .25rem .25rem 0}.chip{padding:0 .4rem}.caption,.formula{margin-top:.25rem}
      .line{margin-top:0}.slider b{width:5rem;font-size:.75rem}}
      @container(max-width:20rem){table,th,td,.formula{font-size:.6875rem!important}table{border-spacing:1px}
      thead th{height:4.7rem}.big{font-size:.875rem}th:first-child{width:30%}.formula{padding:.3rem}}
      @media(pointer:coarse){tbody tr{height:1.5rem}}@container(max-width:15rem){.slider{display:grid}}</style>
    <table ref="table"><thead><tr><th>share in %</th>${join(this.names, (n) => `<th>${n.replace('-one', '-<br>one')}</th>`)}</tr></thead>
    <tbody>${join(most, (i) => `<tr><th><span data-t="t${i}"></span></th>${
      join(this.names, (_, k) => `<td><b data-t="c${i}_${k}"></b></td>`)}</tr>`)}</tbody>
    <tfoot><tr><th>Kendall’s τ</th>${join(this.names, (_, k) => `<td data-t="tau${k}"></td>`)}</tr></tfoot></table>
    <div class="line" ref="line" role="img"><hr>${join([[-4.595, '1 %'], [0, '50 %'], [4.595, '99 %']], ([x, name]) =>
      `<span class="mark t" style="left:${place(x)}">${name}</span>`)}<span class="mark ring" ref="was"></span><span
      class="mark disk" ref="now">p</span></div>
    <p class="say"><b class="big c1">p(good) = <span data-t="p"></span></b><span class="w" data-t="without"></span><span
    data-t="change"></span></p>${controls}
    <div class="formula"><p><span data-t="f1"></span><span class="w" data-t="seen"></span></p><p data-t="f2"></p></div>
    <p class="caption">A click keeps the word out; the model reads the rest. Share: a score divided by the sum
    of its column; ★ the largest. τ: (word pairs in the order of ${JUDGE} − opposite ones) / all. Replacement: the
    mean of ten drawn words. One model of a kind, four sentences of ours: too few for a rule.</p>`;
  }

  draw(state, { tokens, token: gone, logit, now, p, p_now, rankings }) {
    const { ref } = this, texts = {};
    state.token = gone; // a shorter sentence has no such word, and the slider no dead steps
    this.inputs.at(-1).max = tokens.length;
    this.rows.forEach((row, i) => {
      texts[`t${i}`] = tokens[i] ?? ''; // what is empty is not shown
      row.classList.toggle('gone', i + 1 === gone);
      this.names.forEach((name, k) => {
        const { shares, first } = rankings[name], cell = row.cells[k + 1], share = shares[i] ?? 0;
        texts[`c${i}_${k}`] = fixed(100 * share, 0);
        cell.style.setProperty('--w', `${100 * share}%`);
        cell.classList.toggle('top', i === first);
      });
    });
    this.names.forEach((name, k) => { texts[`tau${k}`] = name === JUDGE ? '–' : two(rankings[name].tau); });
    ref.was.style.left = place(logit);
    ref.now.style.left = place(now);
    const word = `“${tokens[gone - 1]}”`, { same, opposite, tau } = rankings.attention;
    const share = (name) => `${fixed(100 * rankings[name].shares[gone - 1], 0)}\xa0%`;
    const without = gone ? ` without ${word}` : '', change = gone ? `, ${chance(p)} with it` : ' with all words';
    const summary = `p(good) ${chance(p_now)}${without}${change}. First: ${this.names.map((name) =>
      `${name} ${tokens[rankings[name].first]}`).join(', ')}`;
    ref.line.ariaLabel = summary;
    this.text({ ...texts, p: chance(p_now), without, change, token: gone ? tokens[gone - 1] : 'nothing',
      f1: gone ? `logit: ${two(logit)} − ${now < 0 ? `(${two(now)})` : two(now)} = ${two(logit - now)}, ${
        share(JUDGE)} of all` : `logit of good: ln(p / (1 − p)) = ${two(logit)}`,
      seen: gone ? `; attention ${share('attention')}` : '',
      f2: `τ(attention, ${JUDGE}) = (${same} − ${opposite}) / ${same + opposite} = ${two(tau)}` });
    return summary;
  }

  ready() {
    this.rows = [...this.ref.table.tBodies[0].rows];
    let kept, ahead; // the word that is removed when the mouse has left, and the one at which it looks ahead
    this.rows.forEach((row, i) => {
      row.onpointerenter = (e) => {
        if (e.pointerType !== 'mouse') return;
        kept ??= this.state.token;
        this.change({ token: ahead = i + 1 });
      };
      row.onclick = () => {
        const token = i + 1, before = kept ?? this.state.token;
        kept = undefined;
        this.change({ token: before === token ? 0 : token }); // the same word again puts it back
      };
    });
    this.ref.table.tBodies[0].onpointerleave = () => {
      if (kept !== undefined && this.state.token === ahead) this.change({ token: kept });
      kept = undefined;
    };
  }
}

customElements.define('attn-rankings', Rankings);
