"use strict";
// Draws the live data of the daemon.

const SECONDS_MAX = 900;
const $ = (id) => document.getElementById(id);
const ACTIONS = ["pass", "drop", "observe"];
/** The words for verdicts. */
const VERDICTS = { pass: "passed", drop: "dropped", observe: "would drop" };

/** An element with text or children. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.filter((it) => it !== null && it !== undefined));
  return element;
}

function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  for (const [size, unit] of [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e4, " k"]]) {
    if (value >= size) return `${Number((value / (unit === " k" ? 1e3 : size)).toFixed(1))}${unit}`;
  }
  if (value > 0 && value < 1) return String(Number(value.toPrecision(2)));
  return String(Number(value.toFixed(1)));
}

function span(seconds) {
  const all = Math.max(0, Math.round(seconds));
  const parts = [[Math.floor(all / 86400), "d"], [Math.floor(all / 3600) % 24, "h"],
    [Math.floor(all / 60) % 60, "m"], [all % 60, "s"]];
  const first = parts.findIndex(([count]) => count > 0);
  return first < 0 ? "0s" : parts.slice(first, first + 2).filter(([count]) => count > 0)
    .map(([count, unit]) => count + unit).join(" ");
}

const two = (value) => String(value).padStart(2, "0");

/** A time of the browser's zone, as short as the period `seconds` around it allows. */
function clock(at, seconds = 0) {
  const it = new Date(at);
  const minutes = `${two(it.getHours())}:${two(it.getMinutes())}`;
  if (seconds <= 900) return `${minutes}:${two(it.getSeconds())}`;
  return seconds <= 3600 ? minutes : `${two(it.getMonth() + 1)}-${two(it.getDate())} ${minutes}`;
}

/** The time of an event, with the date unless it is today. */
function moment(at) {
  return clock(at, new Date(at).toDateString() === new Date().toDateString() ? 3600 : 86400);
}

function time(at, text) {
  return make("time", { datetime: new Date(at).toISOString() }, text);
}

/** The time zone of all times on the page: `UTC+1`. */
function zone() {
  const minutes = -new Date().getTimezoneOffset();
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  if (minutes === 0) return "UTC";
  return `UTC${minutes < 0 ? "-" : "+"}${hours}${rest ? `:${two(rest)}` : ""}`;
}

/** The labels of a time axis. */
function axis(from, to) {
  const seconds = (to - from) / 1000;
  return make("div", { class: "axis" },
    ...[from, (from + to) / 2, to].map((at) => time(at, clock(at, seconds))));
}

/** The smallest round number that is not below `value`, for the top of an axis. */
function round(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 6, 8, 10].map((it) => it * power).find((it) => it >= value * 0.9999);
}

/**
 * Draws curves with labelled axes; the pointer shows the values at its time.
 *
 * A curve has a name, a class, the text of its legend and points `[time, value]`; a value of null
 * leaves a gap.
 * `width` is the time that a point covers, 0 for a moment.
 */
function plot(place, { curves, from, to, unit, top, width = 0 }) {
  const x = (at) => (600 * (at - from) / (to - from)).toFixed(1);
  const y = (value) => (100 - value / top * 100).toFixed(1);
  const svg = drawing(600, 100);
  for (const it of [0, 50, 100]) {
    svg.append(shape("line", { x1: 0, x2: 600, y1: it, y2: it, class: "grid" }));
  }
  for (const { points, style } of curves) {
    for (const piece of pieces(points)) {
      const corners = piece.flatMap(([at, value]) =>
        (width ? [[at, value], [at + width, value]] : [[at, value]]));
      const line = corners.map(([at, value]) => `${x(at)},${y(value)}`).join(" ");
      svg.append(shape("polyline", { points: line, class: `curve ${style}` }));
    }
  }
  const labels = [top, top / 2, 0].map((it) => make("span", {}, number(it)));
  const area = make("div", { class: "area" }, svg);
  const legend = make("div", { class: "key" },
    ...curves.map((it) => make("span", { class: it.style }, it.legend)));
  place.replaceChildren(make("div", { class: "scale" }, unit),
    make("div", { class: "plot" }, make("div", { class: "scale labels" }, ...labels), area),
    axis(from, to), legend);
  const show = () => {
    area.querySelectorAll(".cursor, .values").forEach((it) => it.remove());
    if (place.pointer === undefined) return;
    const at = from + place.pointer * (to - from);
    const nearest = ({ points }) => points.reduce((best, it) =>
      (Math.abs(it[0] + width / 2 - at) < Math.abs((best?.[0] ?? Infinity) + width / 2 - at)
        ? it : best), null);
    const rows = curves.map((it) =>
      make("div", { class: it.style }, `${it.name}: ${number(nearest(it)?.[1])}`));
    const values = make("div", { class: "values" },
      make("div", {}, `${clock(at, (to - from) / 1000)}, ${unit}`),
      ...rows);
    const cursor = make("div", { class: "cursor" });
    const side = place.pointer < 0.5 ? "left" : "right";
    cursor.style.left = `${place.pointer * 100}%`;
    values.style[side] = `${(side === "left" ? place.pointer : 1 - place.pointer) * 100 + 1}%`;
    area.append(cursor, values);
  };
  place.onpointermove = (event) => {
    const box = area.getBoundingClientRect();
    const part = (event.clientX - box.left) / box.width;
    place.pointer = part >= 0 && part <= 1 && event.clientY <= box.bottom ? part : undefined;
    show();
  };
  place.onpointerleave = () => {
    place.pointer = undefined;
    show();
  };
  show();
}

/** The points without gaps. */
function pieces(points) {
  const found = [[]];
  for (const point of points) {
    if (point[1] !== null) found.at(-1).push(point);
    else if (found.at(-1).length) found.push([]);
  }
  return found.filter((it) => it.length);
}

/** A row of a timeline: a text and a bar from begin to end. */
function bar(text, since, seen, from, to) {
  const place = (at) => Math.min(600, Math.max(0, 600 * (at - from) / (to - from)));
  const begin = Math.min(place(since), 598);
  const svg = drawing(600, 8, "bar");
  svg.append(shape("rect", { x: begin, y: 1, width: Math.max(2, place(seen) - begin), height: 6 }));
  return make("li", { class: "lane" }, make("span", {}, text), svg);
}

/** A live chart: `add` takes a value for each name, once a second. */
class Chart {
  constructor(id, unit, names = [], first = 0, range = "live-range", seconds = SECONDS_MAX) {
    this.first = first;
    this.unit = unit;
    this.range = range;
    this.seconds = seconds;
    this.at = null;
    this.place = $(id);
    this.series = new Map(names.map((name) => [name, []]));
  }
  add(at, values) {
    for (const name of Object.keys(values)) if (!this.series.has(name)) this.series.set(name, []);
    for (const [name, points] of this.series) {
      points.push([at, values[name] ?? 0]);
      while (points.length && points[0][0] < at - this.seconds * 1000) points.shift();
    }
    this.at = at;
    this.draw();
  }
  clear() {
    this.at = null;
    this.series.clear();
    this.place.replaceChildren();
  }
  draw(lines = 4) {
    if (this.at === null) return;
    const now = this.at;
    const seconds = Number($(this.range).value);
    const height = (points) => Math.max(...points.map((it) => it[1]), 0);
    let shown = [...this.series].map(([name, points]) =>
      [name, points.filter(([at]) => at >= now - seconds * 1000)]);
    if (shown.length > lines) {
      shown = shown.sort((a, b) => height(b[1]) - height(a[1])).slice(0, lines);
    }
    const percent = this.unit === "% left";
    const curves = shown.map(([name, points], index) => {
      const last = points.at(-1)?.[1];
      const value = percent ? this.texts?.get(name) ?? "–" : number(last);
      const label = VERDICTS[name] ?? name;
      return { name: label, points, style: `s${index + this.first}`, legend: `${label}: ${value}` };
    });
    const top = percent ? 100 : round(Math.max(...shown.map(([, points]) => height(points)), 0));
    plot(this.place, { curves, from: now - seconds * 1000, to: now, unit: this.unit, top });
  }
}

function drawing(width, height, kind = "curves") {
  return shape("svg", {
    viewBox: `0 0 ${width} ${height}`,
    preserveAspectRatio: "none",
    "aria-hidden": true,
    class: kind,
  });
}

function shape(tag, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

const charts = {
  packets: new Chart("packets", "packets/s", ACTIONS),
  bytes: new Chart("bytes", "bytes/s", ACTIONS),
  reasons: new Chart("reasons", "packets/s", [], 1),
  reasonBytes: new Chart("reason-bytes", "bytes/s", [], 1),
  quota: new Chart("quota", "% left", [], 3, "quota-range", 3600),
};
let before = null;
let bans = { text: "", count: 0, bans: [] };
let wanted = "";
let access = "read";
let refused = new Map();
let refusedAt = 0;
let chosen = "";
let quotas = null;
const attacks = new Map();
/** Attacks kept for the timeline; the daemon reports at most 256 at a time. */
const ATTACKS_MAX = 256;
/** Rows of the table of sources; `rlctl top` shows more. */
const TOP_ROWS = 20;
/** Attacks drawn in the timeline. */
const LANES = 20;

function onStats({ at: seen, rows }) {
  const at = Date.parse(seen);
  const sums = {
    at, packets: {}, bytes: {}, reasons: {}, reasonBytes: {},
    challenge: { challenged: 0, verified: 0 },
  };
  for (const row of rows ?? []) {
    sums.packets[row.action] = (sums.packets[row.action] ?? 0) + row.packets;
    sums.bytes[row.action] = (sums.bytes[row.action] ?? 0) + row.bytes;
    if (row.reason in sums.challenge) sums.challenge[row.reason] += row.packets;
    if (row.action === "pass") continue;
    sums.reasons[row.reason] = (sums.reasons[row.reason] ?? 0) + row.packets;
    sums.reasonBytes[row.reason] = (sums.reasonBytes[row.reason] ?? 0) + row.bytes;
  }
  // A new stream starts with the last sample of the previous one.
  if (before && at <= before.at) return;
  if (before) {
    const seconds = (at - before.at) / 1000;
    const rates = (what) => Object.fromEntries(Object.entries(sums[what])
      .map(([name, value]) => [name, Math.max(0, value - (before[what][name] ?? 0)) / seconds]));
    const packets = rates("packets");
    charts.packets.add(at, packets);
    charts.bytes.add(at, rates("bytes"));
    for (const what of ["reasons", "reasonBytes"]) {
      const met = Object.entries(rates(what))
        .filter(([name, rate]) => rate > 0 || charts[what].series.has(name));
      charts[what].add(at, Object.fromEntries(met));
    }
    if (quotas) charts.quota.add(at, quotas);
    for (const [name, rate] of Object.entries(rates("challenge"))) {
      $(`now-${name}`).textContent = `${number(rate)}/s`;
    }
    for (const action of ACTIONS) {
      $(`now-${action}`).textContent = `${number(packets[action] ?? 0)}/s`;
    }
  }
  before = sums;
}

function onStatus(status) {
  $("version").textContent =
    `${status.version}, up ${span((Date.now() - Date.parse(status.started)) / 1000)}`;
  $("zone").textContent = `times in ${zone()}`;
  $("now-bans").textContent = number(status.bans);
  $("now-attacks").textContent = number(status.attacks.length);
  for (const it of document.querySelectorAll(".challenge")) it.hidden = !status.challenge;
  const isChallenging = status.challenge?.is_on || status.challenge?.dns?.is_on;
  $("challenge").textContent = isChallenging ? "on" : "off";
  const problems = [];
  if (status.pass_all) {
    problems.push(`pass-all is on (${status.pass_all.by}): limits and bans are not enforced`);
  }
  if (status.observe) problems.push("dry run: nothing is dropped");
  if (status.config_error) problems.push(`last reload failed: ${status.config_error}`);
  for (const it of status.interfaces) {
    if (!it.attached) problems.push(`${it.name} is not protected: ${it.why ?? "not attached"}`);
  }
  for (const it of status.troubles ?? []) problems.push(`${it.what}: ${it.error}`);
  $("problems").replaceChildren(...problems.map((text) => make("li", { class: "problem" }, text)));
  $("interfaces").replaceChildren(...status.interfaces.filter((it) => it.attached)
    .map((it) => make("li", { class: "well" },
      `${it.name}: attached, ${it.mode}${it.remark ? ` (${it.remark})` : ""}`)));
  const maps = status.maps.filter((it) => it.entries !== null && it.entries !== undefined);
  const meter = (it) => make("meter", {
    min: 0, max: it.capacity, high: it.capacity * 0.9, value: it.entries, "aria-label": it.name,
  });
  $("maps").replaceChildren(...maps.map((it) =>
    make("li", {}, it.name, make("span", {}, meter(it),
      ` ${number(it.entries)} / ${number(it.capacity)}`))));
  onAttacks(status.attacks);
  $("cluster").hidden = !status.cluster;
  if (status.cluster) {
    const { node, url, connected, error, nodes } = status.cluster;
    $("cluster-note").textContent =
      `${node} at ${url}: ${connected ? "connected" : error ?? "not connected"}`;
    $("nodes").replaceChildren(...nodes.map((it) => make("tr", {}, make("td", {}, it.name),
      make("td", {}, it.state), make("td", { class: "number" }, number(it.bans)))));
  }
}

/** Draws a timeline of attacks. */
function onAttacks(now) {
  const at = Date.now();
  for (const it of now) attacks.set(`${it.kind} ${it.subject} ${it.since}`, { ...it, seen: at });
  for (const key of [...attacks.keys()].slice(0, -ATTACKS_MAX)) attacks.delete(key);
  const all = [...attacks.values()];
  $("attacks").replaceChildren(...(now.length ? now : [null]).map((it) => it === null
    ? make("li", { class: "well" }, "no attacks")
    : make("li", { class: "problem" },
      `${it.kind} ${it.subject} for ${span((at - Date.parse(it.since)) / 1000)}, `
        + `up to ${number(it.packets_per_second)} packets/s from ${number(it.sources)} sources`)));
  if (!all.length) return $("timeline").replaceChildren();
  const since = (it) => Date.parse(it.since);
  const first = Math.min(...all.map(since), at - SECONDS_MAX * 1000);
  // Latest first, like all lists of this page.
  all.sort((a, b) => since(b) - since(a));
  const named = (it) => `${it.kind} ${it.subject}, ${span((it.seen - since(it)) / 1000)}`;
  const lanes = all.slice(0, LANES)
    .map((it) => bar(named(it), since(it), it.seen, first, at));
  const more = all.length > LANES
    ? make("p", {}, `${all.length - LANES} earlier attacks: see History`)
    : null;
  $("timeline").replaceChildren(
    make("div", { class: "lane" }, make("span"), axis(first, at)),
    make("ul", {}, ...lanes),
    ...(more ? [more] : []));
}

function sends(it) {
  if (!it) return "";
  const port = it.from_port ? ` from ${it.from_port}` : it.to_port ? ` to ${it.to_port}` : "";
  return `${it.class}${port}, ${number(it.packets_per_second)}/s`;
}

function onTop({ at: seen, sources }) {
  const at = Date.parse(seen);
  if (at <= refusedAt) return;
  const rows = (sources ?? []).map((it) => {
    const last = refused.get(it.source);
    const rate = last === undefined
      ? null
      : Math.max(0, it.refused_packets - last) / ((at - refusedAt) / 1000);
    const choose = make("button", { type: "button" }, it.source);
    choose.addEventListener("click", () => follow(it.source.split("/")[0]));
    const wait = it.limit?.room_in_seconds > 0
      ? `, next packet in ${span(Math.max(1, it.limit.room_in_seconds))}`
      : "";
    const used = it.limit ? number(it.limit.used) + wait : "";
    return make("tr", {}, make("td", {}, choose), make("td", { class: "minor" }, it.policy),
      make("td", { class: "minor" }, sends(it.sending)),
      make("td", { class: "minor" }, it.limit ? limit(it.limit.limit) : "none"),
      make("td", {}, used),
      make("td", { class: "number" }, number(rate)),
      make("td", { class: "number" }, number(it.refused_packets)),
      make("td", {}, it.ban ? left(it.ban) : ""));
  });
  refused = new Map((sources ?? []).map((it) => [it.source, it.refused_packets]));
  refusedAt = at;
  const focused = document.activeElement?.closest("#top tr")?.rowIndex;
  $("top").replaceChildren(...rows.slice(0, TOP_ROWS));
  if (focused) $("top").rows[focused - 1]?.querySelector("button").focus();
}

/** A limit in words: `50 packets per 1s of icmp`. */
function limit({ packets, bytes, per, algorithm, match }) {
  const amount = packets !== undefined ? `${packets} packets` : `${bytes} bytes`;
  const kind = algorithm === "fixed-window" ? "" : `, ${algorithm}`;
  return `${amount} per ${per}${match ? ` of ${match}` : ""}${kind}`;
}

function left(ban) {
  return ban.until ? span((Date.parse(ban.until) - Date.now()) / 1000) : "never";
}

function drawBans() {
  if (bans.text !== wanted) {
    $("bans-note").textContent = "searching…";
    return $("bans").replaceChildren();
  }
  const shown = bans.bans
    .filter((ban) => !ban.until || Date.parse(ban.until) > Date.now())
    .slice(0, 100);
  const found = wanted ? `${bans.count} found` : `${bans.count} total`;
  $("bans-note").textContent = bans.count > shown.length
    ? `${found}, latest ${shown.length} shown`
    : found;
  const focused = document.activeElement?.closest("#bans tr")?.rowIndex;
  $("bans").replaceChildren(...shown.map((ban) => make("tr", {}, make("td", {}, ban.prefix),
    make("td", { class: "number" }, ban.packets == null ? "" : number(ban.packets)),
    make("td", {}, left(ban)),
    make("td", { class: "minor" },
      typeof ban.origin === "string" ? ban.origin : JSON.stringify(ban.origin)),
    make("td", { class: "minor" }, ban.reason ?? ""), make("td", { class: "minor" }, ban.by ?? ""),
    make("td", {}, unbanButton(ban)))));
  if (focused) $("bans").rows[focused - 1]?.querySelector("button")?.focus();
}

/** Bans of a list can only be removed with the list. */
function unbanButton({ prefix, origin }) {
  if (access === "read" || String(origin).startsWith("list:")) return null;
  const button = make("button", { type: "button", "aria-label": `unban ${prefix}` }, "unban");
  button.addEventListener("click", () => unban(prefix));
  return button;
}

function unban(prefix) {
  if (prefix && confirm(`Remove the bans of ${prefix}?`)) {
    change("DELETE", { prefixes: [prefix] }, `unbanned ${prefix}`);
  }
}

/** Requests a change of bans. The daemon refuses what endangers the host. */
async function change(method, body, done) {
  const headers = { "content-type": "application/json" };
  if (access === "token") headers.authorization = `Bearer ${$("token").value.trim()}`;
  try {
    const answer = await fetch("v1/bans", { method, headers, body: JSON.stringify(body) });
    const said = await answer.json();
    $("done").textContent = answer.ok
      ? done
      : [said.detail, said.hint].filter((it) => it).join("; ");
    if (answer.ok) connect();
  } catch {
    $("done").textContent = "The daemon does not respond.";
  }
}

function onEvents(events) {
  for (const it of events ?? []) {
    if (it.event === "attack-ended") {
      attacks.set(`${it.kind} ${it.subject} ${it.since}`, { ...it, seen: Date.parse(it.at) });
    }
  }
  $("events").replaceChildren(...(events ?? []).slice(-30).reverse()
    .map((it) => make("li", {}, time(it.at, moment(it.at)), ` ${words(it)}`)));
}

/** An event in words, like those of `rlctl events`. */
function words(it) {
  const by = it.by ? ` by ${it.by}` : "";
  const removedBy = it.removed_by ? ` by ${it.removed_by}` : "";
  const until = it.until ? ` until ${moment(Date.parse(it.until))}` : "";
  const reason = it.reason ? `: ${it.reason}` : "";
  const dns = it.is_of_dns ? "DNS" : "TCP";
  const target = it.prefix ?? it.destination ?? "the default policy";
  const changes = it.changes?.length ? it.changes.join("; ") : "no changes";
  const attack = () => `${it.kind} ${it.subject}, `
    + `up to ${number(it.packets_per_second)} packets/s from ${number(it.sources)} sources`;
  const found = {
    "ban-added": () => `banned ${it.prefix}${by}${until}${reason}`,
    "ban-ended": () => `ban expired: ${it.prefix} (set${by})`,
    "ban-removed": () => `unbanned ${it.prefix}${removedBy}`,
    bans: () => `${{ added: "banned", ended: "bans expired:", removed: "unbanned" }[it.change]} `
      + `${number(it.count)} prefixes from ${it.origin}${by}`,
    "list-replaced": () => (it.entries
      ? `loaded list ${it.list}: ${number(it.entries)} entries`
      : `removed list ${it.list}`) + by,
    "allow-added": () => `allowed ${it.prefix}${by}${until}${reason}`,
    "allow-ended": () => `allow expired: ${it.prefix}`,
    "allow-removed": () => `removed ${it.prefix} from the allow list${removedBy}`,
    "limits-set": () => `limited ${target} to ${it.limits.map(limit).join(" and ")}`
      + `${it.observe ? " (dry run)" : ""}${by}${until}${reason}`,
    "limits-ended": () => `runtime limits expired: ${target}`,
    "limits-removed": () => `removed runtime limits of ${target}${by}`,
    "attack-began": () => `attack began: ${attack()}`,
    "attack-ended": () => `attack ended: ${attack()}`,
    reloaded: () => `reloaded the configuration: ${changes}`,
    "reload-refused": () => `reload failed: ${it.error}`,
    "trial-began": () => `trying ${it.file}${until}${by}: ${changes}`,
    "trial-confirmed": () => `confirmed ${it.file}${by}`,
    "trial-rolled-back": () => `rolled back ${it.file}${by || ", not confirmed in time"}`,
    detached: () => `detached from ${it.interfaces.join(", ")}${by}`,
    "interface-attached": () =>
      `attached to ${it.interface} in ${it.mode} mode${it.remark ? `; ${it.remark}` : ""}`,
    "interface-lost": () => `${it.interface} is not protected: ${it.why}`,
    "trouble-began": () => `failure of ${it.what}: ${it.error}`,
    "trouble-ended": () => `recovered: ${it.what}`,
    "pass-all-on": () => `pass-all is on${until}${by}`,
    "pass-all-off": () => `pass-all is off${by}`,
    "challenge-began": () => `challenge of ${dns} clients is on (${it.when})`,
    "challenge-paused": () => `challenge paused${until}: no client completed it`,
    "challenge-ended": () => `challenge of ${dns} clients is off`,
    "usage-reset": () => `usage is reset: ${it.why}`,
    lost: () => `lost ${number(it.count)} events`,
  }[it.event];
  return found ? found() : it.event;
}

function onCheck(check) {
  if (!check || !chosen) return;
  const why = check.ban ? `banned, ends in ${left(check.ban)}` : check.reason;
  $("verdict").textContent = `${check.address}: ${check.action} (${why}), policy ${check.policy}`;
  quotas = {};
  charts.quota.texts = new Map();
  const tell = (limits, whose) => {
    for (const it of limits) {
      const amount = it.share?.here ?? it.limit.burst ?? it.limit.packets ?? it.limit.bytes;
      const rest = Math.max(0, amount - it.used);
      const name = `${limit(it.limit)}${whose}`;
      quotas[name] = Math.min(100, 100 * rest / amount);
      charts.quota.texts.set(name, `${number(rest)} of ${number(amount)} left`);
    }
  };
  tell(check.limits, "");
  for (const it of check.wider ?? []) tell(it.limits, it.prefix ? `, ${it.prefix}` : ", node");
}

let source = null;
function connect() {
  source?.close();
  const asked = new URLSearchParams();
  if (chosen) asked.set("address", chosen);
  if (wanted) asked.set("bans", wanted);
  source = new EventSource(`v1/live?${asked}`);
  const on = (name, act) => source.addEventListener(name, (event) => act(JSON.parse(event.data)));
  on("stats", onStats);
  on("status", onStatus);
  on("top", onTop);
  on("bans", (found) => { bans = found; drawBans(); });
  on("access", onAccess);
  on("events", onEvents);
  on("check", onCheck);
  source.onopen = () => { $("link").textContent = "live"; };
  source.onerror = () => { $("link").textContent = "disconnected, retrying"; };
}

function onAccess(may) {
  access = may;
  $("act").hidden = may === "read";
  $("unlock").hidden = may !== "token";
  drawBans();
}

// The daemon refuses a stream for anything else, and the browser would not ask again.
function isAddress(text) {
  const parts = text.split(".");
  const isByte = (it) => /^(0|[1-9]\d{0,2})$/.test(it) && it < 256;
  if (parts.length === 4 && parts.every(isByte)) return true;
  return text.includes(":") && /^[0-9a-f:.]+$/i.test(text) && URL.canParse(`http://[${text}]/`);
}

function follow(address) {
  const text = address.trim();
  $("address").value = text;
  const wrong = text !== "" && !isAddress(text);
  $("address").setAttribute("aria-invalid", wrong);
  $("verdict").classList.toggle("bad", wrong);
  if (wrong) {
    const hint = text.includes("/") ? `; to find bans in a prefix, use the filter below` : "";
    $("verdict").textContent = `“${text}” is not an address; `
      + `use for example 203.0.113.7 or 2001:db8::1${hint}`;
    return;
  }
  chosen = text;
  $("verdict").textContent = "";
  quotas = null;
  charts.quota.clear();
  connect();
}

$("choose").addEventListener("submit", (event) => {
  event.preventDefault();
  follow($("address").value);
});
$("act").addEventListener("submit", (event) => {
  event.preventDefault();
  const [prefix, reason] = [$("address").value.trim(), $("why").value.trim()];
  const seconds = Number($("ban-for").value);
  if (prefix && confirm(`Ban ${prefix} for ${span(seconds)}?`)) {
    change("POST", { prefixes: [prefix], seconds, reason: reason || null }, `banned ${prefix}`);
  }
});
$("unban").addEventListener("click", () => unban($("address").value.trim()));
for (const id of ["live-range", "quota-range"]) {
  $(id).addEventListener("change", () => Object.values(charts).forEach((it) => it.draw()));
}
let typed;
$("filter").addEventListener("input", () => {
  clearTimeout(typed);
  typed = setTimeout(() => {
    const text = $("filter").value.trim();
    if (text === wanted) return;
    wanted = text;
    drawBans();
    connect();
  }, 300);
});
setInterval(drawBans, 1000);
connect();
