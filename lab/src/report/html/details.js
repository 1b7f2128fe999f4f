"use strict";
// The details of one result, as a section of the page.

// The parts of the section; empty ones are omitted.
const PARTS = [
  ["Reason", (found) => !told(found) && found.reason && make("pre", { class: "wrap" }, found.reason)],
  ["Expectations", (found) => checks(found.expectations.map(expectation))],
  ["Steps", (found) => checks(found.steps.map(step))],
  ["Splats", (found) => found.splats.map(splat)],
  ["Task backtraces", (found) => found.stacks.map(splat)],
  ["Kernel text", (found) => found.listings.map(listing)],
  [null, (found, events) => events && events.count > 0 && eventsSection(events)],
  ["Timeline", (found, events) => events && events.count === 0 && make("p", { class: "soft" }, "The trace has no events.")],
  [null, (found) => found.no_timeline && make("p", { class: "warning" }, `No timeline: ${found.no_timeline}`)],
  ["Console", (found) => found.logs.map((log) => logView(log, found))],
  ["Left behind", (found) => lines(found.left_behind)],
  ["Notes", (found) => lines(found.notes)],
  ["Files", (found) => files(found)],
];

// Returns whether the reason only repeats what is shown below: a broken check, or a splat.
function told(found) {
  return found.steps.some((step) => !step.passed && step.detail) || found.expectations.some((one) => one.status !== "held")
    || found.splats.some((splat) => splat.sentence === found.reason);
}

async function detailsSection(row, status, close) {
  const [found, events] = await Promise.all([detailsOf(row.index), eventsOf(row.index)]);
  const label = labelOf(row);
  const section = make("section", { class: "details", "aria-label": `${label} on ${row.kernel}` },
    make("h2", { tabindex: -1 }, status, make("span", { class: "name" }, label), make("span", { class: "soft" }, `on ${row.kernel}`
      + `${found && found.kernel ? ` (${found.kernel})` : ""}, ${row.seconds.toFixed(2)} s`),
      make("button", { type: "button", class: "close", onclick: close, "aria-keyshortcuts": "Escape" }, "Close")),
    row.claim && make("p", {}, row.claim), command(row));
  if (!found) section.append(make("p", { class: "warning" }, "Details omitted to limit the size of this report; see the files in the result's directory."));
  if (found && !events && row.events) {
    section.append(make("p", { class: "warning" }, `Timeline of ${row.events} events omitted to limit the size of this report; see trace.dat.`));
  }
  for (const [title, part] of found ? PARTS : []) {
    const shown = [part(found, events)].flat().filter(Boolean);
    if (shown.length > 0) section.append(...(title ? [make("h3", {}, title)] : []), ...shown);
  }
  return section;
}

// The command that reruns the scenario, with a button to copy it.
function command(row) {
  const text = row.again;
  const said = make("span", { class: "soft", "aria-live": "polite" });
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      said.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(code);
      said.textContent = "selected";
    }
  };
  const code = make("code", {}, text);
  return make("div", {}, make("h3", {}, "Run again"),
    make("div", { class: "command" }, make("pre", {}, code), make("button", { type: "button", onclick: copy }, "Copy"), said),
    text.includes("RUN/") && make("p", { class: "soft" }, `RUN is the directory of this report, for example results/${list.directory}.`));
}

const MARKS = { held: ["✓", "held"], broken: ["✗", "broken"], inconclusive: ["?", "open-end"] };

function checks(items) {
  return items.length > 0 && make("ol", { class: "checks" }, items);
}

function mark(word) {
  const [sign, style] = MARKS[word];
  return make("span", { class: style }, `${sign} ${word}`);
}

function expectation(outcome) {
  const held = outcome.status === "held";
  const detail = outcome.detail && make("pre", { class: "wrap" }, outcome.detail);
  return make("li", {}, make("div", { class: "line" }, mark(outcome.status), make("code", {}, outcome.text)),
    detail && make("div", { class: "more" },
      held ? make("details", {}, make("summary", { class: "soft" }, "details"), detail) : detail));
}

function step(found, number) {
  const more = [];
  if (found.detail) more.push(make("pre", { class: "wrap" }, found.detail));
  for (const output of found.outputs) {
    const note = output.left_out > 0 ? `, first ${output.left_out} bytes omitted` : "";
    const size = output.text.length === 0 ? "empty" : `${output.text.split("\n").length} lines${note}`;
    more.push(make("details", { open: !found.passed },
      make("summary", {}, make("code", {}, output.name), make("span", { class: "soft" }, ` ${size}`)), make("pre", {}, output.text)));
  }
  if (found.cases.length > 0) more.push(cases(found));
  return make("li", {}, make("div", { class: "line" }, mark(found.passed ? "held" : "broken"),
    make("code", {}, `${number + 1}. ${found.text}`), make("span", { class: "soft" }, `${found.seconds.toFixed(2)} s`)),
    more.length > 0 && make("div", { class: "more" }, more));
}

// The tests of a step.
function cases(found) {
  const rows = found.cases.map(([name, status, seconds, detail]) => make("tr", {}, make("td", { class: "mono" }, name),
    make("td", {}, status), make("td", { class: "number" }, seconds), make("td", { class: "text" }, detail)));
  return make("details", { open: !found.passed }, make("summary", {}, `${found.cases.length} tests`),
    table(`Tests of ${found.text}`, ["Test", "Status", "Seconds", "Reason"], rows));
}

function table(name, columns, rows) {
  const head = columns.map((text) => make("th", { scope: "col" }, text));
  return make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": name },
    make("table", {}, make("caption", { class: "unseen" }, name), make("thead", {}, make("tr", {}, head)), make("tbody", {}, rows)));
}

function splat(found) {
  const title = `${found.kind} ${found.fingerprint}: ${found.sentence}`;
  return make("div", { class: found.allowed ? "complaint allowed" : "complaint" },
    make("strong", {}, title), found.allowed && make("span", { class: "soft" }, " (allowed)"),
    found.task && make("p", { class: "soft" }, `in ${found.task}`),
    found.frames.length > 0 && make("pre", {}, found.frames.join("\n")));
}

// Previous, expected and found instructions.
function listing(found) {
  const rows = found.lines.map((line) => make("tr", { class: line.holds ? undefined : "differs" },
    make("td", { class: "mono" }, line.holds ? "✓" : "✗ differs"), make("td", { class: "mono" }, line.address),
    make("td", { class: "mono" }, line.symbol),
    ...[line.before, line.expected, line.found].map((text) => make("td", { class: "mono" }, text || "–"))));
  const more = found.more > 0 && make("p", { class: "soft" }, `and ${found.more} more`);
  return make("div", {}, make("p", { class: "soft" }, `Step ${found.step}`),
    table(`Kernel text checked by step ${found.step}`, ["", "Address", "Symbol", "Before", "Expected", "Found"], rows), more);
}

// A log with its splats marked.
function logView(log, found) {
  const pre = make("pre", { class: "log wrap", tabindex: 0, role: "region", "aria-label": log.name });
  const all = log.text.split("\n");
  let at = 0;
  const plain = (end, into) => {
    for (; at < end; at++) logLine(all[at], into);
  };
  for (const [from, to, number] of log.marks) {
    plain(from, pre);
    const marked = make("mark", { "aria-label": `splat: ${found.splats[number]?.sentence ?? ""}` });
    plain(to, marked);
    pre.append(marked);
  }
  plain(all.length, pre);
  const first = log.left_out > 0 ? ` (first ${log.left_out.toLocaleString("en")} lines omitted; see the file)` : "";
  const open = log.marks.length > 0 || log.name === "console.txt";
  // Scrolls to the first splat.
  const find = () => {
    const marked = pre.querySelector("mark");
    if (marked) pre.scrollTop = marked.getBoundingClientRect().top - pre.getBoundingClientRect().top + pre.scrollTop - 48;
  };
  return make("details", { open, ontoggle: find },
    make("summary", {}, make("code", {}, log.name), make("span", { class: "soft" }, first)), pre);
}

function logLine(line, into) {
  const level = /^<(\d+)>/.exec(line);
  const style = line.includes("ftrace-lab: step ") ? "step" : level && Number(level[1]) % 8 <= 3 ? "err" : "";
  const text = `${level ? line.slice(level[0].length) : line}\n`;
  into.append(style ? make("span", { class: style }, text) : text);
}

function lines(texts) {
  return texts.length > 0 && make("ul", {}, texts.map((text) => make("li", {}, text)));
}

// Links to the files next to the report.
function files(found) {
  if (found.files.length === 0) return null;
  const href = (name) => `${found.directory}/${name}`.split("/").map(encodeURIComponent).join("/");
  const size = (bytes) => bytes < 2048 ? `${bytes} B` : bytes < 2 ** 21 ? `${Math.round(bytes / 1024)} KiB`
    : `${Math.round(bytes / 2 ** 20)} MiB`;
  const items = found.files.map(([name, bytes]) => make("li", {},
    make("a", { href: href(name), download: name.split("/").pop() }, name), make("span", { class: "soft" }, ` ${size(bytes)}`)));
  return [make("p", { class: "soft" }, `In ${found.directory}/ next to this report; if the report was moved, in the run's `
    + `directory, results/${list.directory}.${found.more_files ? " Not all files are listed." : ""}`),
  make("ul", { class: "files" }, items)];
}
