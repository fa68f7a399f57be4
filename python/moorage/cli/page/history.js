// Numbers of the cluster, now and since the twin has run: a bar or a number, and a line of what it was.
import {byId, element} from "./dom.js";
import {shareText} from "./squares.js";

const WIDTH = 120, HEIGHT = 24, HOURS_OF_A_MONTH = 730;
const number = (value) => Math.round(value).toLocaleString("en");
const month = (price) => `$${number(price * HOURS_OF_A_MONTH)}`;
const SHOWN = [["cpu", "cpu requested", shareText], ["memory", "memory requested", shareText], ["bound", "pods bound", number], ["waiting", "pods waiting", number], ["price", "a month", month]];

function since(seconds) {
  const [unit, length] = [["d", 86_400], ["h", 3_600], ["min", 60]].find(([, least]) => seconds >= least) ?? ["s", 1];
  return `${Math.floor(seconds / length)} ${unit}`;
}

function line(times, values) {
  const least = Math.min(...values), range = Math.max(...values) - least || 1, svg = "http://www.w3.org/2000/svg";
  const drawn = document.createElementNS(svg, "svg"), path = document.createElementNS(svg, "polyline");
  const at = (value, index) => `${((times[index] - times[0]) * WIDTH / (times.at(-1) - times[0] || 1)).toFixed(1)},${(HEIGHT - 2 - (value - least) * (HEIGHT - 4) / range).toFixed(1)}`;
  path.setAttribute("points", values.map(at).join(" "));
  drawn.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  drawn.setAttribute("aria-hidden", "true");
  drawn.append(path);
  return drawn;
}

// Show the numbers that the twin has kept: the last are those of now.
export function showTotals({history, seconds}) {
  const now = history.at(-1);
  byId("totals").replaceChildren(...SHOWN.filter(([name]) => name in now).map(([name, what, text]) => {
    const points = history.filter((point) => name in point), values = points.map((point) => point[name]);
    const range = values.length > 1 ? `${text(Math.min(...values))} to ${text(Math.max(...values))} in the last ${since(seconds - points[0].seconds)}` : undefined;
    return element("li", {title: range}, element("b", {}, text(now[name])), ` ${what}`,
      text === shareText ? element("meter", {min: 0, max: 100, value: now[name], "aria-label": what}) : null,
      range ? line([...points.map((point) => point.seconds), seconds], [...values, now[name]]) : null);
  }));
}
