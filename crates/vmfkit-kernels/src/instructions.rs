//! Code that is written once and compiled for each set of instructions: AVX-512, AVX2 with fused multiply-add, and the baseline of the target.
//!
//! Advice for the next person: all that a [`Work`] calls in its loops must be `#[inline(always)]`, closures included, or it is compiled without the
//! instructions and loses most of its speed. Run `cargo bench -p vmfkit --bench mixture` after every change here.

mod sealed {
    /// The kernels run what a set of instructions promises without asking the processor: only [`super::with_best_instructions`] and its siblings,
    /// which ask, may hand one out.
    pub trait Sealed {}
}

/// A set of instructions that kernels are compiled for.
pub trait Instructions: sealed::Sealed {
    /// A product and a sum have one rounding.
    const FUSED: bool;
    /// 32 registers of 512 bits, not 16 of 256.
    const WIDE: bool = false;
    /// Components that one kernel call serves at most.
    const HEIGHT: usize = if Self::WIDE { 12 } else { 6 };
    /// Runs of neighbours that it serves at most.
    const RUNS: usize = if Self::WIDE { 2 } else { 1 };
    /// Runs of columns that are summed together at most where responsibilities are sparse.
    const SPAN: usize = if Self::WIDE { 8 } else { 7 };
}

pub(crate) struct Plain;

impl sealed::Sealed for Plain {}

impl Instructions for Plain {
    const FUSED: bool = false;
}

pub(crate) struct Fused;

impl sealed::Sealed for Fused {}

impl Instructions for Fused {
    const FUSED: bool = true;
}

#[cfg(target_arch = "x86_64")]
pub(crate) struct Wide;

#[cfg(target_arch = "x86_64")]
impl sealed::Sealed for Wide {}

#[cfg(target_arch = "x86_64")]
impl Instructions for Wide {
    const FUSED: bool = true;
    const WIDE: bool = true;
}

/// A piece of work that is written once and compiled for each set of instructions.
pub trait Work {
    /// What it computes.
    type Output;
    /// Must be `#[inline(always)]`, and so must all that it calls in its loops.
    fn run<I: Instructions>(self) -> Self::Output;
}

/// Runs the work with the best instructions of this processor.
pub fn with_best_instructions<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    if has_wide() {
        // SAFETY: `has_wide` has asked the processor for these features.
        return unsafe { run_wide(work) };
    }
    with_narrow_instructions(work)
}

/// The same without AVX-512, for tests: the bits are those of [`with_best_instructions`].
pub fn with_narrow_instructions<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    {
        if has_fused() {
            // SAFETY: `has_fused` has asked the processor for these features.
            return unsafe { run_fused(work) };
        }
        work.run::<Plain>()
    }
    #[cfg(not(target_arch = "x86_64"))]
    if has_fused() { work.run::<Fused>() } else { work.run::<Plain>() }
}

/// Runs the work without AVX2, as any processor can. For measurements: without fused multiply-add the last bits differ.
pub fn with_baseline_instructions<W: Work>(work: W) -> W::Output {
    work.run::<Plain>()
}

/// Components that one kernel call serves at most, with the best instructions and without AVX-512.
pub fn group_heights() -> [usize; 2] {
    struct Height;
    impl Work for Height {
        type Output = usize;
        fn run<I: Instructions>(self) -> usize {
            I::HEIGHT
        }
    }
    [with_best_instructions(Height), with_narrow_instructions(Height)]
}

/// A piece of work that is compiled for AVX2 and for the baseline: the same operations in the same order, so the same bits.
pub trait Avx2Work {
    /// What it computes.
    type Output;
    /// Must be `#[inline(always)]`, and so must all that it calls in its loops.
    fn run(self) -> Self::Output;
}

/// Runs the work compiled for AVX2, if the processor has it.
#[inline]
pub fn with_avx2<W: Avx2Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { run_avx2(work) };
    }
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn run_avx2<W: Avx2Work>(work: W) -> W::Output {
    work.run()
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn has_fused() -> bool {
    std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
}

/// Every aarch64 fuses; elsewhere `mul_add` may be a slow library call.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn has_fused() -> bool {
    cfg!(target_arch = "aarch64")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_fused<W: Work>(work: W) -> W::Output {
    work.run::<Fused>()
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn has_wide() -> bool {
    let has_512 = std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("avx512vl");
    has_512 && std::arch::is_x86_feature_detected!("avx512dq") && std::arch::is_x86_feature_detected!("avx512bw") && has_fused()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512dq,avx512bw")]
fn run_wide<W: Work>(work: W) -> W::Output {
    work.run::<Wide>()
}

/// The output with the best instructions, after a check that narrower ones give the same.
#[cfg(test)]
pub(crate) fn on_every_processor<W: Work<Output: PartialEq + std::fmt::Debug> + Copy>(work: W) -> W::Output {
    let best = with_best_instructions(work);
    assert_eq!(best, with_narrow_instructions(work));
    best
}
