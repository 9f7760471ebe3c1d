"use strict";
// Draws what the daemon sends. Nothing is kept but what the charts show.

const SECONDS_MAX = 900;
const $ = (id) => document.getElementById(id);
const ACTIONS = ["pass", "drop", "observe"];

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
    if (value >= size) return (value / (unit === " k" ? 1e3 : size)).toFixed(1) + unit;
  }
  return Number.isInteger(value) ? String(value) : value.toFixed(1);
}

function span(seconds) {
  const all = Math.max(0, Math.round(seconds));
  const parts = [[Math.floor(all / 86400), "d"], [Math.floor(all / 3600) % 24, "h"], [Math.floor(all / 60) % 60, "m"], [all % 60, "s"]];
  const first = parts.findIndex(([count]) => count > 0);
  return first < 0 ? "0s" : parts.slice(first, first + 2).filter(([count]) => count > 0).map(([count, unit]) => count + unit).join(" ");
}

function time(at, style = { timeStyle: "medium" }) {
  return make("time", { datetime: new Date(at).toISOString() }, new Date(at).toLocaleString([], style));
}

/** The times at the begin, in the middle and at the end of a chart. */
function axis(from, to, style) {
  return make("div", { class: "axis" }, time(from, style), time((from + to) / 2, style), time(to, style));
}

/** A bar from when something began to when it ended, beside what it is. */
function bar(text, since, seen, from, to) {
  const place = (at) => Math.min(600, Math.max(0, 600 * (at - from) / (to - from)));
  const begin = Math.min(place(since), 598);
  const svg = drawing(600, 8, "bar");
  svg.append(shape("rect", { x: begin, y: 1, width: Math.max(2, place(seen) - begin), height: 6 }));
  return make("li", { class: "lane" }, make("span", {}, text), svg);
}

/** Curves over the last seconds: `add` takes a map of names to values, each second. */
class Chart {
  constructor(id, names = [], first = 0, range = "live-range", seconds = SECONDS_MAX) {
    this.first = first;
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
    let shown = [...this.series].map(([name, points]) => [name, points.filter(([at]) => at >= now - seconds * 1000)]);
    if (shown.length > lines) shown = shown.sort((a, b) => height(b[1]) - height(a[1])).slice(0, lines);
    const top = Math.max(...shown.map(([, points]) => height(points)), 1);
    const svg = drawing(600, 140);
    for (const y of [10, 65, 120]) svg.append(shape("line", { x1: 0, x2: 600, y1: y, y2: y, class: "grid" }));
    shown.forEach(([, points], index) => {
      const path = points.map(([at, value]) => `${(600 - (now - at) / seconds / 1000 * 600).toFixed(1)},${(120 - value / top * 110).toFixed(1)}`);
      svg.append(shape("polyline", { points: path.join(" "), class: `curve s${index + this.first}` }));
    });
    const key = make("div", { class: "key" });
    shown.forEach(([name, points], index) => key.append(make("span", { class: `s${index + this.first}` }, `${name} ${number(points.at(-1)?.[1])}`)));
    this.place.replaceChildren(make("span", { class: "scale" }, `${number(top)} at the upper line`), svg, axis(now - seconds * 1000, now), key);
  }
}

function drawing(width, height, kind = "curves") {
  return shape("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": true, class: kind });
}

function shape(tag, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

const charts = {
  packets: new Chart("packets", ACTIONS),
  bytes: new Chart("bytes", ACTIONS),
  reasons: new Chart("reasons", [], 1),
  reasonBytes: new Chart("reason-bytes", [], 1),
  quota: new Chart("quota", [], 3, "quota-range", 3600),
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
/** Attacks that the time line remembers; the daemon names at most 256 at a time. */
const ATTACKS_MAX = 256;
/** Attacks that are drawn. */
const LANES = 20;

function onStats({ at: seen, rows }) {
  const at = Date.parse(seen);
  const sums = { at, packets: {}, bytes: {}, reasons: {}, reasonBytes: {}, challenge: { challenged: 0, verified: 0 } };
  for (const row of rows ?? []) {
    sums.packets[row.action] = (sums.packets[row.action] ?? 0) + row.packets;
    sums.bytes[row.action] = (sums.bytes[row.action] ?? 0) + row.bytes;
    if (row.reason in sums.challenge) sums.challenge[row.reason] += row.packets;
    if (row.action === "pass") continue;
    sums.reasons[row.reason] = (sums.reasons[row.reason] ?? 0) + row.packets;
    sums.reasonBytes[row.reason] = (sums.reasonBytes[row.reason] ?? 0) + row.bytes;
  }
  // A stream begins with what the one before ended with.
  if (before && at <= before.at) return;
  if (before) {
    const seconds = (at - before.at) / 1000;
    const rates = (what) => Object.fromEntries(Object.entries(sums[what])
      .map(([name, value]) => [name, Math.max(0, value - (before[what][name] ?? 0)) / seconds]));
    const packets = rates("packets");
    charts.packets.add(at, packets);
    charts.bytes.add(at, rates("bytes"));
    for (const what of ["reasons", "reasonBytes"]) {
      const met = Object.entries(rates(what)).filter(([name, rate]) => rate > 0 || charts[what].series.has(name));
      charts[what].add(at, Object.fromEntries(met));
    }
    if (quotas) charts.quota.add(at, quotas);
    for (const [name, rate] of Object.entries(rates("challenge"))) $(`now-${name}`).textContent = `${number(rate)}/s`;
    for (const action of ACTIONS) $(`now-${action}`).textContent = `${number(packets[action] ?? 0)}/s`;
  }
  before = sums;
}

function onStatus(status) {
  $("version").textContent = `${status.version}, since ${new Date(status.started).toLocaleString()}`;
  $("now-bans").textContent = number(status.bans);
  $("now-attacks").textContent = number(status.attacks.length);
  for (const it of document.querySelectorAll(".challenge")) it.hidden = !status.challenge;
  $("challenge").textContent = status.challenge?.is_on || status.challenge?.dns?.is_on ? "on" : "off";
  const problems = [];
  if (status.pass_all) problems.push(`pass-all is on by ${status.pass_all.author}: nothing is dropped`);
  if (status.observe) problems.push("everything is a dry run: nothing is dropped");
  if (status.config_error) problems.push(`the last configuration was refused: ${status.config_error}`);
  for (const it of status.interfaces) if (!it.attached) problems.push(`${it.name} is not attached: ${it.why ?? "nothing is limited there"}`);
  for (const it of status.troubles ?? []) problems.push(`${it.what}: ${it.error}`);
  $("problems").replaceChildren(...problems.map((text) => make("li", { class: "problem" }, text)));
  $("interfaces").replaceChildren(...status.interfaces.filter((it) => it.attached)
    .map((it) => make("li", { class: "well" }, `${it.name}: attached, ${it.mode}${it.remark ? ` (${it.remark})` : ""}`)));
  $("maps").replaceChildren(...status.maps.filter((it) => it.entries !== null && it.entries !== undefined).map((it) =>
    make("li", {}, it.name, make("span", {}, make("meter", { min: 0, max: it.capacity, high: it.capacity * 0.9, value: it.entries, "aria-label": it.name }),
      ` ${number(it.entries)} of ${number(it.capacity)}`))));
  onAttacks(status.attacks);
  $("cluster").hidden = !status.cluster;
  if (status.cluster) {
    const { node, url, connected, error, nodes } = status.cluster;
    $("cluster-note").textContent = `${node} at ${url}: ${connected ? "connected" : error ?? "not connected"}`;
    $("nodes").replaceChildren(...nodes.map((it) => make("tr", {}, make("td", {}, it.name), make("td", {}, it.state), make("td", { class: "number" }, number(it.bans)))));
  }
}

/** The attacks that the daemon remembers, each a bar from its beginning to its end. */
function onAttacks(now) {
  const at = Date.now();
  for (const it of now) attacks.set(`${it.kind} ${it.subject} ${it.since}`, { ...it, seen: at });
  for (const key of [...attacks.keys()].slice(0, -ATTACKS_MAX)) attacks.delete(key);
  const all = [...attacks.values()];
  $("attacks").replaceChildren(...(now.length ? now : [null]).map((it) => it === null
    ? make("li", { class: "well" }, "none is going on")
    : make("li", { class: "problem" }, `${it.kind} ${it.subject} for ${span((at - Date.parse(it.since)) / 1000)}, at most ${number(it.packets_per_second)} packets a second of ${number(it.sources)} sources`)));
  if (!all.length) return $("timeline").replaceChildren();
  const since = (it) => Date.parse(it.since);
  const first = Math.min(...all.map(since), at - SECONDS_MAX * 1000);
  // The last one first, as in all lists of this page.
  all.sort((a, b) => since(b) - since(a));
  const lanes = all.slice(0, LANES).map((it) => bar(`${it.kind} ${it.subject}, ${span((it.seen - since(it)) / 1000)}`, since(it), it.seen, first, at));
  const more = all.length > LANES ? make("p", {}, `and ${all.length - LANES} before them: the history has all`) : null;
  $("timeline").replaceChildren(make("div", { class: "lane" }, make("span"), axis(first, at)), make("ul", {}, ...lanes), ...(more ? [more] : []));
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
    const rate = last === undefined ? null : Math.max(0, it.refused_packets - last) / ((at - refusedAt) / 1000);
    const choose = make("button", { type: "button" }, it.source);
    choose.addEventListener("click", () => follow(it.source.split("/")[0]));
    const wait = it.limit?.room_in_seconds > 0 ? `, room in ${span(Math.max(1, it.limit.room_in_seconds))}` : "";
    const used = it.limit ? number(it.limit.used) + wait : "";
    return make("tr", {}, make("td", {}, choose), make("td", {}, it.policy), make("td", {}, sends(it.sending)), make("td", {}, it.limit ? limit(it.limit.limit) : "none"),
      make("td", {}, used), make("td", { class: "number" }, number(rate)), make("td", { class: "number" }, number(it.refused_packets)),
      make("td", {}, it.ban ? left(it.ban) : ""));
  });
  refused = new Map((sources ?? []).map((it) => [it.source, it.refused_packets]));
  refusedAt = at;
  const focused = document.activeElement?.closest("#top tr")?.rowIndex;
  $("top").replaceChildren(...rows);
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
    $("bans-note").textContent = "looking for them";
    return $("bans").replaceChildren();
  }
  const shown = bans.bans.filter((ban) => !ban.until || Date.parse(ban.until) > Date.now()).slice(0, 100);
  const found = wanted ? `${bans.count} found` : `${bans.count} in all`;
  $("bans-note").textContent = bans.count > shown.length ? `${found}, the last ${shown.length} are shown` : found;
  const focused = document.activeElement?.closest("#bans tr")?.rowIndex;
  $("bans").replaceChildren(...shown.map((ban) => make("tr", {}, make("td", {}, ban.prefix),
    make("td", { class: "number" }, ban.packets == null ? "" : number(ban.packets)), make("td", {}, left(ban)),
    make("td", {}, typeof ban.origin === "string" ? ban.origin : JSON.stringify(ban.origin)), make("td", {}, ban.reason ?? ""), make("td", {}, ban.author ?? ""), make("td", {}, unbanButton(ban)))));
  if (focused) $("bans").rows[focused - 1]?.querySelector("button")?.focus();
}

/** Bans of a list end with its file. */
function unbanButton({ prefix, origin }) {
  if (access === "read" || String(origin).startsWith("list:")) return null;
  const button = make("button", { type: "button", "aria-label": `unban ${prefix}` }, "unban");
  button.addEventListener("click", () => unban(prefix));
  return button;
}

function unban(prefix) {
  if (prefix && confirm(`Lift the bans of ${prefix}?`)) change("DELETE", { prefixes: [prefix] }, `unbanned ${prefix}`);
}

/** Has the daemon change bans. It refuses what endangers the host, and says why. */
async function change(method, body, done) {
  const headers = { "content-type": "application/json" };
  if (access === "token") headers.authorization = `Bearer ${$("token").value.trim()}`;
  try {
    const answer = await fetch("v1/bans", { method, headers, body: JSON.stringify(body) });
    const said = await answer.json();
    $("done").textContent = answer.ok ? done : [said.detail, said.hint].filter((it) => it).join("; ");
    if (answer.ok) connect();
  } catch {
    $("done").textContent = "The daemon does not answer.";
  }
}

function onEvents(events) {
  for (const it of events ?? []) {
    if (it.event === "attack-ended") attacks.set(`${it.kind} ${it.subject} ${it.since}`, { ...it, seen: Date.parse(it.at) });
  }
  $("events").replaceChildren(...(events ?? []).slice(-30).reverse().map(({ at, number: _, cursor: __, event, ...rest }) => {
    const facts = Object.entries(rest).filter(([, value]) => value !== null && value !== "")
      .map(([key, value]) => `${key} ${typeof value === "object" ? JSON.stringify(value) : value}`);
    return make("li", {}, make("time", { datetime: at }, new Date(at).toLocaleTimeString()), ` ${event} ${facts.join(", ")}`);
  }));
}

function onCheck(check) {
  if (!check || !chosen) return;
  const why = check.ban ? `banned, ends in ${left(check.ban)}` : check.reason;
  $("verdict").textContent = `${check.address} under ${check.policy}: ${check.action} (${why})`;
  quotas = {};
  const tell = (limits, whose) => {
    for (const it of limits) {
      const amount = it.share?.here ?? it.limit.burst ?? it.limit.packets ?? it.limit.bytes;
      quotas[`left of ${limit(it.limit)}${whose}`] = Math.max(0, amount - it.used);
    }
  };
  tell(check.limits, "");
  for (const it of check.wider ?? []) tell(it.limits, it.prefix ? ` for ${it.prefix}` : " for the node");
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
  source.onerror = () => { $("link").textContent = "not connected; trying again"; };
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
  if (parts.length === 4 && parts.every((it) => /^(0|[1-9]\d{0,2})$/.test(it) && it < 256)) return true;
  return text.includes(":") && /^[0-9a-f:.]+$/i.test(text) && URL.canParse(`http://[${text}]/`);
}

function follow(address) {
  const text = address.trim();
  $("address").value = text;
  const wrong = text !== "" && !isAddress(text);
  $("address").setAttribute("aria-invalid", wrong);
  $("verdict").classList.toggle("bad", wrong);
  if (wrong) {
    const hint = text.includes("/") ? `; bans within a prefix are found by the filter below` : "";
    $("verdict").textContent = `“${text}” is no address, write for example 203.0.113.7 or 2001:db8::1${hint}`;
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
  const [prefix, seconds, reason] = [$("address").value.trim(), Number($("ban-for").value), $("why").value.trim()];
  if (prefix && confirm(`Ban ${prefix} for ${span(seconds)}?`)) change("POST", { prefixes: [prefix], seconds, reason: reason || null }, `banned ${prefix}`);
});
$("unban").addEventListener("click", () => unban($("address").value.trim()));
for (const id of ["live-range", "quota-range"]) $(id).addEventListener("change", () => Object.values(charts).forEach((it) => it.draw()));
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
