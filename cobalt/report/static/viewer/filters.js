// The filters, and what is said when nothing passes them.
"use strict";
// In this order they stand in an address; `text` is the search.
const FILTERS = ["run", "outcome", "step", "turn", "difficulty", "group", "slot", "subset", "platform", "bent", "task", "text"];
const NOTHING = "nothing";  // a slot filter: tasks that leave nothing vague
let shown = [], current = -1, opened = null;  // what passes, the place in it of the trajectory that is open, that one
let fresh = false;  // it was opened by a filter: the first key opens it, the next one goes on

function fill(id, entries) {
  const select = $(`f-${id}`);
  for (const [value, label] of entries) select.append(h("option", {value}, label));
  if (!entries.length) select.closest("label").hidden = true;
}

/** The different values of a label of tasks, as options; none if all tasks share one. */
function kinds(name) {
  const order = new Intl.Collator("en", {numeric: true}).compare;
  const values = [...new Set(index.tasks.map(task => task[name] ?? ""))].sort(order);
  return values.length > 1 ? values.map(value => [value || NOTHING, value || "none given"]) : [];
}

function prepare() {
  fill("run", index.runs.length > 1 ? index.runs.map((run, i) => [String(i), run.name]) : []);
  const longest = Math.max(...index.runs.map(run => run.turns));
  fill("turn", Array.from({length: longest}, (_, t) => [String(t + 1), `turn ${t + 1}`]));
  for (const name of ["difficulty", "group", "subset", "platform"]) fill(name, kinds(name));
  const slots = [...new Set(index.tasks.flatMap(task => task.slots ?? []))].sort();
  fill("slot", slots.length ? [...slots.map(slot => [slot, slot]), [NOTHING, "nothing vague"]] : []);
  const verdicts = new Set();
  for (const row of index.rows) for (const verdict of Object.values(row.bent)) verdicts.add(verdict ?? "not judged");
  fill("bent", verdicts.size ? [["yes", "yes, any kind"], ...[...verdicts].sort().map(v => [v, v])] : []);
  for (const id of FILTERS) $(`f-${id}`).addEventListener("input", () => { remember(); refresh(); });
  $("more").addEventListener("click", () => unfold(!$("filters").classList.contains("open")));
}

/** Show or hide all filters but the search, where there is little room. */
function unfold(open) {
  $("filters").classList.toggle("open", open);
  $("more").setAttribute("aria-expanded", String(open));
}

function values() {
  const f = Object.fromEntries(FILTERS.map(id => [id, $(`f-${id}`).value]));
  f.task = f.task.trim().toLowerCase();
  if (!f.text.trim()) f.text = "";
  return f;
}

const fits = (value, chosen) => chosen === "" || (value || NOTHING) === chosen;

function matches(row, f) {
  const task = index.tasks[row.task], at = f.turn === "" ? null : Number(f.turn) - 1;
  if (f.run !== "" && row.run !== Number(f.run)) return false;
  if (f.task && !String(task.id).toLowerCase().includes(f.task)) return false;
  if (!["difficulty", "group", "subset", "platform"].every(name => fits(task[name], f[name]))) return false;
  if (f.slot && !(f.slot === NOTHING ? !task.slots?.length : task.slots?.includes(f.slot))) return false;
  if (f.bent) {
    const turns = Object.entries(row.bent).filter(([t]) => at === null || Number(t) === at);
    if (!turns.some(([, verdict]) => f.bent === "yes" || (verdict ?? "not judged") === f.bent)) return false;
  }
  if (f.step === "fixed" || f.step === "broken") {
    if (!(at === null ? row[f.step].length : row[f.step].includes(at))) return false;
  }
  if (f.text && !foundIn(row)) return false;
  if (f.outcome === "right") return at === null ? row.rates.at(-1) === 100 : row.rates[at] === 100;
  if (f.outcome === "wrong") {
    const rate = at === null ? row.rates.at(-1) : row.rates[at] ?? -1;
    return rate >= 0 && rate < 100;
  }
  return f.outcome === "" || row.outcome === f.outcome;
}

/** Show what passes the filters. The trajectory that is open stays so if it is among them. */
function apply() {
  const f = values();
  ask(f.text);
  shown = index.rows.filter(row => matches(row, f));
  current = shown.indexOf(opened);
  const active = Object.entries(f).filter(([id, value]) => value !== "" && id !== "text").length;
  $("more").textContent = active ? `Filters (${active})` : "Filters";
  $("count").textContent = `${shown.length.toLocaleString("en")} of ${count(index.rows.length, "trajectory", "trajectories")}`
    + (searching() ? `, reading texts: ${search.parts.length} of ${index.texts}` : "")
    + (f.text && search.failed ? `. ${search.failed}` : "");
  $("reset").disabled = !active && !f.text;
  $("rows").style.height = `${shown.length * ROW}px`;
  $("list").scrollTop = current >= 0 ? current * ROW : 0;
  empty(f);
  paint();
}

/** Say that nothing passes the filters, which they are, and how to get out. */
function empty(f) {
  const none = !shown.length && !searching();
  $("viewer").classList.toggle("nothing", !shown.length);
  const chosen = Object.entries(f).filter(([, value]) => value !== "").map(([id, value]) => {
    const field = $(`f-${id}`), label = field.closest("label").firstChild.data.trim();
    return h("li", {}, `${label}: `, h("b", {}, field.selectedOptions?.[0]?.label ?? value));
  });
  $("none").replaceChildren(...(shown.length ? [] : [
    h("h2", {}, none ? "No trajectory matches" : "Searching"), h("ul", {}, chosen),
    h("button", {type: "button", onclick: clear}, "Clear all filters")]));
}

/** Apply the filters; a trajectory that they hide gives its place to the first that they show. */
function refresh() {
  const before = search.query;
  apply();
  if (document.body.classList.contains("reading") || (current >= 0 && search.query === before)) return;
  if (current >= 0 && !fresh) { draw(); return; }  // other words to mark
  fresh = true;
  const first = shown[Math.max(0, current)];
  if (first && !narrow.matches) select(first, bestTurn(first));
  else close();
}

function clear() {
  for (const id of FILTERS) $(`f-${id}`).value = "";
  remember();
  refresh();
  $("list").focus();
}
