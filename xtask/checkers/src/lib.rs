//! Programs that check what the lab writes: a headless Chromium for `report.html`, actionlint for workflow
//! files. Only tests, benchmarks and `cargo xtask ci` run them.

pub mod actionlint;
pub mod browser;
