//! [`History`]: the file with all nights.
//!
//! Names, versions and failures are stored once and referred to by number. A result is a row of about 17 bytes in the
//! order of the nights, so that a night is appended; see the schema. Everything that a verb writes is one transaction.

use super::{FailureSeen, Night, NightInfo, Tried};
use crate::results::Status;
use flate2::{Compression, read::ZlibDecoder, write::ZlibEncoder};
use fs_err as fs;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, params};
use std::{
    collections::HashMap,
    io::{Read, Write},
    path::{Path, PathBuf},
    time::Duration,
};

/// The file, in the directory of a history.
pub const FILE: &str = "history.sqlite";

/// The number that marks the file as a history, `ftrc`, and the version of its format. A later format is refused.
const APPLICATION: i32 = 0x6674_7263;
const FORMAT: i32 = 1;

/// How long to wait for another process that writes.
const PATIENCE: Duration = Duration::from_secs(60);

/// The maximum size of a reproducer when it is unpacked, in bytes.
const REPRODUCER_MAX: u64 = 1 << 20;

const SCHEMA: &str = include_str!("schema.sql");

/// The nights, in a file.
#[derive(Debug)]
pub struct History {
    pub(super) connection: Connection,
    path: PathBuf,
}

/// What cannot be done with a history.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// There is none.
    #[error("no history in `{}`; `cargo xtask lab history add REPORT --into {}` begins one", .0.display(), .0.display())]
    None(PathBuf),
    /// A file that is not a history, or one of a later version of the lab.
    #[error("cannot read the history `{}`: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: String,
    },
    /// A report that cannot be added.
    #[error("cannot add {0}")]
    Report(String),
    /// A question about something that is not in the history.
    #[error("{0}")]
    Unknown(String),
    /// The file cannot be read or written.
    #[error("cannot use the history `{}`: {source}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
}

/// What adding a report did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The history has one more night.
    New,
    /// It had this night before; nothing was changed.
    Known,
}

impl History {
    /// Opens the history in a directory, to add to it; creates it if there is none.
    ///
    /// # Errors
    /// The file is not a history of this version, or cannot be written.
    pub fn create(directory: &Path) -> Result<History, HistoryError> {
        fs::create_dir_all(directory).map_err(|error| unreadable(directory, error))?;
        let path = directory.join(FILE);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut history = History::connect(path, flags)?;
        history.with(|connection| {
            // Two processes may begin the same one: whoever is first, creates the tables.
            let transaction =
                connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            let tables: i64 =
                transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
            if tables == 0 {
                transaction.execute_batch(SCHEMA)?;
                transaction.pragma_update(None, "application_id", APPLICATION)?;
                transaction.pragma_update(None, "user_version", FORMAT)?;
            }
            transaction.commit()
        })?;
        history.check()?;
        Ok(history)
    }

    /// Opens the history in a directory, to read it.
    ///
    /// # Errors
    /// There is none, or it is not of this version.
    pub fn open(directory: &Path) -> Result<History, HistoryError> {
        let path = directory.join(FILE);
        if !path.is_file() {
            return Err(HistoryError::None(directory.to_owned()));
        }
        let history = History::connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        history.check()?;
        Ok(history)
    }

    fn connect(path: PathBuf, flags: OpenFlags) -> Result<History, HistoryError> {
        let open = || {
            let connection = Connection::open_with_flags(&path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
            connection.busy_timeout(PATIENCE)?;
            // The file may come from another machine: nothing in its schema is run.
            connection.pragma_update(None, "trusted_schema", false)?;
            connection.pragma_update(None, "cell_size_check", true)?;
            Ok(connection)
        };
        match open() {
            Ok(connection) => Ok(History { connection, path }),
            Err(source) => Err(HistoryError::Database { path, source }),
        }
    }

    /// Refuses a file of another application, and of a later version.
    fn check(&self) -> Result<(), HistoryError> {
        let number = |name: &str| {
            self.read(|connection| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0)))
        };
        if number("application_id")? != APPLICATION {
            return Err(unreadable(&self.path, "it is not a history of the lab"));
        }
        match number("user_version")? {
            FORMAT => Ok(()),
            other => Err(unreadable(
                &self.path,
                format!("it has format {other}, and this version of the lab reads {FORMAT}; update the lab"),
            )),
        }
    }

    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, HistoryError> {
        read(&self.connection).map_err(|source| HistoryError::Database { path: self.path.clone(), source })
    }

    fn with<T>(
        &mut self,
        write: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T, HistoryError> {
        write(&mut self.connection)
            .map_err(|source| HistoryError::Database { path: self.path.clone(), source })
    }

    /// Adds a night. The same night again changes nothing.
    ///
    /// # Errors
    /// The history has another report of a night that started at the same time, or cannot be written.
    pub fn add(&mut self, night: &Night) -> Result<Added, HistoryError> {
        let digest = night.digest();
        let known = self.with(|connection| {
            let transaction =
                connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            let known: Option<Vec<u8>> = transaction
                .query_row("SELECT digest FROM night WHERE id = ?", [night.info.started], |row| row.get(0))
                .optional()?;
            if known.is_none() {
                Writer {
                    transaction: &transaction,
                    texts: HashMap::new(),
                    cases: HashMap::new(),
                    failures: HashMap::new(),
                }
                .night(night, &digest)?;
            }
            transaction.commit()?;
            Ok(known)
        })?;
        match known {
            None => Ok(Added::New),
            Some(known) if known == digest => Ok(Added::Known),
            Some(_) => {
                let started = night.info.time();
                Err(HistoryError::Report(format!(
                    "this report: the history has a different one of the night that started at {started}; merge the parts of a night \
                     before they are added, or remove that night with `cargo xtask lab history remove {started}`"
                )))
            }
        }
    }

    /// Removes a night, such as that of a broken host. Returns whether there was one.
    ///
    /// # Errors
    /// The history cannot be written.
    pub fn remove(&mut self, started: i64) -> Result<bool, HistoryError> {
        self.with(|connection| {
            let transaction = connection.transaction()?;
            transaction.execute("DELETE FROM result WHERE night = ?", [started])?;
            transaction.execute("DELETE FROM night_kernel WHERE night = ?", [started])?;
            let removed = transaction.execute("DELETE FROM night WHERE id = ?", [started])?;
            transaction.execute(
                "DELETE FROM failure WHERE id NOT IN (SELECT failure FROM result WHERE failure IS NOT NULL)",
                [],
            )?;
            transaction.commit()?;
            Ok(removed > 0)
        })
    }

    /// Returns the `repro.yaml` of a failure, if one was kept.
    ///
    /// # Errors
    /// The history cannot be read.
    pub fn reproducer(&self, fingerprint: &str) -> Result<Option<String>, HistoryError> {
        let packed: Option<Vec<u8>> = self.read(|connection| {
            let query = "SELECT reproducer FROM failure WHERE fingerprint = ?";
            connection.query_row(query, [fingerprint], |row| row.get(0)).optional().map(Option::flatten)
        })?;
        let Some(packed) = packed else { return Ok(None) };
        let mut text = String::new();
        let unpacked = ZlibDecoder::new(packed.as_slice()).take(REPRODUCER_MAX).read_to_string(&mut text);
        Ok(unpacked.is_ok().then_some(text))
    }
}

fn unreadable(path: &Path, cause: impl ToString) -> HistoryError {
    HistoryError::Unreadable { path: path.to_owned(), cause: cause.to_string() }
}

/// A night that is being written, with the numbers of what it names.
struct Writer<'a> {
    transaction: &'a Transaction<'a>,
    texts: HashMap<String, i64>,
    /// By kernel and scenario.
    cases: HashMap<String, HashMap<String, i64>>,
    failures: HashMap<String, i64>,
}

impl Writer<'_> {
    fn night(&mut self, night: &Night, digest: &[u8]) -> rusqlite::Result<()> {
        let NightInfo { started, seconds, complete, qemu, host, kernels } = &night.info;
        let (qemu, architecture) = (self.text(qemu)?, self.text(&host.architecture)?);
        let accelerator = self.text(&host.accelerator)?;
        let cpus = i64::try_from(host.cpus).unwrap_or(i64::MAX);
        self.transaction.execute(
            "INSERT INTO night VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            params![started, digest, seconds, complete, qemu, architecture, cpus, accelerator],
        )?;
        for kernel in kernels {
            let [name, version, config] = [&kernel.name, &kernel.version, &kernel.config];
            let (name, version, config) = (self.text(name)?, self.text(version)?, self.text(config)?);
            let share = |at: usize| {
                kernel.covered.map(|covered| (covered[at].ran as i64, covered[at].all as i64)).unzip()
            };
            let ((lines_ran, lines), (functions_ran, functions)) = (share(0), share(1));
            self.transaction.execute(
                "INSERT OR IGNORE INTO night_kernel VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                params![started, name, version, config, lines_ran, lines, functions_ran, functions],
            )?;
        }
        // In the order of the table, which is then only appended to.
        let mut rows = Vec::with_capacity(night.tries.len());
        for tried in &night.tries {
            let failure = match &tried.fingerprint {
                Some(fingerprint) => Some(self.failure(fingerprint, night.failures.get(fingerprint))?),
                None => None,
            };
            rows.push((
                self.case(tried)?,
                tried.repeat,
                tried.retry,
                number(tried.status),
                hundredths(tried.seconds),
                failure,
            ));
        }
        rows.sort_unstable();
        let mut insert =
            self.transaction.prepare_cached("INSERT INTO result VALUES (?, ?, ?, ?, ?, ?, ?)")?;
        for (case, repeat, retry, status, hundredths, failure) in rows {
            insert.execute(params![started, case, repeat, retry, status, hundredths, failure])?;
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> rusqlite::Result<i64> {
        if let Some(id) = self.texts.get(text) {
            return Ok(*id);
        }
        self.transaction.prepare_cached("INSERT OR IGNORE INTO text (text) VALUES (?)")?.execute([text])?;
        let id = self
            .transaction
            .prepare_cached("SELECT id FROM text WHERE text = ?")?
            .query_row([text], |row| row.get(0))?;
        self.texts.insert(text.to_owned(), id);
        Ok(id)
    }

    fn case(&mut self, tried: &Tried) -> rusqlite::Result<i64> {
        if let Some(id) = self.cases.get(&tried.kernel).and_then(|of_kernel| of_kernel.get(&tried.scenario)) {
            return Ok(*id);
        }
        let (kernel, scenario) = (self.text(&tried.kernel)?, self.text(&tried.scenario)?);
        self.transaction
            .prepare_cached("INSERT OR IGNORE INTO scenario_on_kernel (kernel, scenario) VALUES (?, ?)")?
            .execute([kernel, scenario])?;
        let query = "SELECT id FROM scenario_on_kernel WHERE kernel = ? AND scenario = ?";
        let id = self.transaction.prepare_cached(query)?.query_row([kernel, scenario], |row| row.get(0))?;
        self.cases.entry(tried.kernel.clone()).or_default().insert(tried.scenario.clone(), id);
        Ok(id)
    }

    /// Returns the number of a failure. The last reproducer is kept: it is that of the newest lab.
    fn failure(&mut self, fingerprint: &str, seen: Option<&FailureSeen>) -> rusqlite::Result<i64> {
        if let Some(id) = self.failures.get(fingerprint) {
            return Ok(*id);
        }
        let seen = seen.cloned().unwrap_or_default();
        let packed = (!seen.reproducer.is_empty()).then(|| packed(&seen.reproducer));
        let insert = "INSERT INTO failure (fingerprint, broken, finding, reproducer) VALUES (?, ?, ?, ?) ON CONFLICT (fingerprint) \
                      DO UPDATE SET reproducer = ifnull(excluded.reproducer, reproducer)";
        self.transaction.prepare_cached(insert)?.execute(params![
            fingerprint,
            seen.broken,
            seen.finding,
            packed
        ])?;
        let id = self
            .transaction
            .prepare_cached("SELECT id FROM failure WHERE fingerprint = ?")?
            .query_row([fingerprint], |row| row.get(0))?;
        self.failures.insert(fingerprint.to_owned(), id);
        Ok(id)
    }
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    // Writing to memory does not fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

fn hundredths(seconds: f64) -> i64 {
    (seconds * 100.0).round() as i64
}

/// The number of a status in the file, its place in this list. 0 and 1 take no space. New ones are added at the end.
const STATUSES: [Status; 11] = [
    Status::Passed,
    Status::Unsupported,
    Status::Failed,
    Status::Inconclusive,
    Status::KnownBug,
    Status::Panic,
    Status::Oops,
    Status::Splat,
    Status::Hang,
    Status::LostGuest,
    Status::LabError,
];

fn number(status: Status) -> i64 {
    STATUSES.iter().position(|known| *known == status).unwrap_or_default() as i64
}

/// Returns the status with this number; a number that is none says that the file is corrupt.
pub(super) fn status(number: i64) -> rusqlite::Result<Status> {
    let status = usize::try_from(number).ok().and_then(|number| STATUSES.get(number));
    status.copied().ok_or(rusqlite::Error::IntegralValueOutOfRange(0, number))
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
