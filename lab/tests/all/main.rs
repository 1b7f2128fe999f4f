//! Tests of the library with real machines, kernels and traces. One program has them all: each alone would take as
//! long to link as all together.

mod bootconfig;
mod built;
mod deaths;
mod forms;
mod found;
mod hooks;
mod icount;
mod inspect;
mod layers;
mod left;
mod losses;
mod modules;
mod mutants;
mod outcome;
mod patched_text;
mod perfetto;
mod preflight;
mod promises;
mod resolve;
mod snapshot;
mod splats;
mod trace_recordings;
