"use strict";
// The list of results: a table of scenarios by kernels, filters, and details that open below a row.

const list = JSON.parse(document.getElementById("list").textContent);
const byId = (id) => document.getElementById(id);
const SIGNS = { passed: "✓", failed: "✗", inconclusive: "?", unsupported: "–", "known bug": "⚑" };
const GOOD = new Map(list.statuses);
list.results.forEach((row, index) => { row.index = index; });

const filters = { statuses: new Set(list.statuses.map(([name]) => name)), text: "", kernel: "", order: "worst" };
let opened = null;

// Returns the number of a repeat or of a try after a failure, if it is one.
function tryOf(row) {
  return (row.repeat ? `@${row.repeat}` : "") + (row.retry ? `@retry${row.retry}` : "");
}

function labelOf(row) {
  return row.name + tryOf(row);
}

function keyOf(row) {
  return `${row.kernel}/${labelOf(row)}`;
}

function statusClass(status) {
  return `status ${status.replaceAll(" ", "-")}`;
}

function statusText(status) {
  return [make("span", { "aria-hidden": "true" }, SIGNS[status] ?? "✗"), " ", make("b", {}, status)];
}

function header() {
  const { run, host } = list;
  const failed = list.results.filter((row) => !GOOD.get(row.status)).length;
  document.title = `ftrace-lab: ${failed > 0 ? `${failed} failed` : "no failures"}, ${run.started}`;
  byId("about").textContent = failed > 0 ? `${failed} of ${list.results.length} results are failures`
    : `${list.results.length} results, no failures`;
  const facts = [["started", run.started.replace("T", " ").replace("Z", " UTC")], ["took", `${run.seconds.toFixed(1)} s`],
    ["host", `${host.architecture}, ${host.cpus} CPUs, ${host.accelerator}`], ["QEMU", list.qemu],
    ["kernels", list.kernels.map((kernel) => `${kernel.name} (${kernel.source_version})`).join(", ")],
    ["shard", run.shard], ["shuffled by", run.shuffle], ["directory", list.directory],
    ["coverage", coverage()]];
  byId("facts").append(...facts.filter(([, value]) => value).map(([name, value]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, value))));
  const missing = [];
  if (!run.complete) missing.push("Incomplete: the run was interrupted, or parts of it are missing.");
  if (list.without_timeline > 0) {
    missing.push(`The timelines of ${list.without_timeline} results are omitted to limit the size of this report; see their trace.dat.`);
  }
  missing.push(...list.coverage.gaps.map((gap) => `No new pages of coverage: ${gap}.`));
  byId("incomplete").textContent = missing.join(" ");
  byId("incomplete").hidden = missing.length === 0;
}

function coverage() {
  const { index, kernels } = list.coverage;
  return index && make("a", { href: index }, kernels.join(", ") || "of an earlier report");
}

function controls() {
  for (const [status] of list.statuses) {
    const count = list.results.filter((row) => row.status === status).length;
    if (count === 0) continue;
    byId("statuses").append(make("button", { type: "button", class: statusClass(status), "aria-pressed": "true",
      "data-status": status, onclick: () => toggle(status) }, statusText(status), ` ${count}`));
  }
  byId("kernel").append(make("option", { value: "" }, "all"),
    ...list.kernels.map((kernel) => make("option", { value: kernel.name }, kernel.name)));
  byId("kernel-label").hidden = list.kernels.length < 2;
  const read = () => {
    filters.text = byId("search").value.trim().toLowerCase();
    filters.kernel = byId("kernel").value;
    filters.order = byId("order").value;
    show();
  };
  let timer;
  byId("search").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(read, 80);
  });
  for (const id of ["kernel", "order"]) byId(id).addEventListener("change", read);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("filters").addEventListener("reset", () => setTimeout(() => {
    list.statuses.forEach(([name]) => filters.statuses.add(name));
    read();
  }));
  byId("all").addEventListener("click", () => byId("filters").reset());
}

// While all statuses are shown, a click shows only this one; otherwise it shows or hides this one.
function toggle(status) {
  const all = [...byId("statuses").children].map((button) => button.dataset.status);
  const { statuses } = filters;
  if (all.length > 1 && all.every((name) => statuses.has(name))) {
    statuses.clear();
    statuses.add(status);
  } else if (!statuses.delete(status)) statuses.add(status);
  if (all.every((name) => !statuses.has(name))) all.forEach((name) => statuses.add(name));
  show();
}

function matches(row) {
  return filters.statuses.has(row.status) && (!filters.kernel || row.kernel === filters.kernel)
    && (!filters.text || `${labelOf(row)}\n${row.claim ?? ""}\n${row.reason ?? ""}`.toLowerCase().includes(filters.text));
}

// Returns scenarios with their matching results, in the selected order.
function grouped() {
  const groups = new Map();
  for (const row of list.results.filter(matches)) {
    if (!groups.has(row.name)) groups.set(row.name, { name: row.name, claim: row.claim, rows: [] });
    const group = groups.get(row.name);
    group.rows.push(row);
    group.claim ??= row.claim;
  }
  const failures = (group) => group.rows.some((row) => !GOOD.get(row.status)) ? 0 : 1;
  const slowest = (group) => Math.max(...group.rows.map((row) => row.seconds));
  const byName = (a, b) => a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
  const orders = {
    worst: (a, b) => failures(a) - failures(b) || byName(a, b), name: byName,
    slow: (a, b) => slowest(b) - slowest(a) || byName(a, b),
  };
  return [...groups.values()].sort(orders[filters.order]);
}

function show() {
  close(false);
  for (const button of byId("statuses").children) {
    button.setAttribute("aria-pressed", String(filters.statuses.has(button.dataset.status)));
  }
  const kernels = list.kernels.filter((kernel) => !filters.kernel || kernel.name === filters.kernel);
  byId("kernels").replaceChildren(make("th", { role: "columnheader", scope: "col" }, "Scenario"),
    ...kernels.map((kernel) => make("th", { role: "columnheader", scope: "col" }, kernel.name)));
  const groups = grouped();
  const rows = [];
  let area;
  for (const group of groups) {
    const here = group.name.includes("/") ? group.name.slice(0, group.name.indexOf("/")) : "";
    const failed = filters.order === "worst" && group.rows.some((row) => !GOOD.get(row.status));
    const title = filters.order === "slow" ? undefined : failed ? "failures" : `${here}/`;
    if (title !== area) rows.push(make("tr", { class: "area", role: "row" },
      make("th", { role: "rowheader", scope: "rowgroup", colspan: kernels.length + 1 }, title)));
    area = title;
    rows.push(scenarioRow(group, kernels));
  }
  byId("rows").replaceChildren(...rows);
  const count = groups.reduce((sum, group) => sum + group.rows.length, 0);
  byId("count").textContent = `${count} of ${list.results.length} results`;
  byId("nothing").hidden = groups.length > 0;
}

function scenarioRow(group, kernels) {
  const reasons = [...new Set(group.rows.filter((row) => !GOOD.get(row.status)).map((row) => row.reason).filter(Boolean))];
  const cell = (kernel) => {
    const own = group.rows.filter((row) => row.kernel === kernel.name);
    return make("td", { role: "cell", "data-kernel": kernel.name }, own.map((row) => [resultButton(row), " "]));
  };
  return make("tr", { role: "row" },
    make("th", { role: "rowheader", scope: "row" }, make("div", { class: "name" }, group.name),
      group.claim && make("div", { class: "claim" }, group.claim),
      reasons.slice(0, 3).map((reason) => make("div", { class: "why" }, reason))),
    kernels.map(cell));
}

function resultButton(row) {
  const button = make("button", { type: "button", class: statusClass(row.status), "aria-expanded": "false", "data-index": row.index,
    onclick: () => open(row, button) }, statusText(row.status), tryOf(row) ? ` ${tryOf(row)}` : "",
    make("span", { class: "took" }, ` ${row.seconds.toFixed(row.seconds < 10 ? 2 : 0)} s`),
    make("span", { class: "unseen" }, ` ${labelOf(row)} on ${row.kernel}`));
  return button;
}

async function open(row, button, jump) {
  const again = opened?.row === row;
  close(false);
  if (again) return;
  const place = make("td", { role: "cell", colspan: byId("kernels").children.length }, make("p", { class: "soft" }, "…"));
  const line = make("tr", { class: "opened", role: "row" }, place);
  button.setAttribute("aria-expanded", "true");
  button.closest("tr").after(line);
  opened = { row, button, line };
  history.replaceState(null, "", `#${encodeURI(keyOf(row))}`);
  const status = make("span", { class: statusClass(row.status) }, statusText(row.status));
  const section = await detailsSection(row, status, () => close(true));
  if (opened?.line !== line) return;
  place.replaceChildren(section);
  section.querySelector("h2").focus({ preventScroll: true });
  if (jump) section.scrollIntoView({ block: "start" });
}

function close(back) {
  if (!opened) return;
  const { button, line } = opened;
  opened = null;
  line.remove();
  button.setAttribute("aria-expanded", "false");
  history.replaceState(null, "", location.href.split("#")[0]);
  if (back) button.focus();
}

// Opens the result that the URL's fragment names.
function follow() {
  let key = "";
  try {
    key = decodeURI(location.hash.slice(1));
  } catch {
    return;
  }
  const row = list.results.find((one) => keyOf(one) === key);
  const button = row && document.querySelector(`#rows [data-index="${row.index}"]`);
  if (button && opened?.row !== row) open(row, button, true);
}

// Light, dark, or the system's setting. A page opened from a file may have no localStorage.
function themes() {
  const names = ["auto", "light", "dark"];
  const stored = { get value() { try { return localStorage.getItem("theme"); } catch { return null; } },
    set value(name) { try { localStorage.setItem("theme", name); } catch { /* kept for this visit only */ } } };
  let now = names.includes(stored.value) ? stored.value : "auto";
  const apply = () => {
    document.documentElement.dataset.theme = now;
    byId("theme").textContent = `Colours: ${now}`;
    document.dispatchEvent(new Event("themed"));
  };
  byId("theme").addEventListener("click", () => {
    now = names[(names.indexOf(now) + 1) % names.length];
    stored.value = now;
    apply();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new Event("themed")));
  apply();
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && opened) close(true);
  const typing = event.target.closest?.("input, select, textarea");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    byId("search").focus();
  }
});
window.addEventListener("hashchange", follow);
header();
controls();
themes();
show();
follow();
