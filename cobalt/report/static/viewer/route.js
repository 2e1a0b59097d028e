// Where we are: addresses that can be shared. #/list?FILTERS is the list, #/t/RUN/TASK/SAMPLE/TURN?FILTERS a turn,
// counted from 1 (in files from 0); beside=RUN and beside_sample=N say what stands beside it.
"use strict";
const encode = text => encodeURIComponent(wellFormed(text));

function decode(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

function query(more = {}) {
  const all = Object.entries({...values(), ...more}).filter(([, value]) => value !== "" && value !== null);
  const made = new URLSearchParams(all.map(([name, value]) => [name, wellFormed(value)])).toString();
  return made ? `?${made}` : "";
}

function address(row, t) {
  const other = beside ? {beside: index.runs[beside.run].name, beside_sample: beside.sample} : {};
  return "#/t/" + [index.runs[row.run].name, index.tasks[row.task].id, row.sample, t + 1].map(encode).join("/") + query(other);
}

/** The address is that of the list. */
function remember() {
  history.replaceState(null, "", `#/list${query()}`);
  document.body.classList.remove("reading");
  document.title = `Trajectories: ${document.body.dataset.title}`;
}

function back() {
  remember();
  paint();
  $("list").focus();
}

/** Open a trajectory at a turn, in the address too. */
function go(row, t) {
  fresh = false;
  swap(row);
  const to = address(row, Math.max(0, Math.min(t, row.rates.length - 1)));
  // At once, not by the event of a changed address: keys may come faster. One step back leads to the list.
  history[document.body.classList.contains("reading") ? "replaceState" : "pushState"](null, "", to);
  document.body.classList.add("reading");
  select(row, t);
}

/** Whoever opens the one that stands beside gets the two the other way round. */
function swap(row) {
  if (beside && opened && beside.run === row.run && opened.run !== row.run) beside = {run: opened.run, sample: null};
}

function fromAddress(params) {
  for (const id of FILTERS) $(`f-${id}`).value = params.get(id) ?? "";
  const run = index.runs.findIndex(each => wellFormed(each.name) === params.get("beside")), sample = params.get("beside_sample");
  beside = run < 0 ? null : {run, sample: sample === null ? null : Number(sample)};
}

function route() {
  const hash = location.hash, viewing = hash.startsWith("#/");
  $("report").hidden = viewing;
  $("viewer").hidden = !viewing;
  document.querySelectorAll("[data-view]").forEach(link =>
    link.toggleAttribute("aria-current", (link.dataset.view === "viewer") === viewing));
  if (!viewing) {
    document.title = document.body.dataset.title;
    document.body.classList.remove("reading");
    (hash.length > 1 ? $(decode(hash.slice(1))) : null)?.scrollIntoView();
    return;
  }
  if (search.state === "none") later(() => search.state === "none" && readTexts());
  const [path, params] = hash.slice(2).split(/\?(.*)/s);
  fromAddress(new URLSearchParams(params ?? ""));
  if (!path.startsWith("t/")) {
    document.body.classList.remove("reading");
    document.title = `Trajectories: ${document.body.dataset.title}`;
    refresh();
    return;
  }
  document.body.classList.add("reading");
  apply();
  const [run, id, sample, t] = path.slice(2).split("/").map(decode);
  const row = index.rows.find(each => each.sample === Number(sample) && wellFormed(index.runs[each.run].name) === run
    && wellFormed(index.tasks[each.task].id) === id);
  if (!row) {
    close();
    $("detail").replaceChildren(h("p", {class: "empty"}, `This report has no trajectory ${run} / ${id} / ${sample}.`));
    return;
  }
  if (!shown.includes(row) && !searching()) {  // the address names a trajectory that its filters hide
    for (const name of FILTERS) $(`f-${name}`).value = "";
    apply();
  }
  select(row, (Number(t) || 1) - 1);
}

const later = what => (window.requestIdleCallback ?? setTimeout)(what);

function select(row, t) {
  const list = $("list"), place = shown.indexOf(row);
  opened = row;
  current = place;
  turn = Math.max(0, Math.min(Math.trunc(t), row.rates.length - 1));
  if (place >= 0 && place * ROW < list.scrollTop) list.scrollTop = place * ROW;
  if ((place + 1) * ROW > list.scrollTop + list.clientHeight) list.scrollTop = (place + 1) * ROW - list.clientHeight;
  paint();
  draw();
}
