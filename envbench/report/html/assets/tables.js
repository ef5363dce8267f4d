// Sorts and filters tables, and moves between their figures by keyboard.
"use strict";

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

function filter(table) {
  const input = document.querySelector(`input[data-table="${table.id}"]`);
  const words = (input?.value ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const rows = [...table.tBodies[0].rows];
  for (const row of rows) {
    const text = words.length ? row.textContent.toLowerCase() : "";
    row.hidden = elsewhere(row) || !words.every((word) => text.includes(word));
  }
  const shown = rows.filter((row) => !row.hidden).length;
  document.getElementById(`${table.id}-count`).textContent = shown < rows.length ? `${shown} of ${rows.length}` : "";
  stopAt(table, table.querySelector(STOPS)); // the entry that was the stop may be hidden now
}

// ---------------------------------------------------------------- by keyboard

// A table, a list of bars and the choices of a chart are one stop of the Tab key each. The arrow keys
// move within it.
const STOPS = "button.sort, .figure";
const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

function stopAt(box, stop) {
  for (const each of box.querySelectorAll('[tabindex="0"]')) each.tabIndex = -1;
  if (stop) stop.tabIndex = 0;
}

function move(event, box, next) {
  if (!next) return;
  event.preventDefault();
  stopAt(box, next);
  next.focus();
}

function oneStop(box, stops) {
  box.querySelectorAll(stops).forEach((each, i) => (each.tabIndex = i ? -1 : 0));
  box.addEventListener("keydown", (event) => {
    const every = [...box.querySelectorAll(stops)];
    const by = MOVES[event.key]?.find(Boolean);
    if (by) move(event, box, every[every.indexOf(event.target) + by]);
  });
}

// Up and down look for the nearest entry of the next row that has one.
function besides(rows, row, column, [down, right]) {
  const columns = (cells) => [...cells].sort((a, b) => Math.abs(a.cellIndex - column) - Math.abs(b.cellIndex - column));
  if (right) {
    const cells = [...rows[row].cells];
    const ahead = right > 0 ? cells.slice(column + 1) : cells.slice(0, column).reverse();
    return ahead.map((cell) => cell.querySelector(STOPS)).find(Boolean);
  }
  for (let next = row + down; rows[next]; next += down)
    for (const cell of columns(rows[next].cells)) {
      const stop = cell.querySelector(STOPS);
      if (stop) return stop;
    }
  return undefined;
}

function oneStopPerTable(table) {
  table.querySelectorAll(STOPS).forEach((each, i) => (each.tabIndex = i ? -1 : 0));
  table.addEventListener("keydown", (event) => {
    const here = event.target.closest("th, td");
    if (!MOVES[event.key] || !here) return;
    const rows = [...table.rows].filter((row) => !row.hidden);
    move(event, table, besides(rows, rows.indexOf(here.parentElement), here.cellIndex, MOVES[event.key]));
  });
}
