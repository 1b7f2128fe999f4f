//! Follows docs/tutorial.md, docs/workloads.md and docs/dtrace.md like a new user: writes their files, runs their
//! commands on the real default kernel, and compares their output with that on the page.

use crate::stage::scratch;
use checkers::page::{self, Reader, copy};
use lab::host::process::write_program;
use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// A stand-in for a new user's checkout: the scenarios, and a `cargo` that calls the built xtask.
struct Checkout {
    _place: tempfile::TempDir,
    path: PathBuf,
    programs: PathBuf,
}

impl Checkout {
    fn new() -> Checkout {
        let place = scratch();
        let programs = place.path().join("bin");
        copy(&Path::new(ROOT).join("scenarios"), &place.path().join("scenarios")).unwrap();
        symlink(Path::new(ROOT).join("guest"), place.path().join("guest")).unwrap();
        fs::create_dir(&programs).unwrap();
        let xtask = env!("CARGO_BIN_EXE_xtask");
        let script = format!("#!/bin/sh\n[ \"$1\" = xtask ] || exit 99\nshift\nexec '{xtask}' \"$@\"\n");
        write_program(&programs.join("cargo"), &script).unwrap();
        let path = place.path().canonicalize().unwrap();
        Checkout { _place: place, path, programs }
    }
}

impl Reader for Checkout {
    fn place(&self) -> &Path {
        &self.path
    }

    fn sh(&self, commands: &str) -> Output {
        let path = env::var("PATH").unwrap();
        Command::new("sh")
            .args(["-eu", "-c", commands])
            .current_dir(&self.path)
            .env("PATH", format!("{}:{path}", self.programs.display()))
            .env("FTRACE_LAB_SCENARIOS", self.path.join("scenarios"))
            .env("FTRACE_LAB_RESULTS", self.path.join("results"))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn write(&self, path: &str, body: &str) {
        let inside = path.starts_with("scenarios/") && !path.contains("..");
        assert!(inside, "`{path}` is not below scenarios/");
        let path = self.path.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, body).unwrap();
    }
}

#[test]
fn the_tutorial_does_what_it_says() {
    let (ran, compared) = follow("tutorial.md");
    assert!(ran >= 8 && compared >= 6, "{ran} commands ran, {compared} outputs were compared");
}

#[test]
fn workloads_are_looked_at_as_their_page_says() {
    let (ran, compared) = follow("workloads.md");
    assert!(ran >= 2 && compared >= 1, "{ran} commands ran, {compared} outputs were compared");
}

#[test]
fn one_liners_of_dtrace_are_scenarios_and_bpftrace_agrees() {
    let (ran, compared) = follow("dtrace.md");
    assert!(ran >= 1 && compared >= 1, "{ran} commands ran, {compared} outputs were compared");
}

/// Follows a page of docs/. Returns the number of commands run and of outputs compared.
fn follow(page: &str) -> (usize, usize) {
    page::follow(&Path::new(ROOT).join("docs").join(page), &Checkout::new())
}
