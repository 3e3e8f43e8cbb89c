//! Runtime dispatch: code written once and compiled for AVX-512, for AVX2 with fused multiply-add,
//! and for the target's baseline.
//!
//! Advice for the next person: everything that a [`Work`] calls in its loops must be
//! `#[inline(always)]`, closures included. Otherwise it is compiled for the baseline and loses most
//! of its speed. After a change, run `cargo bench -p vmfkit --bench mixture`.

mod sealed {
    /// The kernels use an instruction set without checking the CPU's features. Only
    /// [`super::with_best_instructions`] and its siblings, which check, may pass one.
    pub trait Sealed {}
}

/// An instruction set that kernels are compiled for.
pub trait Instructions: sealed::Sealed {
    /// Whether a multiply-add is fused: a product and a sum with one rounding.
    const FUSED: bool;
    /// Whether there are 32 registers of 512 bits (AVX-512), not 16 of 256.
    const WIDE: bool = false;
    /// The largest number of components in a kernel call.
    const HEIGHT: usize = if Self::WIDE { 12 } else { 6 };
    /// The largest number of runs of neighbours in a kernel call.
    const RUNS: usize = if Self::WIDE { 2 } else { 1 };
    /// The largest number of runs of columns summed together where responsibilities are sparse.
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

/// Work that is compiled for each instruction set.
pub trait Work {
    /// The result.
    type Output;
    /// Must be `#[inline(always)]`, and so must everything that it calls in its loops.
    fn run<I: Instructions>(self) -> Self::Output;
}

/// Runs the work with the widest instruction set of this CPU.
pub fn with_best_instructions<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    if has_wide() {
        // SAFETY: `has_wide` has checked for these features.
        return unsafe { run_wide(work) };
    }
    with_narrow_instructions(work)
}

/// Runs the work without AVX-512, for tests and measurements. The results have the same bits as
/// with
/// [`with_best_instructions`].
pub fn with_narrow_instructions<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    {
        if has_fused() {
            // SAFETY: `has_fused` has checked for these features.
            return unsafe { run_fused(work) };
        }
        work.run::<Plain>()
    }
    #[cfg(not(target_arch = "x86_64"))]
    if has_fused() { work.run::<Fused>() } else { work.run::<Plain>() }
}

/// Runs the work compiled for the target's baseline, for measurements. Without fused multiply-add
/// the last bits may differ.
pub fn with_baseline_instructions<W: Work>(work: W) -> W::Output {
    work.run::<Plain>()
}

/// [`Instructions::HEIGHT`] of the widest instruction set, and without AVX-512.
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

/// Work that is compiled for AVX2 and for the baseline, with the same operations in the same order
/// and so the same bits.
pub trait Avx2Work {
    /// The result.
    type Output;
    /// Must be `#[inline(always)]`, and so must everything that it calls in its loops.
    fn run(self) -> Self::Output;
}

/// Runs the work compiled for AVX2 if the CPU has it.
#[inline]
pub fn with_avx2<W: Avx2Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: AVX2 was detected.
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

/// Every aarch64 CPU has fused multiply-add; elsewhere `mul_add` may be a slow library call.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn has_fused() -> bool {
    cfg!(target_arch = "aarch64")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_fused<W: Work>(work: W) -> W::Output {
    work.run::<Fused>()
}

/// Whether AVX-512 is switched off by the environment variable `VMFKIT_AVX512=off`, to compare
/// times and bits. It is read once.
#[cfg(target_arch = "x86_64")]
fn is_narrowed() -> bool {
    static NARROWED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *NARROWED.get_or_init(|| std::env::var_os("VMFKIT_AVX512").is_some_and(|value| value == "off"))
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn has_wide() -> bool {
    if is_narrowed() {
        return false;
    }
    let has_512 = std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("avx512vl");
    has_512 && std::arch::is_x86_feature_detected!("avx512dq") && std::arch::is_x86_feature_detected!("avx512bw") && has_fused()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512dq,avx512bw")]
fn run_wide<W: Work>(work: W) -> W::Output {
    work.run::<Wide>()
}

/// The output with the widest instruction set, after a check that narrower ones give the same bits.
#[cfg(test)]
pub(crate) fn on_every_processor<W: Work<Output: PartialEq + std::fmt::Debug> + Copy>(work: W) -> W::Output {
    let best = with_best_instructions(work);
    assert_eq!(best, with_narrow_instructions(work));
    best
}
