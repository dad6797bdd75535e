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

const uncertain = (x, places) => (Number.isNaN(x) ? "n/a" : Number.isFinite(x) ? "±" + x.toFixed(places) : "±∞");

/** A probability that never rounds to certainty. */
function percent(p) {
  if (p > 0 && p < 0.0005) return "<0.1 %";
  if (p < 1 && p > 0.9995) return ">99.9 %";
  return (100 * p).toFixed(1) + " %";
}

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
