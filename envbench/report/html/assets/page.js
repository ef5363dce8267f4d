// Selects, sorts and filters, draws the curves, and shows a cell with its runs. Plain DOM and uPlot;
// text is never markup.
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

// ---------------------------------------------------------------- machine and task

function select() {
  const chosen = {};
  for (const each of document.querySelectorAll("select[data-selects]")) chosen[each.dataset.selects] = each.value;
  for (const each of document.querySelectorAll("[data-machine][data-task]"))
    each.hidden = Object.entries(chosen).some(([name, value]) => value && each.dataset[name] !== value);
  document.getElementById("nothing").hidden = document.querySelector("section[data-task]:not([hidden])") !== null;
  draw();
}

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

// A table is one stop of the Tab key. The arrow keys move between its headings and figures.
const STOPS = "button.sort, a.figure";

function oneStop(table) {
  table.querySelectorAll(STOPS).forEach((each, i) => (each.tabIndex = i ? -1 : 0));
  table.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const here = event.target.closest("th, td");
    if (!moves[event.key] || !here) return;
    const [down, right] = moves[event.key];
    const rows = [...table.rows].filter((row) => !row.hidden);
    let [row, column] = [rows.indexOf(here.parentElement), here.cellIndex];
    let next = null;
    while (!next) {
      [row, column] = [row + down, column + right];
      const cell = rows[row]?.cells[column];
      if (!cell) return;
      next = cell.querySelector(STOPS);
    }
    event.preventDefault();
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}

// ---------------------------------------------------------------- the curves

const drawn = [];
const wanted = new Map(); // chart -> what its reader chose
const plain = (value) => (value >= 1e6 ? `${value / 1e6}M` : value >= 1e3 ? `${value / 1e3}k` : `${value}`);

function describe(curve, point, chart) {
  const [numenv, fps, low, high] = point;
  const width = low === null ? 0 : (50 * (high - low)) / fps;
  const half = low === null ? "" : ` ±${number(width, width >= 0.95 || width < 0.05 ? 0 : 1)} %`;
  const share = chart.ceiling ? `, ${number((100 * fps) / chart.ceiling)} % of the ceiling` : "";
  const many = `${number(numenv)} environment${numenv === 1 ? "" : "s"}`;
  return `${curve.label} at ${many}: ${number(fps, fps < 100 ? 2 : 0)} FPS${half}${share}${point[5] ? " (quick)" : ""}`;
}

function drawChart(box) {
  const chart = data.charts[Number(box.dataset.chart)];
  if (!wanted.has(box)) wanted.set(box, { log: chart.log, off: new Set(), x: chart.wide });
  const choice = wanted.get(box);
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const curves = chart.curves.filter((each) => !choice.off.has(each.label));
  const xs = [...new Set(chart.curves.flatMap((each) => each.points.map(([n]) => n)))].sort((a, b) => a - b);
  const series = curves.map((each) => {
    const known = new Map(each.points.map((point) => [point[0], point]));
    return xs.map((n) => known.get(n)?.[1] ?? null);
  });
  const ceiling = chart.ceiling && !choice.off.has("ceiling");
  if (ceiling) series.push(xs.map(() => chart.ceiling));
  const shown = curves.flatMap((each) => each.points.map((point) => point[3] ?? point[1]));
  const most = Math.max(chart.top, ...shown, ceiling ? chart.ceiling : 0) * 1.05;
  const least = Math.min(chart.bottom, ...shown) / 1.3;
  const reading = box.querySelector(".reading");
  const bars = (plot) => {
    const { ctx } = plot;
    ctx.save();
    ctx.setLineDash([]);
    curves.forEach((each) => {
      ctx.strokeStyle = colour(`--c${each.place % 8}`);
      ctx.lineWidth = devicePixelRatio;
      for (const [n, , low, high] of each.points) {
        if (low === null) continue;
        const x = plot.valToPos(n, "x", true);
        ctx.beginPath();
        ctx.moveTo(x, plot.valToPos(Math.max(low, least), "y", true));
        ctx.lineTo(x, plot.valToPos(high, "y", true));
        ctx.stroke();
      }
    });
    ctx.restore();
  };
  const axis = { stroke: colour("--ink"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
  const options = {
    width: Math.max(280, box.clientWidth),
    height: 320,
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, focus: { prox: 40 } },
    focus: { alpha: 1 },
    scales: {
      x: { time: false, distr: choice.x ? 3 : 1, log: 2, range: (plot, low, high) => choice.x ? [low / 1.2, high * 1.2] : [Math.max(0, low - 0.5), high + 0.5] },
      y: { distr: choice.log ? 3 : 1, range: () => [choice.log ? least : 0, most] },
    },
    axes: [
      { ...axis, label: "environments per vector step", labelSize: 24, splits: () => xs, values: (plot, splits) => splits.map((n) => number(n)), space: 24 },
      { ...axis, label: "frames per second", labelSize: 24, size: 58, values: (plot, splits) => splits.map((v) => (v === null ? "" : plain(v))) },
    ],
    series: [
      {},
      ...curves.map((each) => ({
        label: each.label,
        stroke: colour(`--c${each.place % 8}`),
        width: 2,
        dash: each.published ? [6, 5] : each.place > 7 ? [10, 3] : undefined,
        spanGaps: true,
        points: { show: true, size: 7, fill: colour("--ground") },
      })),
      ...(ceiling ? [{ label: "ceiling", stroke: colour("--soft"), width: 1, dash: [2, 5], points: { show: false } }] : []),
    ],
    hooks: {
      draw: [bars],
      setCursor: [
        (plot) => {
          const { idx, top } = plot.cursor;
          if (idx === null || idx === undefined) return;
          let [best, near] = ["", Infinity];
          curves.forEach((each) => {
            const point = each.points.find(([n]) => n === xs[idx]);
            if (!point) return;
            const apart = Math.abs(plot.valToPos(point[1], "y") - top);
            if (apart < near) [best, near] = [describe(each, point, chart), apart];
          });
          reading.textContent = best;
        },
      ],
    },
  };
  box.querySelector(".uplot")?.remove();
  const holder = box.querySelector(".plot");
  new uPlot(options, [xs, ...series], holder);
  const summary = curves.map((each) => {
    const top = each.points.reduce((a, b) => (b[1] > a[1] ? b : a));
    return describe(each, top, chart);
  });
  holder.setAttribute("role", "img");
  holder.setAttribute("aria-label", `${chart.title}: frames per second by number of environments. Highest: ${summary.join("; ")}`);
}

function prepare(box) {
  const chart = data.charts[Number(box.dataset.chart)];
  const choices = element("div", { class: "choices" });
  const named = [...chart.curves.map((each) => [each.label, `c${each.place % 8}`, each.published]), ...(chart.ceiling ? [["ceiling", "c6", true]] : [])];
  for (const [label, colour, dashed] of named) {
    const input = element("input", { type: "checkbox" });
    input.checked = true;
    input.addEventListener("change", () => {
      const { off } = wanted.get(box);
      if (input.checked) off.delete(label);
      else off.add(label);
      drawChart(box);
    });
    choices.append(element("label", {}, input, element("span", { class: `swatch ${colour}${dashed ? " dashed" : ""}` }), label));
  }
  const scale = element("button", { type: "button" }, "Linear / log");
  scale.addEventListener("click", () => {
    const choice = wanted.get(box);
    choice.log = !choice.log;
    drawChart(box);
  });
  choices.append(scale);
  box.append(element("div", { class: "plot" }), element("p", { class: "reading soft", "aria-live": "polite" }, "Point at a curve to read its figures."), choices);
}

function draw() {
  for (const box of document.querySelectorAll(".chart")) if (box.clientWidth) drawChart(box);
}

// ---------------------------------------------------------------- a cell and its runs

const SVG = "http://www.w3.org/2000/svg";

function series(run, most) {
  const [width, height] = [520, 64];
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("class", "series");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `frames per second over time, run ${run.id}`);
  const end = Math.max(...run.slices.map(([start, length]) => start + length), 0.001);
  for (const [start, length, fps, kind] of run.slices) {
    const what = kind === 0 ? "warm-up" : kind === 1 ? "measured" : `invalid: ${kind}`;
    const bar = document.createElementNS(SVG, "rect");
    const tall = (fps / most) * height;
    const places = { x: (start / end) * width, y: height - tall, width: Math.max((length / end) * width - 0.6, 0.6), height: tall };
    for (const [key, value] of Object.entries(places)) bar.setAttribute(key, value.toFixed(2));
    bar.setAttribute("class", kind === 1 ? "window" : kind === 0 ? "warmup" : "invalid");
    const title = document.createElementNS(SVG, "title");
    title.textContent = `${start.toFixed(2)} s: ${number(fps)} FPS (${what})`;
    bar.append(title);
    svg.append(bar);
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

function runOf(run, most) {
  const { times, load } = run;
  const box = element("section", { class: "run" });
  box.append(element("h3", {}, `Run ${run.id}`));
  if (run.slices.length) box.append(series(run, most));
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

function copyable(text, name) {
  const button = element("button", { type: "button", class: "copy", "data-copy": text }, "Copy");
  button.append(element("span", { class: "unseen" }, ` ${name}`));
  return element("div", { class: "code" }, element("pre", {}, text), button);
}

function open(cell) {
  const most = Math.max(...cell.runs.flatMap((run) => run.slices.map((slice) => slice[2])), 1);
  const { python, packages } = data.runtimes[cell.runtime] ?? { python: "unknown", packages: "" };
  dialog.replaceChildren(
    element("button", { class: "close", type: "button", "aria-label": "close" }, "×"),
    element("h2", { id: "cell-title" }, `${cell.label}, ${cell.task}, ${cell.numenv} environment${cell.numenv === 1 ? "" : "s"}`),
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
      ["envbench", cell.envbench],
      ["Python", python],
      ["plan", cell.plan],
    ]),
    ...cell.flags.map((flag) => element("p", { class: "flag" }, flag)),
    element("h3", {}, "Command"),
    copyable(cell.command, "the command"),
    ...(cell.code ? [element("h3", {}, "The same environments"), copyable(cell.code, "the code")] : []),
    ...cell.runs.map((run) => runOf(run, most)),
    element("details", {}, element("summary", {}, "packages"), element("p", {}, packages)),
  );
  if (!dialog.open) dialog.showModal();
}

// The address of a page names a cell (#cell/machine/key), which opens its details.
let back = "";
function visit() {
  const cell = data.cells.find((each) => `#${each.address}` === location.hash);
  if (cell) open(cell);
  else if (dialog.open) dialog.close();
  else document.getElementById(location.hash.slice(1))?.closest("details")?.setAttribute("open", "");
  if (!cell) back = location.hash;
}

// ---------------------------------------------------------------- events

async function copy(button) {
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
  } catch {
    const text = element("textarea", { class: "unseen" });
    text.value = button.dataset.copy;
    button.after(text);
    text.select();
    document.execCommand("copy");
    text.remove();
  }
  const label = button.firstChild;
  label.textContent = "Copied";
  setTimeout(() => (label.textContent = "Copy"), 1500);
}

document.addEventListener("click", (event) => {
  const target = event.target.closest("button");
  if (!target) return;
  if (target.classList.contains("close")) dialog.close();
  else if (target.classList.contains("sort")) sortBy(target);
  else if (target.classList.contains("copy")) copy(target);
});
dialog.addEventListener("close", () => history.replaceState(null, "", back || location.pathname + location.search));
for (const input of document.querySelectorAll("input[data-table]")) {
  input.addEventListener("input", () => filter(input));
  filter(input); // a browser may keep the text of an earlier visit
}
document.querySelectorAll("table").forEach(oneStop);
document.querySelectorAll(".chart").forEach(prepare);
document.querySelectorAll("select[data-selects]").forEach((each) => each.addEventListener("change", select));
document.addEventListener("toggle", draw, true);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
addEventListener("beforeprint", () => {
  for (const each of document.querySelectorAll("details")) each.open = true;
  draw();
});
let resized = 0;
addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(draw, 100);
});
addEventListener("hashchange", visit);
select();
visit();
