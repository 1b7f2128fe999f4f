//! Nights drawn by seeded random numbers, for tests: as results of the lab, which the history reads like all others.

use super::{Night, night};
use crate::{
    reproducer::Failure,
    results::{KernelInfo, Results, ScenarioResult, Status, fixture},
};
use fastrand::Rng;

/// The start of the first night: 2026-01-01, 02:17.
pub(crate) const FIRST: i64 = 1_767_233_820;

/// The seconds of a day.
const DAY: i64 = 86_400;

/// A fleet: so many scenarios on so many kernels, night after night.
pub(crate) struct Fleet {
    pub(crate) kernels: usize,
    pub(crate) scenarios: usize,
    /// The number of times that a failure is run again.
    pub(crate) retries: u32,
    /// The standard deviation of the time of a scenario, and of the whole host, as a part of it.
    pub(crate) noise: (f64, f64),
    pub(crate) random: Rng,
}

impl Fleet {
    pub(crate) fn new(kernels: usize, scenarios: usize, seed: u64) -> Fleet {
        Fleet { kernels, scenarios, retries: 2, noise: (0.05, 0.1), random: Rng::with_seed(seed) }
    }

    /// Draws a night. `behave` returns the odds with which a scenario fails on a kernel, and how many times as long as
    /// usual it takes.
    pub(crate) fn night(&mut self, number: u32, behave: impl Fn(usize, usize) -> (f64, f64)) -> Night {
        Night::of(&self.results(number, behave), |result| {
            Some((Failure::of(result, "")?, b"name: simulated\n".to_vec()))
        })
        .unwrap()
    }

    pub(crate) fn results(&mut self, number: u32, behave: impl Fn(usize, usize) -> (f64, f64)) -> Results {
        let host = self.factor(self.noise.1);
        let mut tries = Vec::with_capacity(self.kernels * self.scenarios);
        for kernel in 0..self.kernels {
            for scenario in 0..self.scenarios {
                let (odds, slower) = behave(kernel, scenario);
                for retry in 0..=self.retries {
                    let seconds = (0.4 + scenario as f64 * 0.01) * host * slower * self.factor(self.noise.0);
                    let fails = self.random.f64() < odds;
                    let status = if fails { Status::Failed } else { Status::Passed };
                    tries.push(ScenarioResult {
                        seconds,
                        retry: (retry > 0).then_some(retry),
                        reason: if fails {
                            format!("count of area{}/scenario-{scenario}: found 3", scenario % 9)
                        } else {
                            String::new()
                        },
                        ..ScenarioResult::bare(&scenario_name(scenario), &kernel_name(kernel), status)
                    });
                    if !fails {
                        break;
                    }
                }
            }
        }
        let mut results = fixture::results(tries);
        results.run.started = night::time(FIRST + DAY * i64::from(number - 1));
        results.qemu.version = format!("QEMU emulator version 10.0.{}", number / 100);
        results.kernels = (0..self.kernels)
            .map(|kernel| KernelInfo {
                name: kernel_name(kernel),
                source_version: format!("{}.{}", kernel_name(kernel), number / 7),
                config_hash: format!("{:064x}", kernel * 1000 + number as usize / 7),
            })
            .collect();
        results
    }

    /// Draws a factor around 1 whose logarithm has this standard deviation.
    fn factor(&mut self, deviation: f64) -> f64 {
        // Irwin-Hall: the sum of twelve has the variance 1.
        let normal = (0..12).map(|_| self.random.f64()).sum::<f64>() - 6.0;
        (deviation * normal).exp()
    }
}

pub(crate) fn kernel_name(kernel: usize) -> String {
    format!("6.{kernel}")
}

pub(crate) fn scenario_name(scenario: usize) -> String {
    format!("area{}/scenario-with-a-name-{scenario}", scenario % 9)
}

#[path = "simulated_tests.rs"]
mod tests;
