//! `kernels/*.yaml` below the checkout → the [`KernelSpec`]s, with their patches and known bugs checked.

use super::{
    bugs, patches,
    small_file::read_capped,
    spec::{KernelSpec, SpecError, check_name, directory},
};
use crate::words::nearest_is;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A larger file is not a kernel description.
const FILE_LIMIT_BYTES: u64 = 64 * 1024;

impl KernelSpec {
    /// Reads `kernels/NAME.yaml` below `root`, the checkout.
    pub fn load(root: &Path, name: &str) -> Result<KernelSpec, SpecError> {
        let mut spec = KernelSpec::read(root, name)?;
        if let Some(other) = &spec.bugs_of {
            let other = KernelSpec::read(root, other)?;
            bugs::add(&mut spec, other)
                .map_err(|cause| SpecError::Invalid { path: path(root, name), cause })?;
        }
        Ok(spec)
    }

    fn read(root: &Path, name: &str) -> Result<KernelSpec, SpecError> {
        check_name(name)?;
        let path = path(root, name);
        let text = read_capped(&path, FILE_LIMIT_BYTES).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => SpecError::Unknown {
                name: name.to_owned(),
                nearest: nearest_is(name, &names(root)),
                known: quoted_list(&names(root)),
            },
            _ => SpecError::Invalid { path: path.clone(), cause: error.to_string() },
        })?;
        let spec = KernelSpec::parse(name, &text).and_then(|spec| {
            patches::check(&spec)?;
            bugs::check(&spec, root)?;
            Ok(spec)
        });
        spec.map_err(|cause| SpecError::Invalid { path, cause })
    }
}

fn path(root: &Path, name: &str) -> PathBuf {
    directory(root).join(format!("{name}.yaml"))
}

/// Reads every kernel description below `root`, the checkout, sorted by name.
pub fn list(root: &Path) -> Result<Vec<KernelSpec>, SpecError> {
    names(root).iter().map(|name| KernelSpec::load(root, name)).collect()
}

/// Returns the names of all kernel descriptions below `root`, the checkout, sorted.
pub(super) fn names(root: &Path) -> Vec<String> {
    let Ok(files) = fs::read_dir(directory(root)) else { return Vec::new() };
    let name = |path: PathBuf| {
        let name = path.file_stem()?.to_str()?.to_owned();
        (path.extension()? == "yaml").then_some(name)
    };
    let mut names: Vec<String> = files.flatten().filter_map(|file| name(file.path())).collect();
    names.sort();
    names
}

/// Lists names for a message: `` `6.1`, `6.12` ``.
pub(super) fn quoted_list(names: &[String]) -> String {
    if names.is_empty() {
        return "none".into();
    }
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_kernel_names_the_known_ones() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("kernels")).unwrap();
        fs::write(
            root.path().join("kernels/6.12.yaml"),
            "summary: s\nsource: { tree: /linux }\nfragments: [base]",
        )
        .unwrap();
        fs::write(root.path().join("kernels/base.config"), "").unwrap();
        let error = KernelSpec::load(root.path(), "6.13").unwrap_err().to_string();
        assert!(error.contains("no kernel `6.13`") && error.contains("there are `6.12`;"), "{error}");
        assert_eq!(list(root.path()).unwrap()[0].name, "6.12");
        for name in ["../6.12", "", ".hidden", "a/b", "a\0b"] {
            assert!(matches!(KernelSpec::load(root.path(), name), Err(SpecError::Name(_))), "{name:?}");
        }
    }
}
