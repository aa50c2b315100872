// <attn-split-merge token="1" feature="5" n_heads="2" way="right">: one number on its way into the heads and back.

const N = 4, D = 8, PLACES = [...Array(N * D).keys()];
const invert = (to) => to.reduce((from, q, p) => Object.assign(from, { [q]: p }), []);
const forgets = (way, step) => way.endsWith('swap') || way.endsWith(step);

// A position is flat: row after row, the order in which reshape reads and writes.  `heads` and `merged` say which
// number of x lies at each of their positions; `at` and `landed` are those of the number that is followed.
function compute({ token, feature, n_heads, way }) {
  const d = D / n_heads, followed = D * token + feature;
  const swap = PLACES.map((p) => { // x[i, j] → heads[h, i, c], h = j // d, c = j % d
    const i = Math.floor(p / D), j = p % D;
    return (Math.floor(j / d) * N + i) * d + j % d;
  });
  const split = forgets(way, 'split') ? PLACES : swap, merge = forgets(way, 'merge') ? PLACES : invert(swap);
  const at = split[followed];
  return { d, followed, at, landed: merge[at], heads: invert(split), merged: invert(split.map((p) => merge[p])) };
}

const over = (p, by) => Math.floor(p / by), letter = (i) => 'abcd'[i], named = (p) => letter(over(p, D)) + p % D;
const some = (word, all) => { // a few of a kind: "features 4 to 7"
  const last = all.at(-1), end = all[2] === undefined ? ` and ${last}` : ` to ${last}`;
  return all[1] === undefined ? `${word} ${last}` : `${word}s ${all[0]}${end}`;
};
const holds = (places) => { // every set here is some features of some tokens
  const of = (part) => [...new Set(places.map(part))].sort();
  const js = of((p) => p % D), is = of((p) => over(p, D));
  return `${js[7] ? 'all features' : some('feature', js)} of ${is[3] ? 'every token' : some('token', is.map(letter))}`;
};

const cells = (id) => PLACES.map((k) => `<span class="cell"><b data-t="${id}${k}"></b></span>`);
const IMAGE = 'role="img"';
const CHOOSE = 'role="slider" tabindex="0" aria-label="number of x" aria-valuemin="0" aria-valuemax="31"';
const board = (id, top, role = IMAGE) => `<div><p class="h">${id} (<span data-t="${id}_shape"></span>)</p>
  <p>${id}[<span data-t="${id}_at"></span>] = <span data-t="name"></span></p><div class="board" ref="${id}" ${role}>
  <i>${top}</i>${[...'01234567'].map((j) => `<i>${j}</i>`).join('')}${
  cells(id).map((cell, k) => (k % D ? '' : `<i>${k / D}</i>`) + cell).join('')}</div></div>`;
const strip = (id) => `<p class="rim">Flat ${id}: position <span data-t="${id}_sum"></span> = <b
  data-t="${id}_flat"></b></p><div class="strip" ref="${id}_row" ${IMAGE}>${cells(id + '_row').join('')}</div>`;

class SplitMerge extends Figure {
  static title = 'Into the heads and back';
  static first = 'Click a number, then choose how to split and merge.';
  static controls = {
    token: { value: 1, min: 0, max: 3, step: 1 },
    feature: { value: 5, min: 0, max: 7, step: 1 },
    n_heads: { value: '2', label: 'number of heads', options: { 1: 'H = 1', 2: 'H = 2', 4: 'H = 4', 8: 'H = 8' } },
    way: { value: 'right', label: 'way', options: Object.fromEntries(
      ['right', 'no swap in split', 'no swap in merge', 'no swap'].map((o) => [o, o])) },
  };
  static presets = {};
  static compute = compute;

  body(controls) {
    controls = controls.replace(/<div class="sliders">[^]*/, '</div>'); // the number is chosen on the board of x
    return `<style>
      .flow{display:grid;grid-template-columns:repeat(3,minmax(0,1fr));gap:.6rem 1.25rem}
      .board,.strip{display:grid;grid-template-columns:.8rem repeat(8,minmax(0,1fr));text-align:center;
      font-size:.75rem;line-height:1.4rem;user-select:none;-webkit-user-select:none}
      .strip{grid-template-columns:repeat(32,minmax(0,1fr))}i{font-style:normal;color:var(--dim);font-size:.6875rem}
      .rim{margin-top:.4rem;font-size:.8125rem}
      .cell{margin:0 -1px -1px 0;border:1px solid var(--line);cursor:pointer}.cell b{font-weight:400}
      .gap{margin-left:3px}.strip .cell:nth-child(8n+1){margin-left:2px}
      .kin{background:color-mix(in srgb,var(--k1) 20%,var(--bg));box-shadow:inset 0 -2px var(--k1)}
      .now{position:relative;background:var(--k1);color:var(--bg);outline:2px solid var(--ink)}
      .now b{font-weight:700}.home{position:relative;outline:2px dashed var(--k2)}
      @media screen{.controls{display:flex;flex-wrap:wrap;gap:0 1rem;margin-top:.75rem}}
      .chip{padding:0 .65rem}.formula p:last-child{min-height:2.9em}
      @container(max-width:43rem){.formula{min-height:9.2em}}
      @container(max-width:36rem){.flow{grid-template-columns:1fr 1fr;gap:.4rem .75rem}.formula{font-size:.8125rem}
      .flow>:first-child{grid-column:1/3}.flow>:first-child p{display:inline;margin-right:.4rem}
      .flow>*+* .board{line-height:1.25rem}.wide{display:none}
      .formula{min-height:6.35em;padding:.4rem .6rem;margin-top:.25rem}.board,.strip{font-size:.6875rem}
      .strip{grid-template-columns:repeat(16,minmax(0,1fr));line-height:1.2rem}
      .chip{padding:0 .4rem;font-size:.75rem}[ref=x]{line-height:1.4rem}.rim{margin-top:.2rem}.pick{margin-bottom:.25rem}
      .controls{margin-top:.5rem!important}}
      @container(max-width:32.5rem){.formula{min-height:7.75em}}@container(max-width:29rem){.formula{min-height:9.2em}}@container(max-width:22rem){.formula{font-size:.75rem;min-height:9.3em}}
      @container(max-width:20rem){.flow{gap:.4rem .5rem}.flow>*+* .board{grid-template-columns:.6rem repeat(8,minmax(0,1fr));
      font-size:.625rem;letter-spacing:-.02em}.gap{margin-left:1px}.strip{font-size:.625rem}.chip{padding:0 .3rem;min-width:2.5rem;justify-content:center;font-size:.6875rem}.formula{min-height:12.2em}
      .formula span{white-space:normal}.formula p:last-child{min-height:0}}</style>
    <div class="flow">${board('x', 'j', CHOOSE)}${board('heads', 'h')}${board('merged', 'j')}</div>
    ${strip('x')}${strip('heads')}${controls}
    <div class="formula"><p><b>split</b> <span data-t="split"></span> <span data-t="into"></span>
    <span class="wide">→ heads[<span data-t="heads_at"></span>]</span></p>
    <p><b>merge</b> <span data-t="merge"></span> <span data-t="back"></span>
    <span class="wide">→ merged[<span data-t="merged_at"></span>]</span></p><p data-t="note"></p></div>
    <p class="caption">b5: token b, feature 5. Arrow keys move in x. Tinted, underlined: its head;
    dashed: where it belongs. A reshape keeps the flat order, row after row; only the swap of axes changes it.
    None of the four ways raises an error in NumPy.</p>`;
  }

  draw({ token: i, feature: j, n_heads, way }, { d, followed, at, landed, heads, merged }) {
    const H = +n_heads, size = N * d, h = over(at, size), row = over(at, d) % N, c = at % d, name = named(followed);
    const kin = heads.slice(h * size, h * size + size), r = over(landed, D), q = landed % D;
    const line = merged.slice(r * D, r * D + D);
    const shown = PLACES.map((k) => heads[(over(k % D, d) * N + over(k, D)) * d + k % d]); // side by side
    const texts = { name };
    for (const [id, places] of Object.entries({ x: PLACES, heads: shown, merged, x_row: PLACES, heads_row: heads })) {
      if (id !== 'x') this.ref[id].setAttribute('aria-label', `${id.replace('_row', ', flat')}: ${places.map(named)}`);
      this.cells[id].forEach((cell, k) => {
        texts[id + k] = named(cell.place = places[k]);
        cell.classList.toggle('now', places[k] === followed);
        cell.classList.toggle('kin', kin.includes(places[k]));
        cell.classList.toggle('home', id === 'merged' && k === followed && k !== landed);
        if (id === 'heads') cell.classList.toggle('gap', k % D > 0 && k % d === 0);
      });
    }
    this.tops.forEach((el, k) => {
      el.style.display = k < H ? '' : 'none';
      el.style.gridColumn = `span ${d}`;
    });
    const cut = new Set(kin.map((p) => over(p, D))).size < N, home = line.every((p, k) => p === r * D + k);
    const noSplit = forgets(way, 'split'), noMerge = forgets(way, 'merge'), place = `${h}, ${row}, ${c}`;
    const note = `Head ${h} holds ${holds(kin)}${cut ? ', and no other token' : ''}. Row ${r} of merged ${
      home ? `is token ${letter(r)} again` : `should be token ${letter(r)}, and holds ${holds(line)}`}${
      home && cut ? ': a round trip shows no fault' : ''}.`;
    this.text({ ...texts, note, x_shape: '4, 8', x_at: `${i}, ${j}`,
      heads_shape: `${H}, 4, ${d}`, heads_at: place, merged_shape: '4, 8', merged_at: `${r}, ${q}`,
      x_sum: '8·i + j', x_flat: `${followed}`, heads_sum: `${size}·h + ${d}·i + c`, heads_flat: `${at}`,
      split: noSplit ? `x.reshape(${H}, 4, ${d}):` : `x.reshape(4, ${H}, ${d}).swapaxes(0, 1):`,
      into: noSplit ? `position ${at} = ${size}·${h} + ${d}·${row} + ${c}` // a no-break space, or it is a comment
        : `h = j\xa0// d_head = ${j}\xa0// ${d} = ${h}, c = j % d_head = ${c}`,
      merge: noMerge ? 'heads.reshape(4, 8):' : 'heads.swapaxes(0, 1).reshape(4, 8):',
      back: noMerge ? `position ${at} = 8·${r} + ${q}` : `j = h·d_head + c = ${h}·${d} + ${c} = ${q}` });
    const summary = `${name} is in heads[${place}] and in merged[${r}, ${q}]. ${note}`;
    this.ref.x.setAttribute('aria-valuenow', followed);
    this.ref.x.setAttribute('aria-valuetext', name);
    return summary;
  }

  ready() {
    const of = (id) => [...this.ref[id].querySelectorAll('.cell')];
    this.cells = Object.fromEntries(['x', 'heads', 'merged', 'x_row', 'heads_row'].map((id) => [id, of(id)]));
    this.tops = [...this.ref.heads.children].slice(1, 9);
    this.shadowRoot.addEventListener('click', ({ target }) => {
      const { place } = target.closest('.cell') ?? {};
      if (place !== undefined) this.change({ token: over(place, D), feature: place % D });
    });
    this.ref.x.addEventListener('keydown', (e) => {
      const { token: i, feature: j } = this.state, to = { ArrowLeft: [i, j - 1], ArrowRight: [i, j + 1],
        ArrowUp: [i - 1, j], ArrowDown: [i + 1, j], Home: [i, 0], End: [i, D - 1] }[e.key];
      if (to) this.change({ token: clamp(to[0], 0, N - 1), feature: clamp(to[1], 0, D - 1) });
      if (to || e.key.startsWith('Page')) e.preventDefault(); // a page must not run away under the figure
    });
  }
}

customElements.define('attn-split-merge', SplitMerge);
