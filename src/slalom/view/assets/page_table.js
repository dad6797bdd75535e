// The table of tokens by the chosen score.

const FIRST_ROWS = 15;

function bar(share, kind) {
  const width = 50 * Math.abs(share);
  return svg(
    "svg", { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: kind ?? (share < 0 ? "n" : "p"), x: share < 0 ? 50 - width : 50, y: 1, width, height: 8 }),
    svg("rect", { class: "middle", x: 49.8, y: 0, width: 0.4, height: 10 }),
  );
}

/** A score's name; removals say where they are the model's own answers. */
const heading = (one, name) => [name + factor(one, name), ...(name === "removal" && one.measured ? [" ", el("small", {}, "measured")] : [])];

function cell(state, name, unit) {
  const one = state.class, errors = one.errors[name];
  const shown = el("td", { class: "number" }, scored(one, name, one.scores[name][unit]));
  if (errors) shown.append(" ", el("small", {}, missed(one, name, errors[unit])));
  return shown;
}

/** Fills `section`; `on` links the rows with text and plane. Gives a function that lights the rows of a type. */
function table(section, state, on) {
  const names = Object.keys(state.class.decimals);
  const shown = [state.score, ...names.filter((name) => name !== state.score)];
  const order = state.data.listed?.slice() ?? state.data.places.map((_, unit) => unit);
  const { kinds } = state.data;
  order.sort((a, b) => Math.abs(finite(state.shares[b])) - Math.abs(finite(state.shares[a])) || a - b);
  const total = order.length;
  const body = el("tbody");
  const add = (units) => body.append(...units.map((unit) => row(state, shown, unit, on)));
  add(order.slice(0, FIRST_ROWS));
  const head = el("tr", {}, el("th", { class: "number", scope: "col" }, "#"), el("th", { scope: "col" }, state.data.kind), el("td"));
  for (const name of shown) head.append(el("th", { class: "number", scope: "col" }, ...heading(state.class, name)));
  const wide = el("div", { class: "wide", tabindex: "0", role: "group", "aria-label": "scores of the tokens" },
    el("table", {}, el("thead", {}, head), body));
  const title = el("h3", {}, total > FIRST_ROWS ? `The ${FIRST_ROWS} strongest of ${total.toLocaleString("en")} ${kinds}, by ${state.score}` : `${kinds[0].toUpperCase()}${kinds.slice(1)} by ${state.score}, strongest first`);
  section.replaceChildren(title, wide);
  if (total > FIRST_ROWS) {
    const more = el("button", { type: "button" }, `Show all ${total.toLocaleString("en")}`);
    more.addEventListener("click", () => {
      add(order.slice(FIRST_ROWS));
      title.textContent = `All ${total.toLocaleString("en")} ${kinds}, by ${state.score}`;
      more.remove();
      wide.focus();
    });
    section.append(more);
  }
  return (type) => {
    for (const line of body.children) line.classList.toggle("lit", Number(line.dataset.type) === type);
  };
}

function row(state, shown, unit, on) {
  const type = state.data.types[unit];
  const line = el(
    "tr", { "data-type": type },
    el("td", { class: "number place" }, String(state.data.places[unit])),
    el("td", {}, el("bdi", state.data.quiet.includes(type) ? { class: "quiet" } : {}, named(state.data, unit))),
    el("td", {}, bar(state.shares[unit], sideless(state.class, state.score))),
    ...shown.map((name) => cell(state, name, unit)),
  );
  line.addEventListener("pointerenter", () => on.enter(type, null));
  line.addEventListener("pointerleave", on.leave);
  line.addEventListener("click", () => on.click(type));
  return line;
}
