//! Rows that arrive in batches: the mixture can be used after every batch, and follows clusters that come and go.
//!
//! Run it with `cargo run --release -p vmfkit --example streaming`.

use vmfkit::m_step::Note;
use vmfkit::{Fitter, Mixture, RowBatch, Sampler, VonMisesFisher};

const DIM: usize = 32;
const BATCH: usize = 400;

/// What arrives: rows of three clusters out of six, each of which is there for a while.
fn arriving(batch: usize, clusters: &[VonMisesFisher]) -> vmfkit::Result<Vec<f32>> {
    let first = (batch / 10).min(clusters.len() - 3);
    let now = Mixture::new(vec![0.5, 0.3, 0.2], clusters[first..first + 3].to_vec())?;
    let (mut rows, mut labels) = (vec![0f32; DIM * BATCH], vec![0; BATCH]);
    now.fill(1, (BATCH * batch) as u64, &mut rows, &mut labels)?;
    Ok(rows)
}

fn main() -> vmfkit::Result<()> {
    let mut directions = vec![0.0; DIM * 6];
    Sampler::new(&VonMisesFisher::uniform(DIM)?).fill(7, 0, &mut directions)?;
    let clusters: Vec<VonMisesFisher> =
        directions.chunks_exact(DIM).map(|mu| VonMisesFisher::along(mu.to_vec(), 60.0)).collect::<Result<_, _>>()?;

    // Four components; after 5,000 rows earlier ones count half.
    let mut stream = Fitter::new(4).seed(42).stream()?.half_life(5_000.0);
    let mut moves = 0;
    for batch in 0..40 {
        let rows = arriving(batch, &clusters)?;
        let block = RowBatch::new(DIM, &rows)?;
        // What the mixture makes of rows it has not seen.
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
    println!("weight, concentration, and the cosine with the nearest cluster that is there now:");
    let now = &clusters[3..];
    for (weight, component) in mixture.weights().iter().zip(mixture.components()) {
        let cosine = |cluster: &VonMisesFisher| -> f64 {
            cluster.mean_direction().iter().zip(component.mean_direction()).map(|(x, y)| x * y).sum()
        };
        let nearest = now.iter().map(cosine).fold(-1.0, f64::max);
        println!("{weight:.3}  {:6.1}  {nearest:.3}", component.concentration());
    }

    // The example is a test too: every cluster that is there has a component, and some had to move.
    let is_found = |cluster: &VonMisesFisher| {
        let cosine = |component: &VonMisesFisher| -> f64 {
            cluster.mean_direction().iter().zip(component.mean_direction()).map(|(x, y)| x * y).sum()
        };
        mixture.components().iter().any(|component| cosine(component) > 0.99)
    };
    assert!(now.iter().all(is_found), "a cluster has no component");
    assert!(moves >= 1, "no component has moved");
    Ok(())
}
