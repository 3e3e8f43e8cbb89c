//! The most typical rows of each component.

use crate::files::row_source::RowSource;
use crate::report::progress::Progress;
use vmfkit::Mixture;
use vmfkit::source::Source;
use vmfkit_io::Ids;

/// Densities in memory at a time: 8 MB.
pub const NUMBERS: usize = 1 << 20;

/// A row of the component it is assigned to.
#[derive(Debug, Clone, PartialEq)]
pub struct Typical {
    /// Counted from 0 over all files.
    pub row: u64,
    /// Its id, if rows have ids.
    pub id: Option<String>,
    pub ln_density: f64,
}

/// The rows of a component: their number, and those of the highest density, best first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Members {
    pub rows: u64,
    pub typical: Vec<Typical>,
}

impl Members {
    /// Counts a row, and keeps it if it is among the best `most`; of equal rows the first.
    fn add(&mut self, most: usize, row: u64, ln_density: f64, id: impl FnOnce() -> Option<String>) {
        self.rows += 1;
        if self.typical.len() >= most && self.typical.last().is_none_or(|last| !(ln_density > last.ln_density)) {
            return;
        }
        let position = self.typical.partition_point(|other| other.ln_density >= ln_density);
        self.typical.insert(position, Typical { row, id: id(), ln_density });
        self.typical.truncate(most);
    }
}

/// Reads the rows once. All rows of a background are equally typical, so none is kept.
pub fn find(mixture: &Mixture, source: &mut RowSource, most: usize, progress: &mut Progress) -> vmfkit::Result<Vec<Members>> {
    let count = mixture.components().len();
    let mut members = vec![Members::default(); count];
    let rows_at_once = (NUMBERS / count).max(1);
    let (mut ln_densities, mut labels) = (Vec::new(), Vec::new());
    let mut first = 0;
    let all = source.len();
    let mut buffer = vmfkit::RowBatch::default();
    while let Some(block) = source.next_validated(&mut buffer)? {
        labels.resize(block.len(), 0);
        ln_densities.resize(block.len(), 0.0);
        for from in (0..block.len()).step_by(rows_at_once) {
            let piece = block.slice(from, block.len().min(from + rows_at_once));
            let assigned = &mut labels[from..from + piece.len()];
            mixture.assign_into(&piece, assigned)?;
            let mut of_all = vec![0.0; piece.len() * count];
            mixture.component_ln_densities_into(&piece, &mut of_all)?;
            for ((own, row), &label) in ln_densities[from..].iter_mut().zip(of_all.chunks_exact(count)).zip(&*assigned) {
                *own = row[label as usize];
            }
        }
        let (_, ids) = source.ids();
        for (row, (&label, &ln_density)) in labels.iter().zip(&ln_densities).enumerate() {
            let component = label as usize;
            let most = if mixture.is_background(component) { 0 } else { most };
            members[component].add(most, first + row as u64, ln_density, || ids.map(|ids| id(ids, row)));
        }
        first += labels.len() as u64;
        progress.rows("", first, all);
    }
    Ok(members)
}

fn id(ids: &Ids, row: usize) -> String {
    match ids {
        Ids::Integers(ids) => ids[row].to_string(),
        Ids::Texts(ids) => ids[row].clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_rows_are_kept_in_order_and_of_equal_rows_the_first() {
        let mut members = Members::default();
        for (row, ln_density) in [1.0, 3.0, 2.0, 3.0, f64::NEG_INFINITY, 2.0].into_iter().enumerate() {
            members.add(3, row as u64, ln_density, || None);
        }
        assert_eq!(members.rows, 6);
        assert_eq!(members.typical.iter().map(|typical| typical.row).collect::<Vec<_>>(), [1, 3, 2]);
        let mut none = Members::default();
        none.add(0, 9, 5.0, || None);
        assert_eq!((none.rows, none.typical), (1, vec![]));
    }
}
