//! [`Settings`]: every setting of a fit by name, as files store them.

use crate::error::{Error, Result};
use std::collections::BTreeMap;

/// The settings of a fit as strings, by name; numbers have enough digits to restore every bit.
///
/// Settings without meaning for a fit are left out: EM has no `batch`, and gradient ascent no
/// `estimator`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    texts: BTreeMap<String, String>,
}

/// Settings whose defaults depend on others.
const FOLLOWING: [&str; 5] = ["search", "sample", "dispersion", "block_rows", "shuffle_rows"];

impl Settings {
    /// The value of a setting.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(String::as_str)
    }

    /// All settings in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// The [dispersion](crate::dispersion::dispersion) of the rows, which the policy `auto` depends
    /// on. A fit that continues another one should have the same.
    pub fn dispersion(&self) -> Option<f64> {
        self.get("dispersion")?.parse().ok().filter(|dispersion: &f64| *dispersion >= 0.0 && dispersion.is_finite())
    }

    /// The same with this dispersion, if there is one.
    pub fn with_dispersion(mut self, dispersion: Option<f64>) -> Self {
        if let Some(dispersion) = dispersion {
            self.set("dispersion", format!("{dispersion:?}"));
        }
        self
    }

    pub(crate) fn set(&mut self, name: impl Into<String>, text: impl Into<String>) {
        self.texts.insert(name.into(), text.into());
    }

    /// Whether a checkpoint with these settings may be resumed with `found`. The error names a
    /// setting that differs, preferably one that does not follow from others.
    pub(crate) fn check(&self, found: &Settings) -> Result<()> {
        let names = self.texts.keys().chain(found.texts.keys());
        match names
            .filter(|name| self.get(name) != found.get(name))
            .min_by_key(|name| (FOLLOWING.iter().position(|following| following == name), *name))
        {
            None => Ok(()),
            Some(name) => Err(Error::CheckpointSetting {
                setting: name.clone(),
                expected: self.get(name).unwrap_or("unset").to_owned(),
                found: found.get(name).unwrap_or("unset").to_owned(),
            }),
        }
    }
}

/// A fingerprint of bytes (FNV-1a). Not cryptographic.
pub(crate) fn fingerprint(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// A fingerprint as text.
pub(crate) fn digits(fingerprint: u64) -> String {
    format!("{fingerprint:016x}")
}

/// Parses the text of a fingerprint; `None` unless [`digits`] writes the same text.
pub(crate) fn undigits(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok().filter(|fingerprint| digits(*fingerprint) == text)
}
