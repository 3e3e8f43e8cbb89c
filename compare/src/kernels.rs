//! Compares the matrix kernels of an E step with the crates `gemm` and `faer`; prints KERNELS.md.
//!
//! All measurements are of single-threaded products of one tile of rows. On two threads, each
//! thread has its own tiles, as in an E step.

use clap::Args;
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};
use vmfkit::{Mixture, RowBatch, Sampler, VonMisesFisher};
use vmfkit_kernels::Kernels;
use vmfkit_kernels::gemm::{GroupedDirections, PackingBuffer, RowSums, list_responsibilities, row_products};
use vmfkit_kernels::instructions::{
    Instructions, Work, group_heights, with_baseline_instructions, with_best_instructions, with_narrow_instructions,
};
use vmfkit_kernels::small_k::SmallKDirections;
use vmfkit_kernels::softmax::{LnSum, exponentials, responsibilities, runs_mut};
use vmfkit_kernels::sparse_responsibilities::SparseResponsibilities;

/// Rows that go through both products together, as in an E step: few if the sums of all components
/// fit into the first-level cache, or else a whole tile.
const PIECE: usize = 96;
const TILE: usize = 384;
const NEAR: usize = 1 << 15;

/// A kernel is kept if the best alternative takes at least this many times as long.
const MARGIN: f64 = 1.2;

/// A measurement repeats its product until it has taken about this long: shorter than a time slice
/// of the scheduler, so that some rounds are not interrupted.
const SLICE: Duration = Duration::from_micros(400);

/// A measurement ends after this time, if it had a few rounds.
const LONGEST: Duration = Duration::from_secs(4);
const LEAST_ROUNDS: usize = 3;

const SEED: u64 = 1;

#[derive(Args)]
pub struct Options {
    /// Rounds in which every product is measured once.
    #[arg(long, default_value_t = 60)]
    rounds: usize,
}

struct Shape {
    rows: usize,
    dim: usize,
    components: usize,
    concentration: f64,
    /// Whether the rows are f32. Products are also measured in f64, passes only in this precision.
    single: bool,
}

const SHAPES: [Shape; 5] = [
    Shape { rows: 50_000, dim: 100, components: 10, concentration: 66.0, single: true },
    Shape { rows: 100_000, dim: 384, components: 100, concentration: 360.0, single: true },
    Shape { rows: 20_000, dim: 768, components: 1000, concentration: 720.0, single: true },
    Shape { rows: 60_000, dim: 784, components: 10, concentration: 500.0, single: true },
    Shape { rows: 1_000_000, dim: 3, components: 20, concentration: 50.0, single: false },
];

/// Who multiplies.
#[derive(Clone, Copy, PartialEq)]
enum Kernel {
    General(Set),
    SmallK(Set),
    Sparse(Set),
    Gemm,
    Faer,
}

/// Sets of instructions.
#[derive(Clone, Copy, PartialEq)]
enum Set {
    Best,
    Avx2,
    Portable,
}

impl Kernel {
    fn name(self) -> String {
        let set = |set| match set {
            Set::Best if group_heights()[0] != group_heights()[1] => "AVX-512",
            Set::Best | Set::Avx2 => "AVX2",
            Set::Portable => "portable",
        };
        match self {
            Kernel::General(s) => format!("general, {}", set(s)),
            Kernel::SmallK(s) => format!("small_k, {}", set(s)),
            Kernel::Sparse(s) => format!("sparse_responsibilities, {}", set(s)),
            Kernel::Gemm => "gemm".into(),
            Kernel::Faer => "faer".into(),
        }
    }

    fn run<W: Work>(self, work: W) -> W::Output {
        match self {
            Kernel::General(Set::Avx2) | Kernel::SmallK(Set::Avx2) | Kernel::Sparse(Set::Avx2) => with_narrow_instructions(work),
            Kernel::General(Set::Portable) | Kernel::Sparse(Set::Portable) => with_baseline_instructions(work),
            _ => with_best_instructions(work),
        }
    }
}

/// A precision that all libraries have.
trait Element: Kernels + vmfkit::rows::Scalar + faer::traits::ComplexField {
    const NAME: &str;
}

impl Element for f32 {
    const NAME: &str = "f32";
}

impl Element for f64 {
    const NAME: &str = "f64";
}

/// Directions and biases in every form that a kernel reads.
struct Directions<T> {
    dim: usize,
    /// Rows per product.
    piece: usize,
    bias: Vec<T>,
    /// Component by component.
    plain: Vec<T>,
    /// For the best instructions, and for all others.
    grouped: [GroupedDirections<T>; 2],
    small_k: Option<[SmallKDirections<T>; 2]>,
}

impl<T: Element> Directions<T> {
    fn new(mixture: &Mixture) -> Self {
        let (components, dim) = (mixture.components(), mixture.dim());
        let direction = |k: usize| (components[k].concentration(), components[k].mean_direction());
        let plain = |k: usize| {
            let (factor, direction) = direction(k);
            direction.iter().map(move |x| <T as vmfkit_kernels::Float>::from_f64(factor * x))
        };
        let is_small = SmallKDirections::<T>::is_faster(components.len(), dim);
        let is_near = components.len() * dim * size_of::<T>() <= NEAR;
        Directions {
            dim,
            piece: if is_near { PIECE } else { TILE },
            bias: vec![T::ZERO; components.len()],
            plain: (0..components.len()).flat_map(plain).collect(),
            grouped: group_heights().map(|height| GroupedDirections::new(height, components.len(), dim, direction)),
            small_k: is_small
                .then(|| group_heights().map(|height| SmallKDirections::new(height, components.len(), dim, direction))),
        }
    }
}

/// What a thread works with.
struct Scratch<T> {
    /// Logits, then responsibilities, component by component.
    logits: Vec<T>,
    packing: PackingBuffer<T>,
    listed: SparseResponsibilities<T>,
    sums: RowSums<T>,
    /// The sums of the libraries, component by component.
    plain_sums: Vec<T>,
}

impl<T: Element> Scratch<T> {
    fn new(directions: &Directions<T>) -> Self {
        Scratch {
            logits: vec![T::ZERO; directions.bias.len() * directions.piece],
            packing: PackingBuffer::default(),
            listed: SparseResponsibilities::new(directions.piece),
            sums: RowSums::default(),
            plain_sums: vec![T::ZERO; directions.plain.len()],
        }
    }
}

/// Rows times directions: the logits of one tile.
struct Logits<'a, T> {
    kernel: Kernel,
    rows: &'a [T],
    directions: &'a Directions<T>,
    scratch: &'a mut Scratch<T>,
}

impl<T: Element> Work for Logits<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: Instructions>(self) {
        let Logits { kernel, rows, directions, scratch } = self;
        let form = usize::from(I::HEIGHT != group_heights()[0]);
        let piece = directions.piece;
        let (out, packing, bias) = (&mut scratch.logits, &mut scratch.packing, &directions.bias);
        match kernel {
            Kernel::Gemm | Kernel::Faer => {
                // The bias enters as the value that the product is added to, as in our kernels.
                for (out, bias) in out.chunks_exact_mut(piece).zip(bias) {
                    out.fill(*bias);
                }
                let columns = bias.len();
                multiply(kernel, (piece, columns, directions.dim), out, (1, piece), rows, &directions.plain, true);
            }
            Kernel::SmallK(_) => {
                let small_k = &directions.small_k.as_ref().expect("only where it is faster")[form];
                small_k.row_products::<I>((rows, None), bias, out, piece, packing);
            }
            _ => row_products::<T, I>((rows, None), &directions.grouped[form], bias, out, piece, packing),
        }
    }
}

/// Responsibilities times rows: the resultants of one tile.
struct Resultants<'a, T> {
    kernel: Kernel,
    rows: &'a [T],
    dim: usize,
    piece: usize,
    responsibilities: &'a [T],
    packing: &'a mut PackingBuffer<T>,
    listed: &'a mut SparseResponsibilities<T>,
    sums: &'a mut RowSums<T>,
    plain_sums: &'a mut [T],
}

impl<T: Element> Work for Resultants<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: Instructions>(self) {
        let Resultants { kernel, rows, dim, piece, responsibilities, packing, listed, sums, plain_sums } = self;
        let components = responsibilities.len() / piece;
        match kernel {
            Kernel::Gemm | Kernel::Faer => {
                multiply(kernel, (components, dim, piece), plain_sums, (dim, 1), responsibilities, rows, false);
            }
            Kernel::Sparse(_) => {
                for (component, responsibilities) in responsibilities.chunks_exact(piece).enumerate() {
                    list_responsibilities::<T, I>(responsibilities, listed);
                    sums.add_sparse_rows::<I>(rows, dim, listed, (component, components));
                }
            }
            _ => sums.add_weighted_rows::<I>(rows, dim, responsibilities, piece, packing),
        }
    }
}

/// Adds left x right to `out`: left is m x depth, row by row; right is depth x n, row by row, or
/// column by column if `transposed`. The strides of `out` are those between its rows and between
/// its columns.
fn multiply<T: Element>(
    kernel: Kernel,
    (m, n, depth): (usize, usize, usize),
    out: &mut [T],
    (row_stride, column_stride): (usize, usize),
    left: &[T],
    right: &[T],
    transposed: bool,
) {
    assert!(left.len() == m * depth && right.len() == depth * n && out.len() == m * n);
    let (right_row, right_column) = if transposed { (1, depth) } else { (n, 1) };
    if kernel == Kernel::Gemm {
        // SAFETY: the slices have as many values as the matrices (asserted above), and the strides are those of whole matrices.
        unsafe {
            gemm::gemm(
                m,
                n,
                depth,
                out.as_mut_ptr(),
                column_stride as isize,
                row_stride as isize,
                true,
                left.as_ptr(),
                1,
                depth as isize,
                right.as_ptr(),
                right_column as isize,
                right_row as isize,
                T::ONE,
                T::ONE,
                false,
                false,
                false,
                gemm::Parallelism::None,
            );
        }
        return;
    }
    let left = MatRef::from_row_major_slice(left, m, depth);
    let right =
        if transposed { MatRef::from_column_major_slice(right, depth, n) } else { MatRef::from_row_major_slice(right, depth, n) };
    let out = if row_stride == 1 {
        MatMut::from_column_major_slice_mut(out, m, n)
    } else {
        MatMut::from_row_major_slice_mut(out, m, n)
    };
    matmul(out, Accum::Add, left, right, T::ONE, Par::Seq);
}

/// The softmax between the two products of one tile; gives the sum of the log-likelihoods and the
/// number of responsibilities above 0.
struct Softmax<'a, T, const WIDTH: usize> {
    logits: &'a mut [T],
    piece: usize,
}

impl<T: Element, const WIDTH: usize> Work for Softmax<'_, T, WIDTH> {
    type Output = (f64, f64);

    #[inline(always)]
    fn run<I: Instructions>(self) -> (f64, f64) {
        let (logits, piece) = (self.logits, self.piece);
        let (mut factors, mut smallest) = ([T::ZERO; TILE], [T::ZERO; TILE]);
        let (factors, smallest) = (&mut factors[..piece], &mut smallest[..piece]);
        let (mut objective, mut ln_sum) = (0.0, LnSum::<WIDTH>::new());
        let limit = <T as vmfkit_kernels::Float>::from_f64(T::SMALLEST_RESPONSIBILITY);
        for (run, (factors, smallest)) in runs_mut::<T, WIDTH>(factors).zip(runs_mut::<T, WIDTH>(smallest)).enumerate() {
            let (largest, sums) = exponentials::<T, I, WIDTH>(logits, piece, run * WIDTH);
            for lane in 0..WIDTH {
                factors[lane] = <T as vmfkit_kernels::Real>::ONE / sums[lane];
                smallest[lane] = limit * sums[lane];
                objective += vmfkit_kernels::Float::to_f64(largest[lane]);
            }
            ln_sum.add(&sums);
        }
        let mut kept = [T::ZERO; WIDTH];
        for exponentials in logits.chunks_exact_mut(piece) {
            responsibilities(exponentials, factors, smallest, &mut [T::ZERO; WIDTH], &mut kept);
        }
        (objective + ln_sum.total(), kept.iter().map(|x| vmfkit_kernels::Float::to_f64(*x)).sum())
    }
}

/// What is measured.
#[derive(Clone, Copy)]
enum What {
    Logits,
    /// With responsibilities that are all above 0, or with those of the mixture.
    Resultants {
        dense: bool,
    },
    /// Both products and the softmax between.
    Pass,
}

/// A shape with its rows: whole tiles.
struct Case<T> {
    name: String,
    rows: Vec<T>,
    directions: Directions<T>,
    /// Responsibilities of the first tile: those of the mixture, and some that are all above 0.
    sparse: Vec<T>,
    dense: Vec<T>,
    /// The fraction of the responsibilities of the first tile that are above 0.
    kept: f64,
}

impl<T: Element> Case<T> {
    fn new<const WIDTH: usize>(shape: &Shape) -> anyhow::Result<Self> {
        let Shape { dim, components, concentration, .. } = *shape;
        let mut means = vec![0.0; dim * components];
        Sampler::new(&VonMisesFisher::uniform(dim)?).fill(SEED, 0, &mut means)?;
        let densities = means.chunks_exact(dim).map(|mean| VonMisesFisher::along(mean.to_vec(), concentration));
        let mixture = Mixture::new(vec![1.0 / components as f64; components], densities.collect::<vmfkit::Result<_>>()?)?;
        let count = shape.rows / TILE * TILE;
        let (mut rows, mut labels) = (vec![T::ZERO; count * dim], vec![0; count]);
        mixture.fill(SEED + 1, 0, &mut rows, &mut labels)?;
        RowBatch::new(dim, &rows)?;
        let directions = Directions::new(&mixture);
        let mut scratch = Scratch::new(&directions);
        let best = Kernel::General(Set::Best);
        let piece = directions.piece;
        best.run(Logits { kernel: best, rows: &rows[..piece * dim], directions: &directions, scratch: &mut scratch });
        let (_, kept) = best.run(Softmax::<T, WIDTH> { logits: &mut scratch.logits, piece });
        let dense = vec![<T as vmfkit_kernels::Float>::from_f64(1.0 / components as f64); components * piece];
        let name = format!("{} x {dim}, K = {components}, {}", shape.rows, T::NAME);
        Ok(Case { name, rows, directions, sparse: scratch.logits, dense, kept: kept / (piece * components) as f64 })
    }

    /// One repetition: a product of the first tile; or a pass over some tiles, each with both
    /// products.
    fn run_once<const WIDTH: usize>(&self, what: What, kernels: [Kernel; 2], tiles: &[T], scratch: &mut Scratch<T>) {
        let (dim, piece, directions) = (self.directions.dim, self.directions.piece, &self.directions);
        let tile = &self.rows[..piece * dim];
        match what {
            What::Logits => kernels[0].run(Logits { kernel: kernels[0], rows: tile, directions, scratch }),
            What::Resultants { dense } => {
                let Scratch { packing, listed, sums, plain_sums, .. } = scratch;
                let responsibilities = if dense { &self.dense } else { &self.sparse };
                let kernel = kernels[1];
                kernel.run(Resultants { kernel, rows: tile, dim, piece, responsibilities, packing, listed, sums, plain_sums });
            }
            What::Pass => {
                for rows in tiles.chunks_exact(piece * dim) {
                    kernels[0].run(Logits { kernel: kernels[0], rows, directions, scratch });
                    black_box(kernels[0].run(Softmax::<T, WIDTH> { logits: &mut scratch.logits, piece }));
                    let Scratch { logits, packing, listed, sums, plain_sums } = &mut *scratch;
                    let kernel = kernels[1];
                    kernel.run(Resultants {
                        kernel,
                        rows,
                        dim,
                        piece,
                        responsibilities: logits,
                        packing,
                        listed,
                        sums,
                        plain_sums,
                    });
                }
            }
        }
    }

    /// Seconds of one repetition, in turn, round after round.
    fn measure<const WIDTH: usize>(
        &self,
        what: What,
        candidates: &[[Kernel; 2]],
        threads: usize,
        rounds: usize,
    ) -> Vec<Vec<f64>> {
        let mut scratches: Vec<_> = (0..threads).map(|_| Scratch::new(&self.directions)).collect();
        let share = (self.rows.len() / threads).next_multiple_of(TILE * self.directions.dim);
        let mut seconds = vec![Vec::new(); candidates.len()];
        let mut repeats = vec![1; candidates.len()];
        // Round 0 warms up and says how often to repeat.
        let begin = Instant::now();
        for round in 0..=rounds {
            if round > LEAST_ROUNDS && begin.elapsed() > LONGEST {
                break;
            }
            for (index, kernels) in candidates.iter().enumerate() {
                let (barrier, repeat) = (Barrier::new(threads), repeats[index]);
                let work = |scratch: &mut Scratch<T>, tiles: &[T]| {
                    barrier.wait();
                    let clock = Instant::now();
                    for _ in 0..repeat {
                        self.run_once::<WIDTH>(what, *kernels, tiles, black_box(scratch));
                    }
                    clock.elapsed().as_secs_f64() / repeat as f64
                };
                let slowest = std::thread::scope(|scope| {
                    let jobs: Vec<_> = scratches
                        .iter_mut()
                        .zip(self.rows.chunks(share))
                        .map(|(scratch, tiles)| scope.spawn(move || work(scratch, tiles)))
                        .collect();
                    jobs.into_iter().map(|job| job.join().expect("no panic in a kernel")).fold(0.0, f64::max)
                });
                if round == 0 {
                    repeats[index] = ((SLICE.as_secs_f64() / slowest) as usize).max(1);
                } else {
                    seconds[index].push(slowest);
                }
            }
        }
        seconds.iter_mut().for_each(|seconds| seconds.sort_by(f64::total_cmp));
        seconds
    }

    fn print<const WIDTH: usize>(&self, rounds: usize, with_pass: bool) {
        let has_wide = group_heights()[0] != group_heights()[1];
        let sets = if has_wide { vec![Set::Best, Set::Avx2, Set::Portable] } else { vec![Set::Best, Set::Portable] };
        let pair = |kernel| [kernel; 2];
        let mut general: Vec<_> = sets.iter().map(|set| pair(Kernel::General(*set))).collect();
        let fast = &sets[..sets.len() - 1];
        general.extend([pair(Kernel::Gemm), pair(Kernel::Faer)]);
        let mut logits = general.clone();
        if self.directions.small_k.is_some() {
            logits.extend(fast.iter().map(|set| pair(Kernel::SmallK(*set))));
        }
        let mut sparse = general.clone();
        if self.directions.dim >= WIDTH {
            sparse.extend(fast.iter().map(|set| pair(Kernel::Sparse(*set))));
        }
        // In a pass each of ours has the kernels that the E step chooses.
        let first = |set| if self.directions.small_k.is_some() { Kernel::SmallK(set) } else { Kernel::General(set) };
        let is_sparse = self.directions.dim >= WIDTH && self.kept < 1.0 / 3.0;
        let second = |set| if is_sparse { Kernel::Sparse(set) } else { Kernel::General(set) };
        let mut pass: Vec<_> = fast.iter().map(|set| [first(*set), second(*set)]).collect();
        if self.directions.small_k.is_some() {
            pass.extend(fast.iter().map(|set| [Kernel::General(*set), second(*set)]));
        }
        pass.extend([pair(Kernel::Gemm), pair(Kernel::Faer)]);
        let percent = 100.0 * self.kept;
        let works = [
            ("logits of a piece".to_string(), What::Logits, &logits, rounds),
            ("resultants of a piece, all responsibilities above 0".into(), What::Resultants { dense: true }, &general, rounds),
            (format!("resultants of a piece, {percent:.1} % above 0"), What::Resultants { dense: false }, &sparse, rounds),
            ("a pass".into(), What::Pass, &pass, rounds),
        ];
        for (work, what, candidates, rounds) in works {
            if matches!(what, What::Pass) && !with_pass {
                continue;
            }
            for threads in [1, 2] {
                let seconds = self.measure::<WIDTH>(what, candidates, threads, rounds);
                self.print_rows(&work, candidates, threads, &seconds);
            }
        }
    }

    /// One line for each kernel. The alternatives of a general kernel are the libraries; those of a
    /// special kernel are also our general one, with the same instructions. A narrower set of
    /// instructions is for other processors, so it is no alternative.
    fn print_rows(&self, work: &str, candidates: &[[Kernel; 2]], threads: usize, seconds: &[Vec<f64>]) {
        let best = |index: usize| seconds[index][0];
        for (index, [first, second]) in candidates.iter().enumerate() {
            let special = if matches!(first, Kernel::SmallK(_)) { first } else { second };
            let general = match special {
                Kernel::SmallK(set) => Some(Kernel::General(*set)),
                Kernel::Sparse(set) if work != "a pass" => Some(Kernel::General(*set)),
                _ => None,
            };
            let alternative = |other: &[Kernel; 2]| matches!(other[0], Kernel::Gemm | Kernel::Faer) || Some(other[0]) == general;
            let others = (0..candidates.len()).filter(|other| alternative(&candidates[*other]));
            let fastest = others.min_by(|a, b| best(*a).total_cmp(&best(*b))).expect("libraries are among them");
            let ratio = best(fastest) / best(index);
            let verdict = match first {
                Kernel::Gemm | Kernel::Faer => "-".to_string(),
                _ => format!("{ratio:.2} of {}{}", candidates[fastest][0].name(), if ratio >= MARGIN { ", wins" } else { "" }),
            };
            let name = if first == second { first.name() } else { format!("{} + {}", first.name(), second.name()) };
            let micro = |seconds: f64| format!("{:.1}", 1e6 * seconds);
            let median = seconds[index][seconds[index].len() / 2];
            println!("| {} | {work} | {threads} | {name} | {} | {} | {verdict} |", self.name, micro(best(index)), micro(median));
        }
    }
}

/// Prints the table.
pub fn print_table(options: &Options) -> anyhow::Result<()> {
    let rounds = options.rounds;
    println!("{}", include_str!("kernels.md"));
    println!("## Figures\n");
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let machine = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown", |name| name.trim_matches([' ', '\t', ':']));
    println!("{machine}, shared with other work; {rounds} rounds, seeds {SEED} and {}. Microseconds.\n", SEED + 1);
    println!("| shape | work | threads | kernel | best | median | best alternative's time / ours |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for shape in &SHAPES {
        if shape.single {
            Case::<f32>::new::<16>(shape)?.print::<16>(rounds, true);
        }
        Case::<f64>::new::<8>(shape)?.print::<8>(rounds, !shape.single);
    }
    Ok(())
}
