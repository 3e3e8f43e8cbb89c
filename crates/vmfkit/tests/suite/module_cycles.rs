//! Modules have no cycles: in each folder of `src`, files and folders depend on one another in one
//! direction only.
//!
//! A folder and its `mod.rs` are one module, and the files of a folder may use declarations of its
//! `mod.rs`. Modules with `#[cfg(test)]`, and files called `tests` or `..._tests`, may use
//! anything. Paths (`use` trees, and paths that begin with `crate::`, `super::` or `self::`) are
//! parsed from the source text and resolved through `pub use`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A module, from the root of its crate: `["hypothesis", "mean"]`.
type Module = Vec<String>;

/// The tokens of a source text, without comments, strings and `cfg(test)` modules.
fn tokens(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut found: Vec<String> = Vec::new();
    let mut i = 0;
    while i < chars.len() {
        let rest = &chars[i..];
        if rest.starts_with(&['/', '/']) {
            i += rest.iter().position(|c| *c == '\n').unwrap_or(rest.len());
        } else if rest[0] == '"' {
            i += 1;
            while chars[i] != '"' {
                i += if chars[i] == '\\' { 2 } else { 1 };
            }
            i += 1;
        } else if rest[0] == '\'' && rest.get(1) == Some(&'\\') {
            i += 3 + rest[3..].iter().position(|c| *c == '\'').expect("the end of a character");
            i += 1;
        } else if rest[0] == '\'' && rest.get(2) == Some(&'\'') {
            i += 3;
        } else if rest[0].is_alphanumeric() || rest[0] == '_' {
            let length = rest.iter().position(|c| !c.is_alphanumeric() && *c != '_').unwrap_or(rest.len());
            found.push(rest[..length].iter().collect());
            i += length;
        } else if rest.starts_with(&[':', ':']) {
            found.push("::".into());
            i += 2;
        } else {
            if !rest[0].is_whitespace() {
                found.push(rest[0].into());
            }
            i += 1;
        }
    }
    without_test_modules(found)
}

fn without_test_modules(tokens: Vec<String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        let is =
            |at: usize, words: &[&str]| words.iter().enumerate().all(|(j, word)| tokens.get(at + j).is_some_and(|t| t == word));
        if is(i, &["#", "[", "cfg", "(", "test", ")", "]", "mod"]) && is(i + 9, &["{"]) {
            let mut depth = 0;
            i += 9;
            loop {
                depth += usize::from(tokens[i] == "{");
                depth -= usize::from(tokens[i] == "}");
                i += 1;
                if depth == 0 {
                    break;
                }
            }
        } else {
            kept.push(tokens[i].clone());
            i += 1;
        }
    }
    kept
}

/// A path used by a file, and the name under which a `pub use` exports it.
struct Used {
    path: Module,
    exported: Option<String>,
}

/// Adds the paths of the `use` tree that begins at token `i`. Returns the index after it.
fn use_tree(tokens: &[String], mut i: usize, prefix: &[String], public: bool, found: &mut Vec<Used>) -> usize {
    let mut path = prefix.to_vec();
    loop {
        if tokens[i] == "{" {
            i += 1;
            while tokens[i] != "}" {
                i = use_tree(tokens, i, &path, public, found);
                i += usize::from(tokens[i] == ",");
            }
            return i + 1;
        }
        path.push(tokens[i].clone());
        i += 1;
        if tokens[i] != "::" {
            break;
        }
        i += 1;
    }
    let mut name = path.last().filter(|name| *name != "self").or(prefix.last()).cloned();
    if tokens[i] == "as" {
        name = Some(tokens[i + 1].clone());
        i += 2;
    }
    found.push(Used { path, exported: name.filter(|_| public) });
    i
}

fn used_paths(text: &str) -> Vec<Used> {
    let tokens = tokens(text);
    let mut found = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        if tokens[i] == "use" {
            let public = i > 0 && (tokens[i - 1] == "pub" || tokens[i - 1] == ")");
            i = use_tree(&tokens, i + 1, &[], public, &mut found);
        } else if tokens.get(i + 1).is_some_and(|next| next == "::") && (i == 0 || tokens[i - 1] != "::") {
            let mut path = vec![tokens[i].clone()];
            while tokens[i + 1] == "::" && tokens[i + 2].starts_with(|c: char| c.is_alphabetic() || c == '_') {
                path.push(tokens[i + 2].clone());
                i += 2;
            }
            found.push(Used { path, exported: None });
            i += 1;
        } else {
            i += 1;
        }
    }
    found
}

/// The paths used by each module of a crate.
struct Tree(BTreeMap<Module, Vec<Used>>);

impl Tree {
    /// From source texts with their paths under `src`, without `.rs`.
    fn new<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let module = |path: &str| {
            let mut module: Module = path.split('/').map(str::to_string).collect();
            module.pop_if(|last| matches!(last.as_str(), "lib" | "main" | "mod"));
            module
        };
        Tree(files.into_iter().map(|(path, text)| (module(path), used_paths(text))).collect())
    }

    fn read(src: &Path) -> Self {
        fn collect(folder: &Path, prefix: &str, found: &mut Vec<(String, String)>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = format!("{prefix}{}", path.file_stem().unwrap().to_str().unwrap());
                if path.is_dir() {
                    collect(&path, &format!("{name}/"), found);
                } else if !name.ends_with("_tests") && !name.ends_with("/tests") {
                    found.push((name, std::fs::read_to_string(&path).unwrap()));
                }
            }
        }
        let mut found = Vec::new();
        collect(src, "", &mut found);
        assert!(found.len() >= 5, "{} has too few files for a crate", src.display());
        Tree::new(found.iter().map(|(path, text)| (path.as_str(), text.as_str())))
    }

    /// The module that defines the item to which `path` refers in `module`; `None` outside the
    /// crate.
    fn resolve(&self, module: &Module, path: &[String], depth: usize) -> Option<Module> {
        let (mut at, mut rest) = match path[0].as_str() {
            "crate" => (Vec::new(), &path[1..]),
            "self" => (module.clone(), &path[1..]),
            "super" => {
                let levels = path.iter().take_while(|name| *name == "super").count();
                (module[..module.len() - levels].to_vec(), &path[levels..])
            }
            _ => (module.clone(), path),
        };
        let relative = !matches!(path[0].as_str(), "crate" | "self" | "super");
        while let Some(name) = rest.first() {
            at.push(name.clone());
            if !self.0.contains_key(&at) {
                at.pop();
                break;
            }
            rest = &rest[1..];
        }
        if relative && rest.len() == path.len() {
            return None;
        }
        let exported = rest.first().and_then(|name| self.0[&at].iter().find(|used| used.exported.as_ref() == Some(name)));
        match exported {
            Some(used) if depth < 8 => self.resolve(&at, &used.path, depth + 1),
            _ => Some(at),
        }
    }

    /// A cycle among the files and folders of one folder, if any.
    fn cycle(&self) -> Option<String> {
        let mut folders: BTreeMap<Module, BTreeMap<&str, BTreeSet<String>>> = BTreeMap::new();
        for (module, used) in &self.0 {
            for target in used.iter().filter_map(|used| self.resolve(module, &used.path, 0)) {
                let common = module.iter().zip(&target).take_while(|(a, b)| a == b).count();
                if common < module.len() && common < target.len() {
                    let edges = folders.entry(module[..common].to_vec()).or_default();
                    edges.entry(&module[common]).or_default().insert(target[common].clone());
                }
            }
        }
        folders.iter().find_map(|(folder, edges)| {
            let mut finished = BTreeSet::new();
            let cycle = edges.keys().find_map(|start| visit(start, edges, &mut Vec::new(), &mut finished))?;
            Some(format!("in {}: {}", if folder.is_empty() { "src".into() } else { folder.join("/") }, cycle.join(" -> ")))
        })
    }
}

/// Depth-first search; `stack` is the path from the start to `node`.
fn visit(
    node: &str,
    edges: &BTreeMap<&str, BTreeSet<String>>,
    stack: &mut Vec<String>,
    finished: &mut BTreeSet<String>,
) -> Option<Vec<String>> {
    if let Some(first) = stack.iter().position(|other| other == node) {
        stack.push(node.into());
        return Some(stack[first..].to_vec());
    }
    if finished.contains(node) {
        return None;
    }
    stack.push(node.into());
    let cycle = edges.get(node).into_iter().flatten().find_map(|next| visit(next, edges, stack, finished));
    if cycle.is_none() {
        stack.pop();
        finished.insert(node.into());
    }
    cycle
}

#[test]
fn modules_have_no_cycles() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for name in ["special", "kernels", "io", "cli", "nn"].map(|name| format!("crates/vmfkit-{name}")) {
        assert_eq!(Tree::read(&workspace.join(&name).join("src")).cycle(), None, "{name}");
    }
    for name in ["crates/vmfkit", "python"] {
        assert_eq!(Tree::read(&workspace.join(name).join("src")).cycle(), None, "{name}");
    }
}

/// ARCHITECTURE.md lists the path of a batch of rows as lines `1  file::function  what it does`.
#[test]
fn the_path_of_a_batch_names_functions_that_exist() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(workspace.join("ARCHITECTURE.md")).unwrap();
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for name in ["vmfkit", "vmfkit-kernels", "vmfkit-io"] {
        let mut folders = vec![workspace.join("crates").join(name).join("src")];
        while let Some(folder) = folders.pop() {
            for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
                    texts.entry(stem).or_default().push_str(&std::fs::read_to_string(&path).unwrap());
                }
            }
        }
    }
    let (_, section) = page.split_once("## Path of a batch of rows").expect("the section");
    let calls: Vec<&str> = section
        .split("\n## ")
        .next()
        .unwrap()
        .lines()
        .filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()))
        .filter_map(|line| line.split_whitespace().nth(1))
        .collect();
    assert!(calls.len() >= 10, "{calls:?}");
    for call in calls {
        let (file, function) = call.split_once("::").expect("file::function");
        let declaration = [format!("fn {function}("), format!("fn {function}<")];
        let text = texts.get(file).unwrap_or_else(|| panic!("{call}: no such file"));
        assert!(declaration.iter().any(|declaration| text.contains(declaration)), "{call}: no such function");
    }
}

#[test]
fn cycles_are_found_for_all_forms_of_paths() {
    let cycle = |a: &str, b: &str| {
        Tree::new([("lib", "mod a; mod b; pub use b::{Y, c::Z};"), ("a", a), ("b/mod", b), ("b/c", "")]).cycle()
    };
    let found = Some("in src: a -> b -> a".to_string());
    assert_eq!(cycle("use crate::b::Y;", "use super::a::X;"), found);
    assert_eq!(cycle("use crate::{Y, other};", "fn f() { crate::a::g::<u8>() }"), found);
    assert_eq!(cycle("use std::fmt; use super::{b::{self, c::Z as W}};", "pub(crate) use crate::a::X;"), found);
    assert_eq!(cycle("use crate::Z;", "use crate::a;"), found);
    assert_eq!(cycle("use crate::b::Y;", "// use crate::a::X;\n const T: &str = \"crate::a\"; mod c; use c::Z;"), None);
    assert_eq!(cycle("use crate::b::Y;", "#[cfg(test)]\nmod tests { use crate::a::X; fn f() { {} } }"), None);
    let siblings = [("lib", ""), ("d/mod", "mod e; mod f;"), ("d/e", "use super::f::F;"), ("d/f", "use super::e::E;")];
    assert_eq!(Tree::new(siblings).cycle(), Some("in d: e -> f -> e".into()));
}
