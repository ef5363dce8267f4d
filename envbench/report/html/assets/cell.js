// Shows a cell with its runs, and copies text.
"use strict";

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

// A figure and its 95 % interval: 8,203 (7,977 to 8,436)
function figure(fps, low, high) {
  const digits = fps < 100 ? 2 : 0;
  const span = low === null ? "no interval" : `95 % interval ${number(low, digits)} to ${number(high, digits)}`;
  return fps === null ? "" : `${number(fps, digits)} (${span})`;
}

function copyable(text, name, kind) {
  const button = element("button", { type: "button", class: "copy", "data-copy": text }, "Copy");
  button.append(element("span", { class: "unseen" }, ` ${name}`));
  const bar = element("div", { class: "bar" }, element("span", { class: "soft" }, kind), button);
  return element("div", { class: "code" }, bar, element("pre", {}, text));
}

function open(cell) {
  const most = Math.max(...cell.runs.flatMap((run) => run.slices.map((slice) => slice[2])), 1);
  const { python, packages } = data.runtimes[cell.runtime] ?? { python: "unknown", packages: "" };
  dialog.replaceChildren(
    element("button", { class: "close", type: "button", "aria-label": "close" }, "×"),
    element("h2", { id: "cell-title" }, `${cell.label}, ${cell.task}, ${cell.numenv} environment${cell.numenv === 1 ? "" : "s"}`),
    pairs([
      ["machine", cell.machine],
      ["hardware", cell.hardware],
      ...(cell.adjusted === null ? [["FPS", figure(cell.fps, cell.low, cell.high)]] : [
        ["FPS, compared with the other cells", figure(cell.adjusted, cell.adjusted_low, cell.adjusted_high)],
        ["FPS of its runs alone", figure(cell.fps, cell.low, cell.high)],
      ]),
      ["steps per second", number(cell.steps_per_second, cell.steps_per_second < 100 ? 2 : 0)],
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
    copyable(cell.command, "the command", "Shell"),
    ...(cell.code ? [element("h3", {}, "The same environments"), copyable(cell.code, "the code", "Python")] : []),
    ...cell.runs.map((run) => runOf(run, most)),
    element("details", {}, element("summary", {}, "packages"), element("p", {}, packages)),
  );
  if (!dialog.open) dialog.showModal();
}

// The notes of an entry that opens no cell.
function openNotes(button) {
  const row = button.closest("tr").cells[0].textContent.trim();
  dialog.replaceChildren(
    element("button", { class: "close", type: "button", "aria-label": "close" }, "×"),
    element("h2", { id: "cell-title" }, `${row}: ${button.firstChild.textContent.trim()}`),
    ...button.dataset.notes.split("\n").map((note) => element("p", {}, note)),
  );
  dialog.showModal();
}

// The address of a page names a cell (#cell/machine/key), which opens its details.
let back = "";
function visit() {
  const cell = data.cells.find((each) => `#${each.address}` === location.hash);
  document.getElementById("missing").hidden = Boolean(cell) || !location.hash.startsWith("#cell/");
  if (cell) open(cell);
  else if (dialog.open) dialog.close();
  else document.getElementById(location.hash.slice(1))?.closest("details")?.setAttribute("open", "");
  if (!cell) back = location.hash;
}

// ---------------------------------------------------------------- copying

function copiedByCommand(text, beside) {
  const area = element("textarea", { class: "unseen" });
  area.value = text;
  beside.after(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}

async function copy(button) {
  const { copy: text } = button.dataset;
  const written = navigator.clipboard?.writeText(text) ?? Promise.reject(); // none over plain http
  const copied = await written.then(
    () => true,
    () => copiedByCommand(text, button),
  );
  const label = button.firstChild;
  const says = copied ? "Copied" : "Select the text, and copy it";
  label.textContent = document.getElementById("status").textContent = says;
  setTimeout(() => (label.textContent = "Copy"), 1500);
}
