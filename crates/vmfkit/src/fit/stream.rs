//! [`StreamFitter`]: fits a mixture to rows that arrive in batches.

use crate::bessel;
use crate::calibrate::{Calibration, Evidence};
use crate::error::{Error, Result};
use crate::fit::held_rows;
use crate::fit::reassign::{Reassignment, reassignments};
use crate::fit::stream_sample::StreamSample;
use crate::fit::{Fitter, Method};
use crate::m_step::Note;
use crate::mixture::{Assignment, Mixture};
use crate::outlier::OutlierTable;
use crate::rows::RowBatch;
use crate::sampler::Stream;
use crate::settings::Settings;
use crate::start::{Start, sample_rows};
use crate::stats::SufficientStats;
use crate::tensor_file::{Contents, File, Kind};
use crate::train::{Fit, OnlineEm, State, Status};
use std::ops::ControlFlow;

const KIND: Kind = Kind { format: "vmfkit.stream", version: "1", unchecked: Some("1") };

/// The number of rows per component at which the start is made. With fewer, most components would
/// have one or two rows and unbounded concentrations.
pub const FIRST_ROWS_PER_COMPONENT: usize = 8;

/// A component is idle if its weight predicts this many rows and it got none. The probability of
/// that is exp(-20), one in half a billion.
const IDLE_EXPECTED_ROWS: f64 = 20.0;

/// Multiplications between two calls of `should_cancel`, some tenths of a second of work.
const WORK_AT_ONCE: usize = 1 << 30;

/// Fits a mixture by online EM to rows that arrive in batches and are not kept; created by
/// [`Fitter::stream`].
///
/// Every [`update`](Self::update) is one step, and the mixture can be used at any time. The first
/// rows are held until there are [`FIRST_ROWS_PER_COMPONENT`] per component; the start is made from
/// them.
///
/// **Drift.** When rows of a batch fit no component, a component is moved to them: the one whose
/// removal lowers the likelihood of earlier rows least, such as one of two that share a cluster, if
/// the move gains more than that; or one whose cluster has had no rows for a while, MATH.md
/// (14.13). [`Self::notes`] report it. With a [half-life](Self::half_life) old rows fade, and so do
/// clusters that get no more rows.
///
/// **Calibration.** [`Self::calibrated`] calibrates the mixture so far with a random sample of the
/// rows, of bounded size, in which old rows fade as they do in the mixture.
///
/// ```
/// use vmfkit::{RowBatch, Fitter, Mixture, VonMisesFisher};
/// let along = |x, y, z| VonMisesFisher::new(vec![x, y, z], 50.0);
/// let truth = Mixture::new(vec![0.5, 0.5], vec![along(1.0, 0.0, 0.0)?, along(0.0, 0.6, 0.8)?])?;
/// let mut stream = Fitter::new(2).seed(7).stream()?.half_life(10_000.0);
/// let (mut rows, mut labels) = (vec![0f32; 3 * 200], vec![0; 200]);
/// for batch in 0..10 {
///     truth.fill(1, 200 * batch, &mut rows, &mut labels)?;
///     stream.update(&RowBatch::new(3, &rows)?)?;
/// }
/// let mixture = stream.mixture().expect("2000 rows suffice for a start");
/// assert!(mixture.weights().iter().all(|weight| (weight - 0.5).abs() < 0.05));
/// # Ok::<(), vmfkit::Error>(())
/// ```
#[derive(Debug)]
pub struct StreamFitter {
    fitter: Fitter<'static>,
    half_life: f64,
    reassign: bool,
    rule: OnlineEm,
    phase: Phase,
    /// `None` if the stream is not calibrated.
    sample: Option<StreamSample>,
    rows: u64,
    weight: f64,
    updates: u64,
    notes: Vec<Note>,
}

#[derive(Debug)]
enum Phase {
    /// Before the start.
    Holding(Option<RowBatch<'static>>),
    Running {
        model: Mixture,
        attendance: Vec<Attendance>,
    },
}

/// When a component last had rows.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Attendance {
    /// Rows since then.
    missed: f64,
    /// Its weight at that time.
    weight: f64,
}

impl Attendance {
    /// Whether it is idle if it gets none of this many further rows.
    fn is_idle_after(&self, rows: usize) -> bool {
        (self.missed + rows as f64) * self.weight >= IDLE_EXPECTED_ROWS
    }
}

impl Fitter<'_> {
    /// Fits rows that arrive in batches by online EM; the method must be online EM or the default.
    /// Passes, restarts and the search, which read rows again, are not used.
    pub fn stream(&self) -> Result<StreamFitter> {
        let fitter = self.choices();
        fitter.check()?;
        fitter.check_start()?;
        let rule = match fitter.method {
            Method::OnlineEm { exponent, offset } => OnlineEm::new().exponent(exponent).offset(offset),
            Method::Em { annealing: None } => OnlineEm::new(),
            _ => return Err(Error::NotForStreams { method: fitter.method.name() }),
        };
        let rule = rule.maximisation(fitter.maximisation.clone());
        let sample = fitter.calibrate.then(|| StreamSample::new(fitter.rows_of_stream()));
        Ok(StreamFitter {
            fitter,
            sample,
            half_life: f64::INFINITY,
            reassign: true,
            rule,
            phase: Phase::Holding(None),
            rows: 0,
            weight: 0.0,
            updates: 0,
            notes: Vec::new(),
        })
    }

    /// Continues after a fit of `rows` rows of this total weight that ended with `mixture`. All
    /// rows count equally, those of the fit and those to come.
    pub fn stream_after(&self, mixture: &Mixture, rows: u64, weight: f64) -> Result<StreamFitter> {
        let mut stream = self.stream()?;
        let start = Start::Mixture(mixture.clone()).without_rows(mixture.dim(), self.components, self.seed);
        let model = self.finished(start.expect("a mixture needs no rows")?)?;
        stream.rule = stream.rule.after(&model, weight)?;
        (stream.rows, stream.weight) = (rows, weight);
        stream.phase = Phase::running(model);
        Ok(stream)
    }

    /// The number of rows that a stream keeps for its calibration, unless they are long: as many as
    /// k-means uses for a start, or [`Self::sample`].
    fn rows_of_stream(&self) -> usize {
        self.sample.unwrap_or_else(|| sample_rows(self.components))
    }
}

impl Phase {
    fn running(model: Mixture) -> Self {
        let attendance = model.weights().iter().map(|&weight| Attendance { missed: 0.0, weight }).collect();
        Phase::Running { model, attendance }
    }
}

impl StreamFitter {
    /// The total weight of rows after which earlier rows count half; see [`OnlineEm::half_life`].
    pub fn half_life(mut self, rows: f64) -> Self {
        self.half_life = rows;
        self.rule = self.rule.half_life(rows);
        self
    }

    /// Whether components are moved to rows that fit none, true by default. If not, component k
    /// always stands for the same cluster.
    pub fn reassign(mut self, reassign: bool) -> Self {
        self.reassign = reassign;
        self
    }

    /// Uses the calibration of the fit that the stream continues until the stream has seen as many rows
    /// as that calibration rests on.
    pub fn calibrated_before(mut self, calibration: Calibration, outlier_table: OutlierTable) -> Self {
        self.sample = self.sample.map(|sample| sample.with_before(Some((calibration, outlier_table))));
        self
    }

    /// Adds a batch of rows.
    pub fn update(&mut self, batch: &RowBatch) -> Result<()> {
        self.update_while(batch, &mut || ControlFlow::Continue(()))
    }

    /// Adds a batch of rows unless it is cancelled, which leaves the mixture as it was.
    pub fn update_while(&mut self, batch: &RowBatch, should_cancel: &mut (dyn FnMut() -> ControlFlow<()> + Send)) -> Result<()> {
        let mut buffer = RowBatch::default();
        let batch = &batch.validated_slice(0, batch.len(), &mut buffer)?;
        self.fitter.check_memory(batch.dim())?;
        let count = (0..batch.len()).filter(|&row| batch.weights().is_none_or(|weights| weights[row] > 0.0)).count();
        if count == 0 {
            return Ok(());
        }
        match &mut self.phase {
            Phase::Running { model, .. } if model.dim() != batch.dim() => {
                Err(Error::DimensionMismatch { expected: model.dim(), found: batch.dim() })
            }
            Phase::Running { .. } => self.step(batch, should_cancel),
            Phase::Holding(held) => {
                let mut rows = held.take().unwrap_or_else(|| RowBatch::empty_like(batch));
                let before = rows.len();
                let begun = rows
                    .append(batch)
                    .and_then(|()| self.begin(&rows.without_unit_weights(), rows.weighted_rows(), should_cancel));
                if !matches!(begun, Ok(ControlFlow::Continue(()))) {
                    // The caller may add these rows again.
                    rows.truncate(before);
                    self.phase = Phase::Holding(None);
                }
                if let Phase::Holding(held) = &mut self.phase {
                    *held = Some(rows).filter(|rows| !rows.is_empty());
                }
                begun.map(|_| ())
            }
        }
    }

    /// Makes the start and takes the first step if there are enough rows; a break if it is
    /// cancelled.
    fn begin(
        &mut self,
        batch: &RowBatch,
        count: usize,
        should_cancel: &mut (dyn FnMut() -> ControlFlow<()> + Send),
    ) -> Result<ControlFlow<()>> {
        let Fitter { components, start, maximisation, seed, .. } = &self.fitter;
        let looks_at_rows = matches!(start, Start::KMeans | Start::PlusPlus | Start::RandomRows | Start::Directions(_));
        if looks_at_rows && count < self.first_rows() {
            return Ok(ControlFlow::Continue(()));
        }
        let model = start.mixture_while(batch, *components, maximisation, *seed, should_cancel)?;
        let model = self.fitter.finished(model)?;
        if self.fitter.asks_for_dispersion() {
            let measured = self.fitter.measured_dispersion(batch, &model, *seed, should_cancel)?;
            self.take_dispersion(measured);
        }
        let before = std::mem::replace(&mut self.phase, Phase::running(model));
        if should_cancel().is_break() {
            self.phase = before;
            return Ok(ControlFlow::Break(()));
        }
        let updates = self.updates;
        self.step(batch, should_cancel)?;
        Ok(if self.updates > updates { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    }

    /// Sets the dispersion of the rows, which the policy `auto` depends on.
    fn take_dispersion(&mut self, measured: Option<f64>) {
        self.fitter.take_dispersion(measured);
        self.rule = self.rule.clone().maximisation(self.fitter.maximisation.clone());
    }

    fn step(&mut self, batch: &RowBatch, should_cancel: &mut (dyn FnMut() -> ControlFlow<()> + Send)) -> Result<()> {
        let Phase::Running { model, attendance } = &self.phase else {
            return Ok(());
        };
        let moves = match self.rule.running().filter(|_| self.reassign) {
            Some(running) => {
                let seed = Stream::derive(self.fitter.seed, self.updates);
                reassignments(
                    model,
                    running,
                    |k, rows| attendance[k].is_idle_after(rows),
                    batch,
                    &self.fitter.maximisation,
                    seed,
                )?
            }
            None => Vec::new(),
        };
        let moved = moves.iter().fold(model.clone(), |model, change| reassigned(&model, change));
        let mut stats = SufficientStats::zero(moved.components().len(), moved.dim());
        let at_once = (WORK_AT_ONCE / (moved.components().len() * moved.dim())).max(1);
        for from in (0..batch.len()).step_by(at_once) {
            moved.accumulate(&batch.slice(from, (from + at_once).min(batch.len())), Assignment::Soft, &mut stats)?;
            if should_cancel().is_break() {
                return Ok(());
            }
        }
        for Reassignment { component, merged_into, density, fraction } in &moves {
            // It begins with the rows it was moved to, at the assumed concentration: they are too
            // few to estimate one.
            let mass = fraction * stats.weight();
            let complement = bessel::mean_length_complement(moved.dim(), density.concentration());
            let resultant = density.mean_direction().iter().map(|x| mass * (1.0 - complement) * x);
            let values: Vec<f64> = [0.0, mass, mass, mass * complement].into_iter().chain(resultant).collect();
            let begin_with = SufficientStats::of_values(1, moved.dim(), values.into_iter()).expect("finite and of one component");
            self.rule.reassign(*component, *merged_into, &begin_with);
        }
        let (next, notes) = self.rule.step(&moved, &stats)?;
        let mut attendance = attendance.clone();
        moves.iter().for_each(|change| attendance[change.component] = Attendance { missed: 0.0, weight: change.fraction });
        let rows_a_weight = batch.len() as f64 / stats.weight();
        for (k, attendance) in attendance.iter_mut().enumerate() {
            *attendance = match stats.mass(k) * rows_a_weight {
                rows if rows >= 0.5 => Attendance { missed: 0.0, weight: next.weights()[k] },
                _ => Attendance { missed: attendance.missed + batch.len() as f64, ..*attendance },
            };
        }
        let note_of = |change: &Reassignment| Note::Reassigned {
            component: change.component,
            merged_into: change.merged_into,
            rows: self.rows,
        };
        let is_fitted = |k: usize| !next.is_background(k);
        let idle = attendance.iter().enumerate().filter(|(k, attendance)| attendance.is_idle_after(0) && is_fitted(*k));
        let idle = idle.map(|(component, attendance)| Note::Idle { component, rows: attendance.missed as u64 });
        self.notes = moves.iter().map(note_of).chain(idle).chain(notes).collect();
        if let Some(sample) = &mut self.sample {
            let factor = (-stats.weight() / self.half_life).exp2();
            sample.offer(batch, factor, Stream::derive(self.fitter.seed ^ 0x6361_6c69, self.updates))?;
        }
        self.rows += batch.len() as u64;
        self.weight += stats.weight();
        self.updates += 1;
        self.phase = Phase::Running { model: next, attendance };
        Ok(())
    }

    /// The mixture so far; `None` before the start.
    pub fn mixture(&self) -> Option<&Mixture> {
        match &self.phase {
            Phase::Running { model, .. } => Some(model),
            Phase::Holding(_) => None,
        }
    }

    /// Notes on the last batch: components that were moved or are idle, empty or collapsed.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// The number of rows so far, including those of an earlier fit and those that are held.
    pub fn rows(&self) -> u64 {
        self.rows + self.held_rows() as u64
    }

    /// The number of rows held until there are enough for a start.
    pub fn held_rows(&self) -> usize {
        match &self.phase {
            Phase::Holding(held) => held.as_ref().map_or(0, RowBatch::weighted_rows),
            Phase::Running { .. } => 0,
        }
    }

    /// The number of rows that the start needs.
    pub fn first_rows(&self) -> usize {
        self.fitter.components.saturating_mul(FIRST_ROWS_PER_COMPONENT)
    }

    /// The total weight of the rows of all steps and of an earlier fit.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// The number of steps.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// The dimension of the rows; `None` before the first.
    pub fn dim(&self) -> Option<usize> {
        match &self.phase {
            Phase::Running { model, .. } => Some(model.dim()),
            Phase::Holding(held) => held.as_ref().map(RowBatch::dim),
        }
    }

    /// The settings of the stream.
    pub fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        let used = &self.fitter.maximisation;
        settings.set("method", "online");
        settings.set("policy", used.policy.to_string());
        settings.set("estimator", used.estimator.name());
        settings.set("seed", self.fitter.seed.to_string());
        if self.half_life.is_finite() {
            settings.set("half_life", format!("{:?}", self.half_life));
        }
        settings.with_dispersion(used.dispersion)
    }

    /// The mixture so far as the result of a fit; `None` before the start.
    pub fn so_far(&self) -> Option<Fit> {
        self.mixture().map(|mixture| Fit {
            mixture: mixture.clone(),
            trace: Vec::new(),
            status: Status::Running,
            notes: self.notes.clone(),
            weight: self.weight,
            rows: self.rows,
            search_passes: 0,
            sums: Vec::new(),
            calibration: None,
            outlier_table: None,
            settings: self.settings(),
        })
    }

    /// [`Self::so_far`] with a [calibration](Calibration) and an
    /// [outlier table](OutlierTable). It takes about a second for 8,192 rows of 384 numbers, so
    /// nothing is computed until it is asked for.
    ///
    /// Both come from a random sample of the rows so far, kept by the stream: as many rows as k-means
    /// uses for a start (8,192, or 64 per component), or [`Fitter::sample`], and at most 8 million
    /// numbers. With a half-life, old rows become rare in it. Each row of the sample is scored by the
    /// mixture without it, as in a [`Fitter`]; rows that the stream has not seen yet give the exact
    /// guarantee of [`OutlierTable::held_out`]. The [dispersion](crate::dispersion::dispersion) is
    /// that of the sample.
    ///
    /// # Errors
    /// Too little memory.
    pub fn calibrated(&self) -> Result<Option<Fit>> {
        let (Some(fit), Some(sample)) = (self.so_far(), &self.sample) else { return Ok(self.so_far()) };
        let running = self.rule.running();
        let mixture = fit.mixture.clone();
        let evidence = Evidence {
            mixture: &mixture,
            sums: &running.map(SufficientStats::sums).unwrap_or_default(),
            weight: running.map_or(self.weight, SufficientStats::weight),
            row_weight: Some(if self.rows > 0 { self.weight / self.rows as f64 } else { 1.0 }),
            how: &self.fitter.maximisation,
            dispersion: None,
            is_hard: false,
            labels: None,
        };
        sample.calibrated(fit, &evidence).map(Some)
    }

    /// The number of rows that are kept for the calibration.
    pub fn sample_rows(&self) -> usize {
        self.sample.as_ref().map_or(0, StreamSample::len)
    }

    /// Everything that is needed to resume, except the settings: those of the [`Fitter`] other than
    /// the seed, and the half-life. The rows kept for the calibration are part of it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut contents = Contents::new(&KIND);
        contents.text("seed", self.fitter.seed.to_string());
        if let Some(dispersion) = self.fitter.maximisation.dispersion {
            contents.text("dispersion", format!("{dispersion:?}"));
        }
        contents.numbers("counters", vec![3], vec![self.rows as f64, self.weight, self.updates as f64]);
        match &self.phase {
            Phase::Holding(held) => held.iter().for_each(|held| held_rows::write("held", held, &mut contents)),
            Phase::Running { model, attendance } => {
                contents.mixture("", model);
                let numbers = attendance.iter().flat_map(|attendance| [attendance.missed, attendance.weight]).collect();
                contents.numbers("attendance", vec![attendance.len(), 2], numbers);
                self.rule.state().write(&mut contents);
                if let Some(sample) = &self.sample {
                    sample.write(&mut contents);
                }
            }
        }
        contents.to_bytes()
    }

    /// Resumes from the bytes of [`Self::to_bytes`]. This stream must have been made with the same
    /// settings.
    pub fn resume(mut self, bytes: &[u8]) -> Result<Self> {
        let wrong = |what| Error::StreamBytes { what };
        let file = File::open(bytes, &KIND, wrong)?;
        let counters = file.numbers("counters", [Some(3)])?;
        if let Some(number) = counters.iter().find(|number| !(**number >= 0.0 && number.is_finite())) {
            return file.wrong(format!("counters must be finite and at least 0, found: `{number}`"));
        }
        self.fitter.seed = file.parsed("seed")?;
        if !file.text("dispersion").is_empty() {
            let dispersion = file.parsed("dispersion")?;
            self.take_dispersion(Some(dispersion));
            self.fitter.maximisation.check(self.fitter.components)?;
        }
        (self.rows, self.weight, self.updates) = (counters[0] as u64, counters[1], counters[2] as u64);
        let names = file.names();
        let has = |name: &str| names.iter().any(|other| other == name);
        self.phase = if has("held.values") {
            Phase::Holding(Some(held_rows::read("held", &file)?))
        } else if has("weights") {
            let model = file.mixture("")?;
            let (found, expected) = (model.components().len() - usize::from(model.has_background()), self.fitter.components);
            if found != expected {
                return file.wrong(format!("there must be {expected} components, a background not counted, found: `{found}`"));
            }
            self.rule.restore(&State::read(&file)?, &model)?;
            let numbers = file.numbers("attendance", [Some(model.components().len()), Some(2)])?;
            let attendance = numbers.chunks_exact(2).map(|pair| Attendance { missed: pair[0], weight: pair[1] }).collect();
            if self.fitter.calibrate {
                let components = (model.components().len(), self.fitter.components);
                self.sample = Some(StreamSample::read(self.fitter.rows_of_stream(), &file, components)?);
            }
            Phase::Running { model, attendance }
        } else {
            Phase::Holding(None)
        };
        Ok(self)
    }
}

/// The mixture after a component has moved.
fn reassigned(model: &Mixture, change: &Reassignment) -> Mixture {
    let Reassignment { component, merged_into, density, fraction } = change;
    let mut weights = model.weights().to_vec();
    let given_up = std::mem::take(&mut weights[*component]);
    let mut rest = 1.0;
    match merged_into {
        Some(merged_into) => weights[*merged_into] += given_up,
        None => rest -= given_up,
    }
    weights.iter_mut().for_each(|weight| *weight *= (1.0 - fraction) / rest);
    weights[*component] = *fraction;
    let mut components = model.components().to_vec();
    components[*component] = density.clone();
    Mixture::of_parts(weights, components, model.has_background())
}
