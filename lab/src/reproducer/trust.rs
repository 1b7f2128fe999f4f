//! Limits what the kernel description of someone else's reproducer can do on this computer.
//!
//! A reproducer must be able to build its source. Beyond that it must not name any file of this computer,
//! neither as a source nor through QEMU, whose `-machine` has options that write files.

use crate::kernel::{KernelSpec, SourceSpec};
use anyhow::{Result, bail, ensure};

/// The URL schemes that sources may be fetched from.
const REMOTE: [&str; 3] = ["https://", "http://", "git://"];

/// The only permitted machine, and its permitted options.
const MACHINE: &str = "virt";
const OPTIONS: [&str; 8] =
    ["gic-version", "highmem", "iommu", "its", "mte", "ras", "secure", "virtualization"];

/// Rejects a description that exceeds the limits.
pub fn check(spec: &KernelSpec) -> Result<()> {
    let from = match &spec.source {
        SourceSpec::Git { url, .. } | SourceSpec::Tarball { url, .. } => Some(url),
        SourceSpec::Debian { .. } | SourceSpec::DebianImage { .. } => None,
        SourceSpec::Tree(path) => bail!("its kernel is the tree `{}` on another computer", path.display()),
    };
    if let Some(url) = from.filter(|url| !REMOTE.iter().any(|scheme| url.starts_with(scheme))) {
        bail!("its kernel comes from `{}`, expected a URL with https, http or git", url.escape_debug());
    }
    let machine = &spec.machine;
    let mut words = machine.machine.split(',');
    let known = |word: &str| {
        let (option, value) = word.split_once('=').unwrap_or((word, ""));
        OPTIONS.contains(&option) && value.chars().all(|c| c.is_ascii_alphanumeric())
    };
    ensure!(
        words.next() == Some(MACHINE) && words.all(known),
        "its machine is `{}`, expected `{MACHINE}` with at most these options: {}",
        machine.machine.escape_debug(),
        OPTIONS.join(", ")
    );
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.,=".contains(c);
    ensure!(
        machine.cpu.chars().all(plain),
        "its CPU is `{}`, expected letters, digits and `-_.,=`",
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
        refused("{ tree: /linux }", "{}", "the tree `/linux` on another computer");
        refused("{ git: { url: /linux, ref: x } }", "{}", "expected a URL with");
        refused("{ git: { url: 'ext::sh -c x', ref: x } }", "{}", "expected a URL with");
        let sha256 = "ab".repeat(32);
        let tarball = format!("{{ tarball: {{ url: 'file:///x', sha256: {sha256} }} }}");
        refused(&tarball, "{}", "expected a URL with");
        refused(debian, "{ machine: 'virt,dumpdtb=x' }", "at most these options");
        refused(debian, "{ machine: 'virt,mte=../x' }", "at most these options");
        refused(debian, "{ machine: raspi3b }", "expected `virt`");
        refused(debian, "{ cpu: 'max,x=/y' }", "expected letters, digits");
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
