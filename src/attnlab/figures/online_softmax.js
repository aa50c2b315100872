// <attn-online-softmax scores="text" tile="2" read="2" forget>: softmax over six keys that are read tile by tile.

const SETS = { text: [1, 3, 2, 0, 5, 1], rising: [0, 1, 2, 3, 4, 5], falling: [5, 4, 3, 2, 1, 0],
  masked: [-Infinity, -Infinity, 2, 0, 5, 1] };
const N = 6, KEYS = [...Array(N).keys()]; // the value of key j is j
const mix = (exps, first = 0) => exps.reduce(([a, b], e, j) => [a + e, b + e * (first + j)], [0, 0]);
const raise = (scores, top) => scores.map((s) => Math.exp(s - (top === -Infinity ? 0 : top))); // −∞ − (−∞) is NaN

// Tiles count as read up to the one that holds key number `read`.  `old` is the state before the last tile.
function compute({ scores, tile, read, forget }) {
  const all = SETS[scores], seen = Math.min(N, Math.ceil(read / tile) * tile);
  let now = { m: -Infinity, total: 0, mixed: 0 }, old = now, begin = 0, exps = [], factor = 0, sums = [0, 0];
  for (let j = 0; j < seen; j += tile) {
    const part = all.slice(j, Math.min(j + tile, N)), m = Math.max(now.m, ...part);
    [begin, old, exps, factor] = [j, now, raise(part, m), raise([now.m], m)[0]];
    sums = mix(exps, j);
    const used = forget && j ? 1 : factor;
    now = { m, total: old.total * used + sums[0], mixed: old.mixed * used + sums[1] };
  }
  const whole = all.slice(0, seen), [total, mixed] = mix(raise(whole, Math.max(...whole)));
  return { ...now, old, begin, seen, exps, factor, sums, output: now.total ? now.mixed / now.total : 0,
    right: total ? mixed / total : 0 };
}

const num = (x, digits = 4) => (Math.abs(x) === Infinity ? (x < 0 ? '−∞' : '∞') : fixed(x, x % 1 ? digits : 0));
const start = { scores: 'text', tile: 2, read: 2, forget: false };

class OnlineSoftmax extends Figure {
  static title = 'Softmax, tile by tile';
  static first = 'Click a key to read up to its tile.';
  static controls = {
    tile: { value: 2, min: 1, max: N, step: 1, label: 'keys in a tile' },
    read: { value: 2, min: 0, max: N, step: 1, label: 'keys read' },
    scores: { value: 'text', label: 'scores', options: { text: 'as in the text', rising: 'rising',
      falling: 'falling', masked: 'two masked' } },
    forget: { value: false, label: 'forget the factor' },
  };
  static presets = { 'nothing read': { read: 0 }, 'all read': { read: N } };
  static compute = compute;

  body(controls) {
    return `<style>
      .keys,.sums{display:grid;font-weight:400;white-space:normal;grid-template-columns:repeat(6,minmax(0,1fr));gap:.3rem;text-align:center}
      .keys{margin-top:.25rem}
      .key{padding:.3rem 0;white-space:nowrap;overflow:hidden;border:1px dashed var(--line);border-radius:.4rem;color:var(--dim);cursor:pointer;
      line-height:1.3;font-size:.8125rem}.key b{display:block;font-size:1rem;color:var(--ink)}
      .done{border-style:solid;background:var(--soft)}
      .fast{border:1px solid var(--k1);box-shadow:inset 0 0 0 1px var(--k1),inset 0 -5px var(--k1);color:var(--ink)}
      .sums{grid-template-columns:repeat(3,minmax(0,1fr));margin:.6rem 0}
      .sums div{padding:.35rem;border:2px solid var(--k1);border-radius:.4rem}.sums b{font-size:1.0625rem}
      .line{position:relative;height:3.4rem;margin:.25rem 1rem 0}.line hr{position:absolute;top:1.2rem;left:0;right:0;
      margin:0;border:0;border-top:2px solid var(--dim)}.line .mark{top:1.2rem}.line .t{top:2.6rem;color:var(--dim);
      font-size:.6875rem}.ring{width:1.9rem;height:1.9rem;border:2px solid var(--k2);border-radius:50%}
      .disk{background:var(--k1);font-size:.75rem}.formula p{min-height:1.45em}
      @container(max-width:30rem){.keys{gap:.15rem}.key{font-size:.625rem}.key b{font-size:.75rem}.formula{font-size:.75rem}.chip{padding:0 .5rem}
      .both{min-height:2.9em}}</style>
    <p class="h">keys in slow memory; the framed tile is in fast memory</p>
    <div class="keys" ref="keys" role="img">${KEYS.map((j) => `<div class="key"><b data-t="s${j}"></b>v = ${j}<br>
    <span data-t="e${j}"></span></div>`).join('')}</div>
    <div class="sums"><div><span class="h">m, largest</span><br><b data-t="m"></b></div>
    <div><span class="h">ℓ, sum</span><br><b data-t="total"></b></div>
    <div><span class="h">o, mixture</span><br><b data-t="mixed"></b></div></div>
    <div class="formula"><p><span data-t="f1"></span><sup data-t="up" class="nw"></sup><span data-t="f"></span></p><p data-t="f2"></p><p data-t="f3"></p></div>
    <div class="line" role="img" ref="line"><hr>${KEYS.map((j) => `<span class="mark t" style="left:${20 * j}%">${j}
    </span>`).join('')}<span class="mark ring" ref="ring"></span><span class="mark disk" ref="disk">o/ℓ</span></div>
    <p class="both"><b class="c1">o/ℓ = <span data-t="output"></span></b> (disk), softmax over the keys read: <b class="c2"><span
    data-t="right"></span></b> (ring)</p>${controls}
    <p class="caption">Above: score s and value v of each key; in the tile, e<sup class="nw">s − m</sup>. Kept between tiles:
    m, ℓ and o, three numbers for a value of one component. With more keys in a tile there are fewer steps and the
    result is the same; the factor is what makes it so.</p>`;
  }

  draw({ scores, tile, forget }, { m, total, mixed, old, begin, seen, exps, factor, sums, output, right }) {
    const all = SETS[scores], texts = {}, used = forget && begin ? 1 : factor, M = num(m, 0);
    this.cells.forEach((cell, j) => {
      const fast = seen > 0 && j >= begin && j < seen;
      cell.classList.toggle('fast', fast);
      cell.classList.toggle('done', j < begin);
      texts[`s${j}`] = `s = ${num(all[j])}`;
      texts[`e${j}`] = fast ? num(exps[j - begin]) : j < seen ? 'summed' : 'to come';
    });
    const list = all.slice(begin, seen).map((s) => num(s)).join(', ');
    const closed = m === -Infinity, raised = !closed && !(forget && begin); // closed: no key that was read may be attended to
    const name = raised ? 'factor e' : closed ? 'no factor yet' : `factor 1 instead of ${num(factor)}`;
    const rest = closed && seen ? 'undefined, kept at 0' : num(right), place = (x) => `${20 * x}%`;
    const good = Math.abs(output - right) < 1e-9;
    this.ref.disk.style.left = place(output);
    this.ref.ring.style.left = place(right);
    const words = seen ? `${seen} of ${N} keys read. m ${M}, sum ${num(total)}, mixture ${num(mixed)}. o/ℓ is ${
      num(output)}, softmax gives ${
      rest}: ${good ? 'equal' : 'not equal'}.` : 'Nothing is read yet.';
    this.ref.line.setAttribute('aria-label', words);
    this.ref.keys.setAttribute('aria-label', `scores ${all.map((s) => num(s))}; ${seen} read`);
    this.text({ ...texts, m: M, total: num(total), mixed: num(mixed), output: num(output), right: rest,
      tile: `${tile}`, read: `${seen} of ${N}`,
      f1: seen ? `m = max(${num(old.m)}, ${list}) = ${M},  ${name}` : 'm = −∞, ℓ = 0, o = 0: nothing read',
      up: raised ? `${num(old.m)} − ${M}` : '', f: raised ? ` = ${num(factor)}` : '',
      f2: seen ? `ℓ = ${num(old.total)} · ${num(used)} + ${num(sums[0])} = ${num(total)}` : '',
      f3: seen ? `o = ${num(old.mixed)} · ${num(used)} + ${num(sums[1])} = ${num(mixed)}` : '' });
    return words;
  }

  ready() {
    this.cells = [...this.ref.keys.children];
    this.cells.forEach((cell, j) => cell.addEventListener('click', () => this.change({ read: j + 1 })));
  }
}

customElements.define('attn-online-softmax', OnlineSoftmax);
