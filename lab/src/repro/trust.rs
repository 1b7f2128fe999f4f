//! What a kernel's description may ask of this machine where someone else wrote it.
//!
//! That its source is built here is what a reproducer is for. Beyond that it names no file of this
//! machine: neither as a source nor by way of QEMU, whose `-machine` would write some.

use crate::kernel::{KernelSpec, SourceSpec};
use anyhow::{Result, bail, ensure};

/// Where a source may be fetched from.
const REMOTE: [&str; 3] = ["https://", "http://", "git://"];

/// The one machine, and what of it may be chosen.
const MACHINE: &str = "virt";
const OPTIONS: [&str; 8] =
    ["gic-version", "highmem", "iommu", "its", "mte", "ras", "secure", "virtualization"];

/// Refuses a description that asks for more.
pub(super) fn check(spec: &KernelSpec) -> Result<()> {
    let from = match &spec.source {
        SourceSpec::Git { url, .. } | SourceSpec::Tarball { url, .. } => Some(url),
        SourceSpec::Debian { .. } | SourceSpec::DebianImage { .. } => None,
        SourceSpec::Tree(path) => bail!("its kernel is the tree `{}` of another machine", path.display()),
    };
    if let Some(url) = from.filter(|url| !REMOTE.iter().any(|scheme| url.starts_with(scheme))) {
        bail!("its kernel comes from `{}`, which is not taken from a file", url.escape_debug());
    }
    let machine = &spec.machine;
    let mut words = machine.machine.split(',');
    let known = |word: &str| {
        let (option, value) = word.split_once('=').unwrap_or((word, ""));
        OPTIONS.contains(&option) && value.chars().all(|c| c.is_ascii_alphanumeric())
    };
    ensure!(
        words.next() == Some(MACHINE) && words.all(known),
        "its machine is `{}`, expected `{MACHINE}` with none but these options: {}",
        machine.machine.escape_debug(),
        OPTIONS.join(", ")
    );
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.,=".contains(c);
    ensure!(
        machine.cpu.chars().all(plain),
        "its CPU is `{}`, expected plain words",
        machine.cpu.escape_debug()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn checked(source: &str, machine: &str) -> Result<()> {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("kernels")).unwrap();
        let yaml = format!("summary: s\nfragments: [base]\nsource: {source}\nmachine: {machine}\n");
        fs::write(root.path().join("kernels/x.yaml"), yaml).unwrap();
        check(&KernelSpec::load(root.path(), "x")?)
    }

    #[test]
    fn a_description_from_elsewhere_names_no_file_of_this_machine() {
        let debian = "{ debian: { suite: sid, package: linux-source-7.2 } }";
        let good = |source: &str, machine: &str| checked(source, machine).unwrap();
        good(debian, "{}");
        good("{ git: { url: 'https://host.test/linux', ref: v7.3 } }", "{ smp: 4 }");
        good(debian, "{ machine: 'virt,gic-version=3,mte=on', cpu: 'max,pauth-impdef=on' }");
        let refused = |source: &str, machine: &str, expect: &str| {
            let error = format!("{:#}", checked(source, machine).unwrap_err());
            assert!(error.contains(expect), "{source} {machine}: {error}");
        };
        refused("{ tree: /linux }", "{}", "the tree `/linux` of another machine");
        refused("{ git: { url: /linux, ref: x } }", "{}", "not taken from a file");
        refused("{ git: { url: 'ext::sh -c x', ref: x } }", "{}", "not taken from a file");
        let sha256 = "ab".repeat(32);
        let tarball = format!("{{ tarball: {{ url: 'file:///x', sha256: {sha256} }} }}");
        refused(&tarball, "{}", "not taken from a file");
        refused(debian, "{ machine: 'virt,dumpdtb=x' }", "none but these options");
        refused(debian, "{ machine: 'virt,mte=../x' }", "none but these options");
        refused(debian, "{ machine: raspi3b }", "expected `virt`");
        refused(debian, "{ cpu: 'max,x=/y' }", "expected plain words");
        for (suite, package) in
            [("..", "linux"), ("-x", "linux"), ("sid", "-o=x"), ("sid", "a/b"), ("s d", "l")]
        {
            refused(
                &format!("{{ debian: {{ suite: '{suite}', package: '{package}' }} }}"),
                "{}",
                "source.debian",
            );
        }
    }
}
