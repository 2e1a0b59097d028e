// The trajectory viewer, in files that are put together in one script: what each does is said at its top.
// This one: the data. They come from scripts (cobaltIndex once, cobaltChunk per task, cobaltTexts for the search),
// because a page opened from disk cannot fetch. All texts of models and tasks are set as text, never as markup.
"use strict";
const $ = id => document.getElementById(id);
const KEPT = 60;  // chunks remembered
const narrow = matchMedia("(max-width: 56rem)");
let index = null;
const chunks = new Map(), waiting = new Map();

/** An element. Children are nodes or texts; nothing is read as markup. */
function h(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== ""));
  return node;
}

window.cobaltIndex = data => {
  index = data;
  index.rows = data.rows.map(([run, task, sample, rates, bent], number) => {
    const known = rates.filter(rate => rate >= 0), last = rates.at(-1), right = rates.map(rate => rate === 100);
    const fixed = [], broken = [];
    for (let t = 1; t < rates.length; t++) {
      if (rates[t - 1] < 0 || rates[t] < 0) continue;
      if (!right[t - 1] && right[t]) fixed.push(t);
      if (right[t - 1] && !right[t]) broken.push(t);
    }
    return {number, run, task, sample, rates, bent: bent || {}, fixed, broken,
      outcome: !known.length ? "none" : last === 100 ? (right.every(Boolean) ? "always" : "gained")
        : right.some(Boolean) ? "lost" : "never"};
  });
};

window.cobaltChunk = (name, data) => {
  chunks.set(name, data);
  if (chunks.size > KEPT) chunks.delete(chunks.keys().next().value);
};

/** Run the script data/NAME.js; resolves when it has handed over its data. Asked twice, it is read once. */
function read(name) {
  if (!waiting.has(name)) {
    waiting.set(name, new Promise((resolve, reject) => {
      const script = h("script", {src: `data/${name}.js`});
      script.onerror = () => reject(new Error(`data/${name}.js cannot be read`));
      script.onload = () => { script.remove(); resolve(); };
      document.head.append(script);
    }).finally(() => waiting.delete(name)));
  }
  return waiting.get(name);
}

/** All trajectories of a task in a run, as trajectories.py writes them. */
async function load(run, task) {
  const name = `r${run}/${Math.floor(task / 1000)}/${task}`;
  if (!chunks.has(name)) await read(name);
  const found = chunks.get(name);
  if (!found) throw new Error(`data/${name}.js holds something else`);
  return found;
}

/** Text without lone surrogates, which an address cannot hold. */
const wellFormed = text => String(text).replace(/\p{Surrogate}/gu, "\ufffd");
const count = (number, one, more = one + "s") => `${number.toLocaleString("en")} ${number === 1 ? one : more}`;
