// Keys, and the start.
"use strict";

/** One step out: of a field, of the overlay, of a trajectory to its list, of the list to the results. */
function escape(target) {
  if ($("help").open) $("help").close();
  else if (target.matches("input, select, textarea")) ($("detail").contains(target) ? $("detail") : $("list")).focus();
  else if (document.body.classList.contains("reading")) back();
  else { history.pushState(null, "", "#"); route(); }  // at once, as in go()
}

function plain(event) {
  const {key} = event, act = {
    "/": () => seek("text"), t: () => seek("task"), "?": () => $("help").open ? $("help").close() : $("help").showModal(),
    c: () => press("copy program"), p: () => press("copy prompt"), d: () => press("download"), b: () => besideNext(), x: clear,
  }[key];
  if (!act || ($("help").open && key !== "?")) return Boolean(act);
  event.preventDefault();
  act();
  return true;
}

function seek(id) {
  const field = $(`f-${id}`);
  if (narrow.matches) { if (document.body.classList.contains("reading")) back(); if (id !== "text") unfold(true); }
  field.focus();
  field.select();
}

const press = key => [...$("detail").querySelectorAll("[data-key]")].find(node => node.dataset.key.startsWith(key))?.click();

/** Put the next run beside the open trajectory; after the last one nothing. */
function besideNext() {
  if (!opened) return;
  const runs = [...new Set(index.rows.filter(each => each.task === opened.task && each !== opened).map(each => each.run))];
  const first = runs.filter(run => run !== opened.run), order = first.length ? first : runs;
  const next = beside ? order[order.indexOf(beside.run) + 1] : order[0];
  stand(next === undefined ? null : {run: next, sample: null});
}

function move(event) {
  const {key, target} = event, turns = opened ? opened.rates.length : 0;
  const step = {ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity}[key];
  const side = {ArrowRight: 1, l: 1, ArrowLeft: -1, h: -1}[key];
  const scrolls = key.length > 1 && target.closest(step ? "#detail" : ".diff, .detail details");  // its own use of the key
  if (scrolls || !(step || side)) return;
  if (step && shown.length) {
    event.preventDefault();
    const place = Math.max(0, Math.min(shown.length - 1, current + (fresh && current >= 0 && step === 1 ? 0 : step)));
    go(shown[place], shown[place] === opened ? turn : bestTurn(shown[place]));
  } else if (side && opened) {
    event.preventDefault();
    if (turn + side >= 0 && turn + side < turns) go(opened, turn + side);
  }
}

addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("viewer").hidden) return;
  if (event.key === "Escape") { event.preventDefault(); escape(event.target); return; }
  if (event.target.matches("input, select, textarea")) return;
  if (event.key === "Enter" && event.target === $("list") && shown.length) {
    event.preventDefault();
    go(opened ?? shown[0], opened ? turn : bestTurn(shown[0]));
    $("detail").focus();
  } else if (!plain(event) && !$("help").open) move(event);
});

addEventListener("DOMContentLoaded", () => {
  if (!index) {
    $("detail").replaceChildren(h("p", {class: "empty", role: "alert"}, "data/index.js cannot be read; it belongs beside this page."));
    return;
  }
  prepare();
  $("list").addEventListener("scroll", () => requestAnimationFrame(paint), {passive: true});
  addEventListener("resize", paint);
  narrow.addEventListener("change", () => opened && draw());
  addEventListener("hashchange", route);
  $("reset").addEventListener("click", clear);
  $("help-open").addEventListener("click", () => $("help").showModal());
  route();
});
