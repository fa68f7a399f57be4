// Elements. Texts become text nodes, never HTML.

export const byId = (id) => document.getElementById(id);

// Make an element. What begins with "on" listens, the rest are attributes; undefined and false leave one out.
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

// What looks like a link and acts as a button; a long name breaks after its slashes.
export const link = (text, onclick) => element("button", {type: "button", class: "plain", onclick},
  text.split(/(?<=\/)/).flatMap((part, at) => at ? [document.createElement("wbr"), part] : [part]));

export const count = (amount, one, several) => `${amount.toLocaleString("en")} ${amount === 1 ? one : several ?? `${one}s`}`;

// Change the children of a box: what has the focus in it keeps it, if it is still there by its text, and lists stay where they were.
export function keepingFocus(box, change) {
  const lists = () => [...box.querySelectorAll(".scroll")], places = lists().map((one) => [one.scrollLeft, one.scrollTop]);
  const focused = box.contains(document.activeElement) ? document.activeElement : null, text = focused?.textContent;
  change();
  lists().forEach((one, at) => places[at] && one.scrollTo(...places[at]));
  if (focused && !focused.isConnected) [...box.querySelectorAll("button, [tabindex]")].find((one) => one.textContent === text)?.focus({preventScroll: true});
}

// Tell a screen reader.
export function announce(text) {
  byId("live").textContent = "";
  setTimeout(() => { byId("live").textContent = text; }, 50);
}

// A table whose cells are texts and elements; `row` makes those of an item. Of many items the first ones are shown.
const MOST_ROWS = 200;
export function table(caption, headings, items, row, numeric = []) {
  const shown = items.slice(0, MOST_ROWS).map(row);
  const cell = (value, at) => {
    const isLong = typeof value === "string" && value.length > 48;
    return element("td", {class: numeric.includes(at) ? "num" : isLong ? "long" : "short"}, value);
  };
  const made = element("table", {class: "grid"}, element("caption", {}, caption),
    element("thead", {}, element("tr", {}, headings.map((one, at) => element("th", {scope: "col", class: numeric.includes(at) ? "num" : undefined}, one)))),
    element("tbody", {}, shown.map((cells) => element("tr", {}, cells.map(cell)))));
  const more = items.length - shown.length;
  return [made, more > 0 ? element("p", {class: "note"}, `${count(more, "more row")} not shown.`) : null];
}

export const scrolled = (name, ...children) => element("div", {class: "scroll", tabindex: "0", role: "group", "aria-label": name}, ...children);

export function copyButton(text, of) {
  return element("button", {type: "button", onclick: async (event) => {
    try {
      await navigator.clipboard.writeText(text());
      announce(`${of} copied`);
      event.target.textContent = "Copied";
      setTimeout(() => { event.target.textContent = `Copy ${of}`; }, 1500);
    } catch {
      announce(`the browser does not let this page copy; select the ${of}`);
    }
  }}, `Copy ${of}`);
}

// The button that switches between light and dark.
export function theme() {
  const root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const tell = () => { byId("theme").textContent = isDark() ? "Light colours" : "Dark colours"; };
  byId("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    tell();
  });
  system.addEventListener("change", tell);
  tell();
}
