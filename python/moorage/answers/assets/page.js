"use strict";
// The moving parts of a report: colours, filters of tables, heat maps, timelines, intervals. Texts of the data are
// only ever set as textContent.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  root.classList.add("js");
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const element = (name, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const drawing = (name, attributes, ...children) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const number = (value, digits = 4) => value == null ? "–" : value.toLocaleString("en", {maximumSignificantDigits: digits});

  // ---- colours ---------------------------------------------------------------------------------------------
  const redraws = []; // what has colours that are not in the style sheet
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const probe = element("span", {hidden: true});
  document.body.append(probe);
  const colour = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const recolour = () => {
    button.textContent = isDark() ? "Light colours" : "Dark colours";
    for (const redraw of redraws) redraw();
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    recolour();
  });
  system.addEventListener("change", recolour);
  let isPrinting = false;
  const print = (starts) => () => {
    isPrinting = starts;
    const before = root.dataset.beforePrint;
    root.dataset.beforePrint = root.dataset.theme || "";
    root.dataset.theme = starts ? "light" : before;
    if (!root.dataset.theme) delete root.dataset.theme;
    recolour();
  };
  addEventListener("beforeprint", print(true));
  addEventListener("afterprint", print(false));

  // ---- tables ----------------------------------------------------------------------------------------------
  for (const tools of all("[data-filters]")) {
    const body = document.getElementById(tools.dataset.filters).tBodies[0];
    const [search, told, choices] = [tools.querySelector("input"), tools.querySelector("output"), all("select", tools)];
    const filter = () => {
      const word = search.value.toLowerCase();
      let shown = 0;
      for (const row of body.rows) {
        const fits = row.textContent.toLowerCase().includes(word) &&
          choices.every((one) => !one.value || row.cells[one.dataset.column].textContent === one.value);
        row.hidden = !fits;
        shown += fits;
      }
      told.textContent = shown === body.rows.length ? "" : `${shown} of ${body.rows.length} rows shown`;
    };
    for (const one of [search, ...choices]) one.addEventListener("input", filter);
  }
  for (const table of all("table.grid")) {
    const headings = all("thead th", table);
    headings.forEach((heading, at) => {
      const press = element("button", {type: "button"}, ...heading.textContent.split(/(?<=[/_])/).flatMap((part, at) => at ? [document.createElement("wbr"), part] : [part]));
      heading.replaceChildren(press);
      press.addEventListener("click", () => {
        const ascends = heading.getAttribute("aria-sort") === "descending" || !heading.hasAttribute("aria-sort") && !heading.classList.contains("num");
        const value = (row) => row.cells[at].dataset.v === undefined ? row.cells[at].textContent : Number(row.cells[at].dataset.v);
        const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", {numeric: true});
        const rows = [...table.tBodies[0].rows].sort((a, b) => (ascends ? 1 : -1) * compare(value(a), value(b)));
        table.tBodies[0].append(...rows);
        for (const one of headings) one.removeAttribute("aria-sort");
        heading.setAttribute("aria-sort", ascends ? "ascending" : "descending");
      });
    });
  }

  // ---- heat maps: a square per node ------------------------------------------------------------------------
  const sizes = [[80, 26], [400, 18], [2000, 12], [Infinity, 9]];
  const step = (percent) => percent == null ? "none" : percent > 100 ? "over" : `h${Math.min(9, Math.floor(percent / 10))}`;
  function heatMap(box) {
    const map = data[box.dataset.map];
    const chosen = Object.fromEntries(all("select, input", box).map((one) => [one.name, one]));
    const [place, readout] = [box.querySelector(".map"), box.querySelector("output")];
    let cells = [], current = -1;
    const text = (at) => [map.names[at],
      ...Object.entries(map.groups).map(([name, group]) => `${name} ${group.names[group.of[at]] || "none"}`),
      ...map.resources.flatMap((one) => one.percent[at] == null ? [] : [`${one.name} ${number(one.percent[at])} %`])].join(" · ");
    const choose = (next) => {
      if (!cells[next]) return;
      cells[current]?.rect.classList.remove("chosen");
      current = next;
      cells[current].rect.classList.add("chosen");
      readout.textContent = text(cells[current].at);
    };
    const draw = () => {
      const resource = map.resources[Number(chosen.resource.value)], word = chosen.search.value.toLowerCase();
      let shown = map.names.map((_, at) => at).filter((at) => map.names[at].toLowerCase().includes(word));
      if (chosen.order.value === "use") shown = shown.sort((a, b) => (resource.percent[b] ?? -1) - (resource.percent[a] ?? -1));
      const grouping = map.groups[chosen.group.value];
      const parts = grouping ? grouping.names.map((name, group) => [name || "none", shown.filter((at) => grouping.of[at] === group)]) : [["", shown]];
      const size = sizes.find(([most]) => shown.length <= most)[1], width = place.clientWidth || 1000;
      cells = [];
      current = -1;
      readout.textContent = word ? `${shown.length} of ${map.names.length} squares` : "";
      place.replaceChildren(...parts.filter(([, nodes]) => nodes.length).map(([name, nodes]) => {
        const columns = Math.max(1, Math.min(Math.floor(width / size), nodes.length, Math.max(6, parts.length > 1 ? Math.ceil(Math.sqrt(1.4 * nodes.length)) : nodes.length)));
        const rects = nodes.map((at, order) => {
          const rect = drawing("rect", {x: (order % columns) * size, y: Math.floor(order / columns) * size, width: size, height: size,
            style: `fill:var(--${step(resource.percent[at])})`});
          const cell = {rect, at, columns, number: cells.length};
          rect.addEventListener("pointerenter", () => choose(cell.number));
          cells.push(cell);
          return rect;
        });
        const [w, h] = [columns * size, Math.ceil(nodes.length / columns) * size];
        const svg = drawing("svg", {width: w, height: h, viewBox: `0 0 ${w} ${h}`, "aria-hidden": "true"}, ...rects);
        const count = nodes.reduce((total, at) => total + (map.counts ? map.counts[at] : 1), 0);
        const told = count === 1 ? "1 node" : `${number(count, 9)} nodes`;
        return element("div", {}, element("p", {textContent: grouping ? `${name} · ${told}` : told}), svg);
      }));
    };
    place.addEventListener("keydown", (event) => {
      const columns = cells[Math.max(current, 0)]?.columns;
      const moves = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, Home: -current, End: cells.length - 1 - current};
      if (!(event.key in moves)) return;
      event.preventDefault();
      choose(current < 0 ? 0 : current + moves[event.key]);
    });
    place.addEventListener("focus", () => choose(Math.max(current, 0)));
    for (const one of Object.values(chosen)) one.addEventListener("input", draw);
    draw();
  }
  all("[data-map]").forEach(heatMap);

  // ---- timelines -------------------------------------------------------------------------------------------
  const PRINTED = 660; // width on paper, in CSS pixels
  const time = (seconds) => {
    if (seconds == null) return "";
    const whole = Math.round(seconds), two = (value) => String(value).padStart(2, "0");
    const clock = `${two(Math.floor(whole / 3600) % 24)}:${two(Math.floor(whole / 60) % 60)}`;
    return (whole >= 86400 ? `${Math.floor(whole / 86400)}d ` : "") + (whole % 60 ? `${clock}:${two(whole % 60)}` : clock);
  };
  const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000, 864000, 2592000, 8640000];
  function joined(series) { // each keeps its level until its next point
    const table = uPlot.join(series.map((one) => [one.times, one.values]));
    for (const column of table.slice(1)) {
      for (let at = 0, last = null; at < column.length; at++) last = column[at] = column[at] ?? last;
    }
    return table;
  }
  function timelines(box) {
    const charts = data[box.dataset.lines], end = Math.max(...charts.flatMap((chart) => chart.series.flatMap((one) => one.times)));
    const plots = [], span = {min: 0, max: end || 1}, key = box.dataset.lines;
    let view = {...span};
    const zoom = (min, max) => {
      const wide = Math.min(max - min, span.max);
      const from = Math.max(0, Math.min(min, span.max - wide));
      for (const plot of plots) plot.setScale("x", {min: from, max: from + wide});
    };
    all("figure", box).forEach((figure, number_) => {
      const chart = charts[number_], columns = joined(chart.series), holder = figure.querySelector(".plot");
      const legend = figure.querySelector(".legend"), visible = chart.series.map(() => true), values = [];
      const shown = (value) => value == null ? "" : number(value) + (chart.unit === "%" ? " %" : "");
      chart.series.forEach((one, at) => {
        const value = element("span", {});
        const swatch = element("span", {className: "swatch"});
        swatch.style.background = `var(--s${at % 8})`;
        const press = element("button", {type: "button"}, swatch, `${one.name} `, value);
        press.setAttribute("aria-pressed", "true");
        press.addEventListener("click", () => {
          visible[at] = !visible[at];
          press.setAttribute("aria-pressed", String(visible[at]));
          plots[number_].setSeries(at + 1, {show: visible[at]});
        });
        values.push(value);
        legend.append(element("li", {}, press));
      });
      const top = (high) => chart.unit !== "%" ? Math.max(1, 1.05 * high) : high > 25 ? Math.max(100, high) : 1.1 * high || 1;
      const readValues = (plot) => values.forEach((value, at) => {
        const index = plot.cursor.idx ?? columns[0].length - 1;
        value.textContent = shown(columns[at + 1][index]);
      });
      const make = (width) => {
        plots[number_]?.destroy();
        const [ink, line] = [colour("muted"), colour("line")];
        const axis = {stroke: ink, grid: {stroke: line, width: 1}, ticks: {stroke: line, width: 1}};
        const plot = new uPlot({
          width, height: 230, legend: {show: false}, scales: {x: {time: false, min: view.min, max: view.max},
            y: {range: (_, low, high) => [Math.min(0, low ?? 0), top(high ?? 0)]}},
          axes: [{...axis, incrs: STEPS, space: 80, values: (_, ticks) => ticks.map(time)},
            {...axis, size: 62, values: (_, ticks) => ticks.map((tick) => number(tick, 6) + (chart.unit === "%" ? " %" : ""))}],
          cursor: {drag: {x: true, y: false}, sync: {key, scales: ["x", null]}, y: false},
          series: [{}, ...chart.series.map((one, at) => ({label: one.name, stroke: colour(`s${at % 8}`), width: 1.75, show: visible[at],
            dash: at >= 8 ? [6, 3] : undefined, paths: chart.isSum ? uPlot.paths.linear() : uPlot.paths.stepped({align: 1}), points: {show: false}}))],
          hooks: {setCursor: [readValues], setScale: [(self, name) => {
            if (name === "x" && self.status) view = {min: self.scales.x.min, max: self.scales.x.max};
          }]},
        }, columns, holder);
        plots[number_] = plot;
        readValues(plot);
      };
      const redraw = () => make(isPrinting ? PRINTED : Math.max(280, holder.clientWidth));
      redraw();
      redraws.push(redraw);
      addEventListener("resize", redraw);
    });
    box.querySelector(".zoom").addEventListener("click", (event) => {
      const {min, max} = view, wide = max - min, middle = (min + max) / 2;
      ({in: () => zoom(middle - wide / 4, middle + wide / 4), out: () => zoom(middle - wide, middle + wide), all: () => zoom(0, span.max),
        earlier: () => zoom(min - wide / 2, max - wide / 2), later: () => zoom(min + wide / 2, max + wide / 2)})[event.target.dataset.zoom]?.();
    });
    box.plots = plots;
  }
  all("[data-lines]").forEach(timelines);

  // ---- intervals: mean, confidence interval, least and greatest --------------------------------------------
  const ROWS = 120;
  const ticksOf = (from, to) => {
    const ten = 10 ** Math.floor(Math.log10((to - from) / 4)), step = [1, 2, 5, 10].find((one) => 4 * one * ten >= to - from) * ten;
    return Array.from({length: Math.floor(to / step) - Math.ceil(from / step) + 1}, (_, at) => (Math.ceil(from / step) + at) * step);
  };
  function lineChart(shown, labels, colourOf, width) { // of a series: its means over its numbers, with their intervals
    const points = new Map();
    shown.forEach((row, order) => points.set(labels[order], [...(points.get(labels[order]) ?? []), row]));
    const [low, high] = [Math.min(...shown.map((row) => row.mean - (row.margin ?? 0))), Math.max(...shown.map((row) => row.mean + (row.margin ?? 0)))];
    const pad = (high - low || Math.abs(high) || 1) * 0.06, [bottom, left] = [260, 60], numbers = [...new Set(shown.map((row) => row.at))].sort((a, b) => a - b);
    const x = (at) => left + (width - left - 20) * (at - numbers[0]) / (numbers.at(-1) - numbers[0] || 1);
    const y = (value) => bottom - (bottom - 10) * (value - low + pad) / (high - low + 2 * pad);
    const text = (at) => (row) => `${x(row.at)},${y(row.mean + at * (row.margin ?? 0))}`;
    const rules = ticksOf(low - pad, high + pad).flatMap((value) => [
      drawing("line", {x1: left, x2: width - 20, y1: y(value), y2: y(value), class: "rule"}),
      drawing("text", {x: left - 8, y: y(value) + 4, "text-anchor": "end", class: "muted"}, number(value, 4))]);
    const every = Math.ceil(numbers.length / Math.max(2, Math.floor((width - left) / 48)));
    rules.push(...numbers.filter((_, at) => at % every === 0).map((at) => drawing("text", {x: x(at), y: bottom + 18, "text-anchor": "middle", class: "muted"}, number(at, 6))));
    const lines = [...points].flatMap(([label, rows], order) => {
      const [fill, dash] = [`var(--s${colourOf(rows[0])})`, order >= 8 ? "6 3" : "none"];
      return [drawing("polygon", {points: [...rows.map(text(1)), ...rows.map(text(-1)).reverse()].join(" "), style: `fill:${fill};opacity:.2`}),
        drawing("polyline", {points: rows.map(text(0)).join(" "), style: `fill:none;stroke:${fill};stroke-width:1.75;stroke-dasharray:${dash}`})];
    });
    const legend = element("ul", {className: "legend"}, ...[...points].map(([label, rows]) => {
      const swatch = element("span", {className: "swatch"});
      swatch.style.background = `var(--s${colourOf(rows[0])})`;
      return element("li", {}, swatch, label);
    }));
    return [bottom + 26, [...rules, ...lines], legend];
  }
  function intervals(box) {
    const rows = data[box.dataset.intervals], place = box.querySelector(".drawing");
    const chosen = all("select", box);
    const configurations = [...new Set(rows.map((row) => row.configuration))];
    const colourOf = (row) => configurations.indexOf(row.configuration) % 8;
    const draw = () => {
      const all_ = rows.filter((row) => chosen.every((one) => !one.value || row[one.name] === one.value));
      const isSeries = all_.some((row) => row.at !== undefined), shown = isSeries ? all_ : all_.slice(0, ROWS);
      const labels = shown.map((row) => ["configuration", "timeline", "change"].filter((name) =>
        new Set(rows.map((one) => one[name])).size > 1).map((name) => row[name]).join(" · ") || row.configuration);
      const picture = (width, height, what, ...parts) => drawing("svg", {width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
        "aria-label": `${chosen[0].value}: ${what}; the table below has the numbers`}, ...parts);
      if (isSeries) {
        const width = Math.max(560, place.clientWidth || 900), [height, parts, legend] = lineChart(shown, labels, colourOf, width);
        place.replaceChildren(legend, picture(width, height, `means of ${new Set(labels).size} combinations over ${new Set(shown.map((row) => row.at)).size} values`, ...parts));
        return;
      }
      const left = Math.min(380, 16 + 7 * Math.max(0, ...labels.map((label) => label.length))), width = Math.max(560, place.clientWidth || 900);
      const ends = shown.flatMap((row) => [row.least, row.greatest, row.mean - (row.margin ?? 0), row.mean + (row.margin ?? 0)]);
      const low = Math.min(...ends), high = Math.max(...ends);
      const pad = (high - low || Math.abs(high) || 1) * 0.06, [from, to] = [low - pad, high + pad];
      const x = (value) => left + (width - left - 90) * (value - from) / (to - from);
      const line = (a, b, y, at, thick) => drawing("line", {x1: x(a), x2: x(b), y1: y, y2: y, "stroke-width": thick, style: `stroke:var(--s${at})`});
      const parts = shown.flatMap((row, order) => {
        const y = 18 + order * 22, at = colourOf(row), margin = row.margin ?? 0;
        return [drawing("text", {x: 0, y: y + 4}, labels[order].length > 52 ? `${labels[order].slice(0, 50)}…` : labels[order]),
          line(row.least, row.greatest, y, at, 1.5), line(row.mean - margin, row.mean + margin, y, at, 6),
          drawing("circle", {cx: x(row.mean), cy: y, r: 4.5, style: `fill:var(--s${at});stroke:var(--panel)`}),
          drawing("text", {x: width - 4, y: y + 4, "text-anchor": "end"}, number(row.mean, 5))];
      });
      const bottom = 18 + shown.length * 22;
      const ticks = ticksOf(from, to).flatMap((value) => [
        drawing("line", {x1: x(value), x2: x(value), y1: 4, y2: bottom - 8, class: "rule"}),
        drawing("text", {x: x(value), y: bottom + 10, "text-anchor": "middle", class: "muted"}, number(value, 4))]);
      const svg = picture(width, bottom + 18, `means of ${shown.length} combinations`, ...ticks, ...parts);
      place.replaceChildren(shown.length ? svg : element("p", {className: "note", textContent: "no such combination"}));
    };
    for (const one of chosen) one.addEventListener("input", draw);
    draw();
  }
  all("[data-intervals]").forEach(intervals);
  recolour();
})();
