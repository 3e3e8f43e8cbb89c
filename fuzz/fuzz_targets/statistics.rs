//! Statistics with arbitrary bytes: are refused, or can be merged, scaled and maximised without a
//! panic or a NaN.
#![no_main]

use fuzz as _;
use libfuzzer_sys::fuzz_target;
use vmfkit::m_step::maximise;
use vmfkit::{Maximisation, Mixture, SufficientStats, VonMisesFisher};

fuzz_target!(|bytes: &[u8]| {
    let Ok(stats) = SufficientStats::from_bytes(bytes) else { return };
    assert_eq!(SufficientStats::from_bytes(&stats.to_bytes()).expect("what was written can be read"), stats);
    let mut sum = stats.clone();
    sum.merge(&stats).expect("the same shape");
    sum.scale(0.5);
    let (components, dim) = (stats.components(), stats.dim());
    if components == 0 || components > 64 || dim > 64 {
        return;
    }
    let Ok(density) = VonMisesFisher::uniform(dim) else { return };
    let Ok(start) = Mixture::new(vec![1.0 / components as f64; components], vec![density; components]) else { return };
    if let Ok((mixture, _)) = maximise(&stats, &start, &Maximisation::new()) {
        assert!(mixture.components().iter().all(|c| c.concentration().is_finite()));
    }
});
