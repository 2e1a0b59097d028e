// A program, alone or against the one before it.
"use strict";
const LONG = 4000, MANY = 5000;  // characters of a line and lines of a program that are drawn

function line(kind, number, text, sign = "") {
  const cut = text.length > LONG ? text.slice(0, LONG) : text;
  const more = cut === text ? null : h("i", {}, ` … ${count(text.length, "character")}; copy has them all`);
  return [h("td", {class: `n ${kind}`}, number === null ? "" : String(number)),
    h("td", {class: `c ${kind}`}, sign, marked(cut), more)];
}

function table(heads, rows, kind) {
  const more = rows.length > MANY ? h("p", {class: "soft"}, `${count(rows.length - MANY, "further line")}; copy has them all.`) : null;
  return h("div", {class: "diff", tabindex: "0", role: "region", "aria-label": `Program, ${heads.join(" and ")}`}, h("table", {class: kind},
    h("thead", {}, h("tr", {}, heads.flatMap(head => [h("th", {scope: "col", class: "n"}, h("span", {class: "sr"}, "line")), h("th", {scope: "col"}, head)]))),
    h("tbody", {}, rows.slice(0, MANY))), more);
}

/** All lines of a program; those not in `other`, if it is given, are tinted. */
function listing(code, head, other = null) {
  const known = other === null ? null : new Set(other.split("\n").map(text => text.trim()));
  return table([head], code.split("\n").map((text, i) =>
    h("tr", {}, line(known && !known.has(text.trim()) ? "own" : "", i + 1, text))), "listing");
}

function sideBySide(old, now, steps, heads) {
  const rows = [];
  for (const [tag, i1, i2, j1, j2] of steps) {
    for (let k = 0; k < Math.max(i2 - i1, j2 - j1); k++) {
      const left = i1 + k < i2 ? i1 + k : null, right = j1 + k < j2 ? j1 + k : null;
      rows.push(h("tr", {},
        line(tag === "e" ? "" : left === null ? "gap" : "del", left === null ? null : left + 1, left === null ? "" : old[left] ?? ""),
        line(tag === "e" ? "" : right === null ? "gap" : "ins", right === null ? null : right + 1, right === null ? "" : now[right] ?? "")));
    }
  }
  return table(heads, rows, "pair");
}

function unified(old, now, steps, heads) {
  const rows = [];
  for (const [tag, i1, i2, j1, j2] of steps) {
    if (tag === "e") for (let k = j1; k < j2; k++) rows.push(h("tr", {}, line("", k + 1, now[k] ?? "", "  ")));
    else {
      for (let k = i1; k < i2; k++) rows.push(h("tr", {}, line("del", k + 1, old[k] ?? "", "- ")));
      for (let k = j1; k < j2; k++) rows.push(h("tr", {}, line("ins", k + 1, now[k] ?? "", "+ ")));
    }
  }
  return table([heads.join(" to ")], rows, "listing");
}

/** The program of a turn against that of the turn before. */
function program(data, turns, t) {
  const code = codeOf(data, turns[t]), old = t ? codeOf(data, turns[t - 1]) : null, title = `Program of turn ${t + 1}`;
  if (code === null) return h("section", {class: "program"}, heading(title), h("p", {class: "empty"}, "No code block."));
  const tools = copier("program", () => code);
  if (old === null) return h("section", {class: "program"}, heading(title, tools), listing(code, `turn ${t + 1}`));
  if (old === code) return h("section", {class: "program"}, heading(`${title}: unchanged`, tools), listing(code, `turn ${t + 1}`));
  return h("section", {class: "program"}, heading(`${title} against turn ${t}`, tools),
    (narrow.matches ? unified : sideBySide)(lines(old), lines(code), data.diffs[`${turns[t - 1].c}-${turns[t].c}`], [`turn ${t}`, `turn ${t + 1}`]));
}

const codeOf = (data, turn) => !turn || turn.c === null ? null : data.codes[turn.c];
