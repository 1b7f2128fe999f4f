//! Durations that grew: slow drifts as well as steps.
//!
//! The time of a scenario in a night is taken relative to its usual time, and relative to all scenarios of its kernel in
//! that night, so that a slow host slows down none of them. How far the last nights lie above the nights before, in
//! standard deviations, is added up: a cumulative sum (CUSUM), which sees a small steady growth sooner than any single
//! night shows it. A kernel on which everything became slower is found in the same way, by the times of all of its
//! scenarios together.

use super::{Life, Lives};
use schemars::JsonSchema;
use serde::Serialize;

/// The number of last nights in which a growth is looked for; the nights before are the usual ones.
const RECENT: usize = 14;

/// The minimum number of usual nights, and their maximum.
const USUAL_MIN: usize = 14;
const USUAL_MAX: usize = 76;

/// A night counts by its standard deviations above the usual, less `SLACK`, and for at most `MOST`: no two nights are
/// a drift. A sum above `ENOUGH` is one.
const SLACK: f64 = 1.0;
const MOST: f64 = 4.0;
const ENOUGH: f64 = 7.0;

/// A standard deviation is taken to be at least this: times are kept in hundredths of a second, and few nights show less
/// variation than there is.
const DEVIATION_MIN: f64 = 0.03;

/// The least growth that counts, as a factor and in seconds.
const GROWTH_MIN: (f64, f64) = (1.1, 0.05);

/// With fewer scenarios on a kernel than this, they are not compared with each other.
const TOGETHER_MIN: usize = 8;

/// Something that takes longer than it did.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Grown {
    /// The scenario's name; null if all scenarios of the kernel became slower.
    pub scenario: Option<String>,
    /// The kernel's name.
    pub kernel: String,
    /// The night in which the growth began, about.
    pub since: String,
    /// The usual seconds before.
    pub before: f64,
    /// The seconds now, on a host as fast as then: the median of the last three nights.
    pub now: f64,
    /// How far the last nights lie above the usual ones, added up in standard deviations.
    pub score: f64,
}

/// The times of all scenarios, without what the host of each night adds.
pub struct Paces<'a> {
    lives: &'a Lives,
    series: Vec<Series<'a>>,
}

/// The times of one scenario on a kernel, or of all.
struct Series<'a> {
    scenario: Option<&'a str>,
    kernel: &'a str,
    /// Nights and the logarithms of times.
    times: Vec<(u32, f64)>,
}

/// Returns what takes longer as of a night, and did not as of the night before.
pub(super) fn noticed(lives: &Lives, night: u32) -> Vec<Grown> {
    let before = night.checked_sub(1).map(|before| Paces::of(lives, before).grown()).unwrap_or_default();
    let is_of = |one: &Grown, other: &Grown| (&one.kernel, &one.scenario) == (&other.kernel, &other.scenario);
    let mut grown = Paces::of(lives, night).grown();
    grown.retain(|now| !before.iter().any(|before| is_of(before, now)));
    grown
}

impl<'a> Paces<'a> {
    /// Takes the times of the last nights up to `night`.
    pub fn of(lives: &'a Lives, night: u32) -> Paces<'a> {
        let mut series = Vec::new();
        for of_kernel in lives.lives.chunk_by(|a, b| a.kernel == b.kernel) {
            let mut own: Vec<_> = of_kernel.iter().map(|life| Series::of(life, night)).collect();
            let Some(together) = together(&own) else {
                series.extend(own);
                continue;
            };
            let of_night = |night: u32| {
                together.binary_search_by_key(&night, |(night, _)| *night).map(|at| together[at].1)
            };
            for series in &mut own {
                series.times.retain_mut(|(night, time)| of_night(*night).map(|host| *time -= host).is_ok());
            }
            series.extend(own);
            series.push(Series { scenario: None, kernel: &of_kernel[0].kernel, times: together });
        }
        Paces { lives, series }
    }

    /// Returns what takes longer as of the last night, most grown first.
    pub fn grown(&self) -> Vec<Grown> {
        let mut grown: Vec<_> = self.series.iter().filter_map(|series| self.one(series)).collect();
        grown.sort_by(|a, b| (b.now / b.before).total_cmp(&(a.now / a.before)));
        grown
    }

    fn one(&self, series: &Series<'_>) -> Option<Grown> {
        let times = &series.times;
        let split = times.len().checked_sub(RECENT).filter(|usual| *usual >= USUAL_MIN)?;
        let usual: Vec<f64> =
            times[split.saturating_sub(USUAL_MAX)..split].iter().map(|(_, time)| *time).collect();
        let (middle, deviation) = spread(&usual);
        let (mut sum, mut since) = (0.0, None);
        for (night, time) in &times[split..] {
            sum = f64::max(0.0, sum + ((time - middle) / deviation).clamp(-MOST, MOST) - SLACK);
            since = if sum > 0.0 { since.or(Some(*night)) } else { None };
        }
        let last: Vec<f64> = times.iter().rev().take(3).map(|(_, time)| *time).collect();
        let growth = (median(last) - middle).exp();
        let seconds = if series.scenario.is_some() {
            middle.exp()
        } else {
            self.seconds_of(series.kernel, times[split].0)
        };
        let is_more = growth >= GROWTH_MIN.0 && seconds * (growth - 1.0) >= GROWTH_MIN.1;
        (sum > ENOUGH && is_more).then(|| Grown {
            scenario: series.scenario.map(str::to_owned),
            kernel: series.kernel.to_owned(),
            since: self
                .lives
                .nights
                .get(since.unwrap_or_default() as usize)
                .map(|night| night.time())
                .unwrap_or_default(),
            before: seconds,
            now: seconds * growth,
            score: sum,
        })
    }

    /// Returns the seconds of all scenarios of a kernel in a night.
    fn seconds_of(&self, kernel: &str, night: u32) -> f64 {
        let lives = self.lives.lives.iter().filter(|life| life.kernel == kernel);
        lives.filter_map(|life| life.at(night)).map(|lived| f64::from(lived.seconds)).sum()
    }
}

impl<'a> Series<'a> {
    fn of(life: &'a Life, night: u32) -> Series<'a> {
        let passed = life.nights.iter().filter(|lived| lived.night <= night && lived.ending.holds());
        // What takes no time is not compared.
        let times = passed.map(|lived| (lived.night, f64::from(lived.seconds.max(0.01)).ln()));
        let mut times: Vec<_> = times.collect();
        times.drain(..times.len().saturating_sub(RECENT + USUAL_MAX));
        Series { scenario: Some(&life.scenario), kernel: &life.kernel, times }
    }
}

/// Returns for each night how much longer than usual the scenarios of a kernel took, as a logarithm: the median.
fn together(all: &[Series<'_>]) -> Option<Vec<(u32, f64)>> {
    if all.len() < TOGETHER_MIN {
        return None;
    }
    let mut above: Vec<(u32, f64)> = Vec::new();
    for series in all {
        let middle = median(series.times.iter().map(|(_, time)| *time).collect());
        above.extend(series.times.iter().map(|(night, time)| (*night, time - middle)));
    }
    above.sort_by_key(|(night, _)| *night);
    let of_night = |night: &[(u32, f64)]| (night[0].0, median(night.iter().map(|(_, time)| *time).collect()));
    Some(above.chunk_by(|a, b| a.0 == b.0).map(of_night).collect())
}

/// Returns the median and the standard deviation by the median absolute deviation, which outliers do not raise. It is
/// enlarged by what so few nights may hide.
fn spread(usual: &[f64]) -> (f64, f64) {
    let middle = median(usual.to_vec());
    let deviation = 1.4826 * median(usual.iter().map(|time| (time - middle).abs()).collect());
    let uncertain = 1.0 + 1.0 / (usual.len() as f64).sqrt();
    (middle, f64::max(DEVIATION_MIN, deviation * uncertain))
}

fn median(mut values: Vec<f64>) -> f64 {
    let half = values.len() / 2;
    if values.is_empty() { 0.0 } else { *values.select_nth_unstable_by(half, f64::total_cmp).1 }
}
