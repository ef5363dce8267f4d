// Sorts and filters tables, and shows a cell with its runs. Plain DOM; text is never markup.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const dialog = document.getElementById("cell");

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  for (const child of children) made.append(child);
  return made;
}

const number = (value, digits = 0) =>
  value === null || value === undefined
    ? ""
    : value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });

// ---------------------------------------------------------------- sorting and filtering

function valueOf(row, column) {
  const cell = row.cells[column];
  const value = cell.dataset.value ?? cell.textContent.trim();
  const asNumber = Number(value);
  return value !== "" && !Number.isNaN(asNumber) ? asNumber : value;
}

// Figures first, then words such as "not run", then empty entries, in both directions.
const kind = (value) => (typeof value === "number" ? 0 : value === "" ? 2 : 1);
const ascending = (a, b) =>
  typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true });

function sortBy(button) {
  const head = button.closest("th");
  const body = head.closest("table").tBodies[0];
  const down = head.getAttribute("aria-sort") !== "descending";
  for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const rows = [...body.rows].map((row) => [valueOf(row, head.cellIndex), row]);
  rows.sort(([a], [b]) => kind(a) - kind(b) || (down ? ascending(b, a) : ascending(a, b)));
  body.append(...rows.map(([, row]) => row));
}

function filter(input) {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const table = document.getElementById(input.dataset.table);
  let shown = 0;
  for (const row of table.tBodies[0].rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
    shown += !row.hidden;
  }
  document.getElementById(`${input.dataset.table}-count`).textContent = words.length
    ? `${shown} of ${table.tBodies[0].rows.length}`
    : "";
}

function reveal() {
  const row = document.getElementById(location.hash.slice(1))?.closest("tr");
  if (!row?.hidden) return;
  const input = document.querySelector(`input[data-table="${row.closest("table").id}"]`);
  input.value = "";
  filter(input);
  row.scrollIntoView();
}

// ---------------------------------------------------------------- a cell and its runs

const SVG = "http://www.w3.org/2000/svg";

function series(run, most) {
  const [width, height] = [520, 64];
  const svg = document.createElementNS(SVG, "svg");
  const put = (name, attributes) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    svg.append(made);
    return made;
  };
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("class", "series");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `frames per second by window, run ${run.id}`);
  const end = Math.max(...run.windows.map(([start, length]) => start + length), 1);
  for (const [start, length, fps, invalid, warmup] of run.windows) {
    const x = (start / end) * width;
    const bar = put("rect", {
      x: x.toFixed(2),
      y: (height - (fps / most) * height).toFixed(2),
      width: Math.max((length / end) * width - 0.6, 0.6).toFixed(2),
      height: ((fps / most) * height).toFixed(2),
      class: invalid ? "invalid" : warmup ? "warmup" : "window",
    });
    const title = document.createElementNS(SVG, "title");
    const what = warmup ? "warm-up" : invalid ? `invalid: ${invalid}` : "measured";
    title.textContent = `${(start / 1000).toFixed(2)} s: ${number(fps)} FPS (${what})`;
    bar.append(title);
  }
  return svg;
}

function pairs(entries) {
  const list = element("dl");
  for (const [name, value] of entries) {
    if (value === "" || value === null || value === undefined) continue;
    list.append(element("dt", {}, name), element("dd", {}, String(value)));
  }
  return list;
}

function runOf(run, most) {
  const box = element("section", { class: "run" });
  box.append(element("h3", {}, `Run ${run.id}`));
  if (run.windows.length) box.append(series(run, most));
  box.append(
    pairs([
      ["record", run.where],
      ["FPS", number(run.fps, 2)],
      ["failure", run.failure],
      ["round, seed", `${run.round}, ${run.seed}`],
      ["started (UTC)", run.started],
      ["steady", (run.steady ?? null) === null ? "" : run.steady ? "yes" : "no"],
      ["start-up, first step", (run.start_s ?? null) === null ? "" : `${number(run.start_s, 2)} s, ${number(run.first_step_s, 2)} s`],
      ["peak memory", (run.memory_mib ?? null) === null ? "" : `${number(run.memory_mib)} MiB`],
      ["CPU, others, steal", run.load],
    ]),
  );
  return box;
}

function open(id) {
  const cell = data.cells[id];
  const most = Math.max(...cell.runs.flatMap((run) => run.windows.map((window) => window[2])), 1);
  const packages = Object.entries(cell.packages).map(([name, version]) => `${name} ${version}`);
  dialog.replaceChildren(
    element("button", { class: "close", type: "button", "aria-label": "close" }, "×"),
    element("h2", {}, `${cell.label}, ${cell.task}, ${cell.numenv} environment${cell.numenv === 1 ? "" : "s"}`),
    pairs([
      ["machine", cell.machine],
      ["FPS", number(cell.fps, 2)],
      ["95 % interval", cell.low === null ? "none" : `${number(cell.low, 2)} – ${number(cell.high, 2)}`],
      ["steps per second", number(cell.steps_per_second, 2)],
      ["frames per step", cell.frame_skip],
      ["environments in flight", cell.env_instances],
      ["ran", cell.ran],
      ["settings", Object.entries(cell.settings).map(([k, v]) => `${k}=${v}`).join(", ")],
      ["command", cell.command],
      ["envbench", cell.envbench],
      ["Python", cell.python],
      ["plan", cell.plan],
    ]),
    ...cell.flags.map((flag) => element("p", { class: "flag" }, flag)),
    ...cell.runs.map((run) => runOf(run, most)),
    element("details", {}, element("summary", {}, "packages"), element("p", {}, packages.join(", "))),
  );
  dialog.showModal();
}

document.addEventListener("click", (event) => {
  const target = event.target.closest("button");
  if (!target) return;
  if (target.dataset.cell !== undefined) open(Number(target.dataset.cell));
  else if (target.classList.contains("close")) dialog.close();
  else if (target.classList.contains("sort")) sortBy(target);
});
for (const input of document.querySelectorAll("input[data-table]")) {
  input.addEventListener("input", () => filter(input));
  filter(input); // a browser may keep the text of an earlier visit
}
addEventListener("hashchange", reveal);
for (const link of document.querySelectorAll('a[href^="#cell-"]')) {
  link.addEventListener("click", () => setTimeout(reveal)); // also for a second click on the same link
}
