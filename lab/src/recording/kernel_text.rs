//! The kernel's own text of the trace, read after the last step, with the settings that it depends on.

use super::{
    link::{CHUNK, read, unexpected},
    tape::Traced,
};
use crate::{
    kernel::Kernel,
    machine::Death,
    plan::below,
    scenario::{Expectation, KernelText, Scenario},
};
use protocol::{Reply, Request, WriteMode, count_of_cpus};
use std::collections::BTreeMap;
use trace::{CpuStats, text::Setting};

/// The files that are read with a text. Each is stored under the name of the text.
const TRACE: &str = "trace";
const OPTIONS: &str = "trace_options";
const TRACER: &str = "current_tracer";
const TGIDS: &str = "saved_tgids";
const DYNAMIC_EVENTS: &str = "dynamic_events";
const STATS: &str = "stats";
const READ_BEFORE: &str = "read_before";
const PREEMPTION: &str = "preemption";
const REFUSED: &str = "refused";
const ONLINE: &str = "/sys/devices/system/cpu/online";

impl Scenario {
    /// Returns the texts that expectations compare.
    pub(super) fn kernel_texts(&self) -> impl Iterator<Item = &KernelText> {
        self.expect.iter().filter_map(|item| match &item.value {
            Expectation::KernelText(text) => Some(text),
            _ => None,
        })
    }
}

/// Reads the texts of a scenario whose tracing has stopped, before its buffers are read.
pub(super) fn kernel_texts(
    traced: &mut Traced<'_>,
    scenario: &Scenario,
    kernel: &Kernel,
) -> Result<BTreeMap<String, String>, Death> {
    let mut files = BTreeMap::new();
    for text in scenario.kernel_texts() {
        let key = |name: &str| stored(text, name);
        if files.contains_key(&key(OPTIONS)) {
            continue;
        }
        let instance = text.instance.as_ref().map(|name| name.as_str());
        let options = below(instance, OPTIONS);
        let before = traced.link.text(&options)?;
        let mut refused = Vec::new();
        for (name, on) in &text.options {
            let name = name.as_str();
            if !set(traced, &options, name, on.0)? {
                refused.push(name.to_owned());
            }
        }
        files.insert(key(OPTIONS), traced.link.text(&options)?);
        files.insert(key(TRACER), traced.link.text(&below(instance, TRACER))?);
        let others = [DYNAMIC_EVENTS, ONLINE].map(str::to_owned);
        for (name, content) in traced.link.files(&others)? {
            files.insert(key(&name), content);
        }
        let stats = (0..traced.link.cpus()).map(|cpu| below(instance, &format!("per_cpu/cpu{cpu}/stats")));
        let stats = stats.map(|path| traced.link.text(&path)).collect::<Result<Vec<_>, _>>()?;
        files.insert(key(STATS), stats.join("\n"));
        let counts = traced.stored(instance).iter().map(u64::to_string).collect::<Vec<_>>();
        files.insert(key(READ_BEFORE), counts.join(" "));
        files.insert(key(PREEMPTION), preemption(kernel).to_owned());
        if !refused.is_empty() {
            files.insert(key(REFUSED), refused.join(" "));
        }
        let (tgids, content) = content(traced, text, instance)?;
        files.insert(key(TGIDS), tgids);
        files.insert(key(TRACE), content);
        for name in text.options.keys() {
            let name = name.as_str();
            let was_on = before.lines().any(|option| option == name);
            set(traced, &options, name, was_on)?;
        }
    }
    Ok(files)
}

/// Sets an option. Returns whether the kernel accepts it.
fn set(traced: &mut Traced<'_>, path: &str, name: &str, on: bool) -> Result<bool, Death> {
    let word = format!("{}{name}\n", if on { "" } else { "no" });
    let request =
        Request::WriteFile { path: path.to_owned(), data: word.into_bytes(), mode: WriteMode::Truncate };
    match traced.link.call(&request)? {
        Reply::Done => Ok(true),
        Reply::Errno { .. } => Ok(false),
        other => Err(unexpected("a trace option", &other)),
    }
}

/// Reads the text itself and the TGIDs that it was printed with. A thread whose events are in the trace may get
/// its TGID only when it is next switched to or from, after the trace has ended; if one did between the reads,
/// all is read again.
fn content(
    traced: &mut Traced<'_>,
    text: &KernelText,
    instance: Option<&str>,
) -> Result<(String, String), Death> {
    let file = text.cpu.map_or_else(|| TRACE.to_owned(), |cpu| format!("per_cpu/cpu{cpu}/{TRACE}"));
    let path = below(instance, &file);
    let mut before = traced.link.text(TGIDS)?;
    loop {
        let content = match traced.link.call(&read(&path))? {
            Reply::Data(data) if is_binary(text) => data.iter().copied().map(char::from).collect(),
            Reply::Data(data) => String::from_utf8_lossy(&data).into_owned(),
            other => return Err(unexpected(&path, &other)),
        };
        let tgids = traced.link.text(TGIDS)?;
        if tgids == before {
            return Ok((tgids, content));
        }
        before = tgids;
    }
}

/// Returns whether the text is stored with one character per byte.
fn is_binary(text: &KernelText) -> bool {
    text.options.iter().any(|(name, on)| name.as_str() == "bin" && on.0)
}

/// Returns the name under which a file of a text is stored.
fn stored(text: &KernelText, name: &str) -> String {
    format!("{text}: {name}")
}

/// Returns the name of the kernel's preemption model, as the header of the latency format prints it.
fn preemption(kernel: &Kernel) -> &'static str {
    let is_set = |symbol: &str| kernel.config().is_set(symbol);
    // Since 7.0 by preempt_model_str().
    let models = [
        ("PREEMPT_RT", "preempt_rt", "PREEMPT_RT"),
        ("PREEMPT_LAZY", "unknown", "PREEMPTLAZY"),
        ("PREEMPT", "preempt", "PREEMPT"),
        ("PREEMPT_VOLUNTARY", "desktop", "VOLUNTARY"),
    ];
    let model = models.into_iter().find(|(symbol, ..)| is_set(symbol));
    let (_, old, new) = model.unwrap_or(("", "server", "NONE"));
    if kernel.version.major >= 7 { new } else { old }
}

/// A text that was read: its bytes and the settings.
pub(crate) struct StoredText {
    pub(crate) bytes: Vec<u8>,
    pub(crate) setting: Setting,
    /// The options that the kernel refused.
    pub(crate) refused: Option<String>,
}

/// Returns a text from the stored files.
pub(crate) fn stored_text(text: &KernelText, files: &BTreeMap<String, String>) -> Option<StoredText> {
    let file = |name: &str| files.get(&stored(text, name)).map(String::as_str);
    let content = file(TRACE)?;
    let bytes: Vec<u8> = match is_binary(text) {
        true => content.chars().map(|c| u8::try_from(c).unwrap_or(b'?')).collect(),
        false => content.as_bytes().to_vec(),
    };
    let mut setting = Setting::new(
        file(OPTIONS)?,
        file(TGIDS).unwrap_or_default(),
        file(DYNAMIC_EVENTS).unwrap_or_default(),
    );
    setting.tracer = file(TRACER)?.trim().to_owned();
    setting.stats = file(STATS)?.split("\n\n").map(CpuStats::parse).collect();
    setting.online = file(ONLINE).map_or(setting.stats.len() as u32, count_of_cpus);
    setting.cpu = text.cpu;
    setting.preemption = file(PREEMPTION).unwrap_or_default().to_owned();
    setting.read_before =
        file(READ_BEFORE)?.split_whitespace().filter_map(|count| count.parse().ok()).collect();
    // A replaced byte of invalid UTF-8 only makes the text longer.
    setting.cut = bytes.len() >= CHUNK;
    Some(StoredText { bytes, setting, refused: file(REFUSED).map(str::to_owned) })
}
