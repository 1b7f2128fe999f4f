//! Waits for changes of a directory tree.

use super::interrupt;
use anyhow::{Context, Result, bail};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher, recommended_watcher};
use std::{
    path::Path,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::Duration,
};

/// Changes that follow each other within this time are one, such as those of an editor that writes a file.
const QUIET: Duration = Duration::from_millis(100);

/// How often to look for an interrupt.
const TICK: Duration = Duration::from_millis(200);

/// Notices all changes of the files of a tree from its creation on, but for those that git makes in `.git`.
pub struct Watch {
    _watcher: RecommendedWatcher,
    changes: Receiver<notify::Result<()>>,
}

impl Watch {
    /// Starts watching.
    ///
    /// # Errors
    /// The tree cannot be read, or has more directories than a user may watch.
    pub fn on(tree: &Path) -> Result<Watch> {
        let tree = fs_err::canonicalize(tree)?;
        let (sender, changes) = channel();
        let git = tree.join(".git");
        let mut watcher = recommended_watcher(move |event: notify::Result<Event>| {
            let change = match event {
                Ok(event) if !is_change(&event, &git) => return,
                event => event.map(drop),
            };
            // Nobody waits any more.
            let _ = sender.send(change);
        })?;
        watcher
            .watch(&tree, RecursiveMode::Recursive)
            .with_context(|| format!("cannot watch `{}`", tree.display()))?;
        Ok(Watch { _watcher: watcher, changes })
    }

    /// Returns after a change that came since the last call.
    ///
    /// # Errors
    /// The lab was asked to stop.
    pub fn wait(&self) -> Result<()> {
        loop {
            match self.changes.recv_timeout(TICK) {
                Ok(change) => break change?,
                Err(RecvTimeoutError::Timeout) => interrupt::check()?,
                Err(RecvTimeoutError::Disconnected) => bail!("the directory is no longer watched"),
            }
        }
        while self.changes.recv_timeout(QUIET).is_ok() {
            interrupt::check()?;
        }
        Ok(())
    }
}

/// Returns whether an event changes a file outside of `git`. If events were lost, one may have.
fn is_change(event: &Event, git: &Path) -> bool {
    event.need_rescan() || !event.kind.is_access() && event.paths.iter().any(|path| !path.starts_with(git))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fs_err as fs;
    use std::thread;

    #[test]
    fn a_saved_file_is_a_change_and_what_git_does_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir_all(at("kernel/trace")).unwrap();
        fs::create_dir(at(".git")).unwrap();
        fs::write(at("kernel/trace/trace.c"), "").unwrap();
        let watch = Watch::on(directory.path()).unwrap();
        fs::read(at("kernel/trace/trace.c")).unwrap();
        fs::write(at(".git/index"), "").unwrap();
        thread::sleep(2 * QUIET);
        assert_eq!(watch.changes.try_iter().count(), 0);
        // A change is kept until it is asked for.
        fs::write(at("kernel/trace/trace.c"), "int x;").unwrap();
        watch.wait().unwrap();
        assert!(watch.changes.try_recv().is_err());
    }

    #[test]
    fn a_tree_that_is_not_there_is_named() {
        let Err(error) = Watch::on(Path::new("/nowhere/linux")) else { panic!("it is watched") };
        assert!(error.to_string().contains("/nowhere/linux"), "{error}");
    }
}
