// Draws the curves with uPlot. A reader can switch curves off, choose the scale, and read figures with
// the pointer or the arrow keys.
"use strict";

const DASHES = [undefined, [10, 3], [2, 4], [10, 3, 2, 3]]; // of the rows of one backend
const CEILING = "ceiling";
const choices = new Map(); // chart -> what its reader chose
const plain = (value) => (value >= 1e6 ? `${value / 1e6}M` : value >= 1e3 ? `${value / 1e3}k` : `${value}`);

function describe(curve, point, chart) {
  const [numenv, fps, low, high] = point;
  const width = low === null ? 0 : 100 * (Math.sqrt(high / low) - 1); // as in the tables
  const half = low === null ? "" : ` ±${width >= 0.95 ? number(width) : width < 0.005 ? 0 : Number(width.toPrecision(1))} %`;
  const part = (100 * fps) / (chart.ceiling || fps);
  const shown = part >= 9.95 ? number(part) : Number(part.toPrecision(2));
  const share = chart.ceiling ? `, ${shown} % of the ceiling` : "";
  const many = `${number(numenv)} environment${numenv === 1 ? "" : "s"}`;
  return `${curve.label} at ${many}: ${number(fps, fps < 100 ? 2 : 0)} FPS${half}${share}${point[5] ? ` (${point[5]})` : ""}`;
}

// How a curve is drawn: rows of one backend share a colour, not a dash.
function lookOf(chart, curve) {
  const alike = chart.curves.filter((each) => each.place % 8 === curve.place % 8 && !each.published);
  const dash = curve.published ? [6, 5] : DASHES[alike.indexOf(curve) % DASHES.length];
  return { colour: `c${curve.place % 8}`, dash };
}

function colourOf(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// The intervals, as lines through their points.
function intervals(plot, curves, least) {
  const { ctx } = plot;
  ctx.save();
  ctx.setLineDash([]);
  ctx.lineWidth = devicePixelRatio;
  for (const curve of curves) {
    ctx.strokeStyle = colourOf(`c${curve.place % 8}`);
    for (const [n, , low, high] of curve.points) {
      if (low === null) continue;
      const x = plot.valToPos(n, "x", true);
      ctx.beginPath();
      ctx.moveTo(x, plot.valToPos(Math.max(low, least), "y", true));
      ctx.lineTo(x, plot.valToPos(high, "y", true));
      ctx.stroke();
    }
  }
  ctx.restore();
}

// What is under the pointer, or under the cursor that the arrow keys move.
function nearest(plot, curves, numenv, chart) {
  let [best, near] = ["", Infinity];
  for (const curve of curves) {
    const point = curve.points.find(([n]) => n === numenv);
    if (!point) continue;
    const apart = Math.abs(plot.valToPos(point[1], "y") - plot.cursor.top);
    if (apart < near) [best, near] = [describe(curve, point, chart), apart];
  }
  return best;
}

function scalesOf(chart, choice, curves, ceiling) {
  const shown = curves.flatMap((each) => each.points.map((point) => point[3] ?? point[1]));
  const most = Math.max(chart.top, ...shown, ceiling ? chart.limit : 0) * 1.05;
  const least = Math.min(chart.bottom, ...shown) / 1.3;
  const [first, last] = chart.numenvs;
  const across = chart.wide ? [first / 1.2, last * 1.2] : [Math.max(0, first - 0.5), last + 0.5];
  return {
    x: { time: false, distr: chart.wide ? 3 : 1, log: 2, range: () => across },
    y: { distr: choice.log ? 3 : 1, range: () => [choice.log ? least : 0, most] },
    least,
  };
}

// 1, 2 and 5 times each power of ten; only the powers if there are many.
function logSplits(low, high) {
  const powers = [];
  for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10) powers.push(power);
  const factors = powers.length > 3 ? [1] : [1, 2, 5];
  return powers.flatMap((power) => factors.map((factor) => factor * power)).filter((value) => value >= low && value <= high);
}

function axesOf(xs, log) {
  const thin = { stroke: colourOf("line"), width: 1 };
  const axis = { stroke: colourOf("ink"), grid: thin, ticks: thin, labelSize: 24 };
  const fps = (plot, splits) => splits.map((value) => (value === null ? "" : plain(value)));
  return [
    { ...axis, label: "environments per vector step", splits: () => xs, values: (plot, splits) => splits.map((n) => number(n)), space: 24 },
    {
      ...axis,
      label: "frames per second",
      size: 58,
      values: fps,
      ...(log ? { splits: (plot, axis, low, high) => logSplits(low, high) } : {}),
    },
  ];
}

function lineOf(chart, curve) {
  const { colour, dash } = lookOf(chart, curve);
  const points = { show: true, size: 7, fill: colourOf("ground") };
  return { label: curve.label, stroke: colourOf(colour), width: 2, dash, spanGaps: true, points };
}

function drawChart(box) {
  const [chart, choice] = [data.charts[Number(box.dataset.chart)], choices.get(box)];
  const curves = chart.curves.filter((each) => !choice.off.has(each.label));
  const ceiling = !choice.off.has(CEILING);
  const xs = [...new Set(chart.curves.flatMap((each) => each.points.map(([n]) => n)))].sort((a, b) => a - b);
  const series = curves.map((each) => {
    const known = new Map(each.points.map((point) => [point[0], point]));
    return xs.map((n) => known.get(n)?.[1] ?? null);
  });
  const lines = curves.map((each) => lineOf(chart, each));
  if (ceiling && chart.ceiling) {
    series.push(xs.map(() => chart.ceiling));
    lines.push({ label: CEILING, stroke: colourOf("soft"), width: 2, dash: [4, 4], points: { show: false } });
  }
  const { least, ...scales } = scalesOf(chart, choice, curves, ceiling);
  const reading = box.querySelector(".reading");
  const read = (plot) => {
    const place = plot.cursor.idx;
    if (place !== null && place !== undefined) reading.textContent = nearest(plot, curves, xs[place], chart);
  };
  box.querySelector(".uplot")?.remove();
  const holder = box.querySelector(".plot");
  choice.curves = curves;
  choice.plot = new uPlot(
    {
      width: Math.max(280, Math.min(box.clientWidth, document.documentElement.classList.contains("print") ? 640 : Infinity)),
      height: 320,
      legend: { show: false },
      cursor: {
        drag: { x: false, y: false },
        focus: { prox: 40 },
        points: { fill: (plot, index) => plot.series[index].stroke(plot, index) },
      },
      focus: { alpha: 1 },
      scales,
      axes: axesOf(xs, choice.log),
      series: [{}, ...lines],
      hooks: { draw: [(plot) => intervals(plot, curves, least)], setCursor: [read] },
    },
    [xs, ...series],
    holder,
  );
  const highest = curves.map((each) => describe(each, each.points.reduce((a, b) => (b[1] > a[1] ? b : a)), chart));
  holder.setAttribute("aria-label", `${chart.title}: frames per second by number of environments. Highest: ${highest.join("; ")}`);
}

// ---------------------------------------------------------------- what a reader can choose

function toggle(box, label, { colour, dash }) {
  const input = element("input", { type: "checkbox" });
  input.checked = true;
  input.addEventListener("change", () => {
    const { off } = choices.get(box);
    if (input.checked) off.delete(label);
    else off.add(label);
    drawChart(box);
  });
  return element("label", {}, input, element("span", { class: `swatch ${colour}${dash ? " dashed" : ""}` }), label);
}

function prepare(box) {
  const chart = data.charts[Number(box.dataset.chart)];
  const choice = { log: chart.log, off: new Set(), numenv: null, curve: 0, curves: [], plot: null };
  choices.set(box, choice);
  const bar = element("div", { class: "choices", role: "toolbar", "aria-label": `Curves of ${chart.title}` });
  for (const each of chart.curves) bar.append(toggle(box, each.label, lookOf(chart, each)));
  if (chart.ceiling) bar.append(toggle(box, CEILING, { colour: "soft", dash: [2, 5] }));
  const scale = element("button", { type: "button", "aria-pressed": choice.log }, "Logarithmic");
  scale.addEventListener("click", () => {
    choice.log = !choice.log;
    scale.setAttribute("aria-pressed", choice.log);
    drawChart(box);
  });
  bar.append(scale);
  oneStop(bar, "input, button");
  const plot = element("div", { class: "plot", tabindex: "0", role: "application", "aria-roledescription": "chart" });
  plot.addEventListener("keydown", (event) => readByKey(box, event));
  box.append(plot, element("p", { class: "reading soft", "aria-live": "polite" }, "Point at a curve, or use the arrow keys, to read its figures."), bar);
}

// Left and right move along a curve, up and down to another one, at the nearest number of environments.
function readByKey(box, event) {
  const choice = choices.get(box);
  const [along, other] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [0, 0];
  if (!(along || other) || !choice.curves.length) return;
  event.preventDefault();
  const within = (value, most) => Math.min(Math.max(value, 0), most);
  choice.curve = within(choice.curve + other, choice.curves.length - 1);
  const { points } = choice.curves[choice.curve];
  const apart = points.map(([n]) => Math.abs(n - choice.numenv));
  const place = choice.numenv === null ? 0 : within(apart.indexOf(Math.min(...apart)) + along, points.length - 1);
  const [numenv, fps] = points[place];
  choice.numenv = numenv;
  choice.plot.setCursor({ left: choice.plot.valToPos(numenv, "x"), top: choice.plot.valToPos(fps, "y") });
}

function draw() {
  for (const box of document.querySelectorAll(".chart")) if (box.clientWidth) drawChart(box);
}
