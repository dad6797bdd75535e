// The text: tokens that can be reached, pointed at and left out; and the tooltip.

/** Makes buttons of the tokens; one of them can be reached by Tab, the others by the arrow keys. */
function words(state) {
  const { text } = state.parts;
  text.setAttribute("role", "group");
  text.setAttribute("aria-label", "the text; arrow keys move, Enter leaves a token out, plus adds a copy, Escape clears");
  state.spans.forEach((span, run) => {
    span.setAttribute("role", "button");
    span.tabIndex = run === 0 ? 0 : -1;
  });
}

const LONG = 60, HIGH = 1100, NAMED = 8;

/** Of a long text: its strongest words, each a button that goes there; a very long text is folded, not hidden. */
function strongest(state) {
  const { root, text } = state.parts, { types, names } = state.data;
  root.querySelector(".strongest")?.remove();
  fold(state);
  if (state.spans.length < LONG) return;
  const best = new Map();
  state.shares.forEach((share, unit) => {
    if (!state.data.quiet.includes(types[unit]) && Math.abs(share) > Math.abs(state.shares[best.get(types[unit])] ?? 0)) best.set(types[unit], unit);
  });
  const units = [...best.values()].sort((a, b) => Math.abs(state.shares[b]) - Math.abs(state.shares[a])).slice(0, NAMED);
  const line = el("div", { class: "strongest" }, el("span", {}, "Strongest:"));
  for (const unit of units) {
    const kind = sideless(state.class, state.score) ?? (state.shares[unit] < 0 ? "n" : "p");
    const go = el("button", { type: "button", class: kind }, el("bdi", {}, names[types[unit]]));
    go.addEventListener("click", () => reach(state, unit, true));
    line.append(go);
  }
  text.before(line);
}

function fold(state) {
  const { root, text } = state.parts;
  if (state.unfolded || root.querySelector(".unfold") || text.scrollHeight < HIGH) return;
  const more = el("button", { type: "button", class: "unfold" }, "Show the whole text");
  more.addEventListener("click", () => { unfold(state); draw(state); refresh(state); });
  text.classList.add("folded");
  text.after(more);
}

function unfold(state) {
  state.unfolded = true;
  state.parts.text.classList.remove("folded");
  state.parts.root.querySelector(".unfold")?.remove();
}

/** Brings a token into sight. */
function reach(state, unit, focus) {
  const span = state.spans[state.runs.findIndex((run) => run.includes(unit))];
  if (!span) return;
  const { text } = state.parts;
  if (text.classList.contains("folded") && span.getBoundingClientRect().bottom > text.getBoundingClientRect().bottom) unfold(state);
  span.scrollIntoView({ block: focus ? "center" : "nearest" });
  if (focus) span.focus({ preventScroll: true });
}

/** On a narrow page: the numbers of the word that was touched, at the lower edge of the window. */
function sheet(state) {
  const { sheet: box, on } = state.parts, { selected, counts } = state, one = state.class;
  box.hidden = selected === null;
  if (box.hidden) return;
  const stands = selected.units.some((u) => counts[u] > 0);
  const away = el("button", { type: "button", class: "away", "aria-label": "close" }, "×");
  const leave = el("button", { type: "button" }, stands ? "Leave out" : "Put back");
  leave.addEventListener("click", on.toggle);
  away.addEventListener("click", () => { state.selected = null; refresh(state); });
  const whole = counts.map(() => 1), changed = counts.some((c) => c !== 1);
  const said = readings(one).map((row) => reading(row, state, whole, changed, state.asked));
  const told = said.map((row) => el("li", {}, el("span", {}, row.name), el("span", {}, row.chance === null ? row.shown : percent(row.chance))));
  const scores = Object.keys(one.decimals).map((name) => {
    const mean = selected.units.reduce((sum, u) => sum + one.scores[name][u], 0) / selected.units.length;
    return el("li", {}, el("span", {}, name + factor(one, name)), el("span", {}, scored(one, name, mean)));
  });
  const what = changed ? `${one.target}, as the text stands now` : `${one.target}, with the whole text`;
  box.replaceChildren(el("div", {}, el("b", {}, el("bdi", {}, selected.name)), leave, away), el("ul", {}, ...scores),
    el("div", { class: "muted" }, what), el("ul", {}, ...told));
}

function listen(state) {
  const { root, text } = state.parts;
  const runOf = (event) => state.spans.indexOf(event.target.closest?.(".t"));
  const point = (event) => {
    const run = runOf(event);
    if (run >= 0) hover(state, state.data.types[state.runs[run][0]], state.spans[run], state.runs[run]);
  };
  text.addEventListener("pointerover", point);
  text.addEventListener("focusin", (event) => {
    if (text.classList.contains("folded") && event.target.getBoundingClientRect().bottom > text.getBoundingClientRect().bottom) unfold(state);
    point(event);
    rove(state, runOf(event));
  });
  text.addEventListener("pointerout", () => hover(state, null));
  text.addEventListener("focusout", () => hover(state, null));
  text.addEventListener("click", (event) => { if (runOf(event) >= 0) press(state, runOf(event), toggle); });
  text.addEventListener("keydown", (event) => key(state, runOf(event), event));
  root.addEventListener("keydown", (event) => { if (event.key === "Escape") escape(state); });
  root.addEventListener("slalom:model", (event) => {
    if (event.detail?.id !== state.id) return;
    state.asked = event.detail;
    state.parts.update(state.asked);
    sheet(state);
  });
  new ResizeObserver(() => {
    const section = root.querySelector(".plane");
    if (!section.hidden && Math.abs(section.clientWidth - state.parts.width) > 1) {
      draw(state);
      refresh(state);
    }
  }).observe(root);
}

function press(state, run, act) {
  const units = state.runs[run], type = state.data.types[units[0]];
  state.selected = { type, units, name: units.map((u) => named(state.data, u)).join(" ") };
  change(state, () => act(state, units));
}

function rove(state, run) {
  if (run < 0) return;
  state.spans.forEach((span, other) => { span.tabIndex = other === run ? 0 : -1; });
}

function key(state, run, event) {
  if (run < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
  const last = state.spans.length - 1;
  const moves = {
    ArrowRight: run + 1, ArrowLeft: run - 1, Home: 0, End: last,
    ArrowDown: nextLine(state, run, 1), ArrowUp: nextLine(state, run, -1),
  };
  const acts = {
    Enter: toggle, " ": toggle, Delete: toggle, Backspace: toggle,
    "+": (s, units) => add(s, units, 1), "-": (s, units) => add(s, units, -1),
  };
  if (event.key in moves) state.spans[Math.min(Math.max(moves[event.key], 0), last)].focus();
  else if (event.key in acts) press(state, run, acts[event.key]);
  else return;
  event.preventDefault();
}

/** The token above or below, nearest in the line next to this one. */
function nextLine(state, run, step) {
  const middle = (box) => box.left + box.width / 2;
  const here = state.spans[run].getBoundingClientRect();
  let best = run, line = null;
  for (let i = run + step; i >= 0 && i < state.spans.length; i += step) {
    const box = state.spans[i].getBoundingClientRect();
    if (Math.abs(box.top - here.top) < here.height / 2) continue;
    if (line !== null && Math.abs(box.top - line) > here.height / 2) break;
    line ??= box.top;
    const closer = best === run || Math.abs(middle(box) - middle(here)) < Math.abs(middle(state.spans[best].getBoundingClientRect()) - middle(here));
    if (closer) best = i;
  }
  return best;
}

/** First the tooltip and the selection go, then the changes. */
function escape(state) {
  if (!state.parts.tip.hidden || state.selected) {
    state.selected = null;
    hover(state, null);
    refresh(state);
  } else {
    change(state, () => state.counts.fill(1));
  }
}

function tip(state, anchor, units) {
  const { tip: box, root, text } = state.parts;
  for (const span of root.querySelectorAll("[aria-describedby]")) span.removeAttribute("aria-describedby");
  box.hidden = anchor === null || units.length === 0;
  if (box.hidden) return;
  box.replaceChildren(...told(state, units));
  if (anchor.classList.contains("t")) anchor.setAttribute("aria-describedby", box.id);
  const at = anchor.getClientRects()[0] ?? anchor.getBoundingClientRect(), around = root.getBoundingClientRect();
  const below = at.bottom + 8 + box.offsetHeight < window.innerHeight || at.top < box.offsetHeight + 8;
  box.style.top = (below ? at.bottom + 8 : at.top - 8 - box.offsetHeight) - around.top + "px";
  // A token's tooltip keeps to the text, so that the plane beside it stays in sight.
  const end = anchor.classList.contains("t") ? text.getBoundingClientRect().right : around.right;
  box.style.left = Math.max(Math.min(at.left, end - box.offsetWidth) - around.left, 0) + "px";
}

/** The scores of a token; of several, from the least to the greatest. */
function told(state, units) {
  const one = state.class, { types, places, frequencies } = state.data;
  const kinds = [...new Set(units.map((u) => types[u]))];
  const often = kinds.length === 1 && frequencies[kinds[0]] > 1 ? `, ${frequencies[kinds[0]]} times in the text` : "";
  const where = units.length === 1 ? `${state.data.kind} ${places[units[0]]}${often}` : `${units.length} ${state.data.kinds}${often}`;
  const who = kinds.length === 1 && units.length > 1 ? state.data.names[kinds[0]] : units.map((u) => named(state.data, u)).join(" ");
  const body = el("tbody");
  for (const name of Object.keys(one.decimals)) {
    const errors = one.errors[name];
    const shown = [...new Set(units.map((u) => scored(one, name, one.scores[name][u])))];
    const ordered = [...units].sort((a, b) => one.scores[name][a] - one.scores[name][b]);
    const value = shown.length === 1 ? shown[0] : [ordered[0], ordered[ordered.length - 1]].map((u) => scored(one, name, one.scores[name][u])).join(" … ");
    const error = errors ? missed(one, name, Math.sqrt(units.reduce((sum, u) => sum + errors[u] ** 2, 0) / units.length)) : "";
    body.append(el("tr", {}, el("th", { scope: "row" }, name + factor(one, name)), el("td", { class: "number" }, value), el("td", { class: "number" }, error)));
  }
  return [el("b", {}, el("bdi", {}, who)), el("span", {}, where), el("table", {}, body)];
}
