// The list of trajectories: only the rows in sight are drawn.
"use strict";
const ROW = 48, SPARE = 8;  // pixels per row, rows drawn beyond the window

/** Right, wrong or no verdict, in a sign. */
function mark(rate) {
  const [kind, sign, words] = rate < 0 ? ["none", "–", "no verdict"] : rate === 100 ? ["right", "✓", "right"]
    : ["wrong", "✗", `wrong, ${rate} % of hidden tests`];
  return h("span", {class: `m ${kind}`, title: words}, sign);
}

const numbers = turns => `${turns.length === 1 ? "turn" : "turns"} ${turns.map(t => t + 1).join(", ")}`;

function paint() {
  const list = $("list"), first = Math.max(0, Math.floor(list.scrollTop / ROW) - SPARE);
  const last = Math.min(shown.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + SPARE);
  const nodes = [];
  for (let i = first; i < last; i++) {
    const row = shown[i], task = index.tasks[row.task], found = search.query && search.turns.get(row.number);
    const label = [index.runs.length > 1 && index.runs[row.run].name, `sample ${row.sample}`, found && `found in ${numbers(found)}`];
    nodes.push(h("div", {
      role: "option", id: `o${i}`, class: i === current ? "row on" : "row", style: `top:${i * ROW}px`,
      "aria-selected": String(i === current), "aria-setsize": shown.length, "aria-posinset": i + 1,
      onclick: () => go(row, bestTurn(row)),
    }, h("span", {class: "id"}, String(task.id)),
    h("span", {class: "marks"}, row.rates.map(mark), Object.keys(row.bent).length ? h("span", {class: "m bent", title: "bent to a wrong test"}, "!") : null),
    h("span", {class: "soft"}, label.filter(Boolean).join(" · "))));
  }
  $("rows").replaceChildren(...nodes);
  if (current >= first && current < last) list.setAttribute("aria-activedescendant", `o${current}`);
  else list.removeAttribute("aria-activedescendant");
}

/** The turn to open first: what the filters ask for, or where something changed. */
function bestTurn(row) {
  const f = values();
  if (f.turn !== "") return Math.min(Number(f.turn) - 1, row.rates.length - 1);
  const [bent] = Object.keys(row.bent), found = f.text && search.turns.get(row.number);
  if (f.bent && bent !== undefined) return Number(bent);
  if (f.step && row[f.step]?.length) return row[f.step][0];
  if (found) return found[0];
  return row.fixed[0] ?? row.broken[0] ?? 0;
}
