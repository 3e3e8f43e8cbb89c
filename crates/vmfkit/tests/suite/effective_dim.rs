//! The dimensions that rows fill, and what a prior makes of them.

use crate::samples::{draw, random_mixture};
use vmfkit::effective_dim::effective_dim;
use vmfkit::{Block, ConcentrationPolicy, Fitter, Maximisation, Mixture, Start, VonMisesFisher};

fn one(direction: Vec<f64>, concentration: f64) -> Mixture {
    Mixture::new(vec![1.0], vec![VonMisesFisher::along(direction, concentration).unwrap()]).unwrap()
}

/// Rows about the first axis of `dim` dimensions that differ along the next `filled` axes only.
fn flat(dim: usize, filled: usize, rows: usize) -> Vec<f64> {
    let around = one((0..=filled).map(|x| f64::from(x == 0)).collect(), 50.0 * filled as f64);
    let drawn = draw(&around, rows, 7);
    drawn.chunks_exact(filled + 1).flat_map(|row| row.iter().copied().chain(vec![0.0; dim - filled - 1])).collect()
}

#[test]
fn it_is_that_of_what_rows_fill() {
    for (dim, filled) in [(50, 2), (50, 10), (50, 49), (400, 30)] {
        let rows = flat(dim, filled, 4000);
        let axis = one((0..dim).map(|x| f64::from(x == 0)).collect(), 1.0);
        let found = effective_dim(&Block::new(dim, &rows).unwrap(), &axis).unwrap();
        assert!((found / filled as f64 - 1.0).abs() < 0.06, "{found} of {filled}");
        let single: Vec<f32> = rows.iter().map(|x| *x as f32).collect();
        let of_single = effective_dim(&Block::new(dim, &single).unwrap(), &axis).unwrap();
        // Rounding may change which rows are held against all others.
        assert!((of_single / found - 1.0).abs() < 1e-2, "{of_single} and {found}");
    }
}

/// Neither the order of rows, nor copies in place of weights, nor zeros that are not written make a difference.
#[test]
fn it_depends_on_nothing_but_the_rows() {
    let mixture = random_mixture(3, 6, 20.0, 40);
    let rows: Vec<f64> = draw(&mixture, 500, 41);
    let turned: Vec<f64> = (0..500).flat_map(|n| rows[n * 77 % 500 * 6..][..6].to_vec()).collect();
    let weights: Vec<f64> = (0..500).map(|n| (n * 7 % 4) as f64).collect();
    let copies: Vec<f64> = (0..500).flat_map(|n| rows[6 * n..6 * n + 6].repeat(n * 7 % 4)).collect();
    let of = |block: &Block| effective_dim(block, &mixture).unwrap();
    let all = Block::new(6, &rows).unwrap();
    assert!((of(&Block::new(6, &turned).unwrap()) / of(&all) - 1.0).abs() < 1e-9);
    let (weighted, copied) = (all.clone().with_weights(&weights).unwrap(), Block::new(6, &copies).unwrap());
    assert!((of(&weighted) / of(&copied) - 1.0).abs() < 1e-9);
    let (starts, columns): (Vec<usize>, Vec<u32>) = ((0..=500).map(|n| 6 * n).collect(), (0..3000).map(|n| n % 6).collect());
    let sparse = Block::sparse(6, &starts, &columns, &rows).unwrap();
    assert!((of(&sparse) / of(&all) - 1.0).abs() < 1e-9);
}

#[test]
fn rows_that_do_not_scatter_fill_one() {
    let axis = one(vec![0.0, 0.6, 0.8], 1.0);
    for rows in [1, 2, 300] {
        let equal = [0.0, 0.6, 0.8].repeat(rows);
        assert_eq!(effective_dim(&Block::new(3, &equal).unwrap(), &axis).unwrap(), 1.0);
    }
}

/// Rows that fill few of many dimensions have a lighter prior, so that concentrations are nearer to their own.
#[test]
fn a_prior_weighs_by_what_rows_fill() {
    let dim = 120;
    let embed = |axis: usize, concentration: f64, seed: u64| {
        let around = one(vec![1.0, 0.0, 0.0, 0.0], concentration);
        let drawn: Vec<f64> = draw(&around, 600, seed);
        let place = move |row: &[f64]| {
            let mut placed = vec![0.0; dim];
            placed[axis] = row[0];
            placed[100..103].copy_from_slice(&row[1..]);
            placed
        };
        drawn.chunks_exact(4).flat_map(place).collect::<Vec<f64>>()
    };
    let rows = [embed(0, 30.0, 1), embed(1, 300.0, 2)].concat();
    let block = Block::new(dim, &rows).unwrap();
    let ratio = |fitter: Fitter| {
        let fit = fitter.seed(3).fit(&block).unwrap();
        let mut found: Vec<f64> = fit.mixture.components().iter().map(|c| c.concentration()).collect();
        found.sort_by(f64::total_cmp);
        (found[1] / found[0], fit.effective_dim())
    };
    let (free, unmeasured) = ratio(Fitter::new(2).policy(ConcentrationPolicy::Free));
    let (measured, effective_dim) = ratio(Fitter::new(2));
    let (all, given) = ratio(Fitter::new(2).maximisation(Maximisation::new().effective_dim(dim as f64)));
    assert_eq!((unmeasured, given), (None, Some(dim as f64)));
    assert!((1.0..4.0).contains(&effective_dim.unwrap()), "{effective_dim:?}");
    assert!(measured > 0.75 * free && all < 0.5 * free, "{free} {measured} {all}");
    // A start that looks at no rows measures nothing, and a wrong number is refused.
    assert_eq!(Fitter::new(2).start(Start::Random).fit(&block).unwrap().effective_dim(), None);
    for wrong in [0.0, f64::NAN, f64::INFINITY] {
        let error = Fitter::new(2).maximisation(Maximisation::new().effective_dim(wrong)).fit(&block).unwrap_err();
        assert!(error.to_string().starts_with("the effective dimension must be finite and at least 1"), "{error}");
    }
}
