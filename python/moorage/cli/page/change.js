// The form that builds a question: changes in their order, a manifest, and what is asked.
import {announce, byId, element} from "./dom.js";
import {HELP} from "./verbs.js"; // of each change, by its option: the server makes it of its table of verbs

const NODES = {name: "nodes", label: "Node, or LABEL=VALUE", list: "known-nodes"};
const SEVERAL = {...NODES, label: "Nodes, or LABEL=VALUE"};
const WORKLOAD = {name: "workload", label: "Workload", list: "known-workloads", hint: "deploy/shop/web"};
const NUMBER = (label, value) => ({name: "number", label, type: "number", value});
const onNodes = (option, text) => ({option, text, fields: [SEVERAL], value: ({nodes}) => namesIn(nodes)});

const CHANGES = [
  onNodes("drain", "drain nodes"),
  onNodes("remove-nodes", "lose nodes"),
  {option: "fail-zone", text: "lose a zone",
    fields: [{name: "zone", label: "Zone", list: "known-zones"}], value: ({zone}) => zone},
  {option: "add-nodes", text: "add nodes",
    fields: [{name: "node", label: "Like node", list: "known-nodes"}, NUMBER("How many", "1"), {name: "zone", label: "Zone (its own)", list: "known-zones", optional: true}],
    value: ({node, number, zone}) => `${node}=${number}${zone ? `,zone=${zone}` : ""}`},
  {option: "scale", text: "scale a workload",
    fields: [WORKLOAD, NUMBER("Replicas", "")], value: ({workload, number}) => `${workload}=${number}`},
  {option: "restart", text: "restart a workload",
    fields: [WORKLOAD], value: ({workload}) => workload},
  {option: "restart-all", text: "restart all workloads", fields: [], value: () => ""},
  {option: "upgrade-nodes", text: "replace nodes",
    fields: [NODES, NUMBER("New ones first", "1")], value: ({nodes, number}) => `${quoted(nodes)} ${number}`},
  onNodes("cordon", "cordon nodes"),
  onNodes("uncordon", "uncordon nodes"),
  {option: "taint", text: "taint nodes",
    fields: [NODES, {name: "taint", label: "Taint", hint: "gpu=true:NoSchedule"}], value: ({nodes, taint}) => `${quoted(nodes)} ${quoted(taint)}`},
  {option: "hpa", text: "scale by all autoscalers",
    fields: [{name: "bound", label: "min or max", value: "max"}], value: ({bound}) => bound},
];
const quoted = (text) => /^[\w.:=/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
const OPTIONS = new Set(Object.keys(HELP));
const TEMPLATE = {name: "pod", label: "Workload, or leave empty for the manifest", list: "known-workloads", optional: true};

const QUESTIONS = [
  {path: "check", text: "Do all pods find a node?"},
  {path: "simulate", text: "Where do the pods go?"},
  {path: "compare", text: "What differs from now?", query: (_, steps) => [["alternatives", "as-is"], ["alternatives", steps.map(plain).join("; ")]],
    refuses: (steps, body) => body ? "This question is about changes alone: take the manifest out." : steps.length ? "" : "This question needs a change."},
  {path: "explain", text: "Why does a pod get a node, or none?", fields: [{name: "target", label: "Pod or workload", list: "known-workloads", hint: "shop/web-0"}, {name: "why-not", label: "Why not on node", list: "known-nodes", optional: true}],
    query: (values) => given(values, "target", "why-not")},
  {path: "capacity", text: "How many more fit?", fields: [TEMPLATE, {...NUMBER("In gangs of", ""), name: "gang", optional: true}], query: (values) => given({...values, pod: values.pod || "-"}, "pod", "gang"),
    refuses: (_, body, {pod}) => pod || body ? "" : "Name a workload, or paste a manifest."},
  {path: "plan/nodes", text: "How many nodes do waiting pods need?", fields: [{name: "like", label: "Like node, or leave empty for NodePools and node groups", list: "known-nodes", optional: true}], query: (values) => given(values, "like")},
  {path: "plan/drain", text: "Which nodes can be drained, in which order?", fields: [{...SEVERAL, label: "Nodes, or LABEL=VALUE (each of all)", optional: true}, {...NUMBER("Or this many of all", ""), name: "count", optional: true}],
    query: ({nodes, count}) => nodes || count ? [...(nodes ? namesIn(nodes) : []).map((name) => ["names", name]), ...given({count}, "count")] : [["all", ""]],
    refuses: (_, __, {nodes, count}) => nodes && count ? "Name nodes, or say how many of all." : ""},
  {path: "plan/consolidate", text: "Which nodes would Karpenter remove?"},
  {path: "nodes", text: "What is free, what does it cost, and who holds it?", fields: [{name: "by", label: "By device (GPUs), workload, namespace, zone, pool, type or LABEL", value: "device", list: "known-groupings", optional: true}], query: (values) => given(values, "by")},
  {path: "lint", text: "What is wrong?"},
  {path: "compare", key: "release", text: "Would another release decide otherwise?", fields: [{name: "from", label: "From", value: "1.36"}, {name: "to", label: "To", value: "1.37"}],
    query: ({from, to}) => [["alternatives", `kubernetes ${from}`], ["alternatives", `kubernetes ${to}`]], isOf: ({alternatives = ""}) => alternatives.startsWith("kubernetes "),
    refuses: (steps) => steps.length ? "This question takes no changes: take them out, or ask about a manifest." : ""},
  {path: "check", key: "survive", text: "Would pods survive a loss?", fields: [{name: "survive", label: "Of each node, zone or LABEL", value: "zone"}], query: ({survive}) => [["survive", survive]], isOf: ({survive}) => survive},
];
const given = (values, ...names) => names.filter((name) => values[name]).map((name) => [name, values[name]]);
// The names in a text, with spaces or commas between them; another text is a selector.
const namesIn = (text) => /^[a-z0-9.-]+([\s,]+[a-z0-9.-]+)*$/.test(text) ? text.split(/[\s,]+/) : [text];
const keyOf = (one) => one.key ?? one.path;

// A change as `compare` writes it.
const plain = ([option, value]) => value ? `${option} ${value}` : option;

// The options of a question that change the cluster.
export const changesOf = (question) => question.query.filter(([option]) => OPTIONS.has(option));

// The same; also those that `compare` has in one text.
function stepsOf(question) {
  const texts = question.query.filter(([option]) => option === "alternatives").flatMap(([, text]) => text.split("; "));
  return changesOf({query: [...question.query, ...texts.map((text) => text.split(/ (.*)/s)).map(([option, value = ""]) => [option, value])]});
}

export class ChangeForm {
  // `ask` is called with a question.
  constructor(ask) {
    this.ask = ask;
    this.steps = [];
    byId("kind").append(element("option", {value: ""}, "none"), ...CHANGES.map((one) => element("option", {value: one.option}, one.text)));
    byId("question").append(...QUESTIONS.map((one) => element("option", {value: keyOf(one)}, one.text)));
    byId("kind").addEventListener("change", () => this.offer());
    byId("question").addEventListener("change", () => this.offerMore());
    byId("add").addEventListener("click", () => this.add() && byId("kind").focus());
    byId("change").addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    byId("file").addEventListener("change", ({target}) => this.take(target.files));
    byId("clear").addEventListener("click", () => {
      byId("manifest").value = byId("file").value = "";
      announce("the manifest is taken out");
    });
    this.listenForDrops();
    this.offer();
    this.offerMore();
  }

  get kind() {
    return CHANGES.find((one) => one.option === byId("kind").value);
  }

  get question() {
    return QUESTIONS.find((one) => keyOf(one) === byId("question").value);
  }

  offer(values = {}) {
    byId("fields").replaceChildren(...(this.kind?.fields ?? []).map((field) => this.field(field, values)));
    byId("help").textContent = HELP[this.kind?.option] ?? "";
    byId("add").hidden = !this.kind;
  }

  offerMore(values = {}) {
    byId("of").replaceChildren(...(this.question.fields ?? []).map((field) => this.field(field, values)));
  }

  field(field, values) {
    const input = element("input", {name: field.name, list: field.list, type: field.type ?? "text", placeholder: field.hint, required: !field.optional, min: field.type && "0",
      size: field.type ? undefined : "22", autocomplete: "off", spellcheck: "false"});
    input.value = values[field.name] ?? field.value ?? "";
    return element("label", {}, field.label, input);
  }

  values(box) {
    return Object.fromEntries([...byId(box).querySelectorAll("input")].map((input) => [input.name, input.value.trim()]));
  }

  // Add the change of the fields to the list; false if a field lacks its value.
  add() {
    const wrong = [...byId("fields").querySelectorAll("input")].find((input) => !input.reportValidity());
    if (wrong || !this.kind) return false;
    for (const value of [this.kind.value(this.values("fields"))].flat()) this.steps.push([this.kind.option, value]);
    byId("kind").value = "";
    this.offer();
    this.list();
    return true;
  }

  list() {
    byId("steps").replaceChildren(...this.steps.map((step, at) => element("li", {}, element("code", {}, plain(step)),
      element("button", {type: "button", "aria-label": `Take out ${plain(step)}`, onclick: () => {
        this.steps.splice(at, 1);
        this.list();
        byId("kind").focus();
      }}, "take out"))));
  }

  submit() {
    if (this.kind && !this.add()) return;
    const text = byId("manifest").value, body = text.trim() ? text : "";
    const why = this.question.refuses?.(this.steps, body, this.values("of"));
    byId("help").textContent = why ?? "";
    if (why) return announce(why);
    this.ask(this.built(this.question, this.steps, body));
  }

  built({path, query}, steps, body) {
    const own = query?.(this.values("of"), steps) ?? [];
    const judged = path === "check" && (steps.length || body) ? [["new-only", ""]] : []; // what waits already is not the change's
    return {path, query: [...(path === "compare" ? [] : steps), ...judged, ...own], body};
  }

  // The other questions about a change that need nothing else: their texts, with the questions.
  others(question) {
    const steps = stepsOf(question), about = ["check", "simulate", "compare"];
    if (!about.includes(question.path) || !steps.length && !question.body) return [];
    const fit = QUESTIONS.filter((one) => about.includes(one.path) && !one.key && one.path !== question.path && !(one.path === "compare" && question.body));
    return fit.map((one) => [one.text, this.built(one, steps, question.body)]);
  }

  // Set a change, and ask what comes of it.
  begin(option, values) {
    this.steps = [];
    this.list();
    byId("kind").value = option;
    this.offer(values);
    byId("question").value = "check";
    this.offerMore();
    this.submit();
  }

  // Show the question of a link.
  fill(question) {
    const options = Object.fromEntries(question.query);
    const asked = QUESTIONS.findLast((one) => one.path === question.path && (!one.isOf || one.isOf(options)));
    if (!asked) return;
    const [from, to] = question.query.filter(([option]) => option === "alternatives").map(([, text]) => text.split(" ")[1]);
    byId("question").value = keyOf(asked);
    const names = question.query.filter(([option]) => option === "names").map(([, name]) => name);
    this.offerMore({...options, nodes: names.join(" "), pod: options.pod === "-" ? "" : options.pod, from, to});
    this.steps = stepsOf(question);
    this.list();
    byId("kind").value = "";
    this.offer();
    byId("manifest").value = question.body;
    byId("manifest-box").open = Boolean(question.body);
  }

  async take(files) {
    const texts = await Promise.all([...files].map((file) => file.text()));
    byId("manifest").value = texts.join("\n---\n");
    byId("manifest-box").open = true;
    byId("kind").value = "";
    this.offer();
    byId("manifest").focus();
    announce(`${[...files].map((file) => file.name).join(", ")} taken; Ask tells whether it fits`);
  }

  listenForDrops() {
    const body = document.body;
    addEventListener("dragover", (event) => {
      event.preventDefault();
      body.classList.add("dropping");
    });
    addEventListener("dragleave", (event) => event.relatedTarget || body.classList.remove("dropping"));
    addEventListener("drop", (event) => {
      event.preventDefault();
      body.classList.remove("dropping");
      const {files} = event.dataTransfer, text = event.dataTransfer.getData("text/plain");
      if (files.length) this.take(files);
      else if (text) this.take([new File([text], "the text")]);
    });
  }
}
