"use strict";
// The events of a trace on a canvas: a lane per CPU and task, zoomed and moved with the wheel, touch,
// keys and buttons. The cost of a frame depends on pixels, not events: one lookup per lane and column of
// pixels.

const LANE = 22;
const AXIS = 24;
const TASKS_MAX = 40;
const SPAN_MIN = 50;

class Timeline {
  // Calls `shown` with the events in view, and `chosen` with the selected event.
  constructor(events, shown, chosen) {
    this.events = events;
    this.shown = shown;
    this.chosen = chosen;
    this.hidden = new Set();
    this.end = Math.max(events.count ? events.time[events.count - 1] : 0, SPAN_MIN);
    this.from = -this.end * 0.01;
    this.to = this.end * 1.01;
    this.lane = 0;
    this.event = -1;
    this.pointers = new Map();
    this.canvas = make("canvas", { tabindex: 0, role: "application", "aria-roledescription": "timeline" });
    this.filter();
    this.canvas.setAttribute("aria-label", `Events of ${this.lanes.length} CPUs and tasks over time. `
      + "Plus and minus zoom, left and right move, up and down change the lane, comma and full stop go to the "
      + "previous and next event, 0 shows the whole trace. The table below lists the events in view.");
    this.listen();
    new ResizeObserver(() => this.later()).observe(this.canvas);
  }

  // Computes the lanes, each with the indices of its visible events.
  filter() {
    const { events } = this;
    const cpus = new Map(events.head.cpus.map((cpu) => [cpu, []]));
    const tasks = events.head.tasks.map(() => []);
    this.all = [];
    for (let i = 0; i < events.count; i++) {
      if (this.hidden.has(events.kind[i])) continue;
      this.all.push(i);
      if (!cpus.has(events.cpu[i])) cpus.set(events.cpu[i], []);
      cpus.get(events.cpu[i]).push(i);
      tasks[events.task[i]].push(i);
    }
    const busiest = tasks.map((places, number) => ({ label: taskName(events, number), places }));
    busiest.sort((a, b) => b.places.length - a.places.length);
    const order = [...cpus].sort(([a], [b]) => a - b);
    this.lanes = order.map(([cpu, places]) => ({ label: `CPU ${cpu}`, cpu, places }))
      .concat(busiest.slice(0, TASKS_MAX).filter((lane) => lane.places.length > 0 || this.hidden.size > 0));
    this.tasksLeftOut = Math.max(0, busiest.length - TASKS_MAX);
    this.canvas.style.height = `${AXIS + LANE * this.lanes.length + 4}px`;
    this.lane = Math.min(this.lane, this.lanes.length - 1);
    this.later();
  }

  toggle(kind) {
    if (!this.hidden.delete(kind)) this.hidden.add(kind);
    this.filter();
  }

  colour(kind) {
    const hue = (kind * 137.5 + 210) % 360;
    return `hsl(${hue} ${this.dark ? "70% 66%" : "72% 38%"})`;
  }

  // The width of the lanes' labels, in pixels.
  get gutter() { return this.width < 600 ? 92 : 150; }
  x(time) { return this.gutter + (time - this.from) / (this.to - this.from) * (this.width - this.gutter); }
  time(x) { return this.from + (x - this.gutter) / (this.width - this.gutter) * (this.to - this.from); }

  view(from, to) {
    const whole = this.end * 1.02;
    const span = Math.min(Math.max(to - from, SPAN_MIN), Math.max(whole, SPAN_MIN));
    const centre = (from + to) / 2;
    from = Math.min(Math.max(centre - span / 2, -this.end * 0.01), this.end * 1.01 - span);
    [this.from, this.to] = [from, from + span];
    this.later();
  }

  whole() { this.view(-this.end * 0.01, this.end * 1.01); }

  zoom(factor, around = (this.from + this.to) / 2) {
    const span = Math.max((this.to - this.from) / factor, SPAN_MIN);
    const part = (around - this.from) / (this.to - this.from);
    this.view(around - span * part, around + span * (1 - part));
  }

  move(part) {
    const by = (this.to - this.from) * part;
    this.view(this.from + by, this.to + by);
  }

  // Selects an event and scrolls it into view.
  choose(event) {
    this.event = event;
    const time = this.events.time[event];
    if (time < this.from || time > this.to) {
      const half = (this.to - this.from) / 2;
      this.view(time - half, time + half);
    }
    this.later();
    this.chosen(event);
  }

  // Selects the next or the previous event of the lane.
  step(by) {
    const { places } = this.lanes[this.lane] ?? { places: [] };
    if (places.length === 0) return;
    let at;
    if (this.event < 0) at = firstFrom(this.events, places, this.from);
    else {
      at = places.findIndex((event) => event >= this.event);
      if (at < 0) at = places.length;
      if (by < 0 || places[at] === this.event) at += by;
    }
    this.choose(places[Math.min(Math.max(at, 0), places.length - 1)]);
  }

  later() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      this.draw();
    });
  }

  draw() {
    const ratio = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    const height = this.canvas.clientHeight;
    if (this.width === 0) return;
    const [wide, high] = [Math.round(this.width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== wide || this.canvas.height !== high) {
      [this.canvas.width, this.canvas.height] = [wide, high];
    }
    const style = getComputedStyle(this.canvas);
    const value = (name) => style.getPropertyValue(name).trim();
    const pen = this.canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, this.width, height);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    // Computed colours are resolved, so that only the style sheet needs `light-dark()`.
    this.dark = luminance(style.backgroundColor) < 0.5;
    this.ink = { text: style.color, soft: this.dark ? "#a3a9b0" : "#5a6068", line: this.dark ? "#33373d" : "#dddedb",
      bad: this.dark ? "#ff9492" : "#a40e26", font: value("--mono") };
    this.axis(pen, height);
    this.lanes.forEach((lane, number) => this.drawLane(pen, lane, number));
    this.gaps(pen, height);
    this.mark(pen, height);
    this.shown(this.from, this.to, this.all);
  }

  axis(pen, height) {
    const span = this.to - this.from;
    const rough = span / Math.max(2, (this.width - this.gutter) / 110);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
    pen.fillStyle = this.ink.soft;
    pen.strokeStyle = this.ink.line;
    pen.textAlign = "left";
    for (let tick = Math.ceil(this.from / step) * step; tick <= this.to; tick += step) {
      const x = Math.round(this.x(tick)) + 0.5;
      if (x < this.gutter) continue;
      pen.beginPath();
      pen.moveTo(x, 0);
      pen.lineTo(x, height);
      pen.stroke();
      pen.fillText(tickText(this.events, tick, step), x + 3, AXIS / 2);
    }
  }

  drawLane(pen, lane, number) {
    const top = AXIS + number * LANE;
    pen.strokeStyle = this.ink.line;
    pen.beginPath();
    pen.moveTo(0, top + 0.5);
    pen.lineTo(this.width, top + 0.5);
    pen.stroke();
    pen.fillStyle = number === this.lane && document.activeElement === this.canvas ? this.ink.text : this.ink.soft;
    pen.textAlign = "left";
    pen.save();
    pen.beginPath();
    pen.rect(0, top, this.gutter - 6, LANE);
    pen.clip();
    pen.fillText(lane.label, 6, top + LANE / 2 + 1);
    pen.restore();
    const { events } = this, { places } = lane;
    const last = firstFrom(events, places, this.to);
    let at = firstFrom(events, places, this.from);
    const named = last - at < (this.width - this.gutter) / 80;
    while (at < last) {
      const column = Math.floor(this.x(events.time[places[at]]));
      const next = Math.max(at + 1, firstFrom(events, places, this.time(column + 1), at));
      const tall = Math.min(1, 0.55 + 0.09 * Math.log2(next - at)) * (LANE - 6);
      pen.fillStyle = this.colour(events.kind[places[at]]);
      pen.fillRect(column, top + LANE - 2 - tall, named ? 3 : 1.5, tall);
      if (named) this.name(pen, places, at, next, last, column, top);
      at = next;
    }
  }

  // Draws an event's name next to it, if there is room.
  name(pen, places, at, next, last, column, top) {
    const end = next < last ? this.x(this.events.time[places[next]]) : this.width;
    const room = end - column - 9;
    if (room < 24) return;
    pen.save();
    pen.beginPath();
    pen.rect(column + 5, top, room, LANE);
    pen.clip();
    pen.fillStyle = this.ink.text;
    const more = next - at > 1 ? ` +${next - at - 1}` : "";
    pen.fillText(kindName(this.events, places[at]) + more, column + 6, top + LANE / 2 + 1);
    pen.restore();
  }

  // Marks where events are missing: omitted from the report, or lost by the kernel.
  gaps(pen, height) {
    const { head, time, count } = this.events;
    pen.fillStyle = this.ink.bad;
    if (head.cut) {
      const [from, to] = [this.x(time[head.cut - 1]), this.x(time[Math.min(head.cut, count - 1)])];
      pen.globalAlpha = 0.15;
      pen.fillRect(Math.max(from, this.gutter), AXIS, Math.max(to - from, 2), height);
      pen.globalAlpha = 1;
    }
    for (const [cpu, , before] of head.losses) {
      const lane = this.lanes.findIndex((one) => one.cpu === cpu);
      const x = this.x(time[Math.min(before, count - 1)] ?? 0);
      if (lane >= 0 && x >= this.gutter) pen.fillText("✂", x - 10, AXIS + lane * LANE + LANE / 2);
    }
  }

  mark(pen, height) {
    if (this.event < 0) return;
    const x = Math.floor(this.x(this.events.time[this.event])) + 0.5;
    if (x < this.gutter) return;
    pen.strokeStyle = this.ink.text;
    pen.setLineDash([3, 3]);
    pen.beginPath();
    pen.moveTo(x, AXIS - 6);
    pen.lineTo(x, height);
    pen.stroke();
    pen.setLineDash([]);
  }

  // Returns the event nearest to a position in a lane, within 8 pixels, else -1.
  near(x, y) {
    const number = Math.floor((y - AXIS) / LANE);
    const lane = this.lanes[number];
    if (!lane || x < this.gutter) return -1;
    const at = firstFrom(this.events, lane.places, this.time(x));
    const sides = [at - 1, at].filter((one) => one >= 0 && one < lane.places.length);
    const away = (one) => Math.abs(this.x(this.events.time[lane.places[one]]) - x);
    const best = sides.sort((a, b) => away(a) - away(b))[0];
    if (best === undefined || away(best) > 8) return -1;
    this.lane = number;
    return lane.places[best];
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      this.pointers.set(event.pointerId, event);
      this.moved = false;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => this.drag(event));
    const up = (event) => {
      if (!this.pointers.delete(event.pointerId) || this.moved || event.type !== "pointerup") return;
      const found = this.near(event.offsetX, event.offsetY);
      if (found >= 0) this.choose(found);
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("dblclick", (event) => this.zoom(4, this.time(event.offsetX)));
    for (const type of ["focus", "blur"]) canvas.addEventListener(type, () => this.later());
  }

  // The wheel zooms only if the timeline has the focus; otherwise it scrolls the page, except for a pinch.
  wheel(event) {
    if (!event.ctrlKey && document.activeElement !== this.canvas) return;
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.move((event.deltaX || event.deltaY) / 800);
    } else {
      this.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.002)), this.time(event.offsetX));
    }
  }

  // One finger moves, two zoom; a mouse without a button pressed only inspects events.
  drag(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      const found = this.near(event.offsetX, event.offsetY);
      if (found >= 0) this.chosen(found, true);
      return;
    }
    const others = [...this.pointers.values()].filter((other) => other.pointerId !== event.pointerId);
    const scale = (this.to - this.from) / (this.width - this.gutter);
    if (others.length === 0) {
      const by = (before.offsetX - event.offsetX) * scale;
      if (Math.abs(before.offsetX - event.offsetX) < 3 && !this.moved) return;
      this.view(this.from + by, this.to + by);
    } else {
      const [was, is] = [before, event].map((one) => Math.abs(one.offsetX - others[0].offsetX));
      if (was > 10 && is > 10) this.zoom(is / was, this.time((event.offsetX + others[0].offsetX) / 2));
    }
    this.moved = true;
    this.pointers.set(event.pointerId, event);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const lane = (by) => {
      this.lane = Math.min(Math.max(this.lane + by, 0), this.lanes.length - 1);
      this.later();
      this.chosen(this.event, true, this.lanes[this.lane]?.label);
    };
    const keys = {
      "+": () => this.zoom(2, this.anchor()), "=": () => this.zoom(2, this.anchor()),
      "-": () => this.zoom(0.5, this.anchor()), 0: () => this.whole(),
      ArrowLeft: () => this.move(-0.1), ArrowRight: () => this.move(0.1),
      PageUp: () => this.move(-0.9), PageDown: () => this.move(0.9),
      Home: () => this.view(-this.end, this.to - this.from - this.end), End: () => this.view(this.end, this.end * 2),
      ArrowUp: () => lane(-1), ArrowDown: () => lane(1),
      ",": () => this.step(-1), ".": () => this.step(1),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }

  // The centre for zooming with keys and buttons: the selected event, if it is in view.
  anchor() {
    const time = this.events.time[this.event];
    return time >= this.from && time <= this.to ? time : undefined;
  }
}

function luminance(colour) {
  const [red, green, blue] = (colour.match(/[\d.]+/g) ?? [255, 255, 255]).map(Number);
  return (0.3 * red + 0.59 * green + 0.11 * blue) / 255;
}

// Formats a time on the axis with enough digits to distinguish ticks.
function tickText(events, time, step) {
  if (!events.head.nanoseconds) return `${Math.round(time)}`;
  const [unit, name] = step >= 1e8 ? [1e9, "s"] : step >= 1e5 ? [1e6, "ms"] : step >= 100 ? [1e3, "µs"] : [1, "ns"];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / unit)));
  return `${(time / unit).toFixed(digits)} ${name}`;
}
