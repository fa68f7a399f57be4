// The page: the state of the cluster, its nodes and waiting pods, and the question of the address.
import {priceText, Squares} from "./squares.js";
import {nodeOf, pageParts, show, showState, targetOf} from "./answers.js";
import {ChangeForm, changesOf} from "./change.js";
import {announce, byId, count, element, keepingFocus, link, scrolled, table, theme} from "./dom.js";
import {showTotals} from "./history.js";
import {ask, askJson, hashOf, Refusal, questionOf, sameQuestion, token} from "./twin.js";

const STATE_SECONDS = 5, NAMES = 3;
let nodes = [], overview = null, asked = null, running = null, before = null, changed = null;

// ---- the address says what is asked -------------------------------------------------------------------------
// Ask a question: it becomes the address of the page, so that "back" and links work.
function open(question) {
  before = document.activeElement;
  const hash = hashOf(question);
  asked = question;
  if (question.path !== "explain") form.fill(question); // a change that is being built stays
  if (location.hash !== hash) history.pushState(null, "", hash);
  answer(question);
}

function follow() {
  const question = questionOf(location.hash);
  if (!question) return void (location.hash === "" && close({goesBack: false}));
  if (sameQuestion(question, asked)) return;
  asked = question;
  form.fill(question);
  answer(question);
}

function close({goesBack = true} = {}) {
  running?.stop.abort();
  asked = running = null;
  byId("answer").hidden = true;
  if (questionOf(location.hash)) history.pushState(null, "", location.pathname);
  squares.compare(null);
  document.title = "Moorage twin";
  if (goesBack) (before?.isConnected && before !== document.body ? before : byId("kind")).focus();
}

// ---- answers ------------------------------------------------------------------------------------------------
async function answer(question, isAgain = false) {
  running?.stop.abort();
  const own = running = {question, stop: new AbortController()};
  const stopped = () => own.stop.signal.aborted;
  if (!nodeOf(question)) squares.compare(null); // of a node after a change, the change stays
  if (!isAgain) {
    showState("Asking…", [], [element("button", {type: "button", onclick: close}, "Stop")]);
    focusAnswer("Asking…");
  }
  try {
    const found = await ask({...question, query: [...question.query, ["output", "html"]]}, own.stop.signal);
    if (stopped()) return;
    const page = pageParts(found.text, opensOf(question));
    const parts = [...nodeActions(question), ...page.parts], draw = () => show(question, found, {...page, parts, others: form.others(question)}, {open, close});
    if (isAgain) keepingFocus(byId("answer"), draw);
    else draw();
    if (!isAgain) focusAnswer(page.headline);
    await showAfter(question, own.stop.signal);
  } catch (error) {
    if (stopped() || error.name === "AbortError") return;
    refused(error, question);
  }
}

function focusAnswer(headline) {
  byId("answer-title").focus();
  byId("answer").scrollIntoView({block: "nearest"});
  announce(headline);
}

function refused(error, question) {
  if (!(error instanceof Refusal)) console.error(error);
  const why = error.message.replace(/^[A-Z]+: /, "").replace(/^stdin\b/, "the manifest"); // the page has no arguments
  showState("There is no answer", [why], [element("button", {type: "button", onclick: () => answer(question)}, "Ask again"), element("button", {type: "button", onclick: close}, "Close")]);
  byId("answer-title").focus();
  announce(`There is no answer: ${why}`);
  wantsToken(error);
}

// Colour the nodes as they are after the changes of a question.
async function showAfter(question, signal) {
  const query = changesOf(question);
  const changes = question.path === "check" || question.path === "simulate";
  if (!changes || !query.length && !question.body) return;
  byId("nodes").setAttribute("aria-busy", "true");
  try {
    const found = await askJson({path: "nodes", query, body: question.body}, signal);
    if (signal.aborted) return;
    changed = {query, body: question.body};
    squares.compare(found.document.items);
  } finally {
    byId("nodes").setAttribute("aria-busy", "false");
  }
}

// What names in an answer open: they are asked about after the same changes.
function opensOf(question) {
  const query = changesOf(question), known = new Set(nodes.map((node) => node.name));
  const explained = (target) => open({path: "explain", query: [["target", target], ...query], body: question.body});
  return {openNode: (name) => explained(`node/${name}`), explain: explained, isNode: (text) => known.has(text)};
}

const explain = (target) => open({path: "explain", query: [["target", target]], body: ""});

// Ask about a node, on the side of a change that is shown.
function explainNode({name}) {
  const {query, body} = squares.side === "after" ? changed : {query: [], body: ""};
  open({path: "explain", query: [["target", `node/${name}`], ...query], body});
}

// What may be tried with the node of a question.
function nodeActions(question) {
  const name = nodeOf(question), act = (text, run) => element("button", {type: "button", onclick: run}, text);
  return !name ? [] : [element("div", {class: "tools"}, act("Drain it", () => form.begin("drain", {nodes: name})), act("Lose it", () => form.begin("remove-nodes", {nodes: name})),
    act("Move its pods one by one", () => open({path: "plan/drain", query: [["names", name]], body: ""})))];
}

// ---- the cluster --------------------------------------------------------------------------------------------
async function readCluster(query = []) {
  byId("nodes").setAttribute("aria-busy", "true");
  byId("waiting").setAttribute("aria-busy", "true");
  byId("problem").textContent = "";
  try {
    overview = await askJson({path: "overview", query});
    nodes = overview.document.nodes.items;
    squares.set(nodes);
    suggest();
    showWaiting(overview.document);
    showTotals(overview.document);
  } catch (error) {
    byId("problem").textContent = error.message;
    if (!nodes.length) byId("headline").textContent = "The cluster is not known yet.";
    wantsToken(error);
  } finally {
    byId("nodes").setAttribute("aria-busy", "false");
    byId("waiting").setAttribute("aria-busy", "false");
  }
}

function suggest(more = []) {
  const options = (values) => [...new Set(values)].filter(Boolean).sort().map((value) => element("option", {value}));
  byId("known-nodes").replaceChildren(...options([...nodes.map((node) => node.zone && `zone=${node.zone}`), ...nodes.map((node) => node.name).slice(0, 2000)]));
  byId("known-zones").replaceChildren(...options(nodes.map((node) => node.zone)));
  const holders = nodes.flatMap((node) => node.holders);
  byId("known-workloads").replaceChildren(...options([...more, ...holders].filter((one) => !one.workload.startsWith("pod/")).map((one) => targetOf(one.namespace, one.workload))));
}

function showWaiting({check: found, command}) {
  const waits = found.findings.reduce((sum, one) => sum + one.names.length, 0);
  const says = [count(nodes.length, "node"), ...[priceText(nodes)].filter(Boolean), waits ? `${count(waits, "pod waits", "pods wait")}` : "every pod that should run has a node"];
  if (found.placed) says.push(`${count(found.placed, "pod has no node yet and would find one", "pods have no node yet and would find one")}`);
  byId("headline").textContent = `${says.join("; ")}.`;
  suggest(found.findings);
  const row = (one) => [element("div", {}, link(one.workload, () => explain(targetOf(one.namespace, one.workload))),
    element("div", {class: "note"}, `${one.namespace}, ${count(one.names.length, "pod")}, ${one.status}`),
    element("ul", {class: "names"}, one.names.slice(0, NAMES).map((name) => element("li", {}, link(name, () => explain(`${one.namespace}/${name}`)))),
      one.names.length > NAMES ? element("li", {}, `and ${one.names.length - NAMES} more`) : null)), one.reason];
  const made = waits ? [scrolled("Pods that wait", ...table("A name explains it", ["workload", "why"], found.findings, row))] : [element("p", {}, "None.")];
  keepingFocus(byId("findings"), () => byId("findings").replaceChildren(...made, commandOf(command)));
  keepingFocus(byId("of-nodes"), () => byId("of-nodes").replaceChildren(commandOf(overview.command)));
}

// The command that prints what is shown; a terminal shows a table.
const commandOf = (command) => element("div", {class: "about"}, "Command: ", element("code", {}, command.replace(/ --output=\w+/, "")));

// Ask every few seconds how old the state is, and whether it has changed.
async function watchState() {
  if (!document.hidden && overview) {
    try {
      const {document: state} = await askJson({path: "state"});
      byId("state").textContent = stateText(state);
      if (!squares.after && (state.overview.isDue || state.overview.reading !== overview.document.reading)) {
        await readCluster();
        if (nodeOf(asked)) await answer(asked, true);
      }
      if (byId("problem").dataset.of === "state") byId("problem").textContent = "";
    } catch (error) {
      byId("problem").textContent = error.message;
      byId("problem").dataset.of = "state";
    }
  }
  setTimeout(watchState, STATE_SECONDS * 1000);
}

// Which kinds have changed since the nodes were read.
function changedKinds(state) {
  const seen = new Map(overview.versions.split(" ").map((text) => text.split("=")));
  return Object.entries(state.resourceVersions).filter(([kind, at]) => at && at !== seen.get(kind)).map(([kind]) => kind);
}

function stateText(state) {
  const age = Math.round(state.overview.readSeconds);
  if (!state.resourceVersions) return `Of files, which were read ${age} s ago, and are again when they change.`;
  const changed = changedKinds(state);
  const unreadable = Object.entries(state.unreadable).map(([kind, why]) => `${kind} cannot be read now: ${why}.`);
  const leftOut = state.leftOut.length ? `May not be listed: ${state.leftOut.join(", ")}.` : "";
  const news = changed.length ? `${changed.join(", ")} changed since; ${squares.after ? "Refresh shows it" : "the page reads it again by itself"}.` : "";
  return [`The twin heard of the cluster ${state.stalenessSeconds.toFixed(1)} s ago; this page shows it as it was ${age} s ago.`, ...unreadable, leftOut, news].filter(Boolean).join(" ");
}

function wantsToken(error) {
  if (error.status === 401 || error.status === 403) byId("token").hidden = false;
}

// ---- start --------------------------------------------------------------------------------------------------
const squares = new Squares(explainNode);
const form = new ChangeForm(open);
document.documentElement.classList.add("js");
theme();
byId("refresh").addEventListener("click", async () => {
  await readCluster([["max-age", "0"]]);
  announce(byId("headline").textContent);
  if (asked) answer(asked, true);
});
byId("token").addEventListener("submit", async (event) => {
  event.preventDefault();
  token.set(new FormData(event.target).get("token"));
  byId("token").hidden = true;
  await readCluster();
  if (asked) answer(asked);
});
addEventListener("keydown", (event) => {
  const clears = event.target.type === "search" && event.target.value;
  if (event.key === "Escape" && !clears && !byId("answer").hidden) close();
});
addEventListener("popstate", follow);
addEventListener("hashchange", follow);
readCluster();
follow();
setTimeout(watchState, 1000);
