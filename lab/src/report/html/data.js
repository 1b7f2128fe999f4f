"use strict";
// Data packed in the page, unpacked on demand.

// Makes an element with properties and children. Strings become text nodes, never markup.
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(2)) {
    if (child !== undefined && child !== null && child !== false && child !== "") element.append(child);
  }
  return element;
}

// Resolves when the page is parsed to its end; the list is shown before the blocks are parsed.
function parsed() {
  if (document.readyState !== "loading") return Promise.resolve();
  return new Promise((done) => document.addEventListener("DOMContentLoaded", done, { once: true }));
}

// Returns the bytes of a block; null if the page has none of this name.
async function unpacked(id) {
  let block = document.getElementById(id);
  if (!block || !block.nextSibling) {
    await parsed();
    block = document.getElementById(id);
  }
  if (!block) return null;
  const letters = atob(block.textContent);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const utf8 = new TextDecoder();

// Returns the details of a result; null if the page does not have them.
async function detailsOf(index) {
  const bytes = await unpacked(`details-${index}`);
  return bytes && JSON.parse(utf8.decode(bytes));
}

// Decodes a column of LEB128 numbers at `at` into an array; returns where it ends.
function numbers(bytes, at, into) {
  for (let i = 0; i < into.length; i++) {
    let number = 0, factor = 1, byte;
    do {
      byte = bytes[at++];
      number += (byte & 0x7f) * factor;
      factor *= 128;
    } while (byte >= 0x80);
    into[i] = number;
  }
  return at;
}

// Returns the events of a result's trace: columns of times, kinds, tasks and CPUs, and their messages.
async function eventsOf(index) {
  const bytes = await unpacked(`timeline-${index}`);
  if (!bytes) return null;
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const head = JSON.parse(utf8.decode(bytes.subarray(4, 4 + length)));
  const count = head.events;
  const time = new Float64Array(count), kind = new Uint16Array(count);
  const task = new Uint32Array(count), cpu = new Uint16Array(count);
  let at = 4 + length;
  for (const column of [time, kind, task, cpu]) at = numbers(bytes, at, column);
  for (let i = 1; i < count; i++) time[i] += time[i - 1];
  // Messages are grouped by kind.
  const counts = new Uint32Array(head.kinds.length + 1);
  for (let i = 0; i < count; i++) counts[kind[i] + 1]++;
  for (let i = 1; i < counts.length; i++) counts[i] += counts[i - 1];
  const next = counts.slice(), place = new Uint32Array(count);
  for (let i = 0; i < count; i++) place[i] = next[kind[i]]++;
  let texts = null;
  const text = (event) => {
    texts ??= utf8.decode(bytes.subarray(at)).split("\0");
    return texts[place[event]] ?? "";
  };
  return { head, count, time, kind, task, cpu, text };
}

// Formats a duration given in units of the clock.
function spanText(events, span) {
  if (!events.head.nanoseconds) return `${Math.round(span)}`;
  const size = Math.abs(span);
  if (size >= 1e9) return `${(span / 1e9).toFixed(3)} s`;
  if (size >= 1e6) return `${(span / 1e6).toFixed(3)} ms`;
  return `${(span / 1e3).toFixed(3)} µs`;
}

// Formats an event's timestamp as in the trace.
function stampText(events, event) {
  const stamp = BigInt(events.head.start) + BigInt(Math.round(events.time[event]));
  if (!events.head.nanoseconds) return `${stamp}`;
  const fraction = (stamp % 1000000000n).toString().padStart(9, "0");
  return `${stamp / 1000000000n}.${fraction}`;
}

function kindName(events, event) {
  const name = events.head.kinds[events.kind[event]];
  return name.slice(name.indexOf(":") + 1);
}

function taskName(events, number) {
  const [pid, name] = events.head.tasks[number];
  return `${name}-${pid}`;
}

// Returns the first index in `places`, sorted indices of events, whose event is not before `time`.
function firstFrom(events, places, time, low = 0) {
  let high = places.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (events.time[places[middle]] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}
