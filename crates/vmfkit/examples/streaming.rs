//! Fits a mixture to rows that arrive in batches, from clusters that appear and disappear. The
//! mixture can be used after every batch.
//!
//!     cargo run --release -p vmfkit --example streaming

use vmfkit::m_step::Note;
use vmfkit::{Fitter, Mixture, RowBatch, Sampler, VonMisesFisher};

const DIM: usize = 32;
const BATCH: usize = 400;

/// A batch of rows of three of the six clusters; the three change over time.
fn arriving(batch: usize, clusters: &[VonMisesFisher]) -> vmfkit::Result<Vec<f32>> {
    let first = (batch / 10).min(clusters.len() - 3);
    let current = Mixture::new(vec![0.5, 0.3, 0.2], clusters[first..first + 3].to_vec())?;
    let (mut rows, mut labels) = (vec![0f32; DIM * BATCH], vec![0; BATCH]);
    current.fill(1, (BATCH * batch) as u64, &mut rows, &mut labels)?;
    Ok(rows)
}

fn main() -> vmfkit::Result<()> {
    let mut directions = vec![0.0; DIM * 6];
    Sampler::new(&VonMisesFisher::uniform(DIM)?).fill(7, 0, &mut directions)?;
    let clusters: Vec<VonMisesFisher> =
        directions.chunks_exact(DIM).map(|mu| VonMisesFisher::along(mu.to_vec(), 60.0)).collect::<Result<_, _>>()?;

    // Four components; after 5,000 more rows, a row counts half.
    let mut stream = Fitter::new(4).seed(42).stream()?.half_life(5_000.0);
    let mut moves = 0;
    for batch in 0..40 {
        let rows = arriving(batch, &clusters)?;
        let block = RowBatch::new(DIM, &rows)?;
        // Evaluate the mixture on rows that it has not seen.
        if let Some(mixture) = stream.mixture() {
            let mean = mixture.evaluate(&block)?.mean();
            if batch % 5 == 0 {
                println!("batch {batch:2}: {} rows so far, mean ln p of the next batch {mean:.2}", stream.rows());
            }
        }
        stream.update(&block)?;
        for note in stream.notes().iter().filter(|note| matches!(note, Note::Reassigned { .. })) {
            println!("batch {batch:2}: {note}");
            moves += 1;
        }
    }

    let mixture = stream.mixture().expect("40 batches are enough for a start");
    println!("weight, concentration, and the cosine with the nearest current cluster:");
    let current = &clusters[3..];
    for (weight, component) in mixture.weights().iter().zip(mixture.components()) {
        let cosine = |cluster: &VonMisesFisher| -> f64 {
            cluster.mean_direction().iter().zip(component.mean_direction()).map(|(x, y)| x * y).sum()
        };
        let nearest = current.iter().map(cosine).fold(-1.0, f64::max);
        println!("{weight:.3}  {:6.1}  {nearest:.3}", component.concentration());
    }

    // This example is also a test: every current cluster has a component, and some component has
    // moved.
    let is_found = |cluster: &VonMisesFisher| {
        let cosine = |component: &VonMisesFisher| -> f64 {
            cluster.mean_direction().iter().zip(component.mean_direction()).map(|(x, y)| x * y).sum()
        };
        mixture.components().iter().any(|component| cosine(component) > 0.99)
    };
    assert!(current.iter().all(is_found), "a cluster has no component");
    assert!(moves >= 1, "no component has moved");
    Ok(())
}
