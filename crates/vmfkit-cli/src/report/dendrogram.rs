//! A merge tree as text.

use vmfkit::merge_tree::MergeTree;

/// Trees with more components are not drawn.
pub const MOST_COMPONENTS: usize = 60;
/// Columns of the drawing, without the names.
const WIDTH: f64 = 60.0;

/// A part of the tree that is drawn: the line and the column where its branch begins.
#[derive(Clone, Copy)]
struct Branch {
    line: usize,
    column: usize,
}

/// The tree with a line for each component and one between; the distance of a merge from the names
/// is proportional to the square root of its height.
pub fn dendrogram(tree: &MergeTree, name: impl Fn(usize) -> String) -> String {
    let (components, order) = (tree.components(), tree.leaf_order());
    let lines = 2 * components - 1;
    let mut canvas = vec![Vec::new(); lines];
    let mut branches = vec![Branch { line: 0, column: 0 }; components];
    order.iter().enumerate().for_each(|(position, component)| branches[*component].line = 2 * position);
    let highest = tree.merges().last().map_or(0.0, |merge| merge.height);
    for merge in tree.merges() {
        let (first, second) = (branches[merge.first], branches[merge.second]);
        let share = if highest > 0.0 { (merge.height / highest).sqrt() } else { 0.0 };
        let column = ((WIDTH * share).round() as usize).max(first.column.max(second.column) + 1);
        let (top, bottom) = if first.line < second.line { (first, second) } else { (second, first) };
        for branch in [top, bottom] {
            (branch.column..column).for_each(|at| put(&mut canvas[branch.line], at, '─'));
        }
        (top.line + 1..bottom.line).for_each(|line| put(&mut canvas[line], column, '│'));
        put(&mut canvas[top.line], column, '┐');
        put(&mut canvas[bottom.line], column, '┘');
        // At least one line lies between two components.
        let line = (top.line + bottom.line) / 2;
        if merge.components < components {
            put(&mut canvas[line], column, '├');
        }
        branches.push(Branch { line, column: column + 1 });
    }
    let names: Vec<String> = order.into_iter().map(name).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (line, drawn) in canvas.into_iter().enumerate() {
        let name = if line % 2 == 0 { names[line / 2].as_str() } else { "" };
        text.push_str(format!("{name:>width$} {}", String::from_iter(drawn)).trim_end());
        text.push('\n');
    }
    text
}

fn put(line: &mut Vec<char>, column: usize, mark: char) {
    if line.len() <= column {
        line.resize(column + 1, ' ');
    }
    line[column] = mark;
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmfkit::{Maximisation, Mixture, VonMisesFisher};

    fn tree(angles: &[f64]) -> MergeTree {
        let along = |angle: &f64| VonMisesFisher::along(vec![angle.cos(), angle.sin()], 50.0).unwrap();
        let mixture = Mixture::new(vec![1.0 / angles.len() as f64; angles.len()], angles.iter().map(along).collect()).unwrap();
        let how = Maximisation::new().policy(vmfkit::ConcentrationPolicy::Shared);
        MergeTree::of_mixture(&mixture, 100.0, &how).unwrap()
    }

    #[test]
    fn branches_meet_at_the_height_of_their_merge() {
        let text = dendrogram(&tree(&[0.0, 1.5, 0.1]), |k| format!("c{k}"));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5);
        let first = lines[0].chars().position(|c| c == '┐').unwrap();
        assert!(lines[0].starts_with("c0 ─") && lines[2].starts_with("c2 ─") && lines[4].starts_with("c1 ─"), "{text}");
        assert_eq!(lines[1].chars().position(|c| c == '├'), Some(first));
        assert_eq!(lines[2].chars().position(|c| c == '┘'), Some(first));
        let last = lines[1].chars().position(|c| c == '┐').unwrap();
        assert_eq!(lines[4].chars().position(|c| c == '┘'), Some(last));
        assert!(first < 12 && last == 63, "{text}");
    }

    #[test]
    fn equal_components_and_single_ones_are_drawn() {
        assert_eq!(dendrogram(&tree(&[0.3]), |k| k.to_string()), "0\n");
        let text = dendrogram(&tree(&[0.3; 4]), |k| k.to_string());
        assert_eq!(text.lines().count(), 7);
    }
}
