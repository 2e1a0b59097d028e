// Verdicts of a turn, and its tests one by one.
"use strict";
const STATUS = {P: "passed", W: "wrong answer", R: "runtime error", T: "time limit", M: "memory limit",
  O: "output limit", F: "failed", "?": "unknown"};
const TOKENS = "Prompt tokens: what the model read, with all turns before. Completion tokens: what it wrote, with its thinking.";

/** What is known of a turn in a line: rate, faults, tokens. */
function facts(now) {
  const said = [];
  if (now.r === null) said.push("no verdict on hidden tests (a fault of the evaluator)");
  else said.push(now.r === 1 ? "all hidden tests passed" : `${(100 * now.r).toFixed(1)} % of hidden tests passed`);
  if (now.s) said.push(now.s.replaceAll("_", " "));
  if (now.g) said.push(...now.g.map(flag => String(flag).replaceAll("_", " ")));
  const parts = said.flatMap(text => [text, " · "]);
  if (!now.k) return parts.slice(0, -1);
  const [prompt, completion] = now.k.map(n => typeof n === "number" ? n.toLocaleString("en") : "?");
  return [...parts, h("span", {class: "tokens", title: TOKENS}, `${prompt} prompt tokens + ${completion} completion tokens`)];
}

function verdicts(data, now, side) {
  const parts = [heading("Verdicts"), h("p", {}, facts(now))];
  if (now.p) parts.push(tests("Public tests", now.p, data.public, side, i => data.said[now.o?.[i] ?? -1]));
  if (now.h) parts.push(tests("Hidden tests", now.h, data.hidden, side, () => null));
  else if (data.hidden.length) parts.push(h("p", {class: "soft"}, `Which of the ${count(data.hidden.length, "hidden test")} passed is not in `
    + "the evaluated file; eval_multi_turn.py --per_test keeps it."));
  return h("section", {class: "verdicts"}, parts);
}

function tests(title, letters, pairs, side, printed) {
  const passed = [...letters].filter(letter => letter === "P").length;
  return h("div", {class: "tests"}, h("h4", {}, `${title}: ${passed} of ${letters.length} passed`),
    h("ol", {}, [...letters].map((letter, i) => h("li", {}, h("details", {name: `${title} ${side}`},
      h("summary", {class: letter === "P" ? "right" : "wrong"}, `${i + 1} ${STATUS[letter] ?? letter}`),
      ...oneTest(letter, pairs[i], printed(i)))))));
}

/** Input, what the program did, and what was wanted. `did`: null where files never tell, undefined if they do not here. */
function oneTest(letter, pair, did) {
  if (!pair) return [h("p", {class: "soft"}, "The file does not hold this test.")];
  const [given, wanted] = pair;
  const output = did ? [block("Printed", did)] : [h("p", {class: "soft"}, letter === "P" ? "Printed what is expected."
    : did === null ? "What was printed on hidden tests is not kept, only how they ended." : "What was printed is not in the file.")];
  return [block("Input", given), ...output, block("Expected", wanted)];
}

const block = (title, text) => h("div", {class: "case"}, h("h5", {}, title), h("pre", {class: "wrap"}, text || "(nothing)"));
