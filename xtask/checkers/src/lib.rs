//! Checks what the lab writes: a headless Chromium `report.html`, actionlint workflow files, and a reader of pages the
//! documentation. Only tests, benchmarks and `cargo xtask ci` use them.

pub mod actionlint;
pub mod browser;
pub mod page;
