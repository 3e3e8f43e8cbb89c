//! A merge tree in Newick format.

use super::MergeTree;
use crate::error::{Error, Result};
use std::fmt::Write;

/// What is written when it comes off the stack.
enum Part {
    Node { node: usize, above: f64 },
    Comma,
    Close { length: f64 },
}

/// The tree as text, without recursion: a tree can be as deep as it has components.
pub(super) fn newick(tree: &MergeTree, names: Option<&[String]>) -> Result<String> {
    let (components, merges) = (tree.components(), tree.merges());
    if let Some(found) = names.map(<[String]>::len).filter(|found| *found != components) {
        return Err(Error::NameCount { expected: components, found });
    }
    let name = |node: usize| names.map_or_else(|| node.to_string(), |names| quoted(&names[node]));
    let Some(root) = merges.last() else { return Ok(format!("{};", name(0))) };
    let mut text = String::new();
    let mut open = vec![Part::Node { node: components + merges.len() - 1, above: root.height }];
    while let Some(part) = open.pop() {
        match part {
            Part::Comma => text.push(','),
            Part::Close { length } => write!(text, "):{length:?}").expect("a string grows"),
            Part::Node { node, above } => match node.checked_sub(components) {
                None => write!(text, "{}:{above:?}", name(node)).expect("a string grows"),
                Some(number) => {
                    let merge = &merges[number];
                    text.push('(');
                    let below = |node| Part::Node { node, above: merge.height };
                    open.push(Part::Close { length: above - merge.height });
                    open.extend([below(merge.second), Part::Comma, below(merge.first)]);
                }
            },
        }
    }
    // The root has no branch above it.
    text.truncate(text.rfind(')').expect("the root is a merge") + 1);
    text.push(';');
    Ok(text)
}

/// A name, quoted if it has characters with a meaning in the format. Underscores would be read as
/// spaces.
fn quoted(name: &str) -> String {
    let is_plain = |c: char| !(c.is_whitespace() || c.is_control() || "()[]{}'\",:;_/\\".contains(c));
    if !name.is_empty() && name.chars().all(is_plain) {
        return name.to_owned();
    }
    // A line break within a name would end it for many readers.
    let inner: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("'{}'", inner.replace('\'', "''"))
}
