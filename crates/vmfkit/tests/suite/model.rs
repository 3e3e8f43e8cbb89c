//! Model files: loading is exact, and errors in bytes are named.

use crate::samples::{on_threads, sealed};
use proptest::prelude::*;
use vmfkit::store::model::{Description, from_bytes, to_bytes};
use vmfkit::train::{Adam, Annealing, Pass, Stop};
use vmfkit::{Error, Fitter, Maximisation, Method, Mixture, RowBatch, Start, VonMisesFisher};

/// Three directions without round coordinates, and a background.
fn mixture(dim: usize) -> Mixture {
    let direction = |k: usize| (0..dim).map(|i| ((i * i + 7 * k + 1) as f64).sin()).collect();
    let components = (0..3).map(|k| VonMisesFisher::along(direction(k), 10f64.powi(4 * k as i32 - 3) / 3.0).unwrap());
    Mixture::new(vec![0.1, 0.2, 0.7], components.collect()).unwrap().with_background(0.1).unwrap()
}

fn description() -> Description {
    let mut description = Description::default();
    description.method = "em".to_owned();
    description.policy = "auto".to_owned();
    description.estimator = "exact".to_owned();
    description.status = "converged".to_owned();
    description.seed = u64::MAX;
    description.weight = 0.1 + 0.2;
    description.notes = vec!["a \"quoted\" \u{e9}".to_owned(), "and a second".to_owned()];
    let pass = |objective| {
        let mut pass = Pass::default();
        (pass.objective, pass.smallest_weight, pass.largest_concentration, pass.temperature) = (objective, 0.1, 1e10, 1.5);
        pass
    };
    description.trace = vec![pass(-1.0 / 3.0), pass(f64::NEG_INFINITY)];
    description
}

fn refusal(bytes: &[u8]) -> String {
    from_bytes(bytes).expect_err("bad bytes").to_string()
}

/// A file with this header, followed by this many zeros.
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

/// Weights sum to 1 but for rounding; normalising them again would change their last bits.
#[test]
fn weights_and_directions_are_not_rescaled() {
    let mut moved = (false, false);
    for seed in 0..20 {
        let (mut rows, mut labels) = (vec![0f64; 7 * 500], vec![0; 500]);
        mixture(7).fill(seed, 0, &mut rows, &mut labels).unwrap();
        let fit = Fitter::new(5).seed(seed).background(0.1).fit(&RowBatch::new(7, &rows).unwrap()).unwrap();
        let (loaded, description) = from_bytes(&to_bytes(&fit.mixture, &Description::of(&fit))).unwrap();
        assert_eq!(loaded, fit.mixture);
        assert_eq!((description.status.as_str(), description.weight), (fit.status.name(), 500.0));
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
    assert!(header.starts_with("{\"__metadata__\":{\"background\":\"true\",\"checksum\":\""));
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
        sealed(bytes)
    };
    for (bytes, words) in [
        (vec![], "more than 8 bytes, found: `0`"),
        (good[..20].to_vec(), "must end within the file, whose length is: `20`"),
        (vec![0xff; 20], "18446744073709551615 bytes must end within"),
        (good[..good.len() - 1].to_vec(), "of data, found: `"),
        ([&good[..], b"x"].concat(), "of data, found: `"),
        (file("[]", 0), "header is not a safetensors header"),
        (file(&"[".repeat(100_000), 0), "header is not a safetensors header"),
        (file("{}", 0), "metadata `format` must be vmfkit.mixture, found: ``"),
        (edited("\"version\":\"2\"", "\"version\":\"3\""), "the version must be 2 or 1, found: `3`"),
        (edited("vmfkit.mixture", "gpt"), "found: `gpt`"),
        (edited("\"weights\"", "\"heights\""), "a tensor is missing: `weights`"),
        (edited("\"dtype\":\"F64\"", "\"dtype\":\"I64\""), "must be of type F64, found: `I64`"),
        (edited("[4,3]", "[3,4]"), "tensor `mean_directions` must have the shape 4 x any, found: `3 x 4`"),
        (edited("[4,3]", "[12]"), "must have the shape 4 x any, found: `12`"),
        (edited("[4,3]", "[4,4]"), "header is not a safetensors header"),
        (edited("\"background\":\"true\"", "\"background\":\"yes\""), "must be true or false, found: `yes`"),
        (edited("18446744073709551615", "1e3"), "metadata `seed` must be a number, found: `1e3`"),
    ] {
        let message = refusal(&bytes);
        assert!(message.starts_with("not a valid model file: ") && message.contains(words), "{words}: {message}");
    }
}

/// Sums of lengths that overflow 64 bits, which the crate safetensors adds unchecked.
#[test]
fn headers_that_claim_too_much_memory_are_refused() {
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
fn invalid_parameters_are_refused() {
    let good = to_bytes(&mixture(3), &description());
    // The weights are last; before them the trace, the directions and, first, the concentrations.
    let with = |place: usize, value: f64| {
        let mut bytes = good.clone();
        let at = good.len() - 8 * (4 + 8 + 12 + 4) + 8 * place;
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        from_bytes(&sealed(bytes)).unwrap_err()
    };
    let message = |place, value| with(place, value).to_string();
    assert_eq!(
        message(1, -1.0),
        "not a valid model file: component 1: the concentration must be finite and at least 0, found: `-1`"
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
        if let Ok((mixture, _)) = from_bytes(&sealed(bytes)) {
            prop_assert!((mixture.weights().iter().sum::<f64>() - 1.0).abs() < 1e-8);
        }
    }
}

/// Every option of a fitter is in the file, with its name in docs/file-format.md.
#[test]
fn a_file_tells_how_its_mixture_was_fitted() {
    let (mut rows, mut labels) = (vec![0f64; 4 * 300], vec![0; 300]);
    mixture(4).fill(1, 0, &mut rows, &mut labels).unwrap();
    let block = RowBatch::new(4, &rows).unwrap();
    let how = Maximisation::new().fixed_weights(true).smallest_weight(0.01).largest_concentration(1e6);
    let fitter =
        |method| Fitter::new(3).method(method).maximisation(how.clone()).restarts(2).sample(500).batch(50).shuffle(false).seed(7);
    let stop = Stop { tolerance: Some(1e-3), passes: 4, ..Stop::default() };
    let sgd = Method::Sgd(Adam::new().learning_rate(0.2).decay(0.9).betas(0.8, 0.95).epsilon(1e-7));
    let annealed = Method::Em { annealing: Some(Annealing { from: 4.0, factor: 0.5 }) };
    let online = Method::OnlineEm { exponent: 0.7, offset: 2.0 };
    let always = [
        ("dimension", "4"),
        ("components", "3"),
        ("background_start", "0.1"),
        ("start", "random-rows"),
        ("sample", "500"),
        ("restarts", "2"),
        ("tolerance", "0.001"),
        ("passes", "4"),
        ("largest_concentration", "1000000.0"),
        ("smallest_weight", "0.01"),
        ("fixed_weights", "true"),
    ];
    let of_batches = [("batch", "50"), ("shuffle", "false")];
    let of_sgd = [("learning_rate", "0.2"), ("decay", "0.9"), ("betas", "0.8,0.95"), ("epsilon", "1e-7")];
    for (method, own) in [
        (Method::HardEm, vec![("block_rows", "9216")]),
        (annealed, vec![("annealing", "4.0,0.5"), ("block_rows", "9216")]),
        (online, [&of_batches[..], &[("step", "0.7,2.0")]].concat()),
        (sgd, [&of_batches[..], &of_sgd].concat()),
    ] {
        let fit = fitter(method.clone()).start(Start::RandomRows).background(0.1).stop(stop).fit(&block).unwrap();
        let bytes = to_bytes(&fit.mixture, &Description::of(&fit));
        let (loaded, found) = from_bytes(&bytes).unwrap();
        assert_eq!((&loaded, &found), (&fit.mixture, &Description::of(&fit)));
        assert_eq!((found.method.as_str(), found.policy.as_str(), found.seed), (method.name(), "auto", 7));
        assert_eq!(found.estimator, if method.name() == "sgd" { "" } else { "exact" });
        assert_eq!((found.rows, found.weight, found.status.as_str()), (300, 300.0, fit.status.name()));
        let dispersion = fit.dispersion().expect("the default policy measures it").to_string();
        let measured = [("dispersion", dispersion.as_str())];
        let mut expected: Vec<(&str, &str)> = always.iter().copied().chain(measured).chain(own).collect();
        expected.sort_unstable();
        assert_eq!(found.settings.iter().collect::<Vec<_>>(), expected, "{}", method.name());
        let on = |threads| {
            let fitter = fitter(method.clone()).start(Start::RandomRows).background(0.1).stop(stop);
            let fit = on_threads(threads, || fitter.fit(&block).unwrap());
            to_bytes(&fit.mixture, &Description::of(&fit))
        };
        assert!(on(1) == bytes && on(3) == bytes, "threads make no difference");
    }
    // What was given with a start leaves its mark.
    let mark = |labels: Vec<u32>| Fitter::new(3).start(Start::Labels(labels)).settings(4).get("start").unwrap().to_owned();
    assert!(mark(vec![0, 1]).starts_with("labels:") && mark(vec![0, 1]) != mark(vec![1, 0]));
}

/// Only the mixture is required; headers too long for readers of the format are refused unread.
#[test]
fn only_the_mixture_is_required_and_headers_have_a_limit() {
    let good = to_bytes(&mixture(3), &Description::default());
    let header = String::from_utf8_lossy(&good[8..]).into_owned();
    let length = u64::from_le_bytes(good[..8].try_into().unwrap()) as usize;
    let metadata = &header[header.find("{\"background\"").unwrap()..=header.find("},").unwrap()];
    let plain = "{\"background\":\"true\",\"format\":\"vmfkit.mixture\",\"unknown\":\"text\",\"version\":\"1\"}";
    let mut bytes = file(&header[..length].replace(metadata, plain), 0);
    bytes.extend(&good[8 + length..]);
    assert_eq!(from_bytes(&bytes).unwrap(), (mixture(3), Description::default()));
    let mut long = vec![0; 100_000_009];
    long[..8].copy_from_slice(&100_000_001u64.to_le_bytes());
    assert!(refusal(&long).contains("a header must have at most 100000000 bytes, found: `100000001`"));
}
