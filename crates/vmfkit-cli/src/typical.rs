//! The most typical rows of each component, with their ids.

use crate::files::row_source::RowSource;
use crate::report::progress::Progress;
use std::collections::HashMap;
use vmfkit::Mixture;
use vmfkit::mixture::TypicalRows;
use vmfkit::source::Source;
use vmfkit_io::Ids;

/// Numbers in memory at a time: 8 MB.
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

/// Reads the rows once. All rows of a background are equally typical, so none is kept.
pub fn find(mixture: &Mixture, source: &mut RowSource, most: usize, progress: &mut Progress) -> vmfkit::Result<Vec<Members>> {
    let mut found = TypicalRows::new(mixture, most);
    let mut names: HashMap<u64, String> = HashMap::new();
    let all = source.len();
    let mut buffer = vmfkit::RowBatch::default();
    while let Some(block) = source.next_validated(&mut buffer)? {
        let first = found.rows();
        found.add(&block)?;
        if let (_, Some(ids)) = source.ids() {
            // Ids are known only while their block is read.
            let kept = || found.members().iter().flat_map(|members| &members.typical).map(|typical| typical.row);
            names.extend(kept().filter(|row| *row >= first).map(|row| (row, id(ids, (row - first) as usize))));
            let kept: std::collections::HashSet<u64> = kept().collect();
            names.retain(|row, _| kept.contains(row));
        }
        progress.rows("", found.rows(), all);
    }
    let mut named = |row: u64, ln_density: f64| Typical { row, id: names.remove(&row), ln_density };
    let members = found.members().iter().map(|members| Members {
        rows: members.rows,
        typical: members.typical.iter().map(|typical| named(typical.row, typical.ln_density)).collect(),
    });
    Ok(members.collect())
}

fn id(ids: &Ids, row: usize) -> String {
    match ids {
        Ids::Integers(ids) => ids[row].to_string(),
        Ids::Texts(ids) => ids[row].clone(),
    }
}
