//! Descriptions of steps.

use super::{Describe, add, checks, code, ends, environment, list, quoted};
use crate::scenario::{
    Crash, CrashCommand, Dkms, EnabledFunctions, Hits, Hook, Kselftest, Load, LoadModule, MakeDirectory,
    Read, Rejects, SampleModule, Shell, SourceModule, Timespan, Unload, Workload, Write,
};

impl Describe for Workload {
    fn describe(&self) -> String {
        let Workload { workload, stdin, env, exit, stdout, stderr, until } = self;
        let mut told = format!("runs `{workload}`");
        match until {
            Some(text) => {
                told += &format!(
                    ", and continues once its stdout contains {}; it keeps running and is killed after the last \
                     step",
                    quoted(text)
                );
            }
            None => told += " to completion",
        }
        if *exit != 0 {
            told += &format!(", expecting exit status {exit}");
        }
        if !stdin.is_empty() {
            told += &format!(", with {} as its stdin", quoted(stdin));
        }
        told + &environment(env) + &checks([("its stdout", stdout.as_ref()), ("its stderr", stderr.as_ref())])
    }
}

impl Describe for Write {
    fn describe(&self) -> String {
        let Write { write, text, append, errno, error_log, kernel_log } = self;
        let verb = if *append { "appends" } else { "writes" };
        format!("{verb} {} to `{write}`", quoted(text))
            + &ends(*errno)
            + &checks([("`error_log`", error_log.as_ref()), ("the kernel log", kernel_log.as_ref())])
    }
}

impl Describe for Rejects {
    fn describe(&self) -> String {
        let Rejects { rejects, errors, errno } = self;
        let told = errors.0.iter().map(|(command, says)| format!("`{command}`: {says}"));
        let told: Vec<_> = told.collect();
        format!(
            "`{rejects}` must reject each of these with {errno}, and `error_log` must point at the `^`: {}",
            told.join("; ")
        )
    }
}

impl Describe for Read {
    fn describe(&self) -> String {
        let Read { read, errno, text } = self;
        format!("reads `{read}`") + &ends(*errno) + &checks([("it", text.as_ref())])
    }
}

impl Describe for MakeDirectory {
    fn describe(&self) -> String {
        let MakeDirectory { mkdir, errno } = self;
        format!("creates the directory `{mkdir}`") + &ends(*errno)
    }
}

impl Describe for Load {
    fn describe(&self) -> String {
        let Load { load, parameters, errno } = self;
        let parameters = add(parameters.as_ref(), |text| format!(" with `{text}`"));
        format!("loads the module `{load}`{parameters}") + &ends(*errno)
    }
}

impl Describe for LoadModule {
    fn describe(&self) -> String {
        let LoadModule { module, parameters, errno } = self;
        let parameters = add(parameters.as_ref(), |text| format!(", with `{text}`"));
        format!("builds and loads {}{parameters}", module.describe()) + &ends(*errno)
    }
}

impl Describe for SourceModule {
    fn describe(&self) -> String {
        let SourceModule { source, name, build } = self;
        let of = add(name.as_ref(), |name| format!("`{name}` of "));
        let by = add(build.as_ref(), |build| format!(", built by `{build}`"));
        format!("{of}the directory `{}`{by}", source.0.display())
    }
}

impl Describe for SampleModule {
    fn describe(&self) -> String {
        let SampleModule { sample } = self;
        format!("the kernel's `samples/{}`", sample.0)
    }
}

impl Describe for Unload {
    fn describe(&self) -> String {
        let Unload { unload, errno } = self;
        format!("unloads the module `{unload}`") + &ends(*errno)
    }
}

impl Describe for Hook {
    fn describe(&self) -> String {
        let Hook { hook, errno } = self;
        let (first, rest) = hook.as_str().split_once(' ').unwrap_or((hook.as_str(), ""));
        let told = if let Some(name) = first.strip_prefix('-') {
            format!("removes the hook `{name}`")
        } else if let Some(name) = first.strip_prefix('+') {
            let words = || rest.split_whitespace();
            let places = words().filter_map(|word| word.strip_prefix("symbol=")).flat_map(|on| on.split(','));
            let others: Vec<_> = words().filter(|word| !word.starts_with("symbol=")).collect();
            let with = if others.is_empty() { String::new() } else { format!(", with {}", list(others)) };
            let places: Vec<_> = places.collect();
            match places.is_empty() {
                true => format!("hooks every traceable function as `{name}`{with}"),
                false => format!("hooks {} as `{name}`{with}", code(places)),
            }
        } else {
            format!("changes the hook `{first}`: {rest}")
        };
        told + &ends(*errno)
    }
}

impl Describe for Hits {
    fn describe(&self) -> String {
        let Hits { hits, count, misses } = self;
        let count = add(*count, |count| format!(": {count} times"));
        let misses = add(*misses, |misses| format!("; its callback could not act in {misses} calls"));
        format!("checks how often the hook `{}` was hit{count}{misses}", hits.0)
    }
}

impl Describe for EnabledFunctions {
    fn describe(&self) -> String {
        let EnabledFunctions { enabled_functions, absent, count, flags, not_flags } = self;
        if *absent {
            return format!("`enabled_functions` must not list `{enabled_functions}`");
        }
        let count = add(*count, |count| format!(", with {count} ftrace_ops"));
        let flags = match flags.0.is_empty() {
            true => String::new(),
            false => format!(", and the flags {}", list(&flags.0)),
        };
        let without = match not_flags.0.is_empty() {
            true => String::new(),
            false => format!(", but not {}", list(&not_flags.0)),
        };
        format!("`enabled_functions` must list `{enabled_functions}`{count}{flags}{without}")
    }
}

impl Describe for Shell {
    fn describe(&self) -> String {
        let Shell { sh, workloads, programs, dkms, systemtap, env, exit, stdout, stderr } = self;
        let lines = sh.as_str().lines().count();
        let script = if lines > 1 { format!("a script of {lines} lines") } else { quoted(sh.as_str()) };
        let mut told = format!("runs {script} in the userland's shell");
        if *exit != 0 {
            told += &format!(", expecting exit status {exit}");
        }
        let beside: Vec<&str> =
            workloads.iter().chain(programs.keys()).map(|name| &**name).collect::<Vec<_>>();
        if !beside.is_empty() {
            told += &format!("; it calls {}", code(beside));
        }
        for (package, Dkms { config: _, define: _, without }) in dkms {
            told += &format!("; it has the modules of the package `{package}`");
            if !without.is_empty() {
                told += &format!(" except {}", code(without.iter().map(|name| &**name)));
            }
        }
        if !systemtap.is_empty() {
            told += &format!("; SystemTap compiles {}", code(systemtap.keys().map(|name| &**name)));
        }
        told + &environment(env) + &checks([("its stdout", stdout.as_ref()), ("its stderr", stderr.as_ref())])
    }
}

impl Describe for Crash {
    fn describe(&self) -> String {
        let Crash { crash } = self;
        let told = crash.iter().map(|CrashCommand { run, output }| {
            format!("`{run}`{}", checks([("its output", output.as_ref())]).replacen(';', ", and", 1))
        });
        format!("runs in crash, attached to the running kernel: {}", told.collect::<Vec<_>>().join("; "))
    }
}

impl Describe for Kselftest {
    fn describe(&self) -> String {
        let Kselftest { kselftest, deadline: _ } = self;
        let deadline = Timespan(self.deadline());
        format!(
            "runs the kernel's selftests `{kselftest}`, each for at most {deadline}; each must pass or skip, except as listed in guest/selftests/known.yaml"
        )
    }
}
