// The trajectory viewer. Data come from scripts (cobaltIndex once, cobaltChunk per task), because a page opened
// from disk cannot fetch. All texts of models and tasks are set as text, never as markup.
"use strict";
const $ = id => document.getElementById(id);
const ROW = 48, SPARE = 8, KEPT = 60;  // pixels per row, rows drawn beyond the window, chunks remembered
const STATUS = {P: "passed", W: "wrong answer", R: "runtime error", T: "time limit", M: "memory limit",
  O: "output limit", F: "failed", "?": "unknown"};
const narrow = matchMedia("(max-width: 56rem)");
let index = null, shown = [], current = -1, turn = 0, chunk = null;
const chunks = new Map(), waiting = new Map();

function h(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name === "onclick") node.addEventListener("click", value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.filter(child => child !== null && child !== undefined && child !== ""));
  return node;
}

window.cobaltIndex = data => {
  index = data;
  index.rows = data.rows.map(([run, task, sample, rates, bent]) => {
    const known = rates.filter(rate => rate >= 0), last = rates.at(-1), right = rates.map(rate => rate === 100);
    const fixed = [], broken = [];
    for (let t = 1; t < rates.length; t++) {
      if (rates[t - 1] < 0 || rates[t] < 0) continue;
      if (!right[t - 1] && right[t]) fixed.push(t);
      if (right[t - 1] && !right[t]) broken.push(t);
    }
    return {run, task, sample, rates, bent: bent || {}, fixed, broken,
      outcome: !known.length ? "none" : last === 100 ? (right.every(Boolean) ? "always" : "gained")
        : right.some(Boolean) ? "lost" : "never"};
  });
};

window.cobaltChunk = (name, data) => {
  chunks.set(name, data);
  if (chunks.size > KEPT) chunks.delete(chunks.keys().next().value);
  waiting.get(name)?.resolve(data);
  waiting.delete(name);
};

function load(run, task) {
  const name = `r${run}/${Math.floor(task / 1000)}/${task}`;
  if (chunks.has(name)) return Promise.resolve(chunks.get(name));
  if (!waiting.has(name)) {
    const entry = {};
    entry.promise = new Promise((resolve, reject) => { entry.resolve = resolve; entry.reject = reject; });
    waiting.set(name, entry);
    const script = h("script", {src: `data/${name}.js`});
    script.onerror = () => { waiting.delete(name); entry.reject(new Error(`data/${name}.js cannot be read`)); };
    script.onload = () => script.remove();
    document.head.append(script);
  }
  return waiting.get(name).promise;
}

// ---- filters --------------------------------------------------------------------------------------------------
const FILTERS = ["run", "outcome", "step", "turn", "difficulty", "bent", "task"];

function fill(id, entries) {
  const select = $(`f-${id}`);
  for (const [value, label] of entries) select.append(h("option", {value}, label));
  if (!entries.length) select.closest("label").hidden = true;
}

function prepare() {
  fill("run", index.runs.length > 1 ? index.runs.map((run, i) => [String(i), run.name]) : []);
  const longest = Math.max(...index.runs.map(run => run.turns));
  fill("turn", Array.from({length: longest}, (_, t) => [String(t + 1), `turn ${t + 1}`]));
  const names = [...new Set(index.tasks.map(task => task.difficulty))].sort();
  fill("difficulty", names.length > 1 ? names.map(name => [name, name || "none given"]) : []);
  const verdicts = new Set();
  for (const row of index.rows) for (const verdict of Object.values(row.bent)) verdicts.add(verdict ?? "not judged");
  fill("bent", verdicts.size ? [["yes", "yes, any kind"], ...[...verdicts].sort().map(v => [v, v])] : []);
  for (const id of FILTERS) $(`f-${id}`).addEventListener("input", () => { apply(); remember(); });
  narrow.addEventListener("change", () => chunk && draw());
}

function matches(row, f) {
  const task = index.tasks[row.task], at = f.turn === "" ? null : Number(f.turn) - 1;  // people count turns from 1, files from 0
  if (f.run !== "" && row.run !== Number(f.run)) return false;
  if (f.task && !String(task.id).toLowerCase().includes(f.task)) return false;
  if (f.difficulty !== "" && task.difficulty !== f.difficulty) return false;
  if (f.bent) {
    const turns = Object.entries(row.bent).filter(([t]) => at === null || Number(t) === at);
    if (!turns.some(([, verdict]) => f.bent === "yes" || (verdict ?? "not judged") === f.bent)) return false;
  }
  if (f.step === "fixed" || f.step === "broken") {
    if (!(at === null ? row[f.step].length : row[f.step].includes(at))) return false;
  }
  if (f.outcome === "right") return at === null ? row.rates.at(-1) === 100 : row.rates[at] === 100;
  if (f.outcome === "wrong") {
    const rate = at === null ? row.rates.at(-1) : row.rates[at] ?? -1;
    return rate >= 0 && rate < 100;
  }
  return f.outcome === "" || row.outcome === f.outcome;
}

function values() {
  const f = Object.fromEntries(FILTERS.map(id => [id, $(`f-${id}`).value]));
  f.task = f.task.trim().toLowerCase();
  return f;
}

function apply() {
  const f = values(), kept = shown[current];
  shown = index.rows.filter(row => matches(row, f));
  current = shown.indexOf(kept);
  $("count").textContent = `${shown.length.toLocaleString("en")} of ${index.rows.length.toLocaleString("en")} trajectories`;
  $("rows").style.height = `${shown.length * ROW}px`;
  $("list").scrollTop = current >= 0 ? current * ROW : 0;
  paint();
}

// ---- list -----------------------------------------------------------------------------------------------------
function mark(rate) {
  const [kind, sign, words] = rate < 0 ? ["none", "–", "no verdict"] : rate === 100 ? ["right", "✓", "right"]
    : ["wrong", "✗", `wrong, ${rate} % of hidden tests`];
  return h("span", {class: `m ${kind}`, title: words}, sign);
}

function paint() {
  const list = $("list"), first = Math.max(0, Math.floor(list.scrollTop / ROW) - SPARE);
  const last = Math.min(shown.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + SPARE);
  const nodes = [];
  for (let i = first; i < last; i++) {
    const row = shown[i], task = index.tasks[row.task];
    const label = index.runs.length > 1 ? `${index.runs[row.run].name} · sample ${row.sample}` : `sample ${row.sample}`;
    nodes.push(h("div", {
      role: "option", id: `o${i}`, class: i === current ? "row on" : "row", style: `top:${i * ROW}px`,
      "aria-selected": String(i === current), "aria-setsize": shown.length, "aria-posinset": i + 1,
      onclick: () => go(i, bestTurn(row)),
    }, h("span", {class: "id"}, String(task.id)),
    h("span", {class: "marks"}, ...row.rates.map(mark), Object.keys(row.bent).length ? h("span", {class: "m bent", title: "bent to a wrong test"}, "!") : null),
    h("span", {class: "soft"}, label)));
  }
  $("rows").replaceChildren(...nodes);
  if (current >= first && current < last) list.setAttribute("aria-activedescendant", `o${current}`);
  else list.removeAttribute("aria-activedescendant");
}

function bestTurn(row) {
  const f = values();
  if (f.turn !== "") return Math.min(Number(f.turn) - 1, row.rates.length - 1);
  const [bent] = Object.keys(row.bent);
  if (f.bent && bent !== undefined) return Number(bent);
  if (f.step && row[f.step]?.length) return row[f.step][0];
  return row.fixed[0] ?? row.broken[0] ?? 0;
}

// ---- where we are ---------------------------------------------------------------------------------------------
function address(row, t) {
  return "#/t/" + [index.runs[row.run].name, String(index.tasks[row.task].id), row.sample, t + 1].map(encodeURIComponent).join("/");
}

function remember() {
  const f = values(), query = new URLSearchParams(Object.entries(f).filter(([, value]) => value !== ""));
  history.replaceState(null, "", `#/list${query.size ? "?" + query : ""}`);
  document.body.classList.remove("reading");
}

function go(i, t) {
  if (i < 0 || i >= shown.length) return;
  const row = shown[i], to = address(row, Math.max(0, Math.min(t, row.rates.length - 1)));
  // At once, not by the event of a changed address: keys may come faster. One step back leads to the list.
  history[document.body.classList.contains("reading") ? "replaceState" : "pushState"](null, "", to);
  document.body.classList.add("reading");
  select(i, t);
}

function route() {
  const hash = location.hash, viewing = hash.startsWith("#/");
  $("report").hidden = viewing;
  $("viewer").hidden = !viewing;
  document.querySelectorAll("[data-view]").forEach(link =>
    link.toggleAttribute("aria-current", (link.dataset.view === "viewer") === viewing));
  if (!viewing) {
    document.title = `${document.body.dataset.title}`;
    document.body.classList.remove("reading");
    const target = hash.length > 1 ? $(decodeURIComponent(hash.slice(1))) : null;
    target?.scrollIntoView();
    return;
  }
  if (hash.startsWith("#/list")) {
    const query = new URLSearchParams(hash.split("?")[1] ?? "");
    for (const id of FILTERS) $(`f-${id}`).value = query.get(id) ?? "";
    document.body.classList.remove("reading");
    apply();
    if (narrow.matches) return;
    if (current < 0 && shown.length && !chunk) return select(0, bestTurn(shown[0]));
    return;
  }
  const [run, id, sample, t] = hash.slice(4).split("/").map(decodeURIComponent);
  const same = row => index.runs[row.run].name === run && String(index.tasks[row.task].id) === id && row.sample === Number(sample);
  if (!shown.length) apply();
  let place = shown.findIndex(same);
  if (place < 0) {  // the address names a trajectory that the filters hide
    for (const name of FILTERS) $(`f-${name}`).value = "";
    apply();
    place = shown.findIndex(same);
  }
  if (place < 0) {
    $("detail").replaceChildren(h("p", {class: "empty"}, `This report has no trajectory ${run} / ${id} / ${sample}.`));
    return;
  }
  document.body.classList.add("reading");
  select(place, (Number(t) || 1) - 1);
}

function select(place, t) {
  const row = shown[place], list = $("list");
  current = place;
  turn = Math.max(0, Math.min(t, row.rates.length - 1));
  if (place * ROW < list.scrollTop) list.scrollTop = place * ROW;
  if ((place + 1) * ROW > list.scrollTop + list.clientHeight) list.scrollTop = (place + 1) * ROW - list.clientHeight;
  paint();
  load(row.run, row.task).then(data => {
    if (shown[current] !== row) return;
    chunk = data;
    draw();
    const next = shown[place + 1];
    if (next) load(next.run, next.task).catch(() => {});
  }, error => $("detail").replaceChildren(h("p", {class: "empty", role: "alert"}, `${error.message}. The data folder belongs beside this page.`)));
}

// ---- one trajectory -------------------------------------------------------------------------------------------
function draw() {
  const row = shown[current], task = index.tasks[row.task], turns = chunk.samples[row.sample] ?? [];
  const now = turns[turn], before = turn ? turns[turn - 1] : null;
  document.title = `${task.id}, sample ${row.sample}, turn ${turn + 1}`;
  const others = index.rows.filter(other => other.task === row.task && other.sample === row.sample && other.run !== row.run);
  const facts = [task.difficulty, task.subset, task.group && `group ${task.group}`];
  const parts = [
    h("header", {},
      h("button", {class: "back", onclick: remember}, "← list"),
      h("h2", {id: "which"}, String(task.id)),
      h("p", {class: "soft"}, `${index.runs[row.run].name} · sample ${row.sample} · `, facts.filter(Boolean).join(" · ")),
      others.length ? h("p", {class: "soft"}, "The same sample in ", ...others.flatMap((other, i) => [i ? ", " : "",
        h("a", {href: address(other, Math.min(turn, other.rates.length - 1))}, index.runs[other.run].name)])) : null),
    h("nav", {class: "turns", "aria-label": "Turns"}, ...row.rates.map((rate, t) => h("a", {
      href: address(row, t), class: t === turn ? "turn on" : "turn", "aria-current": t === turn ? "step" : null,
      "aria-label": `turn ${t + 1}: ${rate < 0 ? "no verdict" : rate === 100 ? "right" : `wrong, ${rate} percent of hidden tests`}`,
    }, h("span", {}, `${t + 1}`), mark(rate)))),
    h("details", {class: "box"}, h("summary", {}, "Problem"), h("pre", {class: "wrap"}, chunk.statement)),
  ];
  if (!now) parts.push(h("p", {class: "empty"}, "This file holds no dialogue of this trajectory."));
  else parts.push(...turnParts(now, before));
  $("detail").replaceChildren(...parts);
  $("detail").scrollTop = 0;
  if (narrow.matches) scrollTo(0, 0);
}

function turnParts(now, before) {
  const parts = [];
  if (now.e) parts.push(h("p", {class: "alarm"}, h("b", {}, "Bent to a wrong test. "), `Judge: ${now.e}`));
  if (before) {
    parts.push(h("section", {class: "said"}, h("h3", {}, `What it was told after turn ${turn}`),
      h("pre", {class: "wrap"}, before.f === undefined ? "(nothing)" : before.f === null ? "All public tests passed." : before.f)));
  }
  if (now.t) parts.push(h("details", {class: "box"}, h("summary", {}, `Thinking (${now.t.length.toLocaleString("en")} characters)`), h("pre", {class: "wrap"}, now.t)));
  if (now.x) parts.push(h("details", {class: "box"}, h("summary", {}, "Words around the program"), h("pre", {class: "wrap"}, now.x)));
  parts.push(program(now, before));
  parts.push(verdicts(now));
  return parts;
}

function program(now, before) {
  const code = now.c === null ? null : chunk.codes[now.c], old = before && before.c !== null ? chunk.codes[before.c] : null;
  const title = `Program of turn ${turn + 1}`;
  if (code === null) return h("section", {}, h("h3", {}, title), h("p", {class: "empty"}, "No code block."));
  if (old === null) return h("section", {}, h("h3", {}, title), listing(code));
  if (now.c === before.c) return h("section", {}, h("h3", {}, `${title}: unchanged`), listing(code));
  const steps = chunk.diffs[`${before.c}-${now.c}`];
  return h("section", {}, h("h3", {}, `${title} against turn ${turn}`),
    (narrow.matches ? unified : sideBySide)(old.split("\n"), code.split("\n"), steps));
}

function line(kind, number, text) {
  return [h("td", {class: `n ${kind}`}, number === null ? "" : String(number)), h("td", {class: `c ${kind}`}, text ?? "")];
}

function listing(code) {
  return table(["program"], code.split("\n").map((text, i) => h("tr", {}, ...line("", i + 1, text))), "listing");
}

function table(heads, rows, kind) {
  return h("div", {class: "diff", tabindex: "0", role: "region", "aria-label": "Program"}, h("table", {class: kind},
    h("thead", {}, h("tr", {}, ...heads.flatMap(head => [h("th", {scope: "col", class: "n"}, h("span", {class: "sr"}, "line")), h("th", {scope: "col"}, head)]))),
    h("tbody", {}, ...rows)));
}

function sideBySide(old, now, steps) {
  const rows = [];
  for (const [tag, i1, i2, j1, j2] of steps) {
    for (let k = 0; k < Math.max(i2 - i1, j2 - j1); k++) {
      const left = i1 + k < i2 ? i1 + k : null, right = j1 + k < j2 ? j1 + k : null;
      rows.push(h("tr", {},
        ...line(tag === "e" ? "" : left === null ? "gap" : "del", left === null ? null : left + 1, left === null ? "" : old[left]),
        ...line(tag === "e" ? "" : right === null ? "gap" : "ins", right === null ? null : right + 1, right === null ? "" : now[right])));
    }
  }
  return table([`turn ${turn}`, `turn ${turn + 1}`], rows, "pair");
}

function unified(old, now, steps) {
  const rows = [];
  for (const [tag, i1, i2, j1, j2] of steps) {
    if (tag === "e") for (let k = j1; k < j2; k++) rows.push(h("tr", {}, ...line("", k + 1, "  " + now[k])));
    else {
      for (let k = i1; k < i2; k++) rows.push(h("tr", {}, ...line("del", k + 1, "- " + old[k])));
      for (let k = j1; k < j2; k++) rows.push(h("tr", {}, ...line("ins", k + 1, "+ " + now[k])));
    }
  }
  return table([`turn ${turn} to ${turn + 1}`], rows, "listing");
}

function verdicts(now) {
  const facts = [];
  if (now.r === null) facts.push("no verdict on hidden tests (a fault of the evaluator)");
  else facts.push(now.r === 1 ? "all hidden tests passed" : `${(100 * now.r).toFixed(1)} % of hidden tests passed`);
  if (now.s) facts.push(now.s.replaceAll("_", " "));
  if (now.g) facts.push(...now.g.map(flag => flag.replaceAll("_", " ")));
  if (now.k) facts.push(`${now.k[0] ?? "?"} + ${now.k[1] ?? "?"} tokens`);
  return h("section", {}, h("h3", {}, "Verdicts"), h("p", {}, facts.join(" · ")),
    now.p ? tests("Public tests", now.p, chunk.public) : null, now.h ? tests("Hidden tests", now.h, chunk.hidden) : null);
}

function tests(title, letters, pairs) {
  return h("div", {class: "tests"}, h("h4", {}, title), h("ol", {}, ...[...letters].map((letter, i) => {
    const [given, wanted] = pairs[i] ?? ["", ""];
    return h("li", {}, h("details", {}, h("summary", {class: letter === "P" ? "right" : "wrong"}, `${i + 1} ${STATUS[letter] ?? letter}`),
      h("pre", {class: "wrap"}, `Input:\n${given}\nExpected Output:\n${wanted}`)));
  })));
}

// ---- keys -----------------------------------------------------------------------------------------------------
addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("viewer").hidden) return;
  const typing = event.target.matches("input, select, textarea");
  if (event.key === "Escape") {
    if (typing) event.target.blur();
    else if ($("help").open) $("help").close();
    else if (document.body.classList.contains("reading") && narrow.matches) remember();
    else { history.pushState(null, "", "#"); route(); }  // at once, as in go()
    return;
  }
  if (typing) return;
  if (event.key === "/") { event.preventDefault(); $("f-task").focus(); return; }
  if (event.key === "?") { $("help").open ? $("help").close() : $("help").showModal(); return; }
  const row = shown[current], turns = row ? row.rates.length : 0;
  const step = {ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: 10, PageUp: -10}[event.key];
  const side = {ArrowRight: 1, l: 1, ArrowLeft: -1, h: -1}[event.key];
  const inCode = event.target.closest(".diff, .detail details");
  if (step && !(inCode && event.key.startsWith("Arrow"))) {
    event.preventDefault();
    const place = Math.max(0, Math.min(shown.length - 1, current + step));
    if (shown.length) go(place, shown[place] === row ? turn : bestTurn(shown[place]));
  } else if (side && row && !(inCode && event.key.startsWith("Arrow"))) {
    event.preventDefault();
    const t = turn + side;
    if (t >= 0 && t < turns) go(current, t);
  } else if (event.key === "Home" || event.key === "End") {
    if (shown.length) { event.preventDefault(); const place = event.key === "Home" ? 0 : shown.length - 1; go(place, bestTurn(shown[place])); }
  }
});

addEventListener("DOMContentLoaded", () => {
  if (!index) {
    $("detail").replaceChildren(h("p", {class: "empty", role: "alert"}, "data/index.js cannot be read; it belongs beside this page."));
    return;
  }
  prepare();
  $("list").addEventListener("scroll", () => requestAnimationFrame(paint), {passive: true});
  addEventListener("resize", paint);
  addEventListener("hashchange", route);
  $("reset").addEventListener("click", () => { for (const id of FILTERS) $(`f-${id}`).value = ""; apply(); remember(); });
  $("help-open").addEventListener("click", () => $("help").showModal());
  route();
});
