//! The questions of `data/banking77`, which are compiled into the command.

use crate::files::row_output::RowOutput;
use anyhow::Result;
use std::path::Path;
use vmfkit::rows::Rows;
use vmfkit_io::{Batch, Element, IdKind, Ids, OutputFormat, RowLayout};

const TEXTS: &str = include_str!("../../../data/banking77/questions.txt");
const EMBEDDINGS: &[u8] = include_bytes!("../../../data/banking77/embeddings.i8");

pub const DIM: usize = 384;
pub const SOURCE: &str = "banking77 by PolyAI, CC-BY 4.0";

/// A question and the index of its intent.
#[derive(Debug, Clone, Copy)]
pub struct Question {
    pub text: &'static str,
    pub intent: usize,
    embedding: &'static [u8],
}

/// All questions and the names of their intents.
pub struct Questions {
    pub all: Vec<Question>,
    pub intents: Vec<&'static str>,
}

impl Questions {
    pub fn read() -> Self {
        let (mut all, mut intents) = (Vec::new(), Vec::new());
        let mut embeddings = EMBEDDINGS.chunks_exact(DIM);
        for line in TEXTS.lines() {
            match line.strip_prefix("# ") {
                Some(intent) => intents.push(intent),
                None => {
                    let embedding = embeddings.next().expect("a row for each question");
                    all.push(Question { text: line, intent: intents.len() - 1, embedding });
                }
            }
        }
        Questions { all, intents }
    }

    /// Writes embeddings, and the questions as ids where a format has text ids.
    pub fn write(&self, path: &Path, format: OutputFormat) -> Result<()> {
        let count = self.all.len();
        let mut layout = RowLayout::new(DIM, Element::F32).rows(count as u64);
        let has_ids = !matches!(format, OutputFormat::Npy | OutputFormat::Npz | OutputFormat::Safetensors | OutputFormat::Mtx);
        if has_ids {
            layout = layout.ids(IdKind::Texts);
        }
        let mut output = RowOutput::create(path, format, &layout)?;
        let texts = || Ids::Texts(self.all.iter().map(|question| question.text.to_owned()).collect());
        let values = Rows::F32(rows(&self.all).into());
        output.write(&Batch { rows: count, values, weights: None, ids: has_ids.then(texts) })?;
        output.finish()
    }
}

/// The embeddings of questions as unit vectors.
pub fn rows(questions: &[Question]) -> Vec<f32> {
    let unit = |question: &Question| {
        let numbers: [f64; DIM] = std::array::from_fn(|i| f64::from(question.embedding[i].cast_signed()));
        let length = numbers.iter().map(|x| x * x).sum::<f64>().sqrt();
        numbers.map(|x| (x / length) as f32)
    };
    questions.iter().flat_map(unit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_intent_has_20_questions_with_unit_embeddings() {
        let questions = Questions::read();
        assert_eq!((questions.intents.len(), questions.all.len(), EMBEDDINGS.len()), (77, 1540, 1540 * DIM));
        for (position, question) in questions.all.iter().enumerate() {
            assert!(question.intent == position / 20 && !question.text.is_empty(), "{question:?}");
        }
        let rows = rows(&questions.all);
        for row in rows.chunks_exact(DIM) {
            let length: f64 = row.iter().map(|x| f64::from(x * x)).sum();
            assert!((length - 1.0).abs() < 1e-6, "{length}");
        }
    }
}
