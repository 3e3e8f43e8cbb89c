//! Model files: what is saved is loaded to the last bit, and bad bytes are named.

use proptest::prelude::*;
use vmfkit::model_file::{Description, from_bytes, to_bytes};
use vmfkit::train::{Pass, Status};
use vmfkit::{Block, Error, Fitter, Mixture, VonMisesFisher};

/// Three directions in `dim` dimensions without a round number, and a background.
fn mixture(dim: usize) -> Mixture {
    let direction = |k: usize| (0..dim).map(|i| ((i * i + 7 * k + 1) as f64).sin()).collect();
    let components = (0..3).map(|k| VonMisesFisher::along(direction(k), 10f64.powi(4 * k as i32 - 3) / 3.0).unwrap());
    Mixture::new(vec![0.1, 0.2, 0.7], components.collect()).unwrap().with_background(0.1).unwrap()
}

fn description() -> Description {
    let mut description = Description::default();
    description.method = "em".to_owned();
    description.policy = "shrunk:1".to_owned();
    description.estimator = "exact".to_owned();
    description.status = "converged".to_owned();
    description.seed = u64::MAX;
    description.weight = 0.1 + 0.2;
    description.notes = vec!["a \"quoted\" \u{e9}".to_owned(), "and a second".to_owned()];
    let pass = |objective| Pass { objective, seconds: 0.0, smallest_weight: 0.1, largest_concentration: 1e10, temperature: 1.5 };
    description.trace = vec![pass(-1.0 / 3.0), pass(f64::NEG_INFINITY)];
    description
}

fn refusal(bytes: &[u8]) -> String {
    from_bytes(bytes).expect_err("bad bytes").to_string()
}

/// A file with this header, and as many zeros as asked for behind it.
fn file(header: &str, zeros: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; zeros]].concat()
}

#[test]
fn round_trip_is_exact() {
    for dim in [2, 3, 100, 2048] {
        for mixture in [mixture(dim), mixture(dim).without_background()] {
            let bytes = to_bytes(&mixture, &description());
            assert_eq!(from_bytes(&bytes).unwrap(), (mixture, description()), "{dim}");
        }
    }
}

/// Weights of statistics sum to 1 but for rounding; dividing them again would move their last bits.
#[test]
fn weights_and_directions_are_not_rescaled() {
    let mut moved = (false, false);
    for seed in 0..20 {
        let (mut rows, mut labels) = (vec![0f64; 7 * 500], vec![0; 500]);
        mixture(7).fill(seed, 0, &mut rows, &mut labels).unwrap();
        let fit = Fitter::new(5).seed(seed).background(0.1).fit(&Block::new(7, &rows).unwrap()).unwrap();
        let (loaded, description) = from_bytes(&to_bytes(&fit.mixture, &Description::of(&fit))).unwrap();
        assert_eq!(loaded, fit.mixture);
        assert_eq!((description.status.as_str(), description.weight), (Status::Converged.name(), 500.0));
        assert_eq!(description.trace.len(), fit.trace.len());
        moved.0 |= fit.mixture.weights().iter().sum::<f64>() != 1.0;
        let again = |c: &VonMisesFisher| VonMisesFisher::along(c.mean_direction().to_vec(), c.concentration()).unwrap();
        moved.1 |= fit.mixture.components().iter().any(|c| again(c) != *c);
    }
    assert_eq!(moved, (true, true), "the test has met what it is about");
}

#[test]
fn equal_mixtures_are_equal_bytes() {
    let bytes = to_bytes(&mixture(5), &description());
    for _ in 0..20 {
        assert_eq!(to_bytes(&mixture(5), &description()), bytes);
    }
    let header = String::from_utf8_lossy(&bytes[8..]).into_owned();
    assert!(
        header.starts_with("{\"__metadata__\":{\"background\":\"true\",\"estimator\":\"exact\",\"format\":\"vmfkit.mixture\"")
    );
}

#[test]
fn bad_bytes_are_named() {
    let good = to_bytes(&mixture(3), &description());
    let header_length = u64::from_le_bytes(good[..8].try_into().unwrap()) as usize;
    let header = std::str::from_utf8(&good[8..8 + header_length]).unwrap();
    let zeros = good.len() - 8 - header_length;
    let edited = |from: &str, to: &str| {
        assert!(header.contains(from), "{from}");
        let mut bytes = file(&header.replace(from, to), 0);
        bytes.extend(&good[good.len() - zeros..]);
        bytes
    };
    for (bytes, words) in [
        (vec![], "more than 8 bytes, found: `0`"),
        (good[..20].to_vec(), "must end within the file, whose length is: `20`"),
        (vec![0xff; 20], "18446744073709551615 bytes must end within"),
        (good[..good.len() - 1].to_vec(), "of data, found: `"),
        ([&good[..], b"x"].concat(), "of data, found: `"),
        (file("[]", 0), "header is not that of safetensors"),
        (file(&"[".repeat(100_000), 0), "header is not that of safetensors"),
        (file("{}", 0), "metadata `format` must be vmfkit.mixture, found: ``"),
        (edited("\"version\":\"1\"", "\"version\":\"2\""), "the version must be 1, found: `2`"),
        (edited("vmfkit.mixture", "gpt"), "found: `gpt`"),
        (edited("\"weights\"", "\"heights\""), "there must be a tensor: `weights`"),
        (edited("\"dtype\":\"F64\"", "\"dtype\":\"I64\""), "must be of type F64, found: `I64`"),
        (edited("[4,3]", "[3,4]"), "tensor `mean_directions` must have the shape 4 x any, found: `3 x 4`"),
        (edited("[4,3]", "[12]"), "must have the shape 4 x any, found: `12`"),
        (edited("[4,3]", "[4,4]"), "header is not that of safetensors"),
        (edited("\"background\":\"true\"", "\"background\":\"yes\""), "must be true or false, found: `yes`"),
        (edited("18446744073709551615", "1e3"), "metadata `seed` must be a number, found: `1e3`"),
    ] {
        let message = refusal(&bytes);
        assert!(message.starts_with("these bytes are no mixture: ") && message.contains(words), "{words}: {message}");
    }
}

/// Sums of lengths that leave 64 bits, which the reader of the format itself adds up unchecked.
#[test]
fn claims_beyond_all_memory_are_refused() {
    let (mut tensors, length) = (String::new(), u64::MAX / 8);
    for number in 0..8 {
        let (from, to) = (number * length, (number + 1) * length);
        tensors += &format!("\"t{number}\":{{\"dtype\":\"U8\",\"shape\":[{length}],\"data_offsets\":[{from},{to}]}},");
    }
    let header = |rest: &str| format!("{{{tensors}\"__metadata__\":{{{rest}}}}}");
    assert!(refusal(&file(&header(""), 16)).contains("bytes of data, found: `16`"));
    let shape = "{\"weights\":{\"dtype\":\"F64\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}";
    refusal(&file(shape, 0));
}

#[test]
fn numbers_that_make_no_mixture_are_refused() {
    let good = to_bytes(&mixture(3), &description());
    // The weights are last; before them the trace, the directions and, first, the concentrations.
    let with = |place: usize, value: f64| {
        let mut bytes = good.clone();
        let at = good.len() - 8 * (4 + 8 + 12 + 4) + 8 * place;
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        from_bytes(&bytes).unwrap_err()
    };
    let message = |place, value| with(place, value).to_string();
    assert_eq!(
        message(1, -1.0),
        "these bytes are no mixture: component 1: the concentration must be finite and at least 0, found: `-1`"
    );
    assert!(message(0, f64::NAN).contains("found: `NaN`"));
    assert!(message(3, 5.0).contains("a background must be the last of several components, of concentration 0"));
    assert!(message(4, 2.0).contains("component 0: the mean direction must have length 1, found: `"));
    assert!(message(8, f64::INFINITY).contains("component 1: coordinate 1 of the mean direction must be a finite number"));
    assert_eq!(with(24, -0.25), Error::ComponentWeight { component: 0, value: -0.25 });
    assert!(matches!(with(25, 0.5), Error::WeightSum { .. }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn mutated_bytes_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        digits in prop::collection::vec((any::<prop::sample::Index>(), 0u8..10), 0..4),
        length in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let mut bytes = to_bytes(&mixture(4), &description());
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        // Digits of the header stay digits, so that it stays a header more often.
        let places: Vec<usize> = (8..bytes.len()).filter(|&at| bytes[at].is_ascii_digit()).collect();
        for (at, digit) in digits {
            bytes[places[at.index(places.len())]] = b'0' + digit;
        }
        if cut {
            bytes.truncate(length.index(bytes.len()));
        }
        if let Ok((mixture, _)) = from_bytes(&bytes) {
            prop_assert!((mixture.weights().iter().sum::<f64>() - 1.0).abs() < 1e-8);
        }
    }
}
