//! Reference numbers of 25 digits, and errors against them that are exact far below an f64's last
//! place.

/// A decimal of up to 25 significant digits as the nearest f64 and what is missing.
#[derive(Debug, Clone, Copy)]
pub struct Decimal {
    pub value: f64,
    rest: f64,
}

impl Decimal {
    pub fn parse(text: &str) -> Self {
        let value: f64 = text.parse().expect("the tables hold decimal numbers");
        if !value.is_finite() || value == 0.0 {
            return Decimal { value, rest: 0.0 };
        }
        // Both as integers of 30 digits: a f64 prints all its digits exactly.
        let (exact, exact_exponent) = scaled(text);
        let (near, near_exponent) = scaled(&format!("{value:.29e}"));
        let (shift_exact, shift_near) = match exact_exponent - near_exponent {
            0 => (1, 1),
            1 => (10, 1),
            -1 => (1, 10),
            _ => unreachable!("{text} rounds to a neighbour"),
        };
        let exponent = exact_exponent.min(near_exponent) - 29;
        let difference = (exact * shift_exact - near * shift_near) as f64;
        Decimal { value, rest: format!("{difference}e{exponent}").parse().expect("a number") }
    }

    /// `found` minus this number, correct to about 1e-25 of it.
    pub fn error_of(&self, found: f64) -> f64 {
        if found == self.value { -self.rest } else { (found - self.value) - self.rest }
    }

    /// The error of `found` relative to this number; the number 0 (or one below f64's normal range)
    /// must be met absolutely.
    pub fn relative_error_of(&self, found: f64) -> f64 {
        if self.value.abs() < 1e-290 {
            return if (found - self.value).abs() < 1e-305 { 0.0 } else { f64::INFINITY };
        }
        (self.error_of(found) / self.value).abs()
    }

    /// The error of `found` as a share of max(1, |this|).
    pub fn mixed_error_of(&self, found: f64) -> f64 {
        if self.value.is_infinite() {
            return if found == self.value { 0.0 } else { f64::INFINITY };
        }
        self.error_of(found).abs() / self.value.abs().max(1.0)
    }
}

/// The first 30 significant digits as an integer, and the decimal exponent of the first of them.
fn scaled(text: &str) -> (i128, i32) {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let mut exponent: i32 = exponent.parse().expect("an exponent");
    let (negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits: String = format!("{whole}{fraction}");
    exponent += whole.len() as i32 - 1;
    while digits.starts_with('0') {
        digits.remove(0);
        exponent -= 1;
    }
    digits.truncate(30);
    while digits.len() < 30 {
        digits.push('0');
    }
    let number: i128 = digits.parse().expect("digits");
    (if negative { -number } else { number }, exponent)
}

/// The rows of a table in `testdata/`, as text fields.
pub fn rows(table: &str) -> impl Iterator<Item = Vec<&str>> {
    table.lines().skip(1).map(|line| line.split(',').collect())
}

/// The largest error seen, with where.
#[derive(Debug)]
pub struct Worst {
    pub error: f64,
    pub place: String,
}

impl Worst {
    pub fn new() -> Self {
        Worst { error: 0.0, place: String::new() }
    }

    pub fn see(&mut self, error: f64, place: impl FnOnce() -> String) {
        // A NaN must not slip through a comparison.
        if !(error <= self.error) {
            *self = Worst { error: if error.is_nan() { f64::INFINITY } else { error }, place: place() };
        }
    }

    pub fn at_most(&self, bound: f64, what: &str) {
        println!("{what:<28} {:.2e} (bound {bound:.1e}) at {}", self.error, self.place);
        assert!(self.error <= bound, "{what}: error {:e} above {bound:e} at {}", self.error, self.place);
    }
}

#[test]
fn decimals_keep_what_an_f64_drops() {
    let tenth = Decimal::parse("0.1000000000000000000000000");
    assert!((tenth.error_of(0.1) - 5.551115123125783e-18).abs() < 1e-30);
    assert_eq!(Decimal::parse("2.500000000000000125295459e-601").value, 0.0);
    assert_eq!(Decimal::parse("1").error_of(1.0 + f64::EPSILON), f64::EPSILON);
}
