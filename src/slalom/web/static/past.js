// What was explained in this browser: a bounded list in localStorage.

const KEY = "slalom.history";
const MOST = 30;
const MOST_CHARACTERS = 400_000;

export function read() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) || "[]");
    return Array.isArray(kept) ? kept.filter((e) => e && typeof e.text === "string" && typeof e.id === "string") : [];
  } catch { return []; }
}

function write(entries) {
  const kept = entries.slice(0, MOST);
  for (;;) {
    const text = JSON.stringify(kept);
    try {
      if (text.length <= MOST_CHARACTERS) { localStorage.setItem(KEY, text); return; }
    } catch (error) { if (error.name !== "QuotaExceededError") return; }
    if (!kept.length) return;
    kept.pop();
  }
}

export function add(entry) { write([entry, ...read().filter((e) => e.id !== entry.id)]); }
export function drop(id) { write(read().filter((e) => e.id !== id)); }
export function clear() { try { localStorage.removeItem(KEY); } catch { /* nothing was kept */ } }

/** Shows the list; `open(entry)` is called with what is chosen. Texts only ever become text. */
export function show(list, none, button, open) {
  const entries = read();
  none.hidden = entries.length > 0;
  button.hidden = entries.length === 0;
  list.replaceChildren(...entries.map((entry) => {
    const item = document.createElement("li");
    const choose = element("button", "open");
    choose.type = "button";
    const words = element("span", "words", entry.text.slice(0, 300));
    words.dir = "auto";
    choose.append(words, element("span", "about", [entry.label, entry.method, when(entry.time), entry.model].filter(Boolean).join(" · ")));
    choose.addEventListener("click", () => open(entry));
    const away = element("button", "drop", "×");
    away.type = "button";
    away.setAttribute("aria-label", `Remove “${entry.text.slice(0, 40)}” from the history`);
    away.addEventListener("click", () => { drop(entry.id); show(list, none, button, open); (list.querySelector("button") || document.getElementById("text")).focus(); });
    item.append(choose, away);
    return item;
  }));
}

/** The time of today, the date of any other day. */
function when(time) {
  const then = new Date(time);
  if (Number.isNaN(+then)) return "";
  const today = then.toDateString() === new Date().toDateString();
  return today ? then.toLocaleTimeString([], { timeStyle: "short" }) : then.toLocaleDateString([], { dateStyle: "short" });
}

function element(name, kind, text = "") {
  const made = document.createElement(name);
  made.className = kind;
  made.textContent = text;
  return made;
}
