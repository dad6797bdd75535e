// The plane of value and importance (the paper's Fig. 5): one dot for each token type.

const ROOM = { left: 46, right: 14, top: 12, bottom: 46 };
const MOST_NAMES = 40;
const WIDEST = 24;
const ruler = document.createElement("canvas").getContext("2d");

/** Types with where they stand: the mean over their positions. */
function placed(state) {
  const { value, importance } = state.class.scores;
  if (!value || !importance) return [];
  const dots = state.data.names.map((name, type) => ({ name, type, units: [], x: 0, y: 0 }));
  state.data.types.forEach((type, unit) => {
    if (Number.isFinite(value[unit]) && Number.isFinite(importance[unit])) dots[type].units.push(unit);
  });
  const found = dots.filter((dot) => dot.units.length > 0);
  for (const dot of found) {
    for (const unit of dot.units) {
      dot.x += value[unit] / dot.units.length;
      dot.y += importance[unit] / dot.units.length;
    }
    // The area follows the frequency.
    dot.r = Math.min(4.6 * Math.sqrt(state.data.frequencies[dot.type]), 15);
    dot.share = dot.units.reduce((most, u) => (Math.abs(state.shares[u]) > Math.abs(most) ? state.shares[u] : most), 0);
  }
  return found;
}

/** A linear scale with round ticks, wide enough for zero. */
function scale(values, start, end) {
  const low = Math.min(0, ...values), high = Math.max(0, ...values);
  // What differs by rounding alone is one place, not a landscape.
  const margin = high - low > 1e-9 ? 0.08 * (high - low) : 1;
  const from = low - margin, span = high + margin - from;
  const at = (x) => start + ((x - from) / span) * (end - start);
  const rough = span / Math.max(2, Math.abs(end - start) / 48);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((m) => power * m >= rough * 0.999);
  const ticks = [];
  for (let i = Math.ceil(from / step); i * step <= from + span; i++) ticks.push(i * step);
  return { at, ticks };
}

const ticked = (x) => String(Number(x.toPrecision(6))).replace("-", "−");

function grid(x, y, width, height, target) {
  const bottom = height - ROOM.bottom, right = width - ROOM.right;
  const group = svg("g");
  for (const tick of x.ticks) {
    const at = x.at(tick);
    group.append(
      svg("line", { class: tick === 0 ? "zero" : "gridline", x1: at, x2: at, y1: ROOM.top, y2: bottom }),
      svg("text", { class: "tick", x: at, y: bottom + 16, "text-anchor": "middle" }, ticked(tick)),
    );
  }
  for (const tick of y.ticks) {
    const at = y.at(tick);
    group.append(
      svg("line", { class: tick === 0 ? "zero" : "gridline", x1: ROOM.left, x2: right, y1: at, y2: at }),
      svg("text", { class: "tick", x: ROOM.left - 7, y: at + 4, "text-anchor": "end" }, ticked(tick)),
    );
  }
  const middle = (ROOM.top + bottom) / 2;
  const zero = Math.min(Math.max(x.at(0), ROOM.left + 70), right - 70);
  group.append(
    svg("text", { class: "axis", x: zero, y: height - 6, "text-anchor": "middle" }, `← against · value · for ${clipped(target)} →`),
    svg("text", { class: "axis", x: 11, y: middle, "text-anchor": "middle", transform: `rotate(-90 11 ${middle})` }, "importance: counts more →"),
  );
  return group;
}

const clipped = (name) => (name.length > WIDEST ? [...name].slice(0, WIDEST - 1).join("") + "…" : name);

const meets = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

/** A free place for a name beside its dot, or null. */
function beside(dot, name, taken, width, height) {
  const w = ruler.measureText(name).width + 2, gap = dot.r + 3;
  const tries = [
    ["start", dot.cx + gap, dot.cy - 7], ["end", dot.cx - gap, dot.cy - 7],
    ["middle", dot.cx, dot.cy - gap - 14], ["middle", dot.cx, dot.cy + gap],
    ["start", dot.cx + gap - 2, dot.cy - 16], ["end", dot.cx - gap + 2, dot.cy - 16],
    ["start", dot.cx + gap - 2, dot.cy + 2], ["end", dot.cx - gap + 2, dot.cy + 2],
  ];
  for (const [anchor, x, top] of tries) {
    const left = anchor === "start" ? x : anchor === "end" ? x - w : x - w / 2;
    const box = { left, right: left + w, top, bottom: top + 14 };
    const inside = left >= ROOM.left && box.right <= width && top >= 0 && box.bottom <= height - ROOM.bottom + 2;
    if (inside && !taken.some((other) => meets(box, other))) return { box, anchor, x, y: top + 11 };
  }
  return null;
}

/** Names of the strongest, as many as find a place that covers no dot and no other name; marks have none. */
function names(named, dots, width, height) {
  const order = [...named].sort((a, b) => Math.abs(b.share) - Math.abs(a.share));
  const around = (dot) => ({ left: dot.cx - dot.r, right: dot.cx + dot.r, top: dot.cy - dot.r, bottom: dot.cy + dot.r });
  const taken = dots.slice(0, 200).map(around);
  const group = svg("g");
  for (const dot of order.slice(0, MOST_NAMES)) {
    const name = clipped(dot.name);
    const place = beside(dot, name, taken, width, height);
    if (!place) continue;
    taken.push(place.box);
    group.append(svg("text", { class: "name", x: place.x, y: place.y, "text-anchor": place.anchor, "data-type": dot.type }, name));
  }
  return group;
}

/** Draws the plane into `section`; gives what the page needs to light dots up, or null where there is none. */
function plane(section, state, on, tall = null) {
  const dots = placed(state);
  section.hidden = dots.length === 0;
  if (section.hidden) return null;
  const width = Math.max(260, Math.round(section.clientWidth - 36));
  const height = Math.round(tall ?? Math.min(Math.max(0.92 * width, 290), 520));
  const x = scale(dots.map((dot) => dot.x), ROOM.left, width - ROOM.right);
  const y = scale(dots.map((dot) => dot.y), height - ROOM.bottom, ROOM.top);
  ruler.font = `600 12px ${getComputedStyle(section).fontFamily}`;
  for (const dot of dots) Object.assign(dot, { cx: x.at(dot.x), cy: y.at(dot.y) });
  const marks = svg("g");
  // Large dots first, so that small ones are not buried.
  for (const dot of [...dots].sort((a, b) => b.r - a.r || Math.abs(a.share) - Math.abs(b.share))) {
    dot.circle = svg("circle", {
      class: `dot ${dot.x < 0 ? "n" : "p"}${state.data.quiet.includes(dot.type) ? " mark" : ""}`, cx: dot.cx, cy: dot.cy, r: dot.r, "data-type": dot.type,
      "fill-opacity": (0.15 + 0.75 * Math.abs(dot.share)).toFixed(2),
    });
    dot.circle.addEventListener("pointerenter", () => on.enter(dot.type, dot.circle));
    dot.circle.addEventListener("pointerleave", on.leave);
    dot.circle.addEventListener("click", () => on.click(dot.type));
    marks.append(dot.circle);
  }
  const extra = svg("g");
  const label = `Value and importance of ${dots.length} kinds of tokens; the table below holds the numbers`;
  const picture = svg(
    "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
    grid(x, y, width, height, state.class.target), marks, names(dots.filter((dot) => !state.data.quiet.includes(dot.type)), dots, width, height), extra,
  );
  section.replaceChildren(el("h3", {}, "Value and importance"), picture, el("p", { class: "hint" },
    "Each dot is a token type, larger the more often it stands in the text. Far right or left: what it says on its own. High up: it counts."));
  const byType = new Map(dots.map((dot) => [dot.type, dot]));
  return { light: (type, dim) => light(picture, extra, byType, type, dim, state, x, y), gone: (types) => gone(dots, types) };
}

/** Shows one type (or none): its name, error bars, and its single positions where they differ. */
function light(picture, extra, dots, type, dim, state, x, y) {
  const dot = dots.get(type);
  picture.classList.toggle("chosen", dim && dot !== undefined);
  for (const lit of picture.querySelectorAll(".lit")) lit.classList.remove("lit");
  extra.replaceChildren();
  if (!dot) return;
  const named = picture.querySelector(`.name[data-type="${type}"]`);
  dot.circle.classList.add("lit");
  if (named) named.classList.add("lit");
  else extra.append(svg("text", { class: "name over lit", x: dot.cx, y: dot.cy - dot.r - 5, "text-anchor": "middle" }, clipped(dot.name)));
  const { value, importance } = state.class.scores, errors = state.class.errors;
  const mean = (scores) => (scores ? Math.sqrt(dot.units.reduce((sum, u) => sum + scores[u] ** 2, 0) / dot.units.length) : NaN);
  const wide = mean(errors.value), tall = mean(errors.importance);
  if (Number.isFinite(wide)) extra.append(svg("line", { class: "whisker", x1: x.at(dot.x - wide), x2: x.at(dot.x + wide), y1: dot.cy, y2: dot.cy }));
  if (Number.isFinite(tall)) extra.append(svg("line", { class: "whisker", x1: dot.cx, x2: dot.cx, y1: y.at(dot.y - tall), y2: y.at(dot.y + tall) }));
  if (dot.units.length > 1) {
    for (const u of dot.units) extra.append(svg("circle", { class: "ghost", cx: x.at(value[u]), cy: y.at(importance[u]), r: 3 }));
  }
}

/** Hollow dots for types of which nothing is left. */
function gone(dots, types) {
  for (const dot of dots) dot.circle.classList.toggle("gone", types.has(dot.type));
}
