"use strict";
// Draws the packet history.

const LINES = 6;
let past = null;
let asked = 0;

/** The series of a chart. */
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
    for (const it of history.verdicts) {
      if (it.action === "pass") continue;
      add(it.action === "drop" ? it.reason : `${it.reason} (dry run)`, it[counted]);
    }
  } else {
    for (const it of history.policies) add(it.policy, it.packets);
  }
  const all = [...found].map(([name, values]) =>
    ({ name, values, sum: values.reduce((a, b) => a + b, 0) }));
  if (what === "packets" || what === "bytes") return all;
  return all.sort((a, b) => b.sum - a.sum).slice(0, LINES);
}

/** Lists the watched quotas and returns the selected one; empty for all. */
function ofWhom(history) {
  const names = [...new Set(history.levels.map((it) => it.watched))];
  const before = $("whose").value;
  const option = (value, text) => Object.assign(make("option", {}, text), { value });
  $("whose").replaceChildren(option("", "all"), ...names.map((name) => option(name, name)));
  $("whose").value = names.includes(before) ? before : "";
  return $("whose").value;
}

/** The remaining part of each watched limit, in percent. */
function levels(history) {
  const of = ofWhom(history);
  return history.levels.filter((it) => !of || it.watched === of).slice(0, LINES).map((it) => {
    const all = it.limit.burst ?? it.limit.packets ?? it.limit.bytes;
    const rates = it.left.map((left) => (left === null ? null : Math.min(100, 100 * left / all)));
    const known = it.left.filter((left) => left !== null);
    const text = known.length
      ? `${number(known.at(-1))} of ${number(all)} left, minimum ${number(Math.min(...known))}`
      : "no data";
    return { name: `${it.watched}, ${limit(it.limit)}`, rates, text };
  });
}

const COUNTED = {
  packets: "packets",
  bytes: "bytes",
  reasons: "packets",
  "reason-bytes": "bytes",
  policies: "packets",
};

function drawHistory() {
  const what = $("what").value;
  // Green and red are verdicts.
  const first = { packets: 0, bytes: 0, reasons: 1, "reason-bytes": 1 }[what] ?? 3;
  const observed = past.observed_seconds;
  const rates = (values) => values.map((value, point) =>
    (observed[point] ? value / observed[point] : null));
  const isLevel = what === "levels";
  const unit = COUNTED[what];
  $("of").hidden = !isLevel;
  const shown = isLevel
    ? levels(past)
    : lines(past, what).map((it) => (
      { ...it, rates: rates(it.values), text: `${number(it.sum)} ${unit}` }));
  const top = isLevel
    ? 100
    : round(shown.reduce((most, it) => it.rates.reduce((a, b) => Math.max(a, b ?? 0), most), 0));
  const [from, to] = [Date.parse(past.from), Date.parse(past.to)];
  const width = past.step_seconds * 1000;
  const curves = shown.map(({ name, rates, text }, index) => ({
    name: VERDICTS[name] ?? name,
    style: `s${(index + first) % 7}`,
    legend: `${VERDICTS[name] ?? name}: ${text}`,
    points: rates.map((rate, point) => [from + point * width, rate]),
  }));
  plot($("curves"), { curves, from, to, width, top, unit: isLevel ? "% left" : `${unit}/s` });
  const attacked = past.attacks.slice(-LANES).reverse().map((it) => pastAttack(it, from, to));
  const lanes = attacked.length
    ? [
      make("div", { class: "lane" }, make("span", {}, "attacks"), axis(from, to)),
      make("ul", {}, ...attacked),
    ]
    : [];
  $("past-attacks").replaceChildren(...lanes);
  const seconds = observed.reduce((a, b) => a + b, 0);
  const notes = [`resolution ${span(past.step_seconds)}`];
  if (isLevel && !past.levels.length) {
    notes.push("no quotas recorded: add watch = [\"ADDRESS\", \"policy:default\"] to [history]");
  }
  if (!isLevel) notes.push(seconds ? `totals of ${span(seconds)}` : "no data");
  $("history-note").textContent = notes.join(", ");
}

function pastAttack(it, from, to) {
  const [since, seen] = [Date.parse(it.since), Date.parse(it.seen)];
  const text = `${it.kind} ${it.subject}, ${span((seen - since) / 1000)}, `
    + `up to ${number(it.packets_per_second)} packets/s`;
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
      $("curves").replaceChildren();
      $("history-note").textContent = body.detail;
    }
  } catch {
    $("history-note").textContent = "The daemon does not respond.";
  }
}

$("past").addEventListener("submit", (event) => event.preventDefault());
$("range").addEventListener("change", askHistory);
for (const id of ["what", "whose"]) {
  $(id).addEventListener("change", () => (past ? drawHistory() : askHistory()));
}
// Short ranges are refreshed every few seconds, a month every few minutes.
setInterval(() => {
  const pause = Math.max(2000, Number($("range").value) * 2);
  if (!document.hidden && Date.now() - asked >= pause) askHistory();
}, 1000);
askHistory();
