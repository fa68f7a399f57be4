// Numbers of the cluster, now and since the page was opened: a bar or a number, and a line of the last ones.
import {byId, element} from "./dom.js";
import {percent, shareText} from "./squares.js";

const MOST_POINTS = 500, WIDTH = 120, HEIGHT = 24, HOURS_OF_A_MONTH = 730;
const points = [];

const sumOf = (nodes, kind, resource) => nodes.reduce((total, node) => total + (node[kind][resource] ?? 0), 0);

const shareOf = (nodes, resource) =>
  percent({allocatable: {[resource]: sumOf(nodes, "allocatable", resource)}, requested: {[resource]: sumOf(nodes, "requested", resource)}}, resource);

function line(values) {
  const least = Math.min(...values), range = Math.max(...values) - least || 1, svg = "http://www.w3.org/2000/svg";
  const drawn = document.createElementNS(svg, "svg"), path = document.createElementNS(svg, "polyline");
  const at = (value, index) => `${(index * WIDTH / (values.length - 1)).toFixed(1)},${(HEIGHT - 2 - (value - least) * (HEIGHT - 4) / range).toFixed(1)}`;
  path.setAttribute("points", values.map(at).join(" "));
  drawn.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  drawn.setAttribute("aria-hidden", "true");
  drawn.append(path);
  return drawn;
}

// Keep what a reading of the cluster came to, and show it.
export function showTotals(nodes, waiting) {
  const price = nodes.reduce((total, node) => total + (node.price ?? 0), 0);
  points.push({cpu: shareOf(nodes, "cpu") ?? 0, memory: shareOf(nodes, "memory") ?? 0, price: price * HOURS_OF_A_MONTH, bound: sumOf(nodes, "requested", "pods"), waiting});
  points.splice(0, points.length - MOST_POINTS);
  const number = (value) => Math.round(value).toLocaleString("en");
  const shares = ["cpu", "memory"].filter((name) => shareOf(nodes, name) !== null).map((name) => [name, `${name} requested`, shareText]);
  const shown = [...shares, ["bound", "pods bound", number], ["waiting", "pods waiting", number],
    ...(price ? [["price", "a month", (value) => `$${number(value)}`]] : [])];
  const now = points.at(-1);
  byId("totals").replaceChildren(...shown.map(([name, what, text]) => {
    const values = points.map((point) => point[name]), isShare = text === shareText;
    const range = values.length > 1 ? `${text(Math.min(...values))} to ${text(Math.max(...values))} since this page was opened` : undefined;
    return element("li", {title: range}, element("b", {}, text(now[name])), ` ${what}`,
      isShare ? element("meter", {min: 0, max: 100, value: now[name], "aria-label": what}) : null, values.length > 1 ? line(values) : null);
  }));
}
