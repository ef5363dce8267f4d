// What the page does: its menus, its events, and what its other scripts share. Plain DOM; text is never
// markup. It starts when the other scripts are there.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const dialog = document.getElementById("cell");
const MOST_OPEN = 3; // sections that the menus open

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

const menus = [...document.querySelectorAll("select[data-selects]")];

// Is it about another machine or task? data-machine and data-task have a line for each of its own.
function elsewhere(each) {
  return menus.some(({ value, dataset }) => value && !(each.dataset[dataset.selects] ?? value).split("\n").includes(value));
}

function select() {
  for (const each of document.querySelectorAll("[data-task]:not(tr)")) each.hidden = elsewhere(each);
  const wholes = [...document.querySelectorAll("section[data-task]:not([hidden]) > .whole")];
  if (wholes.length <= MOST_OPEN) for (const each of wholes) each.open = true;
  for (const each of document.querySelectorAll(".chapter"))
    each.hidden = !each.querySelector(".part:not([hidden])");
  document.querySelectorAll("table").forEach(filter);
  document.getElementById("nothing").hidden = document.querySelector("section[data-task]:not([hidden])") !== null;
  draw();
}

// ---------------------------------------------------------------- print

// On paper: light colours, nothing folded, and curves that fit.
let folded = [];

function toPaper() {
  folded = [...document.querySelectorAll("details:not([open])")];
  for (const each of folded) each.open = true;
  document.documentElement.classList.add("print");
  draw();
}

function toScreen() {
  for (const each of folded) each.open = false;
  document.documentElement.classList.remove("print");
  draw();
}

// ---------------------------------------------------------------- events

document.addEventListener("click", (event) => {
  const target = event.target.closest("button");
  if (!target) return;
  if (target.classList.contains("close")) dialog.close();
  else if (target.classList.contains("sort")) sortBy(target);
  else if (target.classList.contains("copy")) copy(target);
  else if (target.dataset.notes) openNotes(target);
});

let resized = 0;

addEventListener("DOMContentLoaded", () => {
  dialog.addEventListener("close", () => history.replaceState(null, "", back || location.pathname + location.search));
  // A browser may keep the text of an earlier visit: select() filters by it.
  for (const input of document.querySelectorAll("input[data-table]"))
    input.addEventListener("input", () => filter(document.getElementById(input.dataset.table)));
  document.querySelectorAll("table").forEach(oneStopPerTable);
  document.querySelectorAll(".bars").forEach((bars) => oneStop(bars, "a.figure"));
  document.querySelectorAll(".chart").forEach(prepare);
  menus.forEach((each) => each.addEventListener("change", select));
  document.addEventListener("toggle", draw, true);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("beforeprint", toPaper);
  addEventListener("afterprint", toScreen);
  addEventListener("resize", () => {
    clearTimeout(resized);
    resized = setTimeout(draw, 100);
  });
  addEventListener("hashchange", visit);
  select();
  visit();
});
