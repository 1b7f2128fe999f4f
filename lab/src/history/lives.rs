//! The file → [`Lives`]: what each scenario did on each kernel, night after night.

use super::{FailureSeen, History, HistoryError, Night, NightInfo, NightKernel, store};
use crate::{
    coverage::Share,
    results::{Host, Status},
};
use rusqlite::{Connection, Row, params};
use std::collections::HashMap;

/// The nights of a history and the life of each scenario on each kernel, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Lives {
    /// The nights.
    pub nights: Vec<NightInfo>,
    /// The lives, by kernel and scenario.
    pub lives: Vec<Life>,
    /// The failures: fingerprint and what was seen. Their reproducers are left in the file.
    pub failures: Vec<(String, FailureSeen)>,
}

/// The life of a scenario on a kernel.
#[derive(Clone, Debug)]
pub struct Life {
    /// The kernel's name.
    pub kernel: String,
    /// The scenario's name.
    pub scenario: String,
    /// The nights in which it ran, oldest first.
    pub nights: Vec<Lived>,
}

/// What a scenario did in a night.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lived {
    /// The index of the night.
    pub night: u32,
    /// How it ended.
    pub ending: Ending,
    /// The status of its first try that failed, else of its last one.
    pub status: Status,
    /// Tries with a verdict that were not made because of a failure: 1, or the number of repeats.
    pub first_tries: u32,
    /// Those of them that failed.
    pub failed_first: u32,
    /// All tries that failed.
    pub failed: u32,
    /// The index of the first failure.
    pub failure: Option<u32>,
    /// The seconds of the last try.
    pub seconds: f32,
}

/// How a scenario ended in a night, with all of its tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every try passed.
    Passed,
    /// It failed as listed in the `bugs` of its kernel.
    KnownBug,
    /// A try failed, another one passed.
    Flaky,
    /// No try passed, and one failed.
    Failed,
    /// The kernel lacks what it requires.
    Unsupported,
    /// The lab failed at each try.
    LabError,
}

impl Lives {
    /// Reads the last nights of a history, at most `max` of them.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(history: &History, max: usize) -> Result<Lives, HistoryError> {
        history.read(|connection| {
            // One transaction: a night that is added in the meantime is in all of it, or in nothing.
            connection.execute_batch("BEGIN")?;
            let read = read(connection, max);
            connection.execute_batch("COMMIT")?;
            read
        })
    }

    /// Returns the life of a scenario on a kernel.
    pub fn life(&self, kernel: &str, scenario: &str) -> Option<&Life> {
        let key = |life: &Life| (life.kernel.as_str(), life.scenario.as_str()).cmp(&(kernel, scenario));
        self.lives.binary_search_by(key).ok().map(|at| &self.lives[at])
    }

    /// Returns the index of the night that started at a time; without one, of the last night.
    ///
    /// # Errors
    /// There is no such night.
    pub fn night(&self, time: Option<&str>) -> Result<u32, HistoryError> {
        let last =
            self.nights.last().ok_or_else(|| HistoryError::Unknown("the history has no nights".into()))?;
        let Some(text) = time else { return Ok(self.nights.len() as u32 - 1) };
        let started = Night::parse_time(text).map_err(HistoryError::Unknown)?;
        let at = self.nights.binary_search_by_key(&started, |night| night.started);
        at.map(|at| at as u32).map_err(|_| {
            HistoryError::Unknown(format!(
                "no night of the history started at {text}; the last one did at {}",
                last.time()
            ))
        })
    }

    /// Returns the index of the last night.
    pub fn last(&self) -> Option<u32> {
        self.nights.len().checked_sub(1).map(|last| last as u32)
    }

    /// Returns the nights up to one, as if the history ended there.
    pub fn until(&self, night: u32) -> Lives {
        let mut until = self.clone();
        until.nights.truncate(night as usize + 1);
        until.lives.iter_mut().for_each(|life| life.nights.retain(|lived| lived.night <= night));
        until.lives.retain(|life| !life.nights.is_empty());
        until
    }

    /// Returns the fingerprint of a failure.
    pub fn fingerprint(&self, failure: Option<u32>) -> Option<&str> {
        self.failures.get(failure? as usize).map(|(fingerprint, _)| fingerprint.as_str())
    }
}

impl Life {
    /// Returns what it did in a night.
    pub fn at(&self, night: u32) -> Option<&Lived> {
        self.nights.binary_search_by_key(&night, |lived| lived.night).ok().map(|at| &self.nights[at])
    }
}

impl Ending {
    /// All endings, with their names.
    pub const ALL: [(Ending, &str); 6] = [
        (Ending::Passed, "passed"),
        (Ending::KnownBug, "known bug"),
        (Ending::Flaky, "flaky"),
        (Ending::Failed, "failed"),
        (Ending::Unsupported, "unsupported"),
        (Ending::LabError, "lab error"),
    ];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        Ending::ALL.iter().find(|(ending, _)| *ending == self).map_or("", |(_, name)| name)
    }

    /// Returns whether the kernel was tested, and nothing unexpected was found.
    pub fn holds(self) -> bool {
        matches!(self, Ending::Passed | Ending::KnownBug)
    }
}

fn read(connection: &Connection, max: usize) -> rusqlite::Result<Lives> {
    let texts: HashMap<i64, String> = connection
        .prepare("SELECT id, text FROM text")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let text = |row: &Row<'_>, at: usize| -> rusqlite::Result<String> {
        let id: i64 = row.get(at)?;
        texts.get(&id).cloned().ok_or(rusqlite::Error::IntegralValueOutOfRange(at, id))
    };
    let mut nights = nights(connection, max, &text)?;
    let Some(since) = nights.first().map(|night| night.started) else { return Ok(Lives::default()) };
    let places: HashMap<i64, u32> =
        nights.iter().enumerate().map(|(index, night)| (night.started, index as u32)).collect();
    let mut query = connection.prepare("SELECT * FROM night_kernel WHERE night >= ?")?;
    let mut rows = query.query([since])?;
    while let Some(row) = rows.next()? {
        let Some(&night) = places.get(&row.get(0)?) else { continue };
        let share = |at: usize| -> rusqlite::Result<Option<Share>> {
            let (ran, all): (Option<i64>, Option<i64>) = (row.get(at)?, row.get(at + 1)?);
            let share = |(ran, all): (i64, i64)| {
                Some(Share { ran: usize::try_from(ran).ok()?, all: usize::try_from(all).ok()? })
            };
            Ok(ran.zip(all).and_then(share))
        };
        let covered = share(4)?.zip(share(6)?).map(|(lines, functions)| [lines, functions]);
        let kernel =
            NightKernel { name: text(row, 1)?, version: text(row, 2)?, config: text(row, 3)?, covered };
        nights[night as usize].kernels.push(kernel);
    }
    let (failures, failure_places) = failures(connection)?;
    let mut lives: HashMap<i64, Life> = connection
        .prepare("SELECT id, kernel, scenario FROM scenario_on_kernel")?
        .query_map([], |row| {
            Ok((row.get(0)?, Life { kernel: text(row, 1)?, scenario: text(row, 2)?, nights: Vec::new() }))
        })?
        .collect::<rusqlite::Result<_>>()?;
    let mut query = connection.prepare(
        "SELECT night, place, repeat, retry, status, hundredths, failure FROM result WHERE night >= ? \
         ORDER BY night, place, repeat, retry",
    )?;
    let mut rows = query.query(params![since])?;
    while let Some(row) = rows.next()? {
        let place: i64 = row.get(1)?;
        let life = lives.get_mut(&place).ok_or(rusqlite::Error::IntegralValueOutOfRange(1, place))?;
        let Some(&night) = places.get(&row.get(0)?) else { continue };
        let failure: Option<i64> = row.get(6)?;
        let tried = One {
            is_first: row.get::<_, i64>(3)? == 0,
            status: store::status(row.get(4)?)?,
            seconds: row.get::<_, i64>(5)? as f32 / 100.0,
            failure: failure.and_then(|failure| failure_places.get(&failure).copied()),
        };
        life.add(night, &tried);
    }
    let mut lives: Vec<Life> = lives.into_values().filter(|life| !life.nights.is_empty()).collect();
    lives.sort_by(|a, b| (&a.kernel, &a.scenario).cmp(&(&b.kernel, &b.scenario)));
    Ok(Lives { nights, lives, failures })
}

fn nights(
    connection: &Connection,
    max: usize,
    text: &impl Fn(&Row<'_>, usize) -> rusqlite::Result<String>,
) -> rusqlite::Result<Vec<NightInfo>> {
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    let query = "SELECT id, seconds, complete, qemu, architecture, cpus, accelerator FROM night ORDER BY id DESC LIMIT ?";
    let mut query = connection.prepare(query)?;
    let nights = query.query_map([max], |row| {
        Ok(NightInfo {
            started: row.get(0)?,
            seconds: row.get(1)?,
            complete: row.get(2)?,
            qemu: text(row, 3)?,
            host: Host {
                architecture: text(row, 4)?,
                cpus: usize::try_from(row.get::<_, i64>(5)?).unwrap_or_default(),
                accelerator: text(row, 6)?,
            },
            kernels: Vec::new(),
        })
    })?;
    let mut nights = nights.collect::<rusqlite::Result<Vec<_>>>()?;
    nights.reverse();
    Ok(nights)
}

type Failures = (Vec<(String, FailureSeen)>, HashMap<i64, u32>);

fn failures(connection: &Connection) -> rusqlite::Result<Failures> {
    let (mut failures, mut places) = (Vec::new(), HashMap::new());
    let mut query = connection.prepare("SELECT id, fingerprint, broken, finding FROM failure ORDER BY id")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        places.insert(row.get(0)?, failures.len() as u32);
        let seen = FailureSeen { broken: row.get(2)?, finding: row.get(3)?, reproducer: Vec::new() };
        failures.push((row.get(1)?, seen));
    }
    Ok((failures, places))
}

/// One try.
struct One {
    is_first: bool,
    status: Status,
    seconds: f32,
    failure: Option<u32>,
}

impl Life {
    /// Adds a try of a night; those of a night follow each other.
    fn add(&mut self, night: u32, tried: &One) {
        let ending = match tried.status {
            Status::Passed => Ending::Passed,
            Status::KnownBug => Ending::KnownBug,
            Status::Unsupported => Ending::Unsupported,
            Status::LabError => Ending::LabError,
            _ => Ending::Failed,
        };
        let failed = u32::from(ending == Ending::Failed);
        let has_verdict = ending.holds() || ending == Ending::Failed;
        let first = u32::from(tried.is_first && has_verdict);
        let this = Lived {
            night,
            ending,
            status: tried.status,
            first_tries: first,
            failed_first: first * failed,
            failed,
            failure: tried.failure,
            seconds: tried.seconds,
        };
        match self.nights.last_mut().filter(|last| last.night == night) {
            None => self.nights.push(this),
            Some(last) => {
                last.ending = both(last.ending, ending);
                if last.failed == 0 {
                    last.status = tried.status;
                }
                last.first_tries += this.first_tries;
                last.failed_first += this.failed_first;
                last.failed += failed;
                last.failure = last.failure.or(tried.failure);
                last.seconds = tried.seconds;
            }
        }
    }
}

/// Returns the ending of a night with two of its tries.
fn both(one: Ending, other: Ending) -> Ending {
    use Ending::{Failed, Flaky, LabError, Unsupported};
    match (one, other) {
        (one, other) if one == other => one,
        // Without a verdict, a try says nothing.
        (LabError, verdict) | (verdict, LabError) => verdict,
        (Unsupported, verdict) | (verdict, Unsupported) => verdict,
        (Failed | Flaky, _) | (_, Failed | Flaky) => Flaky,
        (one, _) => one,
    }
}
