//! Reports → [`History`]: nights that add up, in one file of SQLite, and what they say together.
//!
//! A night is one report, or one run. Of each it keeps what is compared between nights: status, fingerprint and
//! seconds of each try, what was measured of its coverage, the versions of kernels, QEMU and host. Of each failure it
//! keeps one reproducer. Reports are input from other machines: their sizes and names are limited, and nothing of them
//! is used as a path or as SQL.
//!
//! The file is read into [`Lives`], one per scenario and kernel; everything that is asked about the history is a pure
//! function of these.

mod between;
mod deny;
mod evidence;
mod judge;
mod kcidb;
mod lives;
mod night;
mod pace;
mod questions;
#[cfg(test)]
mod simulated;
mod site;
mod store;

pub use between::{Between, Versions, between};
pub use deny::{DenyList, KnownFailure, StaleEntry};
pub use evidence::Rate;
pub use judge::{Alarm, AlarmKind, Case, Failing, Flaky, Judged, judge};
pub use kcidb::kcidb;
pub use lives::{Ending, Life, Lived, Lives};
pub use night::{FailureSeen, Night, NightInfo, NightKernel, Tried};
pub use pace::{Grown, Paces};
pub use questions::{Changed, FailureShown, FlakeShown, LifeShown, NightShown, Since};
pub use site::write_site;
pub use store::{Added, FILE, History, HistoryError};
