"use strict";
// Draws what came in the last days, as the daemon remembers it.

const LINES = 6;
let past = null;
let asked = 0;

/** The sums of each line, by point. */
function lines(history, what) {
  const found = new Map();
  const add = (name, values) => {
    const sum = found.get(name) ?? values.map(() => 0);
    values.forEach((value, point) => { sum[point] += value; });
    found.set(name, sum);
  };
  if (what === "packets" || what === "bytes") {
    const zero = history.observed_seconds.map(() => 0);
    for (const action of ACTIONS) add(action, zero);
    for (const it of history.verdicts) add(it.action, it[what]);
  } else if (what === "reasons" || what === "reason-bytes") {
    const counted = what === "reasons" ? "packets" : "bytes";
    for (const it of history.verdicts) if (it.action !== "pass") add(it.action === "drop" ? it.reason : `${it.reason} (dry run)`, it[counted]);
  } else {
    for (const it of history.policies) add(it.policy, it.packets);
  }
  const all = [...found].map(([name, values]) => ({ name, values, sum: values.reduce((a, b) => a + b, 0) }));
  if (what === "packets" || what === "bytes") return all;
  return all.sort((a, b) => b.sum - a.sum).slice(0, LINES);
}

/** Offers what is watched to choose from, and answers the choice; empty for all. */
function ofWhom(history) {
  const names = [...new Set(history.levels.map((it) => it.watched))];
  const before = $("whose").value;
  const option = (value, text) => Object.assign(make("option", {}, text), { value });
  $("whose").replaceChildren(option("", "all"), ...names.map((name) => option(name, name)));
  $("whose").value = names.includes(before) ? before : "";
  return $("whose").value;
}

/** Of each limit that is watched, the part that was left, in percent. */
function levels(history) {
  const of = ofWhom(history);
  return history.levels.filter((it) => !of || it.watched === of).slice(0, LINES).map((it) => {
    const all = it.limit.burst ?? it.limit.packets ?? it.limit.bytes;
    const rates = it.left.map((left) => (left === null ? null : Math.min(100, 100 * left / all)));
    const least = it.left.filter((left) => left !== null);
    const told = least.length ? `at least ${number(Math.min(...least))}, now ${number(least.at(-1))}` : "not looked at";
    return { name: `${it.watched}, left of ${limit(it.limit)}:`, rates, told };
  });
}

/** The corners of a curve, in pieces: nothing is drawn where nobody looked. */
function pieces(rates, height, top) {
  const found = [[]];
  rates.forEach((rate, point) => {
    if (rate === null) {
      if (found.at(-1).length) found.push([]);
      return;
    }
    const [left, right] = [point, point + 1].map((it) => (it * 600 / rates.length).toFixed(2));
    const y = (height - rate / top * (height - 10)).toFixed(1);
    found.at(-1).push(`${left},${y}`, `${right},${y}`);
  });
  return found.filter((it) => it.length).map((it) => it.join(" "));
}

function drawHistory() {
  const what = $("what").value;
  // Green and red are verdicts.
  const first = { packets: 0, bytes: 0, reasons: 1, "reason-bytes": 1 }[what] ?? 3;
  const observed = past.observed_seconds;
  const rates = (values) => values.map((value, point) => (observed[point] ? value / observed[point] : null));
  const isLevel = what === "levels";
  $("of").hidden = !isLevel;
  const shown = isLevel ? levels(past) : lines(past, what).map((it) => ({ ...it, rates: rates(it.values), told: number(it.sum) }));
  const top = isLevel ? 100 : shown.reduce((most, it) => it.rates.reduce((a, b) => Math.max(a, b ?? 0), most), 1);
  const svg = drawing(600, 140);
  for (const y of [10, 65, 120]) svg.append(shape("line", { x1: 0, x2: 600, y1: y, y2: y, class: "grid" }));
  shown.forEach((it, index) => {
    for (const points of pieces(it.rates, 120, top)) svg.append(shape("polyline", { points, class: `curve s${(index + first) % 7}` }));
  });
  const [from, to] = [Date.parse(past.from), Date.parse(past.to)];
  const style = to - from > 900_000 ? { dateStyle: "short", timeStyle: "short" } : { timeStyle: "medium" };
  const key = make("div", { class: "key" }, ...shown.map((it, index) => make("span", { class: `s${(index + first) % 7}` }, `${it.name} ${it.told}`)));
  const scale = make("span", { class: "scale" }, `${isLevel ? "100 % left" : `${number(top)} a second`} at the upper line, a point each ${span(past.step_seconds)}`);
  const attacked = past.attacks.slice(-LANES).reverse().map((it) => pastAttack(it, from, to));
  const lanes = attacked.length ? [make("div", { class: "lane" }, make("span", {}, "attacks"), axis(from, to, style)), make("ul", {}, ...attacked)] : [];
  $("history").replaceChildren(scale, svg, axis(from, to, style), key, ...lanes);
  const seconds = observed.reduce((a, b) => a + b, 0);
  if (isLevel) {
    const none = past.levels.length ? "" : "Nothing was watched in that time: write watch = [\"ADDRESS\", \"policy:default\"] in [history]. ";
    $("history-note").textContent = `${none}A quota is remembered from when on the configuration names it; a point shows the least that was left in it.`;
    return;
  }
  $("history-note").textContent = seconds ? `Counted for ${span(seconds)}; the figures are sums.` : "Nothing was counted in that time.";
}

function pastAttack(it, from, to) {
  const [since, seen] = [Date.parse(it.since), Date.parse(it.seen)];
  const text = `${it.kind} ${it.subject}, ${span((seen - since) / 1000)}, at most ${number(it.packets_per_second)} packets a second`;
  return bar(text, since, seen, from, to);
}

async function askHistory() {
  asked = Date.now();
  const from = new Date(asked - Number($("range").value) * 1000).toISOString();
  try {
    const answer = await fetch(`v1/history?from=${from}`);
    const body = await answer.json();
    if (answer.ok) {
      past = body;
      drawHistory();
    } else {
      $("history").replaceChildren();
      $("history-note").textContent = body.detail;
    }
  } catch {
    $("history-note").textContent = "The daemon does not answer.";
  }
}

$("past").addEventListener("submit", (event) => event.preventDefault());
$("range").addEventListener("change", askHistory);
for (const id of ["what", "whose"]) $(id).addEventListener("change", () => (past ? drawHistory() : askHistory()));
// What is shown of an hour is new each few seconds, of a month each few minutes.
setInterval(() => {
  const pause = Math.max(2000, Number($("range").value) * 2);
  if (!document.hidden && Date.now() - asked >= pause) askHistory();
}, 1000);
askHistory();
