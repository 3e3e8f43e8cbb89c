//! Contact sheets of clusters: for each cluster its most typical images, which have the highest
//! density, and its least typical ones.

use super::latent::Part;
use crate::autoencoder::LATENT;
use crate::images::{AREA, Dataset, Images, SIDE};
use crate::training::write_atomically;
use anyhow::Result;
use base64::prelude::{BASE64_STANDARD, Engine};
use std::fmt::Write;
use std::path::Path;
use vmfkit::{Mixture, RowBatch};

/// Number of typical images, and of atypical images, per cluster.
const EACH: usize = 10;
/// Pixels of the sheet per pixel of an image.
const ZOOM: usize = 2;
/// Pixels between images.
const GAP: usize = 4;
/// Pixels between typical and atypical images.
const WIDE_GAP: usize = 40;
const TILE: usize = SIDE * ZOOM;
const STRIP: usize = EACH * (TILE + GAP) - GAP;

/// A white canvas.
struct Canvas {
    width: usize,
    height: usize,
    rgb: Vec<u8>,
}

impl Canvas {
    fn new(width: usize, height: usize) -> Self {
        Canvas { width, height, rgb: vec![255; 3 * width * height] }
    }

    fn put(&mut self, image: &[u8], left: usize, top: usize) {
        for y in 0..TILE {
            for x in 0..TILE {
                let pixel = y / ZOOM * SIDE + x / ZOOM;
                let index = 3 * ((top + y) * self.width + left + x);
                for channel in 0..3 {
                    // A grey image has one channel.
                    self.rgb[index + channel] = image[(channel * AREA + pixel) % image.len()];
                }
            }
        }
    }

    /// Draws images side by side.
    fn strip(&mut self, images: &Images, which: &[usize], left: usize, top: usize) {
        for (i, &at) in which.iter().enumerate() {
            self.put(images.image(at), left + i * (TILE + GAP), top);
        }
    }

    fn png(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, self.width as u32, self.height as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.write_header()?.write_image_data(&self.rgb)?;
        Ok(bytes)
    }
}

/// The images of a cluster, the most typical first.
#[derive(Debug, Clone, Default, PartialEq)]
struct Members(Vec<usize>);

impl Members {
    /// The members of each component. The density of a component increases with the projection on
    /// its mean direction.
    fn of(mixture: &Mixture, rows: &[f32]) -> Result<Vec<Self>> {
        let mut labels = vec![0; rows.len() / LATENT];
        mixture.assign_into(&RowBatch::new(LATENT, rows)?, &mut labels)?;
        let projections: Vec<f64> = rows
            .chunks_exact(LATENT)
            .zip(&labels)
            .map(|(row, &label)| {
                let direction = mixture.components()[label as usize].mean_direction();
                direction.iter().zip(row).map(|(mu, &x)| mu * f64::from(x)).sum()
            })
            .collect();
        let mut members = vec![Members::default(); mixture.components().len()];
        labels.iter().enumerate().for_each(|(row, &label)| members[label as usize].0.push(row));
        for Members(rows) in &mut members {
            rows.sort_by(|&a, &b| projections[b].total_cmp(&projections[a]));
        }
        Ok(members)
    }

    fn typical(&self) -> &[usize] {
        &self.0[..EACH.min(self.0.len())]
    }

    /// The least typical images that are not among the typical ones, the least typical last.
    fn atypical(&self) -> &[usize] {
        let rest = &self.0[self.typical().len()..];
        &rest[rest.len().saturating_sub(EACH)..]
    }

    /// The three most frequent classes with their percentages.
    fn classes(&self, dataset: Dataset, classes: &[i64]) -> String {
        let mut counts = dataset.classes().map(|name| (0, name));
        self.0.iter().for_each(|&row| counts[classes[row] as usize].0 += 1);
        counts.sort_by_key(|&(count, _)| std::cmp::Reverse(count));
        let all = self.0.len().max(1);
        let parts = counts.iter().take(3).filter(|(count, _)| *count > 0);
        parts.map(|(count, name)| format!("{name} {} %", (100 * count + all / 2) / all)).collect::<Vec<_>>().join(", ")
    }
}

/// Draws clusters.png, and clusters.html with a table of the clusters.
pub fn draw(folder: &Path, dataset: Dataset, images: &Images, part: &Part, mixture: &Mixture) -> Result<()> {
    let members = Members::of(mixture, &part.rows)?;
    write(&folder.join("clusters.png"), &sheet(images, &members).png()?)?;
    write(&folder.join("clusters.html"), page(dataset, images, &part.classes, mixture, &members)?.as_bytes())
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    write_atomically(path, bytes)?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

/// One line per cluster.
fn sheet(images: &Images, members: &[Members]) -> Canvas {
    let mut canvas = Canvas::new(2 * STRIP + WIDE_GAP, members.len() * (TILE + GAP) - GAP);
    for (i, cluster) in members.iter().enumerate() {
        let top = i * (TILE + GAP);
        canvas.strip(images, cluster.typical(), 0, top);
        canvas.strip(images, cluster.atypical(), STRIP + WIDE_GAP, top);
    }
    canvas
}

fn page(dataset: Dataset, images: &Images, classes: &[i64], mixture: &Mixture, members: &[Members]) -> Result<String> {
    let mut lines = String::new();
    for (i, cluster) in members.iter().enumerate() {
        let picture = |which: &[usize]| -> Result<String> {
            let mut canvas = Canvas::new(STRIP, TILE);
            canvas.strip(images, which, 0, 0);
            Ok(BASE64_STANDARD.encode(canvas.png()?))
        };
        let (typical, atypical) = (picture(cluster.typical())?, picture(cluster.atypical())?);
        let (weight, kappa) = (mixture.weights()[i], mixture.components()[i].concentration());
        writeln!(
            lines,
            "<tr><td>{i}</td><td>{weight:.3}</td><td>{kappa:.1}</td><td>{}</td><td>{}</td>\
             <td><img alt=\"typical images of cluster {i}\" src=\"data:image/png;base64,{typical}\"></td>\
             <td><img alt=\"atypical images of cluster {i}\" src=\"data:image/png;base64,{atypical}\"></td></tr>",
            cluster.0.len(),
            cluster.classes(dataset, classes),
        )?;
    }
    let name = dataset.name();
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Clusters of {name}</title>\n\
         <style>body {{ font: 15px sans-serif; margin: 2em }} td, th {{ padding: 3px 10px; text-align: left }} img {{ display: block }}</style>\n\
         </head><body><h1>Clusters of {name}, test images</h1>\n\
         <p>Images under a mixture of von Mises-Fisher densities, in the order of their density.</p>\n\
         <table><tr><th></th><th>weight</th><th>kappa</th><th>images</th><th>classes</th><th>most typical</th><th>least typical</th></tr>\n\
         {lines}</table></body></html>\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images(channels: usize, count: usize) -> Images {
        let pixels = (0..count * channels * AREA).map(|at| (at / AREA) as u8).collect();
        Images { channels, pixels, labels: vec![0; count] }
    }

    #[test]
    fn images_are_drawn_at_their_positions() {
        let mut canvas = Canvas::new(STRIP, TILE);
        canvas.strip(&images(3, 2), &[1], 0, 0);
        assert_eq!((&canvas.rgb[..3], &canvas.rgb[3 * TILE..3 * TILE + 3]), (&[3, 4, 5][..], &[255; 3][..]));
        let mut grey = Canvas::new(TILE, TILE);
        grey.strip(&images(1, 2), &[1], 0, 0);
        assert!(grey.rgb.iter().all(|&value| value == 1));
    }

    #[test]
    fn small_clusters_show_no_image_twice() {
        let members = Members((0..13).collect());
        assert_eq!((members.typical(), members.atypical()), (&(0..10).collect::<Vec<_>>()[..], &[10, 11, 12][..]));
        let few = Members(vec![4]);
        assert_eq!((few.typical(), few.atypical()), (&[4][..], &[][..]));
        assert_eq!(Members::default().typical(), &[] as &[usize]);
    }

    #[test]
    fn classes_are_listed_by_frequency() {
        let members = Members((0..4).collect());
        assert_eq!(members.classes(Dataset::Cifar10, &[9, 9, 0, 9]), "truck 75 %, airplane 25 %");
        assert_eq!(Members::default().classes(Dataset::Cifar10, &[]), "");
    }
}
