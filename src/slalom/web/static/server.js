// Talking to the server: the token, errors as sentences, answers that come line by line.

const KEY = "slalom.token";
let askForToken = async () => null;

/** Says how to get a token from the person in front of the page; called when the server wants one. */
export function onToken(ask) { askForToken = ask; }

export class ServerError extends Error {
  constructor(status, detail) { super(detail); this.status = status; }
}

let memory = "";
function token() { try { return sessionStorage.getItem(KEY) || memory; } catch { return memory; } }
function keep(value) { memory = value; try { sessionStorage.setItem(KEY, value); } catch { /* private mode */ } }

let asking = null;

/** fetch with the token; asks for it once and tries again where the server refuses. */
export async function request(path, { body, accept = "application/json", signal } = {}) {
  for (let wrong = false; ; wrong = true) {
    const used = token();
    const headers = { accept };
    if (used) headers.authorization = `Bearer ${used}`;
    if (body !== undefined) headers["content-type"] = "application/json";
    let response;
    try {
      response = await fetch(path, {
        method: body === undefined ? "GET" : "POST", headers, signal, cache: "no-store",
        body: body === undefined ? undefined : JSON.stringify(body),
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ServerError(0, "the server cannot be reached");
    }
    if (response.ok) return response;
    if (response.status !== 401) throw new ServerError(response.status, await detail(response));
    if (used !== token()) continue; // somebody else on this page got it meanwhile
    asking ??= askForToken(wrong || used !== "").then(keep).finally(() => { asking = null; });
    await asking;
  }
}

async function detail(response) {
  try { return (await response.json()).detail; } catch { return `the server answered with status ${response.status}`; }
}

export const json = async (path, options) => (await request(path, options)).json();

/** The JSON objects of an answer that comes line by line. */
export async function* lines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) if (part) yield JSON.parse(part);
  }
  if (rest.trim()) yield JSON.parse(rest);
}
