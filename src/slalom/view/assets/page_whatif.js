// What if tokens were left out or stood there twice: the surrogate's answer, the additive one, the model's.

/** A surrogate's output for counts of the tokens; null where it has none (an empty text without background). */
function predict(surrogate, counts) {
  if (surrogate.kind === "additive") return counts.reduce((sum, c, i) => sum + c * surrogate.weights[i], surrogate.intercept);
  if (surrogate.kind === "windows") return ofWindows(surrogate, counts);
  const outputs = surrogate.parts.map((part) => slalom(part, counts));
  if (outputs.includes(null)) return null;
  const level = outputs.reduce((sum, x) => sum + x, 0), a = surrogate.ceiling;
  const told = surrogate.offset + (a === undefined ? level : a * Math.tanh(level / a));
  return told + correction(surrogate.near, counts, told);
}

/** The mean of the windows that hold a token, by their weights; null where nothing stands there. */
function ofWindows({ windows, weights }, counts) {
  let total = 0, mass = 0;
  windows.forEach(({ at, always, part }, w) => {
    const own = at.map((i) => counts[i]);
    if (!always && !own.some((c) => c > 0)) return;
    total += weights[w] * predict(part, own);
    mass += weights[w];
  });
  return mass > 0 ? total / mass : null;
}

/** What the neighbourhood of the whole text adds to `told`; it fades with the number of tokens that are gone. */
function correction(near, counts, told) {
  if (!near) return 0;
  let gone = 0, moved = 0;
  const by = (shifts) => (gone && shifts ? shifts[Math.min(gone, shifts.length) - 1] : 0);
  counts.forEach((c, i) => {
    if (c === 0) { gone += near.sizes?.[i] ?? 1; moved += near.own[i]; }
    else moved += by(near.shift[i]);
    moved += by(near.behind?.[i + 1]);
  });
  const fade = Math.min(Math.max(1 - (gone - 1) / near.room, 0), 1);
  return fade * (near.gap + (near.gain - 1) * told + moved);
}

function slalom(part, counts) {
  const s = part.importances, s0 = part.background_importance;
  const top = counts.reduce((most, c, i) => (c > 0 ? Math.max(most, s[i]) : most), s0);
  if (top === -Infinity) return null;
  // F(c) = (w0 v0 + Σ c w v) / (w0 + Σ c w), w = exp s
  let mass = Math.exp(s0 - top), total = mass > 0 ? mass * part.background_value : 0;
  counts.forEach((c, i) => {
    if (c > 0) {
      const w = c * Math.exp(s[i] - top);
      mass += w;
      total += w * part.values[i];
    }
  });
  return total / mass;
}

/** The model's output less the scores of what was left out, plus those of the copies. */
function addedUp(one, counts) {
  const scores = one.scores[one.added];
  return counts.reduce((sum, c, i) => (c === 1 ? sum : sum + (c - 1) * scores[i]), one.output);
}

/** What the model was heard to say where a single token is gone; null where it was not asked. */
function withoutOne(one, counts) {
  const changed = counts.flatMap((c, i) => (c === 1 ? [] : [i]));
  return one.measured && changed.length === 1 && counts[changed[0]] === 0 ? one.output - one.scores.removal[changed[0]] : null;
}

const KINDS = {
  slalom: { name: "SLALOM", mark: "" },
  windows: { name: "Surrogate", mark: "" },
  additive: { name: "Linear surrogate", mark: "" },
};

/** The rows to show for a class: how each is called and computed. */
function readings(one) {
  const rows = [];
  const added = { key: "added", name: "Added up", mark: "diamond", at: (counts) => addedUp(one, counts) };
  if (one.surrogate) rows.push({ key: "surrogate", ...KINDS[one.surrogate.kind], at: (counts) => predict(one.surrogate, counts) });
  if (one.surrogate?.kind !== "additive" && !one.unsigned.includes(one.added)) rows.push(added);
  return [...rows, { key: "model", name: "The model", mark: "square", at: null }];
}

function explained(one) {
  const added = `“Added up” takes the score “${one.added}” as additive: the model's output for the whole text, less the scores of what was left out, plus those of copies.`;
  if (one.surrogate?.kind === "slalom") return `SLALOM weighs the remaining tokens anew. ${added}`;
  if (one.surrogate?.kind === "windows") return `The surrogate is the mean of those of the text's windows. ${added}`;
  if (one.surrogate) return "The linear surrogate adds up its weights of the tokens that stand there.";
  if (one.unsigned.includes(one.added)) return "This method predicts nothing: it fits no surrogate, and its scores do not say for or against.";
  return `This method fits no surrogate. ${added}`;
}

/** Builds the panel; gives `update(answer)`, which shows the state's counts and the model's answer. */
function whatif(section, state, on) {
  const reset = el("button", { type: "button" }, "Put everything back");
  const leave = el("button", { type: "button" }), copy = el("button", { type: "button" }, "Add a copy");
  const who = el("b"), acts = el("div", { class: "acts" });
  const body = el("tbody"), words = el("p", { class: "hint" }), said = el("div", { class: "said", "aria-live": "polite" });
  const invite = el("span", { class: "hint" }, "Click a word of the text to leave it out, again to put it back; + adds a copy.");
  reset.addEventListener("click", on.reset);
  leave.addEventListener("click", on.toggle);
  copy.addEventListener("click", on.copy);
  const head = el("tr", {}, el("td"), el("td"), el("th", { class: "number", scope: "col" }, "score"), el("th", { class: "number", scope: "col" }, "change"));
  const odds = el("th", { class: "number", scope: "col" }, "probability");
  head.append(odds);
  section.hidden = false;
  section.replaceChildren(el("h3", {}, el("span", {}, "What if?"), reset), acts,
    el("div", { class: "wide", tabindex: "0", role: "group", "aria-label": "what the text would say" }, el("table", { class: "readings" }, el("thead", {}, head), body)), words, said);
  const reach = { low: 0, high: 0 };

  function update(answer) {
    const one = state.class, { counts } = state;
    const changed = counts.some((c) => c !== 1);
    const whole = counts.map(() => 1);
    const rows = readings(one).map((row) => reading(row, state, whole, changed, answer));
    for (const { start, now } of rows) {
      for (const at of [start, now]) {
        if (!Number.isFinite(at)) continue;
        reach.low = Math.min(reach.low, at);
        reach.high = Math.max(reach.high, at);
      }
    }
    const chances = rows.some((row) => row.chance !== null);
    odds.hidden = !chances;
    body.closest("table").classList.toggle("chances", chances);
    body.replaceChildren(...rows.map((row) => line(row, reach, chances)));
    reset.disabled = !changed;
    words.textContent = explained(one);
    const spoken = changed ? rows.filter((row) => row.shown).map((row) => `${row.name} ${row.shown}`).join(", ") : "The text is as it was.";
    if (said.textContent !== spoken) said.textContent = spoken;
    const selected = state.selected;
    if (!selected) {
      acts.replaceChildren(invite);
      return;
    }
    who.textContent = selected.name;
    leave.textContent = selected.units.some((u) => counts[u] > 0) ? "Leave out" : "Put back";
    if (!leave.isConnected) acts.replaceChildren(who, leave, copy);
  }
  return update;
}

/** The probability that belongs to scores of the class: its log-odds, or one of classes that exclude each other. */
function chance(state, now, at) {
  if (!Number.isFinite(now)) return null;
  if (state.class.odds) return 1 / (1 + Math.exp(-now));
  if (!state.data.exclusive) return null;
  const all = state.data.classes.map(at);
  if (!all.every(Number.isFinite)) return null;
  const top = Math.max(...all), total = all.reduce((sum, x) => sum + Math.exp(x - top), 0);
  return Math.exp(now - top) / total;
}

function reading(row, state, whole, changed, answer) {
  const { counts } = state, one = state.class;
  if (row.at) {
    const start = row.at(whole), now = row.at(counts);
    const other = (c) => readings(c).find((o) => o.key === row.key)?.at(counts) ?? NaN;
    return { ...row, start, now, chance: chance(state, now, other), shown: now === null ? "no value for an empty text" : signed(now, 2) };
  }
  const start = one.output;
  if (!changed) return { ...row, start, now: start, chance: one.probability, shown: signed(start, 2) };
  if (answer && "score" in answer) {
    const known = answer.probability ?? chance(state, answer.score, () => NaN);
    return { ...row, start, now: answer.score, chance: known, shown: signed(answer.score, 2) };
  }
  const measured = answer ? null : withoutOne(one, counts);
  if (measured !== null) {
    return { ...row, name: "The model, measured", start, now: measured, chance: chance(state, measured, (c) => withoutOne(c, counts) ?? NaN), shown: signed(measured, 2) };
  }
  return { ...row, start, now: null, chance: null, shown: answer?.error ?? (answer ? "asking…" : "not asked") };
}

function line({ key, name, mark, start, now, shown, chance: likely }, reach, chances) {
  const span = reach.high - reach.low || 1;
  const at = (x) => 6 + (88 * (x - reach.low)) / span;
  const rule = el("div", { class: "rule" }, placedAt(el("i", { class: "nought" }), at(0)));
  const known = Number.isFinite(now);
  if (known) {
    const shift = placedAt(el("i", { class: "shift " + (now < start ? "n" : "p") }), Math.min(at(start), at(now)));
    shift.style.width = Math.abs(at(now) - at(start)) + "%";
    rule.append(shift);
  }
  if (Number.isFinite(start)) rule.append(placedAt(el("i", { class: "start" }), at(start)));
  if (known) rule.append(placedAt(el("i", { class: `now ${mark}`.trim() }), at(now)));
  const cells = known
    ? [el("td", { class: "number score", "data-score": String(now) }, shown), el("td", { class: "number" }, signed(now - start, 2))]
    : [el("td", { class: "number", colspan: chances ? "3" : "2" }, shown)];
  if (known && chances) cells.push(el("td", { class: "number", "data-chance": likely === null ? null : String(likely) }, likely === null ? "–" : percent(likely)));
  return el("tr", { "data-reading": key }, el("th", { scope: "row" }, name), el("td", { class: "track", "aria-hidden": "true" }, rule), ...cells);
}

function placedAt(element, share) {
  element.style.left = share + "%";
  return element;
}
