// The page of `slalom serve`: ask, watch, look, ask what if.

import * as past from "./past.js";
import { json, lines, onToken, request } from "./server.js";

const $ = (id) => document.getElementById(id);
const EXAMPLES = [
  "The food was great but the service was awful, and the waiter never came back.",
  "I expected a dull film. It isn't: the plot is thin, but the acting is wonderful.",
  "Not bad at all, although two hours for a cold soup is hard to forgive.",
];
const WAIT = 120; // milliseconds without another change before the model is asked what if

let methods = [];
let limits = { characters: Infinity, queries: Infinity };
let running = null; // the AbortController of the explanation that is being made
let shown = null; // which text, model and tokens the explanation on the page is about

/* ---- the form ---- */

function option(value, text = value) { return Object.assign(document.createElement("option"), { value, textContent: text }); }

function fitMethod() {
  const method = methods.find((m) => m.name === $("method").value);
  if (!method) return;
  $("summary").textContent = `${method.summary}.${method.needs === "logits" ? "" : ` Needs the model's ${method.needs}.`}`;
  $("effort").disabled = !("effort" in method.options);
  const types = $("granularity").querySelector('[value="types"]');
  types.disabled = !("granularity" in method.options);
  if (types.disabled && types.selected) $("granularity").value = "words";
}

async function fitModel(wanted = "") {
  const name = $("model").value;
  const keep = option("", "as predicted");
  $("target").replaceChildren(keep);
  if (wanted) $("target").append(option(wanted));
  $("target").value = wanted;
  const known = await json(`api/models/${encodeURIComponent(name)}`);
  if ($("model").value !== name) return; // another one was chosen meanwhile
  const chosen = $("target").value;
  $("target").replaceChildren(keep, ...(known.labels ?? []).map((label) => option(label)));
  $("target").value = chosen;
  if ($("target").selectedIndex < 0) $("target").value = "";
}

function fitLength() {
  const given = [...$("text").value].length + [...$("pair").value].length;
  const over = given > limits.characters;
  $("length").hidden = given <= 0.8 * limits.characters;
  $("length").textContent = `${given.toLocaleString("en")} of ${limits.characters.toLocaleString("en")} characters`;
  $("text").setAttribute("aria-invalid", String(over));
}

function order() {
  const budget = $("budget").value.trim();
  const asked = {
    text: $("text").value,
    model: $("model").value,
    method: $("method").value,
    budget: budget === "" ? "auto" : Number(budget),
    seed: Number($("seed").value || 0),
    ...scored(),
    every_class: $("every").checked,
  };
  if ($("target").value) asked.target = $("target").value;
  if (!$("effort").disabled) asked.effort = $("effort").value;
  if ($("pair").value.trim()) Object.assign(asked, { pair: $("pair").value, side: $("side").value });
  return asked;
}

/** What gets a score: token types, or units of the text. */
function scored() {
  const chosen = $("granularity").value;
  return chosen === "types" ? { granularity: "types", units: "tokens" } : { units: chosen };
}

function fill(asked) {
  $("text").value = asked.text;
  $("pair").value = asked.pair ?? "";
  $("side").value = asked.side ?? asked.explain ?? "both";
  if ([...$("model").options].some((o) => o.value === asked.model)) $("model").value = asked.model;
  if (methods.some((m) => m.name === asked.method)) $("method").value = asked.method;
  $("budget").value = asked.budget === "auto" ? "" : asked.budget;
  $("effort").value = asked.effort ?? "balanced";
  $("seed").value = asked.seed ?? 0;
  $("granularity").value = asked.granularity === "types" ? "types" : asked.units ?? "words";
  $("every").checked = asked.every_class === true;
  $("more").open ||= Boolean(asked.pair || asked.seed || asked.every_class || $("granularity").value !== "words");
  fitMethod();
  fitLength();
  fitModel(asked.target ?? "").catch(fail);
}

/* ---- what is going on ---- */

function say(text) { $("status").textContent = text; }

function fail(error) {
  if (error.name === "AbortError") return;
  $("error").textContent = error.message || String(error);
  $("error").hidden = false;
}

function busy(on, budget) {
  $("go").disabled = $("compare").disabled = on;
  $("cancel").hidden = $("bar").hidden = !on;
  $("ask").setAttribute("aria-busy", String(on));
  $("bar").removeAttribute("value");
  if (on && budget !== "auto") $("bar").max = budget;
}

function explain(event) {
  event?.preventDefault();
  return run("api/explain", order(), ({ explanation }) => {
    const { queries, seconds } = explanation.cost;
    return `Explained “${explanation.target}” with ${queries.toLocaleString("en")} queries in ${seconds.toFixed(1)} s.`;
  });
}

function compare() {
  if (!$("ask").reportValidity()) return null;
  const { text, model, budget, seed, granularity, units, target, pair, side } = order();
  const asked = Object.fromEntries(Object.entries({ text, model, budget, seed, granularity, units, target, pair, side }).filter(([, value]) => value !== undefined));
  return run("api/compare", asked, ({ comparison }) => `Compared ${Object.keys(comparison.methods).length} methods.`);
}

async function run(path, asked, told) {
  if (running || $("go").disabled) return;
  const abort = (running = new AbortController());
  $("error").hidden = true;
  busy(true, asked.budget);
  say("asking the model …");
  try {
    const response = await request(path, { body: asked, accept: "application/x-ndjson", signal: abort.signal });
    let result = null;
    for await (const line of lines(response)) {
      if (line.event === "progress") progress(line.queries, asked.budget);
      if (line.event === "error") throw new Error(line.detail);
      if (line.event === "result") result = line;
    }
    if (!result) throw new Error("the server ended before the explanation was complete");
    await show(result.id, asked, abort.signal);
    remember(result, asked);
    say(told(result));
  } catch (error) {
    say(error.name === "AbortError" ? "Cancelled." : "");
    fail(error);
  } finally {
    running = null;
    busy(false);
  }
}

function progress(queries, budget) {
  if (budget !== "auto" && queries > 0) $("bar").value = queries;
  say(queries ? `asking the model … ${queries.toLocaleString("en")} queries` : "asking the model …");
}

/* ---- the explanation ---- */

let latest = 0;

/** Shows a report, unless another one was asked for while it came, or `unless` says that it is in the way. */
async function show(id, asked, signal, unless = null) {
  const number = ++latest;
  const response = await request(`reports/${encodeURIComponent(id)}/fragment`, { accept: "text/html", signal });
  const link = /<([^>]*)>/.exec(response.headers.get("link") ?? "")?.[1] ?? `/reports/${id}`;
  const template = document.createElement("template");
  template.innerHTML = await response.text(); // written by the server, every text in it escaped
  if (number !== latest || unless?.()) return;
  $("explanation").replaceChildren(template.content);
  // The server's addresses start at its root, which behind a proxy need not be the root of this page.
  for (const name of ["report", "download"]) $(name).href = link.replace(/^\//, "");
  shown = asked;
  $("result").hidden = false;
  window.slalom.upgrade($("explanation"));
  if (unless) return;
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  $("result").scrollIntoView({ behavior: calm ? "auto" : "smooth", block: "start" });
  $("result").focus({ preventScroll: true });
}

/** Something to look at before anybody asks: an example, explained by the server's first model. */
async function showExample() {
  const { id, request: asked } = await json("api/example");
  const taken = () => running || $("text").value || $("model").value !== asked.model; // somebody asks already
  if (shown || taken()) return;
  await show(id, asked, undefined, taken);
  if (taken() || shown !== asked) return;
  $("text").value = asked.text;
  fitLength();
  say("An example; write a text of your own and press Explain.");
}

function remember(result, asked) {
  const label = result.explanation?.target ?? "methods compared";
  past.add({ ...asked, id: result.id, target: asked.target, label, time: Date.now() });
  list();
}

function list() { past.show($("past-list"), $("past-none"), $("clear"), reopen); }

async function reopen(entry) {
  if (running) return;
  $("error").hidden = true;
  say("");
  fill(entry);
  try {
    await show(entry.id, entry);
  } catch (error) {
    if (error.status !== 404) { fail(error); return; }
    $("result").hidden = true;
    say("The server no longer has this report; press Explain to make it again.");
    $("go").focus();
  }
}

/* ---- what if: the model's own answer ---- */

let question = null;

function whatIf(event) {
  question?.abort();
  if (!event.detail.changed || !shown) return;
  event.preventDefault();
  const abort = (question = new AbortController());
  const root = event.target, { id, target, counts } = event.detail, about = shown;
  const tell = (detail) => root.dispatchEvent(new CustomEvent("slalom:model", { detail: { id, ...detail } }));
  setTimeout(async () => {
    if (abort.signal.aborted) return;
    const body = { text: about.text, model: about.model, units: about.units, counts };
    if (about.pair) Object.assign(body, { pair: about.pair, side: about.side ?? about.explain });
    try {
      const answer = await json("api/predict", { body, signal: abort.signal });
      const place = answer.labels.indexOf(target);
      tell(place < 0 ? { error: "the model has no such label" } : { score: answer.scores[place], probability: answer.probabilities[place] });
    } catch (error) {
      if (error.name !== "AbortError") tell({ error: error.message });
    }
  }, WAIT);
}

/* ---- the token ---- */

function askForToken(wrong) {
  const dialog = $("token-dialog");
  $("token-wrong").textContent = wrong ? "That token was not accepted." : "";
  $("token").value = "";
  dialog.showModal();
  return new Promise((resolve) => {
    const done = (event) => {
      event.preventDefault();
      $("token-form").removeEventListener("submit", done);
      dialog.close();
      resolve($("token").value.trim());
    };
    $("token-form").addEventListener("submit", done);
  });
}

/* ---- corpora ---- */

function listCorpora(corpora) {
  $("corpora").hidden = corpora.length === 0;
  $("corpora-list").replaceChildren(...corpora.map(({ name, page }) => {
    const link = Object.assign(document.createElement("a"), { href: page.slice(1), target: "_blank", rel: "noopener", textContent: name });
    const entry = document.createElement("li");
    entry.append(link);
    return entry;
  }));
}

/* ---- start ---- */

async function start() {
  onToken(askForToken);
  $("token-dialog").addEventListener("cancel", (event) => event.preventDefault());
  $("ask").addEventListener("submit", explain);
  $("ask").addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("ask").requestSubmit(); });
  $("compare").addEventListener("click", compare);
  $("cancel").addEventListener("click", () => { running?.abort(); $("text").focus(); });
  $("method").addEventListener("change", fitMethod);
  $("model").addEventListener("change", () => fitModel().catch(fail));
  for (const name of ["text", "pair"]) $(name).addEventListener("input", fitLength);
  let example = 0;
  $("example").addEventListener("click", () => { $("text").value = EXAMPLES[example++ % EXAMPLES.length]; fitLength(); $("text").focus(); });
  $("clear").addEventListener("click", () => { past.clear(); list(); $("text").focus(); });
  $("explanation").addEventListener("slalom:whatif", whatIf);
  window.addEventListener("storage", list); // another tab explained something
  list();
  const served = await json("api/models");
  limits = served.limits;
  $("budget").max = limits.queries;
  $("model").replaceChildren(...served.models.map((m) => option(m.name)));
  $("model").value = served.default;
  listCorpora(await json("api/corpora"));
  methods = await json("api/methods");
  $("method").replaceChildren(...methods.map((m) => option(m.name)));
  $("method").value = "slalom";
  fitMethod();
  $("go").disabled = $("compare").disabled = false;
  await fitModel();
  await showExample().catch(() => {}); // a model that reads pairs only has none
}

start().catch(fail);
