//! Lists the files of the checkout that a lab needs to run scenarios: what it builds guests from, kernels and
//! scenarios. The sources of the lab itself are among them, since the guest's packages belong to its workspace.
//! Their digest is computed here, so that starting the program does not cost it.

use sha2::{Digest, Sha256};
use std::{
    env,
    fmt::Write,
    fs, io,
    path::{Path, PathBuf},
};

const NEEDED: [&str; 7] = ["Cargo.lock", "Cargo.toml", "guest", "kernels", "lab", "scenarios", "xtask"];

/// Inputs of the fuzzer.
const LEFT_OUT: [&str; 2] = ["lab/fuzz/found", "lab/fuzz/seeds"];

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let mut files = Vec::new();
    for name in NEEDED {
        println!("cargo::rerun-if-changed={}", root.join(name).display());
        collect(&root, Path::new(name), &mut files)?;
    }
    files.sort();
    let mut code = "/// Names and contents of the files of the checkout.\n\
                    static FILES: &[(&str, &[u8])] = &[\n"
        .to_owned();
    let mut digest = Sha256::new();
    for name in files {
        let path = root.join(&name);
        let (label, content) = (name.as_os_str().as_encoded_bytes(), fs::read(&path)?);
        for part in [label, &content] {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        writeln!(code, "    ({name:?}, include_bytes!({path:?})),").map_err(io::Error::other)?;
    }
    let digest: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    writeln!(code, "];\n/// A digest of both.\nconst DIGEST: &str = {digest:?};")
        .map_err(io::Error::other)?;
    let out = env::var_os("OUT_DIR").map(PathBuf::from).ok_or(io::ErrorKind::NotFound)?;
    fs::write(out.join("checkout.rs"), code)
}

/// Collects the names of the files at and below `name`, without hidden ones and what builds leave.
fn collect(root: &Path, name: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !root.join(name).is_dir() {
        files.push(name.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(root.join(name))? {
        let entry = entry?.file_name();
        let below = name.join(&entry);
        let is_left_out = LEFT_OUT.iter().any(|left_out| below == Path::new(left_out));
        if !is_left_out && !entry.to_string_lossy().starts_with('.') && entry != "target" {
            collect(root, &below, files)?;
        }
    }
    Ok(())
}
