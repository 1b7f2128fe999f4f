//! ftrace-lab: scenario → kernel → machine → recording → verdict → report.
//!
//! One module a step of the pipeline, each named by what it yields:
//!
//! | module | yields |
//! |---|---|
//! | [`scenario`] | YAML → `Scenario` |
//! | [`kernel`] | `kernels/NAME.yaml` → `Kernel`: source, config, build |
//! | [`guest`] | agent, modules, workloads → `Initramfs` |
//! | [`probe`] | `Scenario` × `Kernel` → paths resolved, functions that can be probed, or why not |
//! | [`plan`] | `Scenario` → `Plan`: the writes that arm its trace |
//! | [`machine`] | `Kernel` + `Initramfs` → `Machine` |
//! | [`recording`] | `Scenario` on a `Machine` → `Recording` |
//! | [`trace`] | raw ring buffer → typed events |
//! | [`selftest`] | what the kernel's own tests print → one result a test |
//! | [`verdict`] | `Scenario` × `Recording` → `Verdict` |
//! | [`report`] | verdicts → terminal, JSON, JUnit, KTAP, HTML |
//!
//! Beside them stand [`host`], what the machine under the lab offers, and [`cache`], where
//! everything that was built or downloaded lives; [`arm64`] knows instructions. [`run`] goes through all of it for many scenarios,
//! [`stored`] looks at what it left behind, and [`dump`] into the memory of its guests; [`repro`] makes a
//! failure happen again from one file, and [`bisect`] asks since which kernel it does; [`live`] puts a
//! machine under a person's hands; [`explain`] says in words what a scenario would do.

pub mod arm64;
pub mod bench;
pub mod bisect;
pub mod cache;
pub mod dump;
pub mod explain;
mod families;
pub mod guest;
pub mod host;
pub mod kernel;
pub mod live;
pub mod machine;
pub mod plan;
pub mod probe;
pub mod progress;
pub mod recording;
pub mod report;
pub mod repro;
pub mod run;
pub mod scenario;
pub mod selftest;
pub mod stored;
pub mod trace;
pub mod verdict;
