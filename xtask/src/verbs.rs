//! The verbs, and what their help begins with.

use crate::{
    affected, bench, bisect, build, cache, check, ci, complete, coverage, crash, diff, doctor, explain,
    explore, fuzz, gdb, history, init, judge, list, matrix, mcp, merge, minimize, module, mutants, new, own,
    report, repro, resolve, run, schema, shell, trace,
};
use anyhow::Result;
use clap::Subcommand;
use lab::{init::Subject, scenario::Project};
use std::env;

/// First commands for a new user.
const BEGIN: &str = "Start here:\n  \
    cargo xtask doctor                                check the prerequisites of this host\n  \
    cargo xtask lab run --yes probes/eventfd-write    run one scenario; the first run builds a kernel\n  \
    cargo xtask lab explain probes/eventfd-write      describe what it does\n  \
    cargo xtask lab new first/mine                    create your own\n\n\
    docs/tutorial.md continues from there.";

pub(crate) const EXIT_CODES: &str = "Exit codes, unless a command lists its own: 0 all passed (unsupported allowed), 1 at least one \
                          scenario failed, 2 usage error or invalid file, 3 the lab itself failed.";

pub(crate) fn begin() -> String {
    format!("{BEGIN}\n\n{EXIT_CODES}")
}

/// What one is likely to want in the current directory.
pub(crate) fn likely() -> &'static str {
    let here = env::current_dir().unwrap_or_default();
    if Project::above(&here).is_ok_and(|project| project.is_some()) {
        return "This is a project:\n  \
            ftrace-lab run          run its scenarios\n  \
            ftrace-lab check        check its files without a kernel\n  \
            ftrace-lab new NAME     create a scenario";
    }
    let is_built = ["Kbuild", "Makefile"].iter().any(|name| here.join(name).is_file());
    match Subject::of(&here) {
        Ok(Subject::KernelTree) => {
            "This is a kernel tree:\n  \
            ftrace-lab run --yes --kernel-tree . probes    build it, and run scenarios on it\n  \
            ftrace-lab init                                keep scenarios of your own in it"
        }
        Ok(Subject::Modules(_)) if is_built => {
            "There is a module here:\n  \
            ftrace-lab module .     check it on several kernels\n  \
            ftrace-lab init         write ftrace-lab.yaml and a first scenario"
        }
        _ => {
            "Start here:\n  \
            ftrace-lab doctor                                    check the prerequisites of this host\n  \
            ftrace-lab init                                      test the module or program of a directory\n  \
            ftrace-lab run --kernel debian-13 probes/eventfd-write    run one of the ready scenarios"
        }
    }
}

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Run scenarios on kernels; inspect, reproduce and bisect the results
    #[command(subcommand, after_help = begin())]
    Lab(LabOfCheckout),
    Doctor(doctor::Doctor),
    /// Build everything and run all tests: unit tests, then every scenario on the default kernel
    Test(own::Test),
    Ci(own::Ci),
    /// Run one of the lab's benchmarks
    Bench(bench::Bench),
    Fuzz(fuzz::Fuzz),
    Mutants(mutants::Mutants),
    Completions(complete::Completions),
}

#[derive(Subcommand)]
pub(crate) enum InstalledVerb {
    #[command(flatten)]
    Lab(Box<Lab>),
    Doctor(doctor::Doctor),
    Completions(complete::Completions),
}

#[derive(Subcommand)]
pub(crate) enum LabOfCheckout {
    #[command(flatten)]
    Lab(Box<Lab>),
    Schema(schema::Schema),
}

#[derive(Subcommand)]
pub(crate) enum Lab {
    Run(run::Run),
    List(list::List),
    Init(init::Init),
    New(new::New),
    Explain(explain::Explain),
    Check(check::Check),
    Kernels(list::Kernels),
    Build(build::Build),
    Diff(diff::Diff),
    Bisect(Box<bisect::Bisect>),
    Explore(explore::Explore),
    Ci(Box<ci::Ci>),
    Judge(judge::Judge),
    Coverage(coverage::Coverage),
    Affected(affected::Show),
    Module(module::Module),
    Matrix(matrix::Matrix),
    Merge(merge::Merge),
    History(Box<history::History>),
    Report(report::Report),
    Repro(repro::Repro),
    Minimize(minimize::Minimize),
    Cache(cache::Show),
    Trace(trace::Print),
    Crash(crash::Crash),
    Shell(shell::Shell),
    Gdb(gdb::Gdb),
    Resolve(resolve::Resolve),
    Mcp(mcp::Mcp),
}

impl Verb {
    /// Returns whether its output is data for a program, with nothing of a guest in it.
    pub(crate) fn prints_data(&self) -> bool {
        match self {
            Verb::Lab(verb) => match verb {
                LabOfCheckout::Lab(verb) => verb.prints_data(),
                LabOfCheckout::Schema(_) => true,
            },
            Verb::Completions(_) | Verb::Bench(_) => true,
            Verb::Fuzz(verb) => verb.list,
            Verb::Doctor(_) | Verb::Test(_) | Verb::Ci(_) | Verb::Mutants(_) => false,
        }
    }

    pub(crate) fn json(&self) -> bool {
        match self {
            Verb::Lab(LabOfCheckout::Lab(verb)) => verb.json(),
            Verb::Doctor(verb) => verb.json.wanted,
            _ => false,
        }
    }

    pub(crate) fn run(self) -> Result<u8> {
        match self {
            Verb::Lab(verb) => match verb {
                LabOfCheckout::Lab(verb) => verb.run(),
                LabOfCheckout::Schema(verb) => verb.run(),
            },
            Verb::Doctor(verb) => verb.run(),
            Verb::Test(verb) => verb.run(),
            Verb::Ci(verb) => verb.run(),
            Verb::Bench(verb) => verb.run(),
            Verb::Fuzz(verb) => verb.run(),
            Verb::Mutants(verb) => verb.run(),
            Verb::Completions(verb) => verb.run(),
        }
    }
}

impl InstalledVerb {
    pub(crate) fn prints_data(&self) -> bool {
        match self {
            InstalledVerb::Lab(verb) => verb.prints_data(),
            InstalledVerb::Doctor(_) => false,
            InstalledVerb::Completions(_) => true,
        }
    }

    pub(crate) fn json(&self) -> bool {
        match self {
            InstalledVerb::Lab(verb) => verb.json(),
            InstalledVerb::Doctor(verb) => verb.json.wanted,
            InstalledVerb::Completions(_) => false,
        }
    }

    pub(crate) fn run(self) -> Result<u8> {
        match self {
            InstalledVerb::Lab(verb) => verb.run(),
            InstalledVerb::Doctor(verb) => verb.run(),
            InstalledVerb::Completions(verb) => verb.run(),
        }
    }
}

impl Lab {
    pub(crate) fn prints_data(&self) -> bool {
        matches!(self, Lab::List(_) | Lab::Kernels(_) | Lab::Matrix(_) | Lab::Mcp(_))
    }

    /// Returns whether `--json` is among its options.
    pub(crate) fn json(&self) -> bool {
        let json = match self {
            Lab::Run(verb) => verb.json,
            Lab::List(verb) => verb.json,
            Lab::Check(verb) => verb.json,
            Lab::Kernels(verb) => verb.json,
            Lab::Diff(verb) => verb.json,
            Lab::Ci(verb) => verb.run.json,
            Lab::Judge(verb) => verb.json,
            Lab::Coverage(verb) => verb.json,
            Lab::Affected(verb) => verb.json,
            Lab::Module(verb) => verb.json,
            Lab::Merge(verb) => verb.json,
            Lab::History(verb) => return verb.json(),
            Lab::Cache(verb) => verb.json,
            Lab::Resolve(verb) => verb.json,
            _ => return false,
        };
        json.wanted
    }

    pub(crate) fn run(self) -> Result<u8> {
        match self {
            Lab::Run(verb) => verb.run(),
            Lab::List(verb) => verb.run(),
            Lab::Init(verb) => verb.run(),
            Lab::New(verb) => verb.run(),
            Lab::Explain(verb) => verb.run(),
            Lab::Check(verb) => verb.run(),
            Lab::Kernels(verb) => verb.run(),
            Lab::Build(verb) => verb.run(),
            Lab::Diff(verb) => verb.run(),
            Lab::Bisect(verb) => verb.run(),
            Lab::Explore(verb) => verb.run(),
            Lab::Ci(verb) => verb.run(),
            Lab::Module(verb) => verb.run(),
            Lab::Matrix(verb) => verb.run(),
            Lab::Cache(verb) => verb.run(),
            Lab::Merge(verb) => verb.run(),
            Lab::History(verb) => verb.run(),
            Lab::Report(verb) => verb.run(),
            Lab::Repro(verb) => verb.run(),
            Lab::Minimize(verb) => verb.run(),
            Lab::Judge(verb) => verb.run(),
            Lab::Coverage(verb) => verb.run(),
            Lab::Affected(verb) => verb.run(),
            Lab::Trace(verb) => verb.run(),
            Lab::Crash(verb) => verb.run(),
            Lab::Shell(verb) => verb.run(),
            Lab::Gdb(verb) => verb.run(),
            Lab::Resolve(verb) => verb.run(),
            Lab::Mcp(verb) => verb.run(),
        }
    }
}
