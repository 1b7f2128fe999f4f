"use strict";
// The section of a trace: the timeline with its tools, and below it the same events as a table.

const EVENTS_SHOWN = 100;

function eventsSection(events) {
  const readout = make("p", { class: "readout", "aria-live": "polite" });
  const table = new EventTable(events, (event) => timeline.choose(event));
  const hint = "Hover over or click an event, or press full stop for the next one.";
  readout.textContent = hint;
  const chosen = (event, looked, lane) => {
    readout.textContent = [lane, event >= 0 ? eventText(events, event) : hint].filter(Boolean).join(": ");
    if (!looked) table.choose(event);
  };
  const timeline = new Timeline(events, (from, to, all) => table.view(from, to, all), chosen);
  document.addEventListener("themed", () => timeline.later());
  const tool = (text, label, act) =>
    make("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
  const tools = make("div", { class: "tools", role: "group", "aria-label": "Timeline" },
    tool("+", "Zoom in (+)", () => timeline.zoom(2, timeline.anchor())),
    tool("−", "Zoom out (-)", () => timeline.zoom(0.5, timeline.anchor())),
    tool("←", "Move left (left arrow)", () => timeline.move(-0.3)),
    tool("→", "Move right (right arrow)", () => timeline.move(0.3)),
    tool("All", "Show the whole trace (0)", () => timeline.whole()),
    table.range);
  const section = make("section", { class: "timeline", "aria-label": "Timeline" },
    make("h3", {}, `Timeline: ${events.head.total.toLocaleString("en")} events`),
    notes(events, timeline).map((note) => make("p", { class: "warning" }, note)),
    tools, timeline.canvas, readout, kinds(events, timeline), table.element);
  section.timeline = timeline;
  return section;
}

function eventText(events, event) {
  const since = spanText(events, events.time[event]);
  return `${stampText(events, event)} (+${since}) CPU ${events.cpu[event]} ${taskName(events, events.task[event])} `
    + `${kindName(events, event)}: ${events.text(event)}`;
}

// Notes on what the timeline does not show.
function notes(events, timeline) {
  const { head } = events;
  const notes = [];
  if (head.cut) {
    notes.push(`Only the first and the last ${head.cut.toLocaleString("en")} events are shown; the red band marks `
      + "the gap. trace.dat has all events.");
  }
  for (const [cpu, lost] of head.losses.slice(0, 8)) {
    notes.push(`CPU ${cpu} lost ${lost === null ? "an unknown number of" : lost.toLocaleString("en")} events (✂).`);
  }
  if (head.losses.length > 8) notes.push(`… and ${head.losses.length - 8} more losses.`);
  if (head.damage) notes.push(`The trace is corrupt after these events: ${head.damage}`);
  if (timeline.tasksLeftOut > 0) notes.push(`${timeline.tasksLeftOut} tasks with fewer events have no lane.`);
  return notes;
}

// The kinds of events, with a button for each that hides or shows it.
function kinds(events, timeline) {
  const counts = new Uint32Array(events.head.kinds.length);
  for (const kind of events.kind) counts[kind]++;
  const order = [...counts.keys()].sort((a, b) => counts[b] - counts[a]);
  const paint = () => group.querySelectorAll("i").forEach((swatch) => {
    swatch.style.background = timeline.colour(Number(swatch.dataset.kind));
  });
  const button = (kind) => make("button", {
    type: "button", "aria-pressed": "true", onclick(event) {
      timeline.toggle(kind);
      event.currentTarget.setAttribute("aria-pressed", String(!timeline.hidden.has(kind)));
    },
  }, make("i", { "data-kind": kind, "aria-hidden": "true" }),
    events.head.kinds[kind].replace(/^[^:]*:/, ""), make("span", { class: "soft" }, counts[kind].toLocaleString("en")));
  const group = make("div", { class: "tools kinds", role: "group", "aria-label": "Kinds of events shown" },
    order.slice(0, 40).map(button));
  requestAnimationFrame(() => requestAnimationFrame(paint));
  document.addEventListener("themed", () => requestAnimationFrame(() => requestAnimationFrame(paint)));
  return group;
}

// The events in view, a page at a time.
class EventTable {
  constructor(events, choose) {
    this.events = events;
    this.page = 0;
    this.places = [];
    this.event = -1;
    this.range = make("span", { class: "soft", "data-role": "range" });
    this.body = make("tbody");
    this.where = make("span", { class: "soft", "aria-live": "polite" });
    const turn = (text, label, to) => make("button", { type: "button", "aria-label": label, title: label, onclick: () => {
      this.page = to();
      this.fill();
    } }, text);
    this.back = [turn("«", "First events in view", () => 0), turn("‹", "Previous events", () => this.page - 1)];
    this.forth = [turn("›", "Next events", () => this.page + 1), turn("»", "Last events in view", () => this.pages - 1)];
    const head = ["Time", "CPU", "Task", "Event", "Message"].map((text) => make("th", { scope: "col" }, text));
    this.list = make("table", {}, make("caption", { class: "unseen" }, "Events in view"),
      make("thead", {}, make("tr", {}, head)), this.body);
    this.list.addEventListener("click", (event) => {
      const row = event.target.closest("tr[data-event]");
      if (row) choose(Number(row.dataset.event));
    });
    this.element = make("details", { ontoggle: () => this.fill() }, make("summary", {}, "Events in view, as a table"),
      make("div", { class: "tools" }, this.back, this.forth, this.where),
      make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Events in view" }, this.list));
  }

  get pages() { return Math.max(1, Math.ceil((this.high - this.low) / EVENTS_SHOWN)); }

  view(from, to, places) {
    const low = firstFrom(this.events, places, from), high = firstFrom(this.events, places, to);
    if (low === this.low && high === this.high && places === this.places) return;
    [this.low, this.high, this.places, this.page] = [low, high, places, 0];
    const span = spanText(this.events, to - from);
    this.range.textContent = `${(high - low).toLocaleString("en")} events in ${span}`;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.fill(), 120);
  }

  choose(event) {
    this.event = event;
    const at = firstFrom(this.events, this.places, this.events.time[event]);
    if (at >= this.low && at < this.high) this.page = Math.floor((at - this.low) / EVENTS_SHOWN);
    this.fill();
    this.body.querySelector(".chosen")?.scrollIntoView({ block: "nearest" });
  }

  fill() {
    if (!this.element.open) return;
    this.page = Math.min(Math.max(this.page, 0), this.pages - 1);
    const first = this.low + this.page * EVENTS_SHOWN;
    const last = Math.min(first + EVENTS_SHOWN, this.high);
    const rows = [];
    for (let at = first; at < last; at++) rows.push(this.row(this.places[at]));
    this.body.replaceChildren(...rows);
    const count = (number) => number.toLocaleString("en");
    this.where.textContent = last > first
      ? `${count(first - this.low + 1)}–${count(last - this.low)} of ${count(this.high - this.low)}` : "no events in view";
    this.back.forEach((button) => { button.disabled = this.page === 0; });
    this.forth.forEach((button) => { button.disabled = this.page >= this.pages - 1; });
  }

  row(event) {
    const { events } = this;
    return make("tr", { "data-event": event, class: event === this.event ? "chosen" : undefined },
      make("td", { class: "mono" }, stampText(events, event)),
      make("td", { class: "number" }, events.cpu[event]),
      make("td", { class: "mono" }, taskName(events, events.task[event])),
      make("td", { class: "mono" }, kindName(events, event)),
      make("td", { class: "text" }, events.text(event)));
  }
}
