//! The nearest neighbours of each row of a sample, by cosine.
//!
//! All pairs of rows are compared by a blocked matrix product in single precision. Queries are
//! taken in blocks, each on one thread, so memory is O(sample x block).

use crate::error::Result;
use crate::rows::{RowBatch, Rows, Scalar, SparseRows};
use rayon::prelude::*;
use vmfkit_kernels::gemm::{GroupedDirections, PackingBuffer, PaneledDirections, row_products};
use vmfkit_kernels::instructions::{Instructions, Work, with_best_instructions};

/// Rows with a larger cosine are copies of each other: in f32, equal rows are this close.
const COPY: f32 = 1.0 - 1e-6;

/// Queries per block for dense rows. With the rows compared at a time, the cosines stay in the
/// second-level cache.
const QUERIES: usize = 96;
/// Rows compared with a block of queries at a time.
const CANDIDATES: usize = 768;
/// The most numbers in the dense directions of a block of sparse queries: 16 MB.
const SPARSE_NUMBERS: usize = 1 << 22;

/// The nearest neighbours of each row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Neighbours {
    /// Neighbours per row.
    pub count: usize,
    /// Row by row, the nearest first; `u32::MAX` where a row has fewer.
    pub indices: Vec<u32>,
    /// Pairs of a row and a copy of it that were left out.
    pub copies_dropped: usize,
}

/// No neighbour.
pub(crate) const NONE: u32 = u32::MAX;

impl Neighbours {
    /// The neighbours of a row.
    pub fn of(&self, row: usize) -> impl Iterator<Item = usize> {
        let indices = &self.indices[row * self.count..(row + 1) * self.count];
        indices.iter().take_while(|index| **index != NONE).map(|index| *index as usize)
    }
}

/// The `count` nearest neighbours of each row by cosine, copies left out. In a tie the first row
/// wins. The result does not depend on the number of threads.
pub(crate) fn nearest_neighbours(rows: &RowBatch, count: usize) -> Result<Neighbours> {
    let mut buffer = RowBatch::default();
    let rows = rows.validated_slice(0, rows.len(), &mut buffer)?;
    let count = count.min(rows.len().saturating_sub(1));
    let mut single = Vec::new();
    let search: Box<dyn Fn(usize, usize) -> Nearest + Sync> = match rows.rows() {
        Rows::F32(values) => Box::new(|from, to| dense_block(rows.dim(), values, (from, to), count)),
        Rows::F64(values) => {
            single.extend(values.iter().map(|x| *x as f32));
            Box::new(|from, to| dense_block(rows.dim(), &single, (from, to), count))
        }
        Rows::SparseF32(sparse) => Box::new(|from, to| sparse_block(rows.dim(), sparse, (from, to), count)),
        Rows::SparseF64(sparse) => Box::new(|from, to| sparse_block(rows.dim(), sparse, (from, to), count)),
    };
    let block = if rows.is_sparse() { (SPARSE_NUMBERS / rows.dim()).clamp(16, 512) } else { QUERIES };
    let blocks: Vec<usize> = (0..rows.len()).step_by(block).collect();
    let found: Vec<Nearest> = blocks.into_par_iter().map(|from| search(from, (from + block).min(rows.len()))).collect();
    Ok(Neighbours {
        count,
        indices: found.iter().flat_map(|nearest| nearest.indices()).collect(),
        copies_dropped: found.iter().map(|nearest| nearest.copies).sum(),
    })
}

/// The nearest rows so far of each query of a block.
struct Nearest {
    count: usize,
    /// Cosine and index, `count` per query, in descending order of the cosine.
    best: Vec<(f32, u32)>,
    copies: usize,
}

impl Nearest {
    fn new(queries: usize, count: usize) -> Self {
        Nearest { count, best: vec![(f32::NEG_INFINITY, NONE); queries * count], copies: 0 }
    }

    /// Offers neighbouring rows from number `first` on to a query.
    #[inline(always)]
    fn offer(&mut self, query: usize, own: usize, first: usize, cosines: &[f32]) {
        let best = &mut self.best[query * self.count..(query + 1) * self.count];
        let Some(mut least) = best.last().map(|last| last.0) else { return };
        for (row, &cosine) in (first..).zip(cosines) {
            if cosine > least && row != own {
                if cosine > COPY {
                    self.copies += 1;
                    continue;
                }
                let place = best.partition_point(|other| other.0 >= cosine);
                best[place..].rotate_right(1);
                best[place] = (cosine, row as u32);
                least = best[best.len() - 1].0;
            }
        }
    }

    fn indices(&self) -> impl Iterator<Item = u32> {
        self.best.iter().map(|best| best.1)
    }
}

/// The nearest rows of the queries `from .. to` among dense rows.
fn dense_block(dim: usize, rows: &[f32], (from, to): (usize, usize), count: usize) -> Nearest {
    with_best_instructions(DenseBlock { dim, rows, from, to, count })
}

struct DenseBlock<'a> {
    dim: usize,
    rows: &'a [f32],
    from: usize,
    to: usize,
    count: usize,
}

impl Work for DenseBlock<'_> {
    type Output = Nearest;

    #[inline(always)]
    fn run<I: Instructions>(self) -> Nearest {
        let DenseBlock { dim, rows, from, to, count } = self;
        // The directions are packed from f64.
        let wide: Vec<f64> = rows[from * dim..to * dim].iter().map(|x| f64::from(*x)).collect();
        let queries = to - from;
        let directions = GroupedDirections::<f32>::new(I::HEIGHT, queries, dim, |query| (1.0, &wide[query * dim..][..dim]));
        let bias = vec![0f32; queries];
        let (mut cosines, mut packing) = (vec![0f32; queries * CANDIDATES], PackingBuffer::default());
        let mut nearest = Nearest::new(queries, count);
        for (chunk, candidates) in rows.chunks(CANDIDATES * dim).enumerate() {
            row_products::<f32, I>((candidates, None), &directions, &bias, &mut cosines, CANDIDATES, &mut packing);
            for query in 0..queries {
                let cosines = &cosines[query * CANDIDATES..][..candidates.len() / dim];
                nearest.offer(query, from + query, chunk * CANDIDATES, cosines);
            }
        }
        nearest
    }
}

/// The nearest rows of the queries `from .. to` among sparse rows.
fn sparse_block<V: Scalar>(dim: usize, rows: &SparseRows<V>, (from, to): (usize, usize), count: usize) -> Nearest {
    with_best_instructions(SparseBlock { dim, rows, from, to, count })
}

struct SparseBlock<'a, V: Scalar> {
    dim: usize,
    rows: &'a SparseRows<'a, V>,
    from: usize,
    to: usize,
    count: usize,
}

impl<V: Scalar> Work for SparseBlock<'_, V> {
    type Output = Nearest;

    #[inline(always)]
    fn run<I: Instructions>(self) -> Nearest {
        let SparseBlock { dim, rows, from, to, count } = self;
        let queries = to - from;
        let mut wide = vec![0.0; queries * dim];
        for (row, wide) in (from..to).zip(wide.chunks_exact_mut(dim)) {
            let (columns, values) = rows.row(row);
            columns.iter().zip(values).for_each(|(&column, x)| wide[column as usize] = x.to_f64());
        }
        let panels = PaneledDirections::<f32>::new(queries, dim, |query| (1.0, &wide[query * dim..][..dim]));
        let (mut nearest, mut cosines) = (Nearest::new(queries, count), Vec::new());
        for row in 0..rows.len() {
            panels.sparse_products::<V, I>(rows.row(row), &mut cosines);
            (0..queries).for_each(|query| nearest.offer(query, from + query, row, &cosines[query..=query]));
        }
        nearest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::{Stream, fill_with_normals};

    fn unit_rows(rows: usize, dim: usize, seed: u64) -> Vec<f64> {
        let mut values = vec![0.0; rows * dim];
        fill_with_normals(&mut Stream::new(seed, 0), &mut values);
        crate::rows::rescale(dim, &mut values).unwrap();
        values
    }

    /// By definition, in double precision.
    fn expected(rows: &[f64], dim: usize, count: usize) -> Vec<Vec<usize>> {
        let rows: Vec<&[f64]> = rows.chunks_exact(dim).collect();
        let of = |own: usize| {
            let cosine = |other: usize| rows[own].iter().zip(rows[other]).map(|(a, b)| a * b).sum::<f64>();
            let mut others: Vec<_> = (0..rows.len()).filter(|&row| row != own).map(|row| (cosine(row), row)).collect();
            others.retain(|other| other.0 < f64::from(COPY));
            others.sort_by(|a, b| b.0.total_cmp(&a.0));
            others.iter().take(count).map(|other| other.1).collect()
        };
        (0..rows.len()).map(of).collect()
    }

    fn lists(found: &Neighbours, rows: usize) -> Vec<Vec<usize>> {
        (0..rows).map(|row| found.of(row).collect()).collect()
    }

    #[test]
    fn neighbours_are_those_by_definition_for_dense_and_sparse_rows() {
        for (rows, dim) in [(1, 3), (2, 2), (5, 3), (97, 5), (800, 20), (1700, 33)] {
            let values = unit_rows(rows, dim, 5);
            let expected = expected(&values, dim, 5);
            let dense = RowBatch::new(dim, &values).unwrap();
            let found = nearest_neighbours(&dense, 5).unwrap();
            let same = lists(&found, rows).iter().zip(&expected).filter(|(a, b)| a == b).count();
            // Cosines that are equal but for rounding may swap.
            assert!(same as f64 >= 0.99 * rows as f64, "{rows} {dim}: {same}");
            let starts: Vec<usize> = (0..=rows).map(|row| row * dim).collect();
            let columns: Vec<u32> = (0..rows * dim).map(|at| (at % dim) as u32).collect();
            let sparse = RowBatch::sparse(dim, &starts, &columns, &values).unwrap();
            let of_sparse = nearest_neighbours(&sparse, 5).unwrap();
            let same = lists(&of_sparse, rows).iter().zip(&expected).filter(|(a, b)| a == b).count();
            assert!(same as f64 >= 0.99 * rows as f64, "{rows} {dim}: {same}");
        }
    }

    #[test]
    fn copies_are_left_out_and_counted() {
        let mut values = unit_rows(50, 4, 8);
        values.extend_from_within(..8 * 4);
        let found = nearest_neighbours(&RowBatch::new(4, &values).unwrap(), 3).unwrap();
        assert_eq!(found.copies_dropped, 16);
        assert!(found.of(0).all(|row| row != 50));
        let equal = [0.6, 0.8].repeat(20);
        let found = nearest_neighbours(&RowBatch::new(2, &equal).unwrap(), 3).unwrap();
        assert_eq!((0..20).map(|row| found.of(row).count()).sum::<usize>(), 0);
    }
}
