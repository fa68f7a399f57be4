// Questions to the twin. A question is {path, query: [[option, value]…], body}, as the twin takes it.

const TOKEN = "moorage-token", BUSY = 503, TRIES = 10;
export const token = {
  get: () => sessionStorage.getItem(TOKEN) ?? "",
  set: (text) => sessionStorage.setItem(TOKEN, text),
};

// Why there is no answer; `status` is that of HTTP, 0 where the twin was not reached.
export class Refusal extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

// Texts of headers are UTF-8, which browsers read as Latin-1.
const decoded = (text) => text && new TextDecoder().decode(Uint8Array.from(text, (letter) => letter.charCodeAt(0)));

export async function ask({path, query = [], body = ""}, signal = undefined) {
  const headers = token.get() ? {Authorization: `Bearer ${token.get()}`} : {};
  const address = `/v1/${path}${query.length ? `?${new URLSearchParams(query)}` : ""}`;
  const request = {headers, signal, cache: "no-store", credentials: "omit", ...(body ? {method: "POST", body} : {})};
  let reply, text;
  try {
    for (let tries = 0; tries === 0 || reply.status === BUSY && tries < TRIES; tries += 1) {
      if (tries) await new Promise((goOn) => setTimeout(goOn, 1000));
      reply = await fetch(address, request);
      text = await reply.text();
    }
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "the twin does not answer; is it running, and is this page still of its address?");
  }
  if (!reply.ok) throw new Refusal(reply.status, told(text) || `the twin answers with status ${reply.status}`);
  const header = (name) => decoded(reply.headers.get(`Moorage-${name}`)) ?? "";
  return {
    text,
    command: header("Repeat").replace(/ --output=\w+/, ""), // a terminal shows a table
    failed: header("Exit-Code") === "1",
    staleness: header("Staleness"),
    versions: header("Resource-Versions"),
    unreadable: header("Unreadable"),
    leftOut: header("Left-Out"),
  };
}

export const askJson = async (question, signal) => {
  const answer = await ask(question, signal);
  return {...answer, document: JSON.parse(answer.text)};
};

function told(text) {
  try {
    return JSON.parse(text).error;
  } catch {
    return text.trim();
  }
}

// ---- questions in the address of the page -------------------------------------------------------------------
const BODY = "body", MOST_BODY = 100_000;

export function hashOf({path, query = [], body = ""}) {
  const whole = body && body.length <= MOST_BODY ? [...query, [BODY, body]] : query;
  return `#${path}${whole.length ? `?${new URLSearchParams(whole)}` : ""}`;
}

export const isInLink = (question) => (question.body ?? "").length <= MOST_BODY;

// The question of an address; null without one.
export function questionOf(hash) {
  const [path, text = ""] = hash.slice(1).split(/\?(.*)/s);
  if (!/^[a-z]+(\/[a-z]+)?$/.test(path) || path === "main") return null;
  const pairs = [...new URLSearchParams(text)];
  return {path, query: pairs.filter(([name]) => name !== BODY), body: pairs.find(([name]) => name === BODY)?.[1] ?? ""};
}

export const sameQuestion = (a, b) => Boolean(a && b) && hashOf(a) === hashOf(b) && a.body === b.body;
