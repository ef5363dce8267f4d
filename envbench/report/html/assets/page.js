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
const sum = (numbers) => numbers.reduce((total, each) => total + each, 0);

// The run's windows, in seconds from the start of its warm-up. Measuring follows the warm-up.
function windowsOf(run, frames) {
  const all = (columns, offset, warmup) =>
    columns.ns.map((ns, i) => ({
      start: ((columns.start_ns[i] ?? 0) + offset) / 1e9,
      length: ns / 1e9,
      fps: ns > 0 ? (((columns.steps[i] ?? 0) * frames) / ns) * 1e9 : 0,
      invalid: columns.invalid[i] ?? "",
      warmup,
    }));
  if (!run.measured) return []; // refused
  return [...all(run.warmup, 0, true), ...all(run.measured, sum(run.warmup.ns), false)];
}

function series(run, windows, most) {
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
  const end = Math.max(...windows.map(({ start, length }) => start + length), 0.001);
  for (const { start, length, fps, invalid, warmup } of windows) {
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
    title.textContent = `${start.toFixed(2)} s: ${number(fps)} FPS (${what})`;
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

const seconds = (value) => (value === null ? "?" : `${value.toFixed(2)} s`);

function runOf(run, windows, most) {
  const { times, load } = run;
  const box = element("section", { class: "run" });
  box.append(element("h3", {}, `Run ${run.id}`));
  if (windows.length) box.append(series(run, windows, most));
  box.append(
    pairs([
      ["record", run.where],
      ["FPS", number(run.fps, 2)],
      ["failure", run.failure],
      ["round, seed", `${run.round}, ${run.seed}`],
      ["started (UTC)", run.started_utc],
      ["steady", (run.steady ?? null) === null ? "" : run.steady ? "yes" : "no"],
      ["start-up, first step", times && [times.import_ns + times.build_ns, times.first_step_ns].map((ns) => seconds(ns / 1e9)).join(", ")],
      ["peak memory", run.peak_memory_bytes ? `${number(run.peak_memory_bytes / 2 ** 20)} MiB` : ""],
      ["CPU, others, steal", load && [load.cpu_s, load.other_cpu_s, load.steal_s].map(seconds).join(", ")],
    ]),
  );
  return box;
}

const span = (low, high) => (low === null ? "none" : `${number(low, 2)} – ${number(high, 2)}`);

function open(id) {
  const cell = data.cells[id];
  const windows = cell.runs.map((run) => windowsOf(run, cell.frame_skip));
  const most = Math.max(...windows.flat().map((window) => window.fps), 1);
  const packages = Object.entries(cell.packages).map(([name, version]) => `${name} ${version}`);
  dialog.replaceChildren(
    element("button", { class: "close", type: "button", "aria-label": "close" }, "×"),
    element("h2", {}, `${cell.label}, ${cell.task}, ${cell.numenv} environment${cell.numenv === 1 ? "" : "s"}`),
    pairs([
      ["machine", cell.machine],
      ["FPS of its runs", number(cell.fps, 2)],
      ["95 % interval", span(cell.low, cell.high)],
      ...(cell.adjusted === null ? [] : [
        ["FPS beside the other cells", number(cell.adjusted, 2)],
        ["95 % interval to compare", span(cell.adjusted_low, cell.adjusted_high)],
      ]),
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
    ...cell.runs.map((run, i) => runOf(run, windows[i], most)),
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
