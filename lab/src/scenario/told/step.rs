//! Steps in words.

use super::{Told, add, checks, code, ends, environment, list, quoted};
use crate::scenario::{
    Crash, CrashCommand, EnabledFunctions, Hits, Hook, Insert, Kselftest, Load, MakeDirectory, Read, Refuses,
    SampleModule, Shell, SourceModule, Span, Unload, Workload, Write,
};

impl Told for Workload {
    fn told(&self) -> String {
        let Workload { workload, stdin, env, exit, stdout, stderr, until } = self;
        let mut told = format!("runs `{workload}`");
        match until {
            Some(text) => {
                told += &format!(
                    ", and goes on as soon as its stdout has {}; it runs beside the steps behind, and is killed \
                     in the end",
                    quoted(text)
                );
            }
            None => told += " to its end",
        }
        if *exit != 0 {
            told += &format!(", which must be exit status {exit}");
        }
        if !stdin.is_empty() {
            told += &format!(", with {} as its stdin", quoted(stdin));
        }
        told + &environment(env) + &checks([("its stdout", stdout.as_ref()), ("its stderr", stderr.as_ref())])
    }
}

impl Told for Write {
    fn told(&self) -> String {
        let Write { write, text, append, errno, error_log, kernel_log } = self;
        let verb = if *append { "appends" } else { "writes" };
        format!("{verb} {} to `{write}`", quoted(text))
            + &ends(*errno)
            + &checks([("`error_log`", error_log.as_ref()), ("the kernel log", kernel_log.as_ref())])
    }
}

impl Told for Refuses {
    fn told(&self) -> String {
        let Refuses { refuses, errors, errno } = self;
        let told = errors.0.iter().map(|(command, says)| format!("`{command}`: {says}"));
        let told: Vec<_> = told.collect();
        format!(
            "`{refuses}` must refuse each of these with {errno}, and `error_log` point at the `^`: {}",
            told.join("; ")
        )
    }
}

impl Told for Read {
    fn told(&self) -> String {
        let Read { read, errno, text } = self;
        format!("reads `{read}`") + &ends(*errno) + &checks([("it", text.as_ref())])
    }
}

impl Told for MakeDirectory {
    fn told(&self) -> String {
        let MakeDirectory { mkdir, errno } = self;
        format!("makes the directory `{mkdir}`") + &ends(*errno)
    }
}

impl Told for Load {
    fn told(&self) -> String {
        let Load { load, parameters, errno } = self;
        let parameters = add(parameters.as_ref(), |text| format!(" with `{text}`"));
        format!("loads the module `{load}`{parameters}") + &ends(*errno)
    }
}

impl Told for Insert {
    fn told(&self) -> String {
        let Insert { module, parameters, errno } = self;
        let parameters = add(parameters.as_ref(), |text| format!(", with `{text}`"));
        format!("builds and loads {}{parameters}", module.told()) + &ends(*errno)
    }
}

impl Told for SourceModule {
    fn told(&self) -> String {
        let SourceModule { source, name } = self;
        let of = add(name.as_ref(), |name| format!("`{name}` of "));
        format!("{of}the directory `{}`", source.0.display())
    }
}

impl Told for SampleModule {
    fn told(&self) -> String {
        let SampleModule { sample } = self;
        format!("the kernel's `samples/{}`", sample.0)
    }
}

impl Told for Unload {
    fn told(&self) -> String {
        let Unload { unload, errno } = self;
        format!("unloads the module `{unload}`") + &ends(*errno)
    }
}

impl Told for Hook {
    fn told(&self) -> String {
        let Hook { hook, errno } = self;
        let (first, rest) = hook.as_str().split_once(' ').unwrap_or((hook.as_str(), ""));
        let told = if let Some(name) = first.strip_prefix('-') {
            format!("takes the hook `{name}` away")
        } else if let Some(name) = first.strip_prefix('+') {
            let words = || rest.split_whitespace();
            let places = words().filter_map(|word| word.strip_prefix("symbol=")).flat_map(|on| on.split(','));
            let others: Vec<_> = words().filter(|word| !word.starts_with("symbol=")).collect();
            let with = if others.is_empty() { String::new() } else { format!(", with {}", list(others)) };
            let places: Vec<_> = places.collect();
            match places.is_empty() {
                true => format!("makes a hook `{name}` that is on nothing yet{with}"),
                false => format!("hooks {} as `{name}`{with}", code(places)),
            }
        } else {
            format!("tells the hook `{first}`: {rest}")
        };
        told + &ends(*errno)
    }
}

impl Told for Hits {
    fn told(&self) -> String {
        let Hits { hits, count, misses } = self;
        let count = add(*count, |count| format!(": {count} times"));
        let misses = add(*misses, |misses| format!("; it could do nothing in {misses} of its calls"));
        format!("asks how often the hook `{}` was hit{count}{misses}", hits.0)
    }
}

impl Told for EnabledFunctions {
    fn told(&self) -> String {
        let EnabledFunctions { enabled_functions, absent, count, flags, without } = self;
        if *absent {
            return format!("`enabled_functions` must not have `{enabled_functions}`");
        }
        let count = add(*count, |count| format!(", with {count} ftrace_ops"));
        let flags = match flags.0.is_empty() {
            true => String::new(),
            false => format!(", and the flags {}", list(&flags.0)),
        };
        let without = match without.0.is_empty() {
            true => String::new(),
            false => format!(", but not {}", list(&without.0)),
        };
        format!("`enabled_functions` must have `{enabled_functions}`{count}{flags}{without}")
    }
}

impl Told for Shell {
    fn told(&self) -> String {
        let Shell { sh, workloads, programs, env, exit, stdout, stderr } = self;
        let lines = sh.as_str().lines().count();
        let script = if lines > 1 { format!("a script of {lines} lines") } else { quoted(sh.as_str()) };
        let mut told = format!("has the userland's shell run {script}");
        if *exit != 0 {
            told += &format!(", which must end with exit status {exit}");
        }
        let beside: Vec<&str> =
            workloads.iter().chain(programs.keys()).map(|name| &**name).collect::<Vec<_>>();
        if !beside.is_empty() {
            told += &format!("; it calls {}", code(beside));
        }
        told + &environment(env) + &checks([("its stdout", stdout.as_ref()), ("its stderr", stderr.as_ref())])
    }
}

impl Told for Crash {
    fn told(&self) -> String {
        let Crash { crash } = self;
        let told = crash.iter().map(|CrashCommand { run, output }| {
            format!("`{run}`{}", checks([("it", output.as_ref())]).replacen(';', ", and what it says,", 1))
        });
        format!("asks crash, attached to the running kernel: {}", told.collect::<Vec<_>>().join("; "))
    }
}

impl Told for Kselftest {
    fn told(&self) -> String {
        let Kselftest { kselftest, deadline: _ } = self;
        let deadline = Span(self.deadline());
        format!(
            "runs the kernel's own selftests `{kselftest}`, each for at most {deadline}; each must pass or skip, but for those of guest/selftests/known.yaml"
        )
    }
}
