// Numbers as the page shows them, small helpers for elements.

const SVG = "http://www.w3.org/2000/svg";

/** A number as Python's `plain` wrote it: null is NaN, infinities are strings. */
const number = (x) => (x === null ? NaN : x === "inf" ? Infinity : x === "-inf" ? -Infinity : x);

/** With its sign, a true minus, and no sign for what rounds to zero. */
function signed(x, places) {
  if (Number.isNaN(x)) return "n/a";
  if (!Number.isFinite(x)) return x > 0 ? "+∞" : "−∞";
  const text = Math.abs(x).toFixed(places);
  return Number(text) === 0 ? text : (x < 0 ? "−" : "+") + text;
}

/** A score of a class as it is shown: in units of its power of ten, without a plus where it has no sign. */
function scored(one, name, x) {
  const text = signed(x / 10 ** (one.powers[name] ?? 0), one.decimals[name]);
  return one.unsigned.includes(name) ? text.replace("+", "") : text;
}

const missed = (one, name, x) => uncertain(x / 10 ** (one.powers[name] ?? 0), one.decimals[name]);

/** "s" for a score that does not say for or against, else null. */
const sideless = (one, name) => (name === "importance" || one.unsigned.includes(name) ? "s" : null);

/** What stands behind the name of a score whose numbers are not in units of one. */
const factor = (one, name) => (one.powers[name] ? ` ×10${[...String(one.powers[name])].map((c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] ?? "⁻").join("")}` : "");

const uncertain = (x, places) => (Number.isNaN(x) ? "n/a" : Number.isFinite(x) ? "±" + x.toFixed(places) : "±∞");

/** A probability that never rounds to certainty. */
function percent(p) {
  if (p > 0 && p < 0.0005) return "<0.1 %";
  if (p < 1 && p > 0.9995) return ">99.9 %";
  return (100 * p).toFixed(1) + " %";
}

/** A token as it stands in the text; its type can be written in several ways. */
const named = (data, unit) => data.own[unit] ?? data.names[data.types[unit]];

const finite = (x) => (Number.isFinite(x) ? x : 0);

/** Shares of the largest, −1 to 1. */
function strengths(scores) {
  const clean = scores.map(finite);
  const top = clean.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
  return top > 0 ? clean.map((x) => x / top) : clean;
}

/** An element: tag, attributes (null and false are left out), children (strings are text). */
function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}
