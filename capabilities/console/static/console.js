"use strict";
// Looks again, says whether the page is alive, draws plots, and writes the reader's own time. No markup is ever made of
// text: nodes are moved.
(() => {
  const FIRST = 5000, LONGEST = 60000, PATIENCE = 30 * 60000, SLOW = 5000, GIVES_UP = 30000;
  let wait = FIRST, timer = 0, asking = 0, touched = Date.now(), plots = [];
  // How it stands: since when, and when the last answer came.
  let standing = "live", since = Date.now(), answered = Date.now();

  const twoDigits = (number) => String(number).padStart(2, "0");
  const clock = (moment) => { const at = new Date(moment); return [at.getHours(), at.getMinutes(), at.getSeconds()].map(twoDigits).join(":"); };

  function showTimes(root) {
    const today = new Date().toDateString();
    for (const time of root.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      if (time.title || Number.isNaN(at.getTime())) continue;
      const day = [at.getFullYear(), at.getMonth() + 1, at.getDate()].map(twoDigits).join("-");
      time.title = time.textContent;
      const short = at.toDateString() === today ? clock(at) : day + " " + clock(at);
      // Once on a page in full; elsewhere the other form is shown on demand.
      time.textContent = time.closest("#asof") ? clock(at) + " here, " + time.title.slice(11) : short;
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
      const hours = (seconds) => clock(seconds * 1000);
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

  // The rows that are shown are sorted by a button in each head. The address keeps how.
  const labelOf = (table) => table.closest(".box").getAttribute("aria-label") || "";
  function valueOf(cell) {
    const time = cell && cell.querySelector("time[datetime]");
    if (time) return new Date(time.dateTime).getTime();
    const text = cell ? cell.textContent.trim() : "", number = Number(text.split(/\s/)[0].replaceAll(",", ""));
    return text && !Number.isNaN(number) ? number : text;
  }
  function compare(one, other) {
    if (typeof one === typeof other) return one < other ? -1 : one > other ? 1 : 0;
    return typeof one === "number" ? -1 : 1;
  }
  function sortTables() {
    const wanted = new URLSearchParams(location.hash.slice(1)).get("sort") || "";
    for (const table of document.querySelectorAll("#moving .box table")) {
      if (!table.tHead || !table.tBodies.length || table.tBodies[0].rows.length < 2) continue;
      [...table.tHead.rows[0].cells].forEach((head, place) => {
        const key = labelOf(table) + "|" + place;
        if (!head.querySelector("button")) {
          const button = document.createElement("button");
          button.type = "button"; button.className = "sort"; button.dataset.sort = key;
          button.append(...head.childNodes);
          head.append(button);
        }
        head.removeAttribute("aria-sort");
        if (wanted !== key + "|1" && wanted !== key + "|-1") return;
        const way = Number(wanted.slice(key.length + 1)), body = table.tBodies[0];
        head.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
        body.append(...[...body.rows].sort((one, other) => way * compare(valueOf(one.cells[place]), valueOf(other.cells[place]))));
      });
    }
  }
  function chooseSort(button) {
    const way = button.parentNode.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    history.replaceState(null, "", "#" + new URLSearchParams({ sort: button.dataset.sort + "|" + way }));
    sortTables();
  }

  // A part of the strip: the same shapes, seen nearer.
  const WHOLE = 1000, LEAST = 10;
  let part = [0, WHOLE], dragged = null;
  const strip = () => document.getElementById("strip");
  function showPart() {
    const place = strip(), control = document.getElementById("part");
    if (!place) return;
    control.hidden = false;
    const [from, to] = part, since = Date.parse(place.dataset.since), length = Date.parse(place.dataset.until) - since;
    const at = (share) => new Date(since + length * share / WHOLE).toISOString().slice(11, 16);
    for (const lane of place.querySelectorAll("svg.lane")) lane.setAttribute("viewBox", [from, 0, to - from, lane.viewBox.baseVal.height].join(" "));
    const times = [...place.querySelectorAll(".axis span")], isWhole = to - from >= WHOLE;
    times.forEach((time, number) => {
      time.dataset.whole = time.dataset.whole || time.textContent;
      time.textContent = isWhole ? time.dataset.whole : at(from + (to - from) * number / (times.length - 1));
    });
    control.querySelector("[role=status]").textContent = isWhole ? "" : "from " + at(from) + " to " + at(to) + " UTC";
  }
  function choosePart(from, to) {
    const width = Math.min(WHOLE, Math.max(LEAST, to - from)), first = Math.min(WHOLE - width, Math.max(0, from));
    part = [first, first + width];
    showPart();
  }
  function movePart(act) {
    const [from, to] = part, width = to - from, middle = (from + to) / 2;
    if (act === "all") choosePart(0, WHOLE);
    else if (act === "nearer") choosePart(middle - width / 4, middle + width / 4);
    else if (act === "wider") choosePart(middle - width, middle + width);
    else choosePart(from + (act === "later" ? width : -width) / 2, to + (act === "later" ? width : -width) / 2);
  }
  function dragPart(event) {
    const box = strip().getBoundingClientRect(), left = Math.min(dragged.x, event.clientX), right = Math.max(dragged.x, event.clientX);
    dragged.mark.style.left = left - box.left + "px";
    dragged.mark.style.width = right - left + "px";
    return [left, right].map((x) => part[0] + (part[1] - part[0]) * Math.min(1, Math.max(0, (x - box.left) / box.width)));
  }
  document.addEventListener("pointerdown", (event) => {
    if (!event.target.closest("#strip") || event.button) return;
    dragged = { x: event.clientX, mark: document.createElement("div") };
    dragged.mark.className = "chosen";
    strip().append(dragged.mark);
  });
  document.addEventListener("pointermove", (event) => { if (dragged && strip()) dragPart(event); });
  document.addEventListener("pointerup", (event) => {
    if (!dragged) return;
    const chosen = strip() ? dragPart(event) : null, isDrag = Math.abs(event.clientX - dragged.x) > 8;
    dragged.mark.remove();
    dragged = null;
    if (chosen && isDrag) choosePart(...chosen);
  });
  document.addEventListener("pointercancel", () => { if (dragged) dragged.mark.remove(); dragged = null; });
  document.addEventListener("dblclick", (event) => { if (event.target.closest("#strip")) movePart("all"); });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button && button.dataset.sort) chooseSort(button);
    else if (button && button.dataset.act && button.closest("#part")) movePart(button.dataset.act);
  });

  function keepOpen(before, after) {
    for (const details of before.querySelectorAll("details[id][open]")) {
      const same = after.querySelector("#" + CSS.escape(details.id));
      if (same) same.open = true;
    }
  }

  function takeOver(found) {
    const old = document.getElementById("moving"), fresh = found.getElementById("moving");
    if (!fresh) return;
    // Another version of the console answers: its pages may not fit this script.
    if (fresh.dataset.build !== old.dataset.build) { location.reload(); return; }
    const focus = document.activeElement, address = focus && old.contains(focus) ? focus.getAttribute("href") : null;
    const key = focus && focus.dataset ? focus.dataset.sort || focus.dataset.act : null;
    const scrolls = [...old.querySelectorAll(".box")].map((box) => box.scrollLeft);
    keepOpen(old, fresh);
    old.replaceChildren(...document.adoptNode(fresh).childNodes);
    old.dataset.version = fresh.dataset.version;
    old.dataset.longest = fresh.dataset.longest || "";
    // Nothing is left to act on.
    if (old.querySelector("[data-over]")) document.getElementById("acts")?.remove();
    [...old.querySelectorAll(".box")].forEach((box, place) => { box.scrollLeft = scrolls[place] || 0; });
    if (address) [...old.querySelectorAll("a")].find((one) => one.getAttribute("href") === address)?.focus({ preventScroll: true });
    for (const id of ["cost", "asof"]) {
      const from = found.getElementById(id), to = document.getElementById(id);
      if (from && to) to.replaceChildren(...document.adoptNode(from).childNodes);
    }
    showTimes(document);
    drawPlots();
    sortTables();
    showPart();
    if (key) [...old.querySelectorAll("button")].find((one) => one.dataset.sort === key || one.dataset.act === key)?.focus({ preventScroll: true });
  }

  const moving = () => document.getElementById("moving");
  // While work goes on, the server says a shorter time.
  const longest = () => Number(moving().dataset.longest) * 1000 || LONGEST;
  const isIdle = () => Date.now() - touched > PATIENCE;
  // Only a server on this machine is asked whether it is there: that costs nothing.
  const heart = document.body.dataset.alive;

  function describe() {
    const seen = "; what you see is of " + clock(answered), from = " since " + clock(since);
    switch (standing) {
      case "gone": return "this console does not answer" + from + seen;
      case "storage": return (heart ? "storage does not answer" : "storage or the app does not answer") + from + seen;
      case "session": return "you are not let in any more" + from + (heart ? ": press Enter in the terminal of sluice web, and open its address" : ": load the page again") + seen;
      case "failed": return "this page cannot be made" + from + seen;
      case "stopped": return "stopped looking" + from + ": press a key to go on";
      default: return asking && Date.now() - asking > SLOW ? "waiting for an answer" : "live";
    }
  }

  function showStanding() {
    const line = document.getElementById("standing"), grave = document.querySelectorAll("#moving .alerts .bad").length;
    const said = line.querySelector("[role=status]"), words = describe();
    // Apart, so that a number is read aloud when it changes, and not with each other word.
    const alarms = line.querySelector(".alarms"), needs = grave ? grave + (grave === 1 ? " needs you" : " need you") : "";
    const isGood = standing === "live";
    line.hidden = false;
    line.dataset.standing = document.body.dataset.standing = isGood && words.startsWith("waiting") ? "slow" : standing;
    // Written only if it is news: it is read aloud.
    if (said.textContent !== words) said.textContent = words;
    if (alarms.textContent !== needs) alarms.textContent = needs;
    const seconds = Math.max(0, Math.round((Date.now() - answered) / 1000));
    line.querySelector(".ago").textContent = isGood ? "last answer " + (seconds < 120 ? seconds + " s" : Math.floor(seconds / 60) + " min") + " ago" : "";
    line.querySelector("button").hidden = isGood;
    const title = (isGood ? (grave ? "(" + grave + ") " : "") : "(!) ") + document.documentElement.dataset.title;
    if (document.title !== title) document.title = title;
  }

  function stand(how) {
    if (standing !== how) { standing = how; since = Date.now(); }
    if (how === "live") answered = Date.now();
    showStanding();
  }

  function judge(status) {
    if (status === 200 || status === 304 || status === 204) return "live";
    if (status === 401 || status === 403 || status === 421) return "session";
    return status === 503 ? "storage" : status === 0 ? "gone" : "failed";
  }

  function schedule() {
    clearTimeout(timer);
    if (document.hidden || asking || !moving().dataset.version) return;
    if (isIdle()) stand("stopped");
    else timer = setTimeout(look, wait);
  }

  function send(method, address, type, then) {
    const request = new XMLHttpRequest();
    request.open(method, address);
    request.responseType = type;
    request.timeout = GIVES_UP;
    if (type) request.setRequestHeader("If-None-Match", '"' + moving().dataset.version + '"');
    request.onloadend = () => then(request);
    request.send();
  }

  function look() {
    if (!moving().dataset.version) { location.reload(); return; }
    if (asking) return;
    clearTimeout(timer);
    const address = new URL(location.href);
    address.searchParams.set("part", "1");
    asking = Date.now();
    send("GET", address, "document", (request) => {
      asking = 0;
      const hasMoved = request.status === 200 && request.response;
      wait = hasMoved ? FIRST : Math.min(longest(), wait * 2);
      if (hasMoved) takeOver(request.response);
      stand(judge(request.status));
      schedule();
    });
  }

  function beat() {
    if (document.hidden || isIdle() || asking) return;
    send("HEAD", heart, "", (request) => {
      const found = judge(request.status), isBack = standing === "gone" || standing === "session";
      if (found !== "live") stand(found);
      else if (isBack && moving().dataset.version) look();
      else if (isBack) stand("live");
    });
  }

  function wake() {
    const slept = isIdle();
    touched = Date.now();
    if (slept) { wait = FIRST; if (standing === "stopped") stand("live"); schedule(); }
  }

  showTimes(document);
  drawPlots();
  sortTables();
  showPart();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawPlots);
  let resized = 0;
  addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(drawPlots, 150); });
  document.documentElement.dataset.title = document.title;
  if (moving().dataset.version || heart) {
    for (const kind of ["keydown", "pointerdown", "pointermove"]) addEventListener(kind, wake, { passive: true });
    document.addEventListener("visibilitychange", () => {
      wait = FIRST;
      if (!document.hidden && moving().dataset.version && Date.now() - answered > LONGEST && !isIdle()) look();
      else schedule();
    });
    document.querySelector("#standing button").addEventListener("click", () => { if (standing === "session") location.reload(); else look(); });
    showStanding();
    setInterval(showStanding, 1000);
    if (heart) setInterval(beat, FIRST);
    schedule();
  }
})();
