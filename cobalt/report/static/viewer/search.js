// The search over programs and feedback. Its texts are read when the viewer is first open and idle, or at once when
// something is asked for. Each file holds its lines once, in `lines`; texts are lists of runs of them (first, length), rows
// lists of texts: so a question costs one pass over the different lines. Upper and lower case are the same.
"use strict";
const search = {parts: [], state: "none", failed: "", query: "", turns: new Map(), asked: 0};

window.cobaltTexts = (number, data) => {
  const lines = data.lines.toLowerCase(), ends = [];
  for (let at = lines.indexOf("\n"); at >= 0; at = lines.indexOf("\n", at + 1)) ends.push(at);
  ends.push(lines.length);
  const before = search.parts[number - 1];  // they are read in order
  search.parts[number] = {first: before ? before.first + before.rows.length : 0, lines, ends, texts: data.texts, rows: data.rows};
};

/** Which texts of a part hold the words asked for: a byte for each, or null if none does. */
function holders({lines, ends, texts}, query) {
  const before = new Uint32Array(ends.length + 1);  // how many lines before each hold them
  let line = 0;
  for (let at = lines.indexOf(query); at >= 0; at = lines.indexOf(query, ends[line] + 1)) {
    while (ends[line] < at) line++;
    before[line + 1] = 1;
  }
  for (let i = 0; i < ends.length; i++) before[i + 1] += before[i];
  return before[ends.length] ? Uint8Array.from(texts, text => {
    for (let i = 0; i < text.length; i += 2) if (before[text[i] + text[i + 1]] > before[text[i]]) return 1;
    return 0;
  }) : null;
}

function look(part) {
  const found = holders(part, search.query);
  if (found) part.rows.forEach((row, i) => {
    const turns = [];
    for (let k = 0; k < row.length; k += 2) {
      if ((row[k] >= 0 && found[row[k]]) || (row[k + 1] >= 0 && found[row[k + 1]])) turns.push(k / 2);
    }
    if (turns.length) search.turns.set(part.first + i, turns);
  });
}

/** Ask for words; `search.turns` then maps the number of a row to the turns that hold them. */
function ask(words) {
  const query = words.trim() ? words.toLowerCase() : "";
  if (query && search.state === "none") readTexts();
  if (query === search.query && search.asked === search.parts.length) return;
  if (query !== search.query) { search.turns = new Map(); search.asked = 0; search.query = query; }
  if (query) search.parts.slice(search.asked).forEach(look);
  search.asked = search.parts.length;
}

/** A trajectory fits if a program, feedback or the task's id holds the words; an id that is a number, if it is them. */
function foundIn(row) {
  if (search.turns.has(row.number)) return true;
  const id = index.tasks[row.task].id;
  return typeof id === "number" ? String(id) === search.query.trim() : id.toLowerCase().includes(search.query);
}

async function readTexts() {
  search.state = "reading";
  for (let number = search.parts.length; number < index.texts; number++) {
    try {
      await read(`search/${number}`);
    } catch (error) {
      search.failed = `${error.message}; the search is incomplete.`;
      break;
    }
    if (search.query) refresh();  // what is found so far
  }
  search.state = "read";
  if (search.query) refresh();
}

const searching = () => search.query && search.state === "reading" && index.texts > 0;

/** A text as nodes, with the words asked for marked. */
function marked(text) {
  if (!search.query || !text) return [text];
  const words = new RegExp(search.query.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "gi"), nodes = [];
  let from = 0;
  for (const match of text.matchAll(words)) {
    nodes.push(text.slice(from, match.index), h("mark", {}, match[0]));
    from = match.index + match[0].length;
  }
  nodes.push(text.slice(from));
  return nodes;
}
