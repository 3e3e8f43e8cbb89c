//! Every array that can be written as `.npy` can be read.

use crate::{Folder, npy, read_all};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use vmfkit_io::{DataSource, Options, open, open_stream};

/// The bytes of a number in some type, and the number read from them. Values are small, so that
/// every type holds them exactly.
fn encode(descr: &str, value: i8) -> (Vec<u8>, f64) {
    let (number, magnitude) = (f64::from(value), f64::from(value.unsigned_abs()));
    let unsigned = value.unsigned_abs();
    match descr {
        "f2" => (half(value).to_le_bytes().to_vec(), number),
        "f4" => (f32::from(value).to_le_bytes().to_vec(), number),
        "f8" => (number.to_le_bytes().to_vec(), number),
        "i1" => (value.to_le_bytes().to_vec(), number),
        "i2" => (i16::from(value).to_le_bytes().to_vec(), number),
        "i4" => (i32::from(value).to_le_bytes().to_vec(), number),
        "i8" => (i64::from(value).to_le_bytes().to_vec(), number),
        "u1" => (unsigned.to_le_bytes().to_vec(), magnitude),
        "u2" => (u16::from(unsigned).to_le_bytes().to_vec(), magnitude),
        "u4" => (u32::from(unsigned).to_le_bytes().to_vec(), magnitude),
        "u8" => (u64::from(unsigned).to_le_bytes().to_vec(), magnitude),
        _ => unreachable!("not a type"),
    }
}

/// An integer in half precision: shifts it until the leading bit is the hidden one.
fn half(value: i8) -> u16 {
    let magnitude = u16::from(value.unsigned_abs());
    if magnitude == 0 {
        return 0;
    }
    let exponent = 15 - magnitude.leading_zeros() as u16;
    let sign = if value < 0 { 0x8000 } else { 0 };
    sign | (exponent + 15) << 10 | (magnitude << (10 - exponent) & 1023)
}

#[derive(Debug, Clone)]
struct Array {
    descr: &'static str,
    big_endian: bool,
    fortran: bool,
    dim: usize,
    values: Vec<i8>,
    block_rows: usize,
}

fn arrays() -> impl Strategy<Value = Array> {
    let descrs = prop::sample::select(vec!["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]);
    (descrs, any::<bool>(), any::<bool>(), 2..6usize, 1..12usize, 1..14usize).prop_flat_map(
        |(descr, big_endian, fortran, dim, rows, block_rows)| {
            // A row of zeros has no direction.
            let value = prop_oneof![-127..=-1i8, 1..=127i8];
            prop::collection::vec(value, rows * dim).prop_map(move |values| Array {
                descr,
                big_endian,
                fortran,
                dim,
                values,
                block_rows,
            })
        },
    )
}

impl Array {
    fn file(&self) -> Vec<u8> {
        let rows = self.values.len() / self.dim;
        let place = |at: usize| if self.fortran { at % rows * self.dim + at / rows } else { at };
        let data: Vec<u8> = (0..self.values.len())
            .flat_map(|at| {
                let mut bytes = encode(self.descr, self.values[place(at)]).0;
                if self.big_endian {
                    bytes.reverse();
                }
                bytes
            })
            .collect();
        let order = if self.big_endian { ">" } else { "<" };
        let fortran = if self.fortran { "True" } else { "False" };
        npy(
            &format!("{{'descr': '{order}{}', 'fortran_order': {fortran}, 'shape': ({rows}, {}), }}", self.descr, self.dim),
            &data,
        )
    }

    /// The rows in order, rescaled as in the core.
    fn expected(&self) -> Vec<Vec<f64>> {
        let numbers: Vec<f64> = self.values.iter().map(|&value| encode(self.descr, value).1).collect();
        let rows = if matches!(self.descr, "f2" | "f4") {
            let numbers: Vec<f32> = numbers.iter().map(|&x| x as f32).collect();
            vmfkit::RowBatch::rescaled(self.dim, &numbers)
        } else {
            vmfkit::RowBatch::rescaled(self.dim, &numbers)
        };
        let block = rows.unwrap().0;
        (0..block.len()).map(|row| block.row(row)).collect()
    }

    fn check(&self, mut source: DataSource) {
        let all = read_all(&mut source).unwrap();
        assert_eq!(all.rows, self.expected());
        assert!(all.blocks[..all.blocks.len() - 1].iter().all(|&rows| rows == self.block_rows));
    }
}

#[test]
fn any_array_is_read_back() {
    let folder = Folder::new();
    let mut runner = TestRunner::new_with_rng(Config::with_cases(400), TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]));
    runner
        .run(&arrays(), |array| {
            let options = Options::new().rescale(true).block_rows(array.block_rows);
            let place = folder.write("x.npy", array.file());
            array.check(open(&place, &options).unwrap());
            if !array.fortran {
                array.check(open_stream(std::io::Cursor::new(array.file()), "pipe", &options).unwrap());
            }
            Ok(())
        })
        .unwrap();
}
