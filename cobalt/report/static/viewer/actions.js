// Copying to the clipboard, and a trajectory as a file.
"use strict";

function say(text) {
  $("said").textContent = text;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => { $("said").textContent = ""; }, 2500);
}

async function copy(what, text) {
  try {
    await navigator.clipboard.writeText(text);
    say(`Copied the ${what}: ${count(text.length, "character")}.`);
  } catch {  // no permission, or a browser that has no clipboard for pages from disk
    const area = h("textarea", {class: "sr", "aria-hidden": "true"}), before = document.activeElement;
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    before?.focus();
    say(done ? `Copied the ${what}: ${count(text.length, "character")}.` : "This browser does not let the page copy.");
  }
}

const copier = (what, text, label = "copy") => h("button", {type: "button", class: "small", "data-key": `copy ${what}`,
  "aria-label": `Copy ${what}`, title: `Copy ${what}`, onclick: () => copy(what, text())}, label);

/** What the model replied at turn `t`: its words, with the program where it stood among them. */
function reply(data, sample, t) {
  const now = data.samples[sample][t], words = now.x ?? "", code = codeOf(data, now), at = data.split[`${sample} ${t}`];
  if (code === null) return words;
  return [words.slice(0, at), "```python\n" + code + "\n```", at === undefined ? "" : words.slice(at).trim()].filter(Boolean).join("\n");
}

/** What the model had read when it wrote the program of turn `t`: [role, text] of each message. */
function promptOf(data, sample, t) {
  const messages = [["system", data.system], ["user", data.user]];
  for (const [before, turn] of (data.samples[sample] ?? []).slice(0, t).entries()) {
    messages.push(["assistant", reply(data, sample, before)]);
    if (turn.f !== undefined) messages.push(["user", turn.f === null ? data.passed ?? "" : (data.frame ?? "") + turn.f]);
  }
  return messages;
}

const asText = messages => messages.map(([role, text]) => `[${role}]\n${text}\n`).join("\n");

/** A trajectory with all that the report knows of it. */
function record(row, data) {
  const task = index.tasks[row.task], names = letters => [...letters ?? ""].map(letter => STATUS[letter] ?? letter);
  const pairs = list => list.map(([input, output]) => ({input, output}));
  return {
    report: document.body.dataset.title, run: index.runs[row.run].name, ...task, sample: row.sample,
    system: data.system, user: data.user, public_tests: pairs(data.public), hidden_tests: pairs(data.hidden),
    turns: (data.samples[row.sample] ?? []).map(turn => ({
      program: codeOf(data, turn), words: turn.x ?? "", thinking: turn.t ?? "", feedback: turn.f === undefined ? null : turn.f ?? data.passed,
      hidden_pass_rate: turn.r, hidden_tests: names(turn.h), public_tests: names(turn.p), printed: (turn.o ?? []).map(i => data.said[i] ?? null),
      exec_status: turn.s ?? "ok", flags: turn.g ?? [], bent_to_a_wrong_test: turn.e ?? null,
      prompt_tokens: turn.k?.[0] ?? null, completion_tokens: turn.k?.[1] ?? null,
    })),
  };
}

function download(row, data) {
  const made = record(row, data), name = `${made.run}-${made.id}-sample-${row.sample}.json`.replace(/[^\w.-]+/g, "_");
  const address = URL.createObjectURL(new Blob([JSON.stringify(made, null, 1) + "\n"], {type: "application/json"}));
  h("a", {href: address, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
  say(`Saved as ${name}.`);
}
