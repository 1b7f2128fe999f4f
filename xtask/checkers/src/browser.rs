//! Drives a headless Chromium through the DevTools protocol.
//!
//! The protocol uses two pipes to Chromium, so no port is open. Dropping the [`Browser`] stops
//! Chromium; its profile is a temporary directory.

use anyhow::{Context, Result, anyhow, bail};
use fs_err as fs;
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Its name in Debian.
const PROGRAM: &str = "chromium";

/// The time limit for an answer from Chromium.
const DEADLINE: Duration = Duration::from_secs(120);

/// The longest message, in bytes: a screenshot is one message.
const MESSAGE_MAX: usize = 64 << 20;

/// A running Chromium with one page.
#[derive(Debug)]
pub struct Browser {
    process: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    session: String,
    next: u64,
    /// Received messages that no call was waiting for.
    events: Vec<Value>,
    _profile: TempDir,
}

impl Browser {
    /// Starts Chromium with an empty page.
    pub fn start() -> Result<Browser> {
        let profile = tempfile::tempdir()?;
        let mut process =
            command(profile.path()).spawn().with_context(|| format!("cannot run `{PROGRAM}`"))?;
        let (Some(to), Some(from)) = (process.stdin.take(), process.stdout.take()) else {
            bail!("`{PROGRAM}` has no pipes");
        };
        let (sender, receiver) = channel();
        thread::Builder::new().name("browser".into()).spawn(move || {
            let mut from = BufReader::new(from);
            let mut message = Vec::new();
            while from.read_until(0, &mut message).is_ok_and(|length| length > 1) {
                message.pop();
                let Ok(value) = serde_json::from_slice(&message) else { return };
                if message.len() > MESSAGE_MAX || sender.send(value).is_err() {
                    return;
                }
                message.clear();
            }
        })?;
        let mut browser = Browser {
            process,
            to,
            from: receiver,
            session: String::new(),
            next: 0,
            events: Vec::new(),
            _profile: profile,
        };
        browser.attach()?;
        Ok(browser)
    }

    fn attach(&mut self) -> Result<()> {
        let target = self.call("Target.createTarget", json!({ "url": "about:blank" }))?;
        let attached =
            self.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }))?;
        self.session = attached["sessionId"].as_str().context("Chromium did not attach a page")?.to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(())
    }

    /// Calls a method of the protocol; an error names the method and the reason.
    pub fn call(&mut self, method: &str, parameters: Value) -> Result<Value> {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        let mut bytes = serde_json::to_vec(&message)?;
        bytes.push(0);
        self.to.write_all(&bytes).with_context(|| format!("cannot send `{method}` to Chromium"))?;
        let until = Instant::now() + DEADLINE;
        loop {
            let answer = self.receive(until).with_context(|| format!("no answer to `{method}`"))?;
            if answer["id"] != self.next {
                self.events.push(answer);
            } else if let Some(error) = answer.get("error") {
                bail!("Chromium rejected `{method}`: {error}");
            } else {
                return Ok(answer["result"].clone());
            }
        }
    }

    fn receive(&mut self, until: Instant) -> Result<Value> {
        match self.from.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(value) => Ok(value),
            Err(RecvTimeoutError::Timeout) => bail!("Chromium did not answer within {DEADLINE:?}"),
            Err(RecvTimeoutError::Disconnected) => bail!("Chromium has exited"),
        }
    }

    /// Navigates to a page. Returns when its document has started to load; it need not be complete.
    pub fn open(&mut self, url: &str) -> Result<()> {
        self.events.clear();
        let answer = self.call("Page.navigate", json!({ "url": url }))?;
        match answer.get("errorText") {
            Some(error) => Err(anyhow!("cannot open `{url}`: {error}")),
            None => Ok(()),
        }
    }

    /// Returns the value of an expression in the page, awaiting a promise. An exception is an
    /// error.
    pub fn evaluate(&mut self, expression: &str) -> Result<Value> {
        let parameters = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true });
        let answer = self.call("Runtime.evaluate", parameters)?;
        match answer.get("exceptionDetails") {
            Some(thrown) => Err(anyhow!("`{expression}` threw {}", thrown["exception"]["description"])),
            None => Ok(answer["result"]["value"].clone()),
        }
    }

    /// Waits until an expression is true.
    pub fn wait_for(&mut self, expression: &str) -> Result<()> {
        let until = Instant::now() + DEADLINE;
        while self.evaluate(&format!("Boolean({expression})"))? != true {
            if Instant::now() > until {
                bail!("`{expression}` did not become true within {DEADLINE:?}");
            }
            // Pages change with frames.
            self.evaluate("new Promise((done) => setTimeout(done, 20))")?;
        }
        Ok(())
    }

    /// Presses and releases a key: `Enter`, `Tab`, `Escape`, `ArrowRight`, or a character.
    pub fn press(&mut self, key: &str) -> Result<()> {
        let code = match key {
            "Enter" => 13,
            "Tab" => 9,
            "Escape" => 27,
            _ => 0,
        };
        let text = match key {
            "Enter" => "\r",
            key if key.chars().count() == 1 => key,
            _ => "",
        };
        let mut parameters = json!({ "type": "keyDown", "key": key, "windowsVirtualKeyCode": code });
        if !text.is_empty() {
            parameters["text"] = text.into();
        }
        self.call("Input.dispatchKeyEvent", parameters)?;
        self.call(
            "Input.dispatchKeyEvent",
            json!({ "type": "keyUp", "key": key, "windowsVirtualKeyCode": code }),
        )?;
        Ok(())
    }

    /// Turns the wheel at a point of the window, in CSS pixels; a negative `by` scrolls up.
    pub fn wheel(&mut self, x: f64, y: f64, by: f64) -> Result<()> {
        let parameters = json!({ "type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": by });
        self.call("Input.dispatchMouseEvent", parameters).map(drop)
    }

    /// Clicks on a point of the window, in CSS pixels.
    pub fn click(&mut self, x: f64, y: f64) -> Result<()> {
        for kind in ["mousePressed", "mouseReleased"] {
            let parameters = json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", parameters)?;
        }
        Ok(())
    }

    /// Sets the size of the window, in CSS pixels; a narrow one is treated as a phone's.
    pub fn resize(&mut self, width: u32, height: u32) -> Result<()> {
        let parameters =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", parameters).map(drop)
    }

    /// Sets the preferred colour scheme: `dark` or `light`.
    pub fn prefer(&mut self, scheme: &str) -> Result<()> {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features })).map(drop)
    }

    /// Saves the contents of the window as a PNG file.
    pub fn screenshot(&mut self, path: &Path) -> Result<()> {
        use base64::{Engine, engine::general_purpose::STANDARD};
        let answer = self.call("Page.captureScreenshot", json!({ "format": "png" }))?;
        let png = STANDARD.decode(answer["data"].as_str().unwrap_or_default())?;
        fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        Ok(fs::write(path, png)?)
    }

    /// Returns errors and warnings of the page since it was opened, and its network requests.
    pub fn complaints(&mut self) -> Vec<String> {
        while let Ok(event) = self.from.try_recv() {
            self.events.push(event);
        }
        let complaint = |event: &Value| {
            let parameters = &event["params"];
            let wrong = match event["method"].as_str()? {
                "Runtime.exceptionThrown" => true,
                "Runtime.consoleAPICalled" => {
                    matches!(parameters["type"].as_str(), Some("error" | "warning"))
                }
                "Log.entryAdded" => {
                    matches!(parameters["entry"]["level"].as_str(), Some("error" | "warning"))
                }
                "Network.requestWillBeSent" => {
                    let url = parameters["request"]["url"].as_str().unwrap_or_default();
                    !url.starts_with("file:") && !url.starts_with("data:")
                }
                _ => false,
            };
            wrong.then(|| parameters.to_string())
        };
        self.events.iter().filter_map(complaint).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Chromium's child processes are in its process group, which is killed as a whole.
        let group = rustix::process::Pid::from_child(&self.process);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.process.wait();
    }
}

/// Returns the command for Chromium, with a shell that moves the pipes: Chromium reads the protocol
/// from descriptor 3 and writes it to 4.
fn command(profile: &Path) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh", PROGRAM])
        .args([
            "--headless",
            "--remote-debugging-pipe",
            "--disable-gpu",
            "--no-first-run",
            "--hide-scrollbars",
        ])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", profile.display()));
    // It does not run as root otherwise, as in CI containers. The page is the lab's own.
    if rustix::process::geteuid().is_root() {
        command.arg("--no-sandbox");
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    command
}
