//! `lab repro --show`: describes what a reproducer would do, before any of it is done.

use super::run::{own_kernel_spec, put};
use crate::{
    host::confine::gap,
    kernel::{KernelSpec, SourceSpec},
    reproducer::{MODULES, Origin, Reproducer},
    scenario::{Describe, Scenario},
    words::printable,
};
use anyhow::Result;
use std::{fmt::Write, path::Path};

/// Returns what `reproducer` would fetch, patch, build and run, one item per line. Nothing is fetched or
/// built.
///
/// # Errors
/// The reproducer would be refused.
pub fn show(reproducer: &Reproducer) -> Result<String> {
    // Not in the cache: looking at a file should not create one.
    let place = tempfile::tempdir()?;
    put(reproducer.files.iter(), place.path())?;
    let spec = match &reproducer.kernel.source {
        Origin::Pinned(_) => own_kernel_spec(place.path(), reproducer)?,
        // Run on another tree, configured in the same way.
        Origin::Tree(_) => KernelSpec::load(place.path(), &reproducer.kernel.name)?,
    };
    let scenario = reproducer.scenario(Path::new("scenario.yaml"))?;
    let mut out = format!("{}: {}\n", reproducer.name, scenario.summary);
    section(&mut out, "fetches", fetched(reproducer, &spec, &scenario));
    section(&mut out, "patches, in order", patches(reproducer, &spec));
    section(&mut out, "configures", files(reproducer, |path| path.ends_with(".config")));
    section(&mut out, "builds on this host", built(reproducer, &spec, &scenario));
    section(&mut out, "takes from the checkout, if identical", taken(reproducer));
    section(&mut out, "runs in a guest", run(&spec, &scenario));
    let confined =
        gap()?.unwrap_or("builds are confined by bubblewrap: read-only sources and system, no network");
    section(&mut out, "confinement", vec![confined.to_owned()]);
    // It contains text of a stranger's.
    Ok(printable(out))
}

fn section(out: &mut String, heading: &str, items: Vec<String>) {
    if items.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{heading}");
    for item in items {
        let _ = writeln!(out, "  {}", item.replace('\n', "\n    "));
    }
}

fn fetched(reproducer: &Reproducer, spec: &KernelSpec, scenario: &Scenario) -> Vec<String> {
    let (Origin::Pinned(version) | Origin::Tree(version)) = &reproducer.kernel.source;
    let source = match &spec.source {
        _ if matches!(reproducer.kernel.source, Origin::Tree(_)) => {
            format!("nothing: it failed on a working tree ({version}); name one with `--kernel-tree`")
        }
        SourceSpec::Debian { suite, package, .. } => {
            format!("the source package {package} {version} of Debian {suite}")
        }
        SourceSpec::DebianImage { suite, package, .. } => {
            format!("the kernel package {package} {version} of Debian {suite}")
        }
        SourceSpec::Tree(path) => format!("nothing: the tree {}", path.display()),
        SourceSpec::Tarball { url, sha256 } => format!("{url}, SHA-256 {sha256}"),
        SourceSpec::Git { url, .. } => format!("the commit {version} of {url}"),
    };
    let userland = scenario.userland.as_ref().map(|userland| {
        let packages = userland.packages.iter().map(|package| format!(" {}", package.as_str()));
        format!("Debian packages of the userland {}{}", userland.name.as_str(), packages.collect::<String>())
    });
    [Some(source), userland].into_iter().flatten().collect()
}

fn patches(reproducer: &Reproducer, spec: &KernelSpec) -> Vec<String> {
    let described = |name: &String| {
        let path = format!("kernels/patches/{name}.patch");
        let text = reproducer.files.get(&path).map(String::as_str).unwrap_or_default();
        let changed = text.lines().filter_map(|line| line.strip_prefix("+++ "));
        let changed: Vec<&str> = changed.map(|path| path.trim_start_matches("b/")).collect();
        format!("{path}: {}", changed.join(", "))
    };
    spec.patches.iter().map(described).collect()
}

fn built(reproducer: &Reproducer, spec: &KernelSpec, scenario: &Scenario) -> Vec<String> {
    let mut items = Vec::new();
    if !matches!(spec.source, SourceSpec::DebianImage { .. }) {
        items.push(format!("the kernel {}, with its makefiles and scripts", spec.name));
    }
    let modules: Vec<String> = scenario.modules().iter().map(ToString::to_string).collect();
    if !modules.is_empty() {
        items.push(format!("modules: {}", modules.join(", ")));
    }
    let is_source = |path: &str| path.starts_with(MODULES) || path.starts_with("guest/");
    items.extend(files(reproducer, is_source));
    items
}

/// Returns the contained files that `wanted` selects, each with its size.
fn files(reproducer: &Reproducer, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let selected = reproducer.files.iter().filter(|(path, _)| wanted(path));
    selected.map(|(path, text)| format!("{path}, {} lines", text.lines().count())).collect()
}

fn taken(reproducer: &Reproducer) -> Vec<String> {
    let described = |file: &crate::reproducer::ExternalFile| format!("{}, {} bytes", file.path, file.bytes);
    reproducer.left_out.iter().map(described).collect()
}

fn run(spec: &KernelSpec, scenario: &Scenario) -> Vec<String> {
    let machine = &spec.machine;
    let mut items = vec![format!("machine {}, CPU {}", machine.machine, machine.cpu)];
    if !spec.cmdline.is_empty() {
        items.push(format!("kernel parameters {}", spec.cmdline));
    }
    items.extend(scenario.steps.iter().map(|step| step.describe()));
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        reproducer::{Broken, ExternalFile, Failure, KernelUsed, QemuUsed, SCHEMA},
        results::{Host, Status},
    };

    fn reproducer() -> Reproducer {
        let commit = "1".repeat(40);
        let kernel = "summary: s\nsource: { git: { url: 'https://host.test/linux', ref: v7 } }\n\
                      fragments: [base]\npatches: [evil]\ncmdline: \"quiet\\e[2K\"\n";
        let files = [
            ("kernels/6.12.yaml", kernel),
            ("kernels/base.config", "CONFIG_A=y\nCONFIG_B=y\n"),
            ("kernels/patches/evil.patch", "--- a/Makefile\n+++ b/Makefile\n--- /dev/null\n+++ b/evil.sh\n"),
            ("modules/mine/Kbuild", "obj-m := mine.o\n"),
            ("guest/workloads/w.c", "int main;\n"),
        ];
        Reproducer {
            schema: SCHEMA,
            lab: "0.1.0".into(),
            name: "probes/x".into(),
            verdict: Failure {
                status: Status::Failed,
                reason: "r".into(),
                broken: Broken::Run,
                finding: "f".into(),
                fingerprint: "failed-0123456789ab".into(),
            },
            kernel: KernelUsed {
                name: "6.12".into(),
                version: "6.12.107".into(),
                source: Origin::Pinned(commit),
                config_hash: "ab".repeat(32),
                config: None,
            },
            qemu: QemuUsed { version: "7.2".into(), arguments: Vec::new() },
            host: Host { architecture: "x86_64".into(), cpus: 2, accelerator: "tcg".into() },
            shuffle: None,
            repeat: None,
            scenario: "summary: s\nsteps:\n  - module: { source: modules/mine }\n".into(),
            files: files.map(|(path, text)| (path.to_owned(), text.to_owned())).into(),
            left_out: vec![ExternalFile {
                path: "guest/big".into(),
                bytes: 70_000,
                sha256: "cd".repeat(32),
                why: "it is large".into(),
            }],
        }
    }

    #[test]
    fn everything_that_would_be_done_is_shown() {
        let shown = show(&reproducer()).unwrap();
        let commit = "1".repeat(40);
        for line in [
            &format!("  the commit {commit} of https://host.test/linux"),
            "  kernels/patches/evil.patch: Makefile, evil.sh",
            "  kernels/base.config, 2 lines",
            "  the kernel 6.12, with its makefiles and scripts",
            "  modules/mine/Kbuild, 1 lines",
            "  guest/workloads/w.c, 1 lines",
            "  guest/big, 70000 bytes",
            "  kernel parameters quiet\u{fffd}[2K",
        ] {
            assert!(shown.lines().any(|shown| shown == line), "`{line}` is not in\n{shown}");
        }
    }

    #[test]
    fn what_failed_on_a_working_tree_needs_one() {
        let mut reproducer = reproducer();
        reproducer.kernel.source = Origin::Tree("v6.12-3-gabc".into());
        let shown = show(&reproducer).unwrap();
        let line = "  nothing: it failed on a working tree (v6.12-3-gabc); name one with `--kernel-tree`\n";
        assert!(shown.contains(line), "{shown}");
    }

    #[test]
    fn what_would_be_refused_is_not_shown() {
        let mut reproducer = reproducer();
        let kernel = "summary: s\nsource: { tree: /home/me/linux }\nfragments: [base]\n";
        reproducer.files.insert("kernels/6.12.yaml".into(), kernel.into());
        let error = format!("{:#}", show(&reproducer).unwrap_err());
        assert!(error.contains("the tree `/home/me/linux` on another computer"), "{error}");
    }
}
