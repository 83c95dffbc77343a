"use strict";
// Looks again, draws plots, and writes the reader's own time. No markup is ever made of text: nodes are moved.
(() => {
  const FIRST = 5000, LONGEST = 60000, PATIENCE = 30 * 60000;
  let wait = FIRST, timer = 0, asking = false, touched = Date.now(), plots = [];

  const twoDigits = (number) => String(number).padStart(2, "0");

  function showTimes(root) {
    const today = new Date().toDateString();
    for (const time of root.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      if (time.title || Number.isNaN(at.getTime())) continue;
      const clock = [at.getHours(), at.getMinutes(), at.getSeconds()].map(twoDigits).join(":");
      const day = [at.getFullYear(), at.getMonth() + 1, at.getDate()].map(twoDigits).join("-");
      time.title = time.textContent;
      const short = at.toDateString() === today ? clock : day + " " + clock;
      // Once on a page in full; elsewhere the other form is shown on demand.
      time.textContent = time.closest("#asof") ? clock + " here, " + time.title.slice(11) : short;
    }
  }

  function readTable(table, columns) {
    const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    const places = columns ? columns.split(" ").map(Number) : [...names.keys()].slice(1);
    const moment = (row) => new Date(row.querySelector("time").dateTime).getTime() / 1000;
    // A list begins with the newest.
    const rows = [...table.tBodies[0].rows].sort((one, other) => moment(one) - moment(other));
    const number = (text) => { const found = Number(text.replaceAll(",", "")); return Number.isNaN(found) ? null : found; };
    const lines = places.map((place) => rows.map((row) => number(row.cells[place].textContent)));
    return { heads: places.map((place) => names[place]), data: [rows.map(moment), ...lines] };
  }

  function drawPlots() {
    for (const plot of plots) plot.destroy();
    plots = [];
    if (typeof uPlot === "undefined") return;
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    for (const place of document.querySelectorAll(".plot")) {
      const table = document.getElementById(place.dataset.table);
      if (!table || table.tBodies[0].rows.length < 2) continue;
      const { heads, data } = readTable(table, place.dataset.columns);
      const hours = (seconds) => { const at = new Date(seconds * 1000); return [at.getHours(), at.getMinutes(), at.getSeconds()].map(twoDigits).join(":"); };
      const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
      const paths = place.dataset.steps ? uPlot.paths.stepped({ align: 1 }) : undefined;
      const series = heads.map((label, number) => ({ label, paths, stroke: colour("--plot-" + (number % 5 + 1)), width: 2, points: { show: false } }));
      const options = {
        width: Math.max(200, place.clientWidth), height: 180, cursor: { drag: { x: false, y: false } },
        scales: { y: { range: (_, low, high) => [Math.min(0, low), Math.max(1, high)] } },
        axes: [{ ...axis, space: 90, values: (_, ticks) => ticks.map(hours) }, { ...axis, size: 60 }],
        legend: { live: false }, series: [{}, ...series],
      };
      plots.push(new uPlot(options, data, place));
    }
  }

  function keepOpen(before, after) {
    for (const details of before.querySelectorAll("details[id][open]")) {
      const same = after.querySelector("#" + CSS.escape(details.id));
      if (same) same.open = true;
    }
  }

  function takeOver(found) {
    const old = document.getElementById("moving"), fresh = found.getElementById("moving");
    if (!fresh) return;
    const focus = document.activeElement, address = focus && old.contains(focus) ? focus.getAttribute("href") : null;
    const scrolls = [...old.querySelectorAll(".box")].map((box) => box.scrollLeft);
    keepOpen(old, fresh);
    old.replaceChildren(...document.adoptNode(fresh).childNodes);
    old.dataset.version = fresh.dataset.version;
    [...old.querySelectorAll(".box")].forEach((box, place) => { box.scrollLeft = scrolls[place] || 0; });
    if (address) [...old.querySelectorAll("a")].find((one) => one.getAttribute("href") === address)?.focus({ preventScroll: true });
    for (const id of ["cost", "asof"]) {
      const from = found.getElementById(id), to = document.getElementById(id);
      if (from && to) to.replaceChildren(...document.adoptNode(from).childNodes);
    }
    showTimes(document);
    drawPlots();
  }

  function schedule() {
    clearTimeout(timer);
    if (document.hidden || asking || Date.now() - touched > PATIENCE) return;
    timer = setTimeout(look, wait);
  }

  function look() {
    const moving = document.getElementById("moving"), address = new URL(location.href);
    address.searchParams.set("part", "1");
    const request = new XMLHttpRequest();
    asking = true;
    request.open("GET", address);
    request.responseType = "document";
    request.setRequestHeader("If-None-Match", '"' + moving.dataset.version + '"');
    request.onloadend = () => {
      asking = false;
      const hasMoved = request.status === 200 && request.response;
      wait = hasMoved ? FIRST : Math.min(LONGEST, wait * 2);
      if (hasMoved) takeOver(request.response);
      schedule();
    };
    request.send();
  }

  function wake() {
    const slept = Date.now() - touched > PATIENCE;
    touched = Date.now();
    if (slept) { wait = FIRST; schedule(); }
  }

  showTimes(document);
  drawPlots();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawPlots);
  let resized = 0;
  addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(drawPlots, 150); });
  if (document.getElementById("moving")?.dataset.version) {
    for (const kind of ["keydown", "pointerdown", "pointermove"]) addEventListener(kind, wake, { passive: true });
    document.addEventListener("visibilitychange", () => { wait = FIRST; schedule(); });
    schedule();
  }
})();
