// One trajectory, alone or beside one of the same task.
"use strict";
let turn = 0;  // of the trajectory that is open
let beside = null;  // {run, sample}: what stands beside it; sample null: the same number
const heading = (title, ...tools) => h("div", {class: "head"}, h("h3", {}, title), tools);
const lines = text => text.split("\n");

/** The trajectory beside a row, or null. */
function partner(row) {
  if (!beside) return null;
  const sample = beside.sample ?? row.sample;
  const found = index.rows.find(other => other.run === beside.run && other.task === row.task && other.sample === sample);
  return found && found !== row ? found : null;
}

/** Show nothing. */
function close() {
  opened = null;
  current = -1;
  $("detail").replaceChildren(h("p", {class: "empty"}, "Choose a trajectory."));
}

async function draw() {
  const row = opened, other = partner(row), t = turn;
  let data, second;
  try {
    [data, second] = await Promise.all([load(row.run, row.task), other && load(other.run, other.task)]);
  } catch (error) {
    $("detail").replaceChildren(h("p", {class: "empty", role: "alert"}, `${error.message}. The data folder belongs beside this page.`));
    return;
  }
  if (opened !== row || turn !== t || partner(row) !== other) return;  // overtaken
  const task = index.tasks[row.task];
  document.title = `${task.id}, sample ${row.sample}, turn ${turn + 1}`;
  const body = other
    ? h("div", {class: "beside"}, half(row, data, t, second), half(other, second, Math.min(t, other.rates.length - 1), data, row))
    : h("div", {}, strip(row, t), dialogue(row, data, t));
  replace(header(row, data, task), h("details", {class: "box"}, h("summary", {}, "Problem"), h("pre", {class: "wrap"}, data.statement)), body);
  const next = shown[current + 1];
  if (next) load(next.run, next.task).catch(() => {});
}

/** Put parts into the pane. What had the focus keeps it: its successor has the same data-key. */
function replace(...parts) {
  const pane = $("detail"), had = pane.contains(document.activeElement) ? document.activeElement : null;
  const key = had?.dataset.key;
  pane.replaceChildren(...parts);
  pane.scrollTop = 0;
  if (narrow.matches) scrollTo(0, 0);
  if (had && had !== pane) (key && [...pane.querySelectorAll("[data-key]")].find(node => node.dataset.key === key) || pane).focus({preventScroll: true});
}

function header(row, data, task) {
  const labels = [task.difficulty, task.subset, task.platform, task.group && `group ${task.group}`,
    task.slots && `vague: ${task.slots.join(", ") || NOTHING}`];
  const others = index.rows.filter(each => each.task === row.task && each.sample === row.sample && each.run !== row.run);
  return h("header", {},
    h("button", {type: "button", class: "back", onclick: back}, "← list"),
    h("h2", {id: "which"}, String(task.id)),
    h("p", {class: "soft"}, [index.runs[row.run].name, `sample ${row.sample}`, ...labels].filter(Boolean).join(" · ")),
    h("div", {class: "actions"}, pickers(row), h("span", {},
      copier("prompt", () => asText(promptOf(data, row.sample, turn)), "copy prompt"), " ",
      h("button", {type: "button", class: "small", "data-key": "download", onclick: () => download(row, data)}, "download JSON"))),
    others.length && !beside ? h("p", {class: "soft"}, "The same sample in ", others.flatMap((other, i) => [i ? ", " : "",
      h("a", {href: address(other, Math.min(turn, other.rates.length - 1))}, index.runs[other.run].name)])) : null);
}

/** What to put beside: a run, and a sample of it. */
function pickers(row) {
  const same = index.rows.filter(each => each.task === row.task && each !== row), runs = [...new Set(same.map(each => each.run))];
  if (!runs.length) return null;
  const pick = (key, label, options, chosen, change) => h("label", {}, label, h("select", {"data-key": key, onchange: event => change(event.target.value)},
    options.map(([value, text]) => h("option", {value, selected: value === chosen}, text))));
  const parts = [pick("beside", "beside ", [["", "nothing"], ...runs.map(run => [String(run), index.runs[run].name])],
    beside ? String(beside.run) : "", value => stand(value === "" ? null : {run: Number(value), sample: null}))];
  if (beside) {
    const samples = same.filter(each => each.run === beside.run).map(each => [String(each.sample), String(each.sample)]);
    parts.push(pick("sample", "its sample ", samples, String(beside.sample ?? row.sample), value => stand({run: beside.run, sample: Number(value)})));
  }
  return h("span", {class: "pickers"}, parts);
}

/** Put something beside, or nothing (null). In its own run that is another sample. */
function stand(wanted) {
  beside = wanted;
  if (beside && beside.sample === null && !partner(opened)) {
    const found = index.rows.find(each => each.run === beside.run && each.task === opened.task && each !== opened);
    beside = found ? {run: found.run, sample: found.sample} : null;
  }
  document.body.classList.add("reading");
  history.replaceState(null, "", address(opened, turn));
  draw();
}

/** The turns of a trajectory, to choose from. */
function strip(row, at, lead = row) {
  return h("nav", {class: "turns", "aria-label": `Turns, ${index.runs[row.run].name}`}, row.rates.map((rate, t) => h("a", {
    href: address(lead, t), class: t === at ? "turn on" : "turn", "aria-current": t === at ? "step" : null, "data-key": `turn ${row.number} ${t}`,
    "aria-label": `turn ${t + 1}: ${rate < 0 ? "no verdict" : rate === 100 ? "right" : `wrong, ${rate} percent of hidden tests`}`,
  }, h("span", {}, `${t + 1}`), mark(rate))));
}

const told = turn => turn.f === undefined ? "(nothing)" : turn.f === null ? "All public tests passed." : turn.f;

function feedback(title, turn, side = "") {
  return h("section", {class: "said"}, heading(title, copier(`feedback${side}`, () => told(turn))), h("pre", {class: "wrap"}, marked(told(turn))));
}

function folded(now) {
  return [["Thinking", now.t], ["Words around the program", now.x]].map(([title, text]) => text && h("details", {class: "box"},
    h("summary", {}, title === "Thinking" ? `Thinking (${count(text.length, "character")})` : title), h("pre", {class: "wrap"}, text)));
}

const alarm = now => now.e && h("p", {class: "alarm"}, h("b", {}, "Bent to a wrong test. "), `Judge: ${now.e}`);
const missing = () => h("p", {class: "empty"}, "This file holds no dialogue of this trajectory.");

/** A turn by itself: what it was told, what it wrote, how that did, what it was told then. */
function dialogue(row, data, t) {
  const turns = data.samples[row.sample] ?? [], now = turns[t];
  if (!now) return [missing()];
  return [alarm(now), t ? feedback(`What it was told after turn ${t}`, turns[t - 1], " before this turn") : null, folded(now),
    program(data, turns, t), verdicts(data, now, "one"), now.f === undefined ? null : feedback(`What it was told after turn ${t + 1}`, now)];
}

/** One of two trajectories side by side; `against`: the data of the other, whose lines are not tinted. */
function half(row, data, t, against, lead = row) {
  const turns = data.samples[row.sample] ?? [], now = turns[t], name = index.runs[row.run].name;
  const other = lead === row ? partner(row) : lead, theirs = against.samples[other.sample] ?? [];
  const rival = codeOf(against, theirs[Math.min(turn, other.rates.length - 1)]), code = codeOf(data, now), title = `Program of turn ${t + 1}`;
  return h("section", {class: "half", "aria-label": `${name}, sample ${row.sample}`},
    h("div", {}, h("h3", {}, `${name} · sample ${row.sample}`), strip(row, t, lead), now && alarm(now)),
    h("div", {}, now && t ? feedback(`Told after turn ${t}`, turns[t - 1], ` before, ${name}`) : null),
    h("div", {}, !now ? missing() : code === null ? [heading(title), h("p", {class: "empty"}, "No code block.")]
      : [heading(title, copier(`program of ${name}`, () => code)), listing(code, `${name}, sample ${row.sample}, turn ${t + 1}`, rival)]),
    h("div", {}, now && verdicts(data, now, name), now && now.f !== undefined ? feedback(`Told after turn ${t + 1}`, now, ` of ${name}`) : null));
}
