// Nodes as squares by zone and pool, and as a table.
import {byId, count, element, keepingFocus, link, scrolled, table} from "./dom.js";

const MOST_SQUARES = 400; // with more, groups are shown by their sums, and open
const SIZES = [[60, 26], [400, 18], [2000, 13], [Infinity, 10]];
const BYTES = /^(memory|ephemeral-storage|hugepages-)/;

export function amount(resource, value) {
  if (resource === "cpu") return (value / 1000).toLocaleString("en", {maximumSignificantDigits: 4});
  if (!BYTES.test(resource)) return value.toLocaleString("en");
  const [unit, divisor] = [["Ti", 2 ** 40], ["Gi", 2 ** 30], ["Mi", 2 ** 20], ["Ki", 2 ** 10]].find(([, size]) => value >= size) ?? ["", 1];
  return `${(value / divisor).toLocaleString("en", {maximumSignificantDigits: 4})}${unit}`;
}

// How much of a resource is requested, in per cent; null where the node has none.
export function percent(node, resource) {
  const room = node.allocatable[resource] ?? 0;
  return room ? 100 * (node.requested[resource] ?? 0) / room : node.requested[resource] ? Infinity : null;
}

const shade = (share) => share === null ? "none" : share > 100 ? "over" : `h${Math.min(9, Math.floor(share / 10))}`;
export const shareText = (share) => share === null ? "none" : share === Infinity ? "more than there is" : `${share.toFixed(share < 10 ? 1 : 0)} %`;
const bar = (share) => element("span", {class: "share"}, element("meter", {min: 0, low: 80, high: 100, max: 101, optimum: 0, value: Math.min(share ?? 0, 101), "aria-hidden": "true"}), shareText(share));
const place = (node) => [node.zone && `zone ${node.zone}`, node.pool && `pool ${node.pool}`].filter(Boolean).join(", ");

export const resourcesOf = (nodes) => {
  const names = new Set(nodes.flatMap((node) => Object.keys(node.allocatable)));
  return ["cpu", "memory", "pods", ...[...names].filter((name) => !["cpu", "memory", "pods"].includes(name)).sort()].filter((name) => names.has(name));
};

export class Squares {
  // `open` is called with the node that is chosen, and the element.
  constructor(open) {
    this.open = open;
    this.before = [];
    this.after = null;
    this.side = "before";
    this.current = "";
    this.opened = new Set();
    this.map = byId("map");
    this.buttons = [];
    for (const [id, event] of [["grouping", "change"], ["search", "input"]]) byId(id).addEventListener(event, () => this.draw());
    byId("resource").addEventListener("change", () => this.paint());
    for (const radio of document.querySelectorAll("[name=side]")) radio.addEventListener("change", () => this.show(radio.value));
    this.map.addEventListener("click", ({target}) => this.find(target, (node) => this.open(node)));
    this.map.addEventListener("mouseover", ({target}) => this.find(target, (node) => this.read(node)));
    this.map.addEventListener("focusin", ({target}) => this.find(target, (node) => this.rove(node, target)));
    this.map.addEventListener("keydown", (event) => this.move(event));
    byId("as-table").addEventListener("toggle", () => this.tabulate());
    byId("legend").append(...[...Array(10).keys()].map((step) => this.sample(`h${step}`, `${step * 10}–${step * 10 + 10} %`)),
      this.sample("over", "over 100 %"), this.sample("none", "has none"), this.sample("cordoned", "cordoned"), this.sample("trouble", "not ready, or under pressure"));
  }

  sample(name, text) {
    return element("li", {}, element("span", {class: `swatch ${name}`}), text);
  }

  set(before) {
    this.before = before;
    const chosen = byId("resource").value, resources = resourcesOf(before);
    byId("resource").replaceChildren(...resources.map((name) => element("option", {}, name)));
    if (resources.includes(chosen)) byId("resource").value = chosen;
    this.show(this.side);
  }

  // Show the nodes after a change; null without one.
  compare(after) {
    this.after = after && new Map(after.map((node) => [node.name, node]));
    byId("sides").hidden = !after;
    this.show(after ? "after" : "before");
  }

  show(side) {
    this.side = side;
    for (const radio of document.querySelectorAll("[name=side]")) radio.checked = radio.value === side;
    this.draw();
  }

  // The node of a name, as it is shown.
  shown(name) {
    const own = this.before.find((node) => node.name === name);
    return this.side === "after" ? this.after.get(name) ?? own : own;
  }

  // The nodes of both sides, each once: [before, after], of which one may be missing.
  pairs() {
    const names = new Set(this.before.map((node) => node.name));
    const came = this.after ? [...this.after.values()].filter((node) => !names.has(node.name)) : [];
    return [...this.before.map((node) => [node, this.after ? this.after.get(node.name) : node]), ...came.map((node) => [undefined, node])];
  }

  draw() {
    const word = byId("search").value.toLowerCase(), keys = byId("grouping").value.split(" ").filter(Boolean);
    const groups = new Map();
    this.nodes = new Map();
    for (const [before, after] of this.pairs()) {
      const node = this.side === "after" ? after ?? before : before;
      if (!node || !node.name.toLowerCase().includes(word)) continue;
      this.nodes.set(node.name, [node, before, after]);
      const name = keys.map((key) => node[key] ? `${key} ${node[key]}` : "").filter(Boolean).join(", ") || (keys.length ? `without ${keys.join(" and ")}` : "all nodes");
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(node.name);
    }
    const size = SIZES.find(([most]) => this.nodes.size <= most)[1];
    this.map.style.setProperty("--size", `${size}px`);
    const names = [...groups.keys()].sort((a, b) => a.localeCompare(b, "en", {numeric: true}));
    const isFolded = this.nodes.size > MOST_SQUARES && names.length > 1, hadFocus = this.map.contains(document.activeElement);
    this.buttons = [];
    this.groups = groups;
    this.map.replaceChildren(...names.map((name, at) => {
      const members = groups.get(name), squares = members.map(square);
      this.buttons.push(...squares);
      const columns = names.length === 1 ? members.length : Math.max(6, Math.ceil(Math.sqrt(1.6 * members.length)));
      const made = element(isFolded ? "details" : "div", {class: "group", role: "group", "aria-labelledby": `group-${at}`, open: this.opened.has(name)},
        element(isFolded ? "summary" : "p", {id: `group-${at}`, "data-group": name}), element("div", {class: "squares"}, squares));
      made.addEventListener("toggle", () => made.open ? this.opened.add(name) : this.opened.delete(name));
      made.style.setProperty("--columns", columns);
      return made;
    }));
    this.positions = new Map(this.buttons.map((button, at) => [button.dataset.name, at]));
    this.inTabs = this.buttons[this.positions.get(this.current) ?? 0];
    if (this.inTabs) this.inTabs.tabIndex = 0;
    this.paint();
    if (hadFocus) this.inTabs?.focus();
  }

  // Colour and name the squares.
  paint() {
    const resource = byId("resource").value;
    for (const button of this.buttons) {
      const [node, before, after] = this.nodes.get(button.dataset.name), isGone = this.side === "after" && !after;
      const differs = this.after && (!before || !after || percent(before, resource) !== percent(after, resource));
      button.className = isGone ? "gone" : `${shade(percent(node, resource))}${node.schedulable ? "" : " cordoned"}${trouble(node) ? " trouble" : ""}${differs ? " differs" : ""}`;
      button.setAttribute("aria-label", this.text(node.name, resource));
    }
    for (const label of this.map.querySelectorAll("[data-group]")) label.replaceChildren(...this.sums(label, resource));
    byId("readout").textContent = this.summary(resource);
    keepingFocus(byId("as-table"), () => this.tabulate());
  }

  // What there is to say about a group; of one that is folded, what is requested and the fullest node, too.
  sums(label, resource) {
    const nodes = this.groups.get(label.dataset.group).map((name) => this.nodes.get(name)[0]), text = `${label.dataset.group}: ${count(nodes.length, "node")}`;
    if (label.tagName !== "SUMMARY") return [text];
    const [worst] = [...nodes].sort(worstFirst(resource)), troubled = nodes.filter(trouble).length;
    return [element("span", {class: `swatch ${shade(percent(worst, resource))}`}), `${text}; ${resource} ${shareText(this.use(nodes, resource))}; ${troubled ? `${troubled} in trouble; ` : ""}the worst, ${worst.name}, ${shareText(percent(worst, resource))}${trouble(worst) ? `, ${worst.status}` : ""}`];
  }

  use(nodes, resource) {
    const sum = (kind) => nodes.reduce((total, node) => total + (node[kind][resource] ?? 0), 0);
    return percent({allocatable: {[resource]: sum("allocatable")}, requested: {[resource]: sum("requested")}}, resource);
  }

  text(name, resource) {
    const [node, before, after] = this.nodes.get(name);
    const shares = (one) => one ? shareText(percent(one, resource)) : "not there";
    const use = !this.after || !before === !after && percent(before, resource) === percent(after, resource)
      ? shares(node) : `${shares(before)} before, ${shares(after)} after`;
    return `${name}: ${resource} ${use}${trouble(node) ? `, ${node.status}` : node.schedulable ? "" : ", cordoned"}`;
  }

  summary(resource) {
    if (byId("search").value) return `${this.nodes.size} of ${count(this.pairs().length, "node")}`;
    const use = (nodes) => this.use(nodes, resource);
    const now = `${count(this.before.length, "node")}, ${resource} ${shareText(use(this.before))}`;
    if (!this.after) return `${now} requested`;
    const after = [...this.after.values()];
    return `Before: ${now} requested. After: ${count(after.length, "node")}, ${resource} ${shareText(use(after))}.`;
  }

  find(target, then) {
    const known = this.nodes?.get(target.dataset?.name);
    if (known) then(known[0]);
  }

  read(node) {
    byId("readout").textContent = [this.text(node.name, byId("resource").value), place(node)].filter(Boolean).join(" · ");
  }

  rove(node, square) {
    this.inTabs.tabIndex = -1;
    this.inTabs = square;
    square.tabIndex = 0;
    this.current = node.name;
    this.read(node);
  }

  move(event) {
    const square = event.target.closest("[data-name]");
    if (!square || event.ctrlKey || event.altKey || event.metaKey) return;
    const every = this.buttons, at = this.positions.get(square.dataset.name);
    const next = {ArrowRight: () => every[at + 1], ArrowLeft: () => every[at - 1], Home: () => every[0], End: () => every.at(-1),
      ArrowDown: () => this.vertical(every, at, 1), ArrowUp: () => this.vertical(every, at, -1), Enter: () => this.find(square, (node) => this.open(node)), " ": () => this.find(square, (node) => this.open(node))}[event.key]?.();
    if (next === undefined && !event.key.startsWith("Arrow")) return;
    event.preventDefault();
    next?.closest("details")?.setAttribute("open", "");
    next?.focus();
  }

  // The square below or above: the nearest of the next row.
  vertical(every, at, direction) {
    const own = every[at].getBoundingClientRect();
    let top = null, best, distance = Infinity;
    for (let other = at + direction; every[other]; other += direction) {
      const its = every[other].getBoundingClientRect();
      if (top === null && Math.abs(its.top - own.top) < 2) continue;
      top ??= its.top;
      if (Math.abs(its.top - top) >= 2) break;
      if (Math.abs(its.left - own.left) < distance) [best, distance] = [every[other], Math.abs(its.left - own.left)];
    }
    return best;
  }

  tabulate() {
    const box = byId("as-table");
    if (!box.open) return;
    const resource = byId("resource").value;
    const kinds = this.after ? [resource] : [...new Set(["cpu", "memory", resource])];
    const row = ([node, before, after]) => {
      const uses = this.after ? [before, after].map((one) => one ? bar(percent(one, resource)) : "–") : kinds.map((name) => bar(percent(node, name)));
      const price = node.price === undefined ? "" : `$${Math.round(730 * node.price).toLocaleString("en")}`;
      return [link(node.name, () => this.open(node)), status(node), ...uses, `${node.requested.pods} of ${node.allocatable.pods}`, age(node), node.version, price, node.zone, node.pool, node.type];
    };
    const order = worstFirst(resource), rows = [...this.nodes.values()].sort(([one], [other]) => order(one, other));
    const uses = this.after ? [`${resource} before`, `${resource} after`] : kinds;
    box.lastElementChild.replaceWith(scrolled("Nodes", ...table("Those in trouble, then the fullest", ["node", "status", ...uses, "pods", "age", "version", "a month", "zone", "pool", "type"], rows, row)));
  }
}

// What kubectl shows as its status; a cordoned node without a condition has one, too.
const status = (node) => node.status || (node.schedulable ? "" : "SchedulingDisabled");
const trouble = (node) => /NotReady|Unknown|Pressure|Network/.test(node.status);

// The order of nodes: those in trouble, then the fullest.
const worstFirst = (resource) => (one, other) => trouble(other) - trouble(one) || (percent(other, resource) ?? -1) - (percent(one, resource) ?? -1);

// How old a node is; "" where that is not known.
function age(node) {
  const hours = (Date.now() - Date.parse(node.created)) / 3_600_000;
  return Number.isNaN(hours) ? "" : hours < 48 ? `${Math.floor(hours)} h` : `${Math.floor(hours / 24)} d`;
}

// A square. Thousands of buttons cost several times as much.
function square(name) {
  const button = document.createElement("i");
  button.setAttribute("role", "button");
  button.tabIndex = -1;
  button.dataset.name = name;
  return button;
}

// What nodes cost, and how much of that is idle; "" where no price is known.
export function priceText(nodes) {
  const sum = (kind) => nodes.reduce((total, node) => total + (node[kind] ?? 0), 0), price = sum("price");
  const bound = nodes.some((node) => node.least !== undefined) ? "at most " : ""; // a spot price is not known
  const digits = price < 0.1 ? Number(price.toPrecision(2)) : price.toFixed(2); // as commands have sums
  return price ? `${bound}${digits} $/h, ${Math.round(100 * sum("idle") / price)}% of it idle` : "";
}
