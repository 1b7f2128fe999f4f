//! Checks that the modules of `lab` are layers: each imports only from the rows above its own in the table of
//! `docs/architecture.md`.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Items of the crate's root that are not modules. Every layer may import them.
const ROOT_ITEMS: [&str; 0] = [];

#[test]
fn no_module_imports_from_a_row_below_its_own() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("../docs/architecture.md")).unwrap();
    let layers = layers(&page);
    let source = root.join("src");
    let modules: BTreeSet<String> = names(&source);
    assert_eq!(modules, layers.iter().cloned().collect(), "the table and the modules of lab/src");
    let mut upward = Vec::new();
    for module in &layers {
        for file in files(&source, module) {
            let text = fs::read_to_string(&file).unwrap();
            let depth = depth(&source, &file);
            for import in wrong(&layers, module, depth, &text) {
                upward.push(format!("{}: {import}", file.display()));
            }
        }
    }
    assert!(upward.is_empty(), "imports from a row below:\n{}", upward.join("\n"));
}

#[test]
fn an_import_from_below_is_found_in_every_form() {
    let layers = ["words", "kernel", "verdict"].map(str::to_owned);
    let check = |module: &str, depth: usize, source: &str, expect: &[&str]| {
        assert_eq!(wrong(&layers, module, depth, source), expect, "{source}");
    };
    check("verdict", 1, "use crate::{kernel::Kernel, words};", &[]);
    check("kernel", 1, "use crate::verdict::Verdict;", &["verdict"]);
    check("kernel", 1, "use crate::{words::nearest, verdict::{self, judge}};", &["verdict"]);
    check("kernel", 2, "fn f() { super::super::verdict::judge() }", &["verdict"]);
    check("kernel", 2, "use super::verdict;", &[]);
    check("words", 1, "macro_rules! m { () => { $crate::kernel::build() } }", &["kernel"]);
    check("words", 1, "// crate::kernel\nconst S: &str = \"crate::kernel\";", &[]);
    check("words", 1, "#[cfg(test)] mod tests { use crate::kernel; } use crate::verdict;", &["verdict"]);
    check("words", 1, "use crate::unknown;", &["unknown"]);
}

/// Returns the first column of the table below the heading "Layers".
fn layers(page: &str) -> Vec<String> {
    let section =
        page.split("\n## ").find(|section| section.starts_with("Layers")).expect("a section Layers");
    let row = |line: &str| Some(line.strip_prefix("| `")?.split('`').next()?.to_owned());
    section.lines().filter_map(row).collect()
}

/// Returns the names of the modules at the top of `source`.
fn names(source: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(source).unwrap().map(|entry| entry.unwrap().path());
    let entries = entries.filter(|path| path.is_file() || path.join("mod.rs").is_file());
    let name = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    entries.map(name).filter(|name| name != "lib").collect()
}

/// Returns the source files of a module, without test files.
fn files(source: &Path, module: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![source.join(module), source.join(format!("{module}.rs"))];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.is_file() && path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.file_stem().unwrap().to_str().unwrap();
            if name != "tests" && name != "fixture" && !name.ends_with("_tests") {
                found.push(path);
            }
        }
    }
    found
}

/// Returns the number of `super` that lead from a file to the crate's root.
fn depth(source: &Path, file: &Path) -> usize {
    let parts = file.strip_prefix(source).unwrap().components().count();
    parts - usize::from(file.file_stem().is_some_and(|name| name == "mod"))
}

/// Returns the modules that `text`, a file of `module`, imports but must not.
fn wrong(layers: &[String], module: &str, depth: usize, text: &str) -> Vec<String> {
    let place = |name: &str| layers.iter().position(|layer| layer == name);
    let mut imported = BTreeSet::new();
    imports(text.parse().expect("Rust"), depth, &mut imported);
    let below = |name: &String| place(name).is_none_or(|place_of| Some(place_of) > place(module));
    imported.into_iter().filter(|name| !ROOT_ITEMS.contains(&name.as_str()) && below(name)).collect()
}

/// Collects the items of the crate's root that `tokens` name: after `crate::`, or after `depth` times `super::`. Skips
/// items that are compiled only for tests.
fn imports(tokens: TokenStream, depth: usize, found: &mut BTreeSet<String>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let text = |at: usize| tokens.get(at).map(TokenTree::to_string).unwrap_or_default();
    let separated = |at: usize| text(at) == ":" && text(at + 1) == ":";
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '#' && text(at) == "[cfg (test)]" => {
                // The next item, up to its block or semicolon.
                while !matches!(tokens.get(at), None | Some(TokenTree::Group(_))) || text(at).starts_with('[')
                {
                    at += 1;
                    if text(at - 1) == ";" {
                        break;
                    }
                }
                at += usize::from(matches!(tokens.get(at), Some(TokenTree::Group(_))) && text(at - 1) != ";");
            }
            TokenTree::Group(group) => imports(group.stream(), depth, found),
            TokenTree::Ident(ident) if *ident == "crate" && separated(at) => {
                root_items(tokens.get(at + 2), found);
                at += 2;
            }
            TokenTree::Ident(ident) if *ident == "super" => {
                let mut supers = 1;
                while separated(at) && text(at + 2) == "super" {
                    supers += 1;
                    at += 3;
                }
                if supers == depth && separated(at) {
                    root_items(tokens.get(at + 2), found);
                    at += 2;
                }
            }
            _ => {}
        }
    }
}

/// Collects what follows `crate::`: one name, or the first names of a list in braces.
fn root_items(token: Option<&TokenTree>, found: &mut BTreeSet<String>) {
    match token {
        Some(TokenTree::Ident(name)) => {
            found.insert(name.to_string());
        }
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
            let mut first = true;
            for token in group.stream() {
                match token {
                    TokenTree::Ident(name) if first => {
                        found.insert(name.to_string());
                        first = false;
                    }
                    TokenTree::Punct(punct) if punct.as_char() == ',' => first = true,
                    _ => first = false,
                }
            }
        }
        _ => {}
    }
}
