// Answers: the page that a command writes, without its scripts and styles, and what stands beside it.
import {byId, copyButton, element, link} from "./dom.js";
import {hashOf, isInLink} from "./twin.js";

const KEPT = new Set(("SECTION DIV P H2 H3 DL DT DD TABLE CAPTION THEAD TBODY TR TH TD UL OL LI STRONG DETAILS SUMMARY PRE CODE SPAN I").split(" "));
const LEFT_OUT = ".heat, .tools, .legend, .intervals, .plot, .printed, [data-lines], .bar";
const ATTRIBUTES = ["class", "scope", "tabindex", "role", "aria-label"];

// Copy what a page shows: elements and attributes that are known, and texts.
function copied(node) {
  if (node.nodeType === Node.TEXT_NODE) return node.data;
  if (node.nodeType !== Node.ELEMENT_NODE || !KEPT.has(node.tagName) || node.matches(LEFT_OUT)) return null;
  const deeper = {H2: "h3", H3: "h4", SECTION: "section"}[node.tagName];
  const attributes = Object.fromEntries(ATTRIBUTES.map((name) => [name, node.getAttribute(name) ?? undefined]));
  const made = element(deeper ?? node.tagName, attributes, [...node.childNodes].map(copied));
  if (node.matches("dl.facts")) made.style.setProperty("--columns", Math.min(4, node.children.length));
  return made;
}

// Where a name stands in a row, by the headings of its table.
const NODE = /^(node|source|target|emptied node|node that stays|node with free .*)$/, POD = /^(pod|blocked by|no place for)$/;

// Make names of a table buttons that open what they name.
function linked(table, {openNode, explain, isNode}) {
  const headings = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim().toLowerCase());
  const [namespace, workload] = [headings.indexOf("namespace"), headings.indexOf("workload")];
  const opens = (cell, act) => cell.replaceChildren(link(cell.textContent, act));
  for (const row of table.tBodies[0].rows) {
    headings.forEach((heading, at) => {
      const cell = row.cells[at], text = cell.textContent;
      if (NODE.test(heading) && isNode(text)) opens(cell, () => openNode(text));
      else if (POD.test(heading) && /^[^/ ]+\/[^/ ]+$/.test(text)) opens(cell, () => explain(text));
      else if (at === workload && namespace >= 0 && /^(?!node\/)[a-z.]+\/[^/ ]+$/.test(text)) opens(cell, () => explain(targetOf(row.cells[namespace].textContent, text)));
    });
  }
}

// What `explain` calls a workload, or a pod without one.
export function targetOf(namespace, workload) {
  const [kind, name] = workload.split("/");
  return kind === "pod" ? `${namespace}/${name}` : `${kind}/${namespace}/${name}`;
}

// The node that a question is about; "" of another.
export const nodeOf = (question) => question?.path === "explain" && /^node\/(.*)/.exec(new Map(question.query).get("target") ?? "")?.[1] || "";

// Of many lines in a row show the first ones, so that what follows is seen.
function fold(part, most = 3) {
  const isLine = (one) => one?.tagName === "P";
  for (const first of [...part.children].filter((one) => isLine(one) && !isLine(one.previousElementSibling))) {
    const lines = [first];
    while (isLine(lines.at(-1).nextElementSibling)) lines.push(lines.at(-1).nextElementSibling);
    const rest = lines.slice(most);
    if (rest.length <= most) continue;
    const details = element("details", {}, element("summary", {}, `${rest.length} more lines`));
    rest[0].before(details);
    details.append(...rest);
  }
}

// What is the same at every question is a line until it is opened.
function folded(part) {
  const [title, ...rest] = part.children;
  return element("details", {}, element("summary", {}, title.textContent), ...rest);
}

// The headline of a page, and its sections as elements of this one. Quotes of texts are escaped, so what the
// expressions find are tags.
export function pageParts(html, opens) {
  const plain = html.replace(/<style>.*?<\/style>/s, "").replace(/ style="[^"]*"/g, "");
  const page = new DOMParser().parseFromString(plain, "text/html");
  const parts = [...page.querySelectorAll("main > section")].map(copied).filter((part) => part.textContent.trim());
  for (const part of parts) {
    part.removeAttribute("aria-labelledby");
    for (const table of part.querySelectorAll("table")) linked(table, opens);
    for (const line of part.querySelectorAll("p")) if (line.textContent.startsWith("why: moorage ")) line.remove(); // names ask that
    fold(part);
  }
  const titled = (part) => part.firstElementChild.tagName === "H3" ? part.firstElementChild.textContent : "";
  for (const part of parts) if (titled(part) === "Answer") part.firstElementChild.remove();
  const shown = parts.filter((part) => !(titled(part) && part.children.length === 1));
  return {headline: page.querySelector(".headline")?.textContent ?? "", parts: shown.map((part) => /^Notes/.test(titled(part)) ? folded(part) : part)};
}

// Show an answer: its headline, the command, the link, its parts with the notes, and what else may be asked.
export function show(question, answer, {headline, parts, others = []}, {open, close}) {
  const isGate = question.path === "check" || question.path === "explain" && !nodeOf(question);
  const tone = isGate ? answer.failed ? "bad" : "good" : undefined;
  const address = new URL(hashOf(question), location.href);
  const head = element("div", {class: "top"}, element("h2", {id: "answer-title", tabindex: "-1", class: tone}, headline),
    element("button", {type: "button", onclick: close}, "Close"));
  const age = answer.staleness ? `The twin heard of the cluster ${answer.staleness} s before this answer. ` : "";
  const lacking = [answer.unreadable && `Cannot be read now: ${answer.unreadable}.`, answer.leftOut && `May not be listed: ${answer.leftOut}.`].filter(Boolean).join(" ");
  const about = element("div", {class: "about"},
    element("div", {}, "Command: ", element("code", {}, answer.command)),
    question.body ? element("div", {class: "note"}, "with the manifest as its standard input") : null,
    element("div", {class: "tools"}, copyButton(() => answer.command, "command"),
      isInLink(question) ? element("a", {href: address.href}, "Link to this question") : element("span", {class: "note"}, "The manifest is too large for a link.")),
    age || lacking ? element("div", {class: "note"}, age, lacking) : null,
    answer.versions ? element("details", {}, element("summary", {}, "Resource versions"), element("p", {class: "note"}, answer.versions)) : null);
  const box = byId("answer");
  box.hidden = false;
  box.setAttribute("aria-busy", "false");
  const more = others.length ? [element("div", {class: "tools"}, "Also ask: ", others.map(([text, other]) => element("button", {type: "button", onclick: () => open(other)}, text)))] : [];
  document.title = `${headline} · Moorage twin`;
  box.replaceChildren(head, about, ...more, ...parts);
}

// Show that an answer is awaited, or why there is none.
export function showState(title, texts, actions) {
  const box = byId("answer");
  box.hidden = false;
  box.setAttribute("aria-busy", String(!texts.length));
  box.replaceChildren(element("div", {class: "top"}, element("h2", {id: "answer-title", tabindex: "-1", class: texts.length ? "bad" : undefined}, title), ...actions),
    ...texts.map((text) => element("p", {}, text)));
}
