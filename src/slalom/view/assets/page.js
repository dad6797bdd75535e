/* The live part of an explanation: text and plane linked, scores to choose from, what-if.
 *
 * For whoever embeds it (a server's page, for example):
 *
 *   Markup     slalom.view.html.fragment(explanation, assets=False) is one <div class="slalom-explanation">
 *              with its data inside and no style or script; page.FRAGMENT and page.SCRIPT are the assets,
 *              to be served once. render() and fragment() bring their own.
 *   Upgrade    On loading, this script upgrades every such <div> it finds. For markup inserted later:
 *              window.slalom.upgrade(element)   // the <div>, or anything around it; twice does no harm
 *   What if    After every change of the text the <div> dispatches the bubbling, cancelable event
 *                "slalom:whatif"  detail: {id, target, counts, kept, changed}
 *              counts: how often each token of the explanation stands in the text, kept: the same as positions
 *              in order (what Explanation.predict takes), changed: false when the text is as it was.
 *              A listener that will fetch the model's own answer calls event.preventDefault() (the page then
 *              says that it is asking) and later dispatches on the same <div>
 *                new CustomEvent("slalom:model", {detail: {id, score, probability}}) or {id, error: "why not"}
 *              score and probability (may be left out) are the target's, score in the units of Explanation.output. Answers to an older id are ignored.
 */

const MEANS = ["value", "importance"];
let made = 0;

/** One explanation: its data, what is chosen, and everything that shows it. */
function upgradeOne(root) {
  if (root.dataset.ready) return;
  const source = root.querySelector('script[type="application/json"]');
  if (!source) return;
  root.dataset.ready = "true";
  const data = JSON.parse(source.textContent);
  data.classes.forEach(revive);
  const text = root.querySelector(".text");
  const state = {
    data, class: data.classes[0], score: data.classes[0].ranking, shares: [], counts: data.places.map(() => 1),
    runs: data.runs ?? data.places.map((_, unit) => [unit]), spans: [...text.querySelectorAll(".t")],
    selected: null, hovered: null, id: 0, asked: null, name: `slalom-${Date.now().toString(36)}-${made++}`,
  };
  const parts = (state.parts = { root, text });
  root.querySelector(".others")?.remove();
  parts.tip = el("div", { class: "tip", role: "tooltip", id: `${state.name}-tip`, hidden: "" });
  parts.sheet = el("div", { class: "sheet", role: "group", "aria-label": "the word that was touched", hidden: "" });
  root.append(parts.tip, parts.sheet);
  const on = {
    enter: (type, anchor) => hover(state, type, anchor, state.data.types.flatMap((t, unit) => (t === type ? [unit] : []))),
    leave: () => hover(state, null),
    click: (type) => selectType(state, type),
    reset: () => change(state, () => state.counts.fill(1)),
    toggle: () => change(state, () => toggle(state, state.selected.units)),
    copy: () => change(state, () => add(state, state.selected.units, 1)),
  };
  parts.on = on;
  tools(root.querySelector(".tools"), state);
  parts.update = whatif(root.querySelector(".whatif"), state, on);
  words(state);
  listen(state);
  show(state);
}

/** Numbers that JSON has no word for. */
function revive(one) {
  one.output = number(one.output);
  for (const group of [one.scores, one.errors]) for (const name in group) group[name] = group[name].map(number);
  for (const whole of one.surrogate?.windows?.map((window) => window.part) ?? [one.surrogate]) {
    for (const part of whole?.parts ?? []) part.background_importance = number(part.background_importance);
  }
}

/** The choice of a label and of a score. */
function tools(bar, state) {
  const scores = el("fieldset", {}, el("legend", {}, "Colour by"));
  for (const name of Object.keys(state.class.decimals)) {
    const input = el("input", { type: "radio", name: `${state.name}-score`, value: name });
    input.checked = name === state.score;
    input.addEventListener("change", () => { state.score = name; show(state); });
    scores.append(el("label", { class: "choice" }, input, el("span", {}, name)));
  }
  state.parts.meaning = el("span", { class: "meaning" });
  if (state.data.classes.length > 1) {
    const select = el("select");
    state.data.classes.forEach((one, i) => select.append(el("option", { value: i }, one.target)));
    select.addEventListener("change", () => {
      state.class = state.data.classes[Number(select.value)];
      show(state);
      ask(state);
    });
    bar.append(el("label", {}, "Explain", select));
  }
  if (scores.children.length > 2) bar.append(scores, state.parts.meaning);
  bar.hidden = bar.children.length === 0;
}

/** Everything that depends on the class and the score. */
function show(state) {
  const { parts, score } = state, one = state.class, values = one.scores[score];
  state.shares = score === "importance" ? between(values) : strengths(values);
  const summed = state.runs.map((units) => units.reduce((sum, u) => sum + finite(values[u]), 0) / (MEANS.includes(score) ? units.length : 1));
  const shares = score === "importance" ? between(summed) : strengths(summed);
  state.spans.forEach((span, run) => {
    for (const name of [...span.classList]) if (/^(p|n|s|a\d+)$/.test(name)) span.classList.remove(name);
    const level = Math.round(10 * Math.abs(shares[run]));
    if (level) span.classList.add(sideless(one, score) ?? (shares[run] < 0 ? "n" : "p"), `a${level}`);
  });
  parts.root.querySelector(".head em bdi").textContent = one.target;
  parts.root.querySelector(".head .score").textContent = signed(one.output, 2);
  parts.root.querySelector(".answer").replaceChildren(...one.answer.map(([text, quoted]) => (quoted ? el("q", {}, el("bdi", {}, text)) : text)));
  const badge = parts.root.querySelector(".badge");
  badge.className = `badge ${one.badge.level}`;
  badge.replaceChildren(el("b", {}, one.badge.words), " ", el("span", {}, one.badge.sentence));
  parts.meaning.textContent = state.data.meanings[score] ? `${score}: ${state.data.meanings[score]}` : "";
  legend(parts.root.querySelector(".legend"), one, score);
  const pairs = parts.root.querySelector(".pairs");
  if (pairs) pairs.hidden = one !== state.data.classes[0];  // they are of the label that was asked for
  parts.rows = table(parts.root.querySelector(".tokens"), state, parts.on);
  strongest(state);
  draw(state);
  refresh(state);
}

/** Importances: from the least to the greatest, 0 to 1. */
function between(values) {
  const clean = values.map(finite);
  const low = clean.reduce((a, b) => Math.min(a, b), Infinity), high = clean.reduce((a, b) => Math.max(a, b), -Infinity);
  return clean.map((x) => (high > low ? (x - low) / (high - low) : 0));
}

function legend(line, one, score) {
  const silent = one.unsigned.includes(score) ? ` “${score}” does not say for or against what.` : "";
  if (sideless(one, score)) line.replaceChildren(el("span", { class: "t s a6" }, "violet, dotted"), ` counts: the darker, the more.${silent}`);
  else line.replaceChildren(el("span", { class: "t p a6" }, "blue, solid"), " speaks for ", el("bdi", {}, one.target), ", ",
    el("span", { class: "t n a6" }, "orange, dashed"), ` against it, by the score “${score}”.`);
}

const LOWEST = 260, HIGHEST = 640, TWO_COLUMNS = 800;

/** The plane, as high as what stands beside it; what-if below the text, or below the plane where the text is long. */
function draw(state) {
  const { root } = state.parts, [section, grid, side, words, panel] = [".plane", ".grid", ".side", ".words", ".whatif"].map((name) => root.querySelector(name));
  grid.classList.remove("tall");
  grid.append(panel);
  state.parts.update(state.asked);
  const one = (height = null) => { state.parts.plane = plane(section, state, state.parts.on, height); };
  one();
  state.parts.width = section.clientWidth;
  side.style.top = "";
  if (section.hidden || root.clientWidth < TWO_COLUMNS) return;
  const around = section.offsetHeight - section.querySelector("svg").getBoundingClientRect().height;
  const gap = parseFloat(getComputedStyle(grid).rowGap);
  const fitted = (room) => Math.min(Math.max(room - around, LOWEST), HIGHEST);
  const below = words.offsetHeight + gap + panel.offsetHeight, beside = words.offsetHeight - panel.offsetHeight - gap;
  const waste = (room) => Math.abs(room - around - fitted(room));
  const tall = waste(beside) < waste(below);
  grid.classList.toggle("tall", tall);
  if (tall) side.append(panel);
  one(fitted(tall ? beside : below));
  // What is higher than the window is seen to its end before it sticks.
  side.style.top = `${Math.min(12, window.innerHeight - side.offsetHeight - 12)}px`;
}

/** Everything that depends on the counts and on what is selected. */
function refresh(state) {
  const { parts, counts } = state;
  state.spans.forEach((span, run) => {
    const most = Math.max(...state.runs[run].map((u) => counts[u]));
    span.setAttribute("aria-pressed", String(most === 0));
    if (most > 1) span.dataset.n = most;
    else delete span.dataset.n;
  });
  parts.update(state.asked);
  sheet(state);
  if (parts.plane) {
    const left = new Set(state.data.types.filter((_, unit) => counts[unit] > 0));
    parts.plane.gone(new Set(state.data.types.filter((type) => !left.has(type))));
  }
  link(state);
}

function change(state, act) {
  act();
  ask(state);
  refresh(state);
}

/** Tells whoever listens, and notes whether somebody is going to answer. */
function ask(state) {
  const counts = new Array(state.data.size).fill(1);
  state.data.places.forEach((place, unit) => { counts[place] = state.counts[unit]; });
  const detail = {
    id: ++state.id, target: state.class.label, counts,
    kept: counts.flatMap((count, place) => new Array(count).fill(place)), changed: counts.some((count) => count !== 1),
  };
  const asked = new CustomEvent("slalom:whatif", { detail, bubbles: true, cancelable: true });
  state.asked = null;
  if (!state.parts.root.dispatchEvent(asked)) state.asked = state.asked ?? {};
  state.parts.update(state.asked);
  sheet(state);
}

function toggle(state, units) {
  const present = units.some((u) => state.counts[u] > 0);
  for (const u of units) state.counts[u] = present ? 0 : 1;
}

function add(state, units, step) {
  for (const u of units) state.counts[u] = Math.min(Math.max(state.counts[u] + step, 0), 99);
}

function selectType(state, type) {
  const again = state.selected?.type === type;
  const units = state.data.types.flatMap((t, unit) => (t === type ? [unit] : []));
  state.selected = again ? null : { type, units, name: state.data.names[type] };
  if (!again) reach(state, units[0], false);
  refresh(state);
}

function hover(state, type, anchor = null, units = []) {
  state.hovered = type;
  link(state);
  tip(state, anchor, units);
}

/** Lights what belongs together in text, plane and table. */
function link(state) {
  const { parts, hovered, selected } = state;
  const chosen = hovered ?? selected?.type ?? null;
  state.spans.forEach((span, run) => {
    const units = state.runs[run];
    span.classList.toggle("lit", hovered !== null && units.some((u) => state.data.types[u] === hovered));
    span.classList.toggle("pinned", selected !== null && units.some((u) => selected.units.includes(u)));
  });
  parts.plane?.light(chosen, hovered !== null);
  parts.rows(chosen);
}

function upgrade(place = document) {
  if (place.matches?.(".slalom-explanation")) upgradeOne(place);
  place.querySelectorAll(".slalom-explanation").forEach(upgradeOne);
}

window.slalom = Object.assign(window.slalom ?? {}, { upgrade });
upgrade();
