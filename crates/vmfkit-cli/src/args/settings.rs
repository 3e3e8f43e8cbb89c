//! `--set NAME=VALUE`: rarely changed settings, by the names under which model files store them.
//!
//! A new setting needs a field of [`Settings`] and an entry in [`ALL`]. Its name is that of
//! `Fitter::settings`, which `vmf inspect` shows.

use super::FITTING;
use super::all_settings::{ALL, Setting};
pub use super::all_settings::{Estimator, Settings};
use anyhow::{Result, bail};
use std::str::FromStr;

/// Settings of model files that have a separate option.
const OPTIONS: [(&str, &str); 9] = [
    ("background_start", "--background"),
    ("components", "-k"),
    ("method", "--method"),
    ("passes", "--max-passes"),
    ("policy", "--policy"),
    ("restarts", "--restarts"),
    ("seed", "--seed"),
    ("start", "--start"),
    ("tolerance", "--tolerance"),
];

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = FITTING)]
pub struct SettingArguments {
    /// Change a rarely used setting; may be given several times
    #[arg(long, value_name = "NAME=VALUE", allow_hyphen_values = true)]
    set: Vec<Assignment>,
    /// List the settings of --set and their defaults
    #[arg(long, exclusive = true)]
    pub help_settings: bool,
}

/// `NAME=VALUE`, validated.
#[derive(Debug, Clone)]
struct Assignment {
    setting: &'static Setting,
    value: String,
}

impl FromStr for Assignment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((name, value)) = text.split_once('=') else {
            return Err("a setting is given as NAME=VALUE, such as `batch=256`".to_owned());
        };
        let Some(setting) = ALL.iter().find(|setting| setting.name == name) else { return Err(unknown(name)) };
        match (setting.store)(&mut Settings::default(), value) {
            true => Ok(Assignment { setting, value: value.to_owned() }),
            false => Err(format!("`{name}` must be {}, found: `{value}`", setting.range)),
        }
    }
}

impl SettingArguments {
    /// The given values.
    pub fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        for Assignment { setting, value } in &self.set {
            (setting.store)(&mut settings, value);
        }
        settings
    }

    /// Refuses settings that are given twice or exclude each other.
    fn check_names(&self) -> Result<()> {
        for (position, Assignment { setting, .. }) in self.set.iter().enumerate() {
            if self.set[..position].iter().any(|other| other.setting.name == setting.name) {
                bail!("a setting can be given only once, found twice: `{}`", setting.name);
            }
        }
        let settings = self.settings();
        if settings.fixed_weights == Some(true) && settings.smallest_weight.is_some() {
            bail!("`smallest_weight` has no effect with `fixed_weights=true`");
        }
        Ok(())
    }

    /// Refuses settings that a fit by this method would ignore.
    pub fn check(&self, method: &str, is_mixture: bool) -> Result<()> {
        self.check_names()?;
        for Assignment { setting, .. } in &self.set {
            let Setting { name, methods, of_mixture, .. } = setting;
            if *of_mixture && !is_mixture {
                bail!("one density does not use the setting: `{name}`\nhint: `-k N` fits a mixture");
            }
            if !methods.contains(&method) {
                if method == vmfkit::start::known_labels::METHOD {
                    bail!("`--known-labels` does not use the setting: `{name}`");
                }
                let methods: Vec<String> =
                    methods.iter().filter(|name| **name != "labels").map(|name| format!("`--method {name}`")).collect();
                bail!("`--method {method}` does not use the setting: `{name}`\nhint: it is for {}", methods.join(", "));
            }
        }
        if self.settings().estimator == Some(Estimator::Corrected) && method != "closed" {
            bail!("`estimator=corrected` is for one density, found: `--method {method}`");
        }
        Ok(())
    }

    /// Refuses settings that `vmf select` would ignore.
    pub fn check_select(&self) -> Result<()> {
        self.check("em", true)?;
        match self.set.iter().find(|assignment| !assignment.setting.of_select) {
            Some(Assignment { setting, .. }) => {
                let names: Vec<&str> = ALL.iter().filter(|setting| setting.of_select).map(|setting| setting.name).collect();
                bail!("`vmf select` does not use the setting: `{}`\nhint: it uses {}", setting.name, names.join(", "))
            }
            None => Ok(()),
        }
    }
}

/// The output of `vmf fit --help-settings`.
pub fn help() -> String {
    list("fit", |_| true)
}

/// The output of `vmf select --help-settings`.
pub fn help_of_select() -> String {
    list("select", |setting| setting.of_select)
}

fn list(subcommand: &str, is_listed: impl Fn(&Setting) -> bool) -> String {
    let mut text = format!(
        "Settings for `vmf {subcommand} --set NAME=VALUE`.\nModel files store them under these names; `vmf inspect` shows them.\n"
    );
    for setting in ALL.iter().filter(|setting| is_listed(setting)) {
        let Setting { name, value, range, default, meaning, methods, .. } = setting;
        text.push_str(&format!("\n  {name}={value}\n    {meaning}\n"));
        if !range.starts_with('`') {
            text.push_str(&format!("    allowed: {range}\n"));
        }
        text.push_str(&format!("    default: {default}\n"));
        if subcommand == "fit" {
            let methods: Vec<&str> = methods.iter().map(|&name| if name == "labels" { "--known-labels" } else { name }).collect();
            text.push_str(&format!("    methods: {}\n", methods.join(", ")));
        }
    }
    text
}

/// An error with similar names.
fn unknown(name: &str) -> String {
    if let Some((_, option)) = OPTIONS.iter().find(|(known, _)| *known == name) {
        return format!("`{name}` has a separate option: `{option}`");
    }
    let mut near: Vec<(usize, &str)> = ALL.iter().map(|setting| (edits(name, setting.name), setting.name)).collect();
    near.sort_unstable();
    let is_near = |&(edits, known): &(usize, &str)| {
        edits <= 1 + known.len() / 4 || name.len() > 2 && (known.contains(name) || name.contains(known))
    };
    let near: Vec<String> = near.into_iter().filter(is_near).map(|(_, known)| format!("`{known}`")).collect();
    let near = if near.is_empty() { String::new() } else { format!("; similar: {}", near.join(", ")) };
    format!("no setting is called `{name}`{near}\nhint: `vmf fit --help-settings` lists all settings")
}

/// The Levenshtein distance.
fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmfkit::train::Adam;
    use vmfkit::{Fitter, Method};

    /// `--set` uses the names of model files, which store the baseline only if it is not the default.
    #[test]
    fn names_are_those_of_model_files() {
        let methods = [Method::default(), Method::Sgd(Adam::new()), "online".parse().unwrap()];
        let mut stored: Vec<String> = vec!["annealing".into(), "baseline".into()];
        for method in methods {
            stored.extend(Fitter::new(2).method(method).settings(3).iter().map(|(name, _)| name.to_owned()));
        }
        for name in ALL.iter().map(|setting| setting.name).chain(OPTIONS.map(|(name, _)| name)) {
            assert!(stored.iter().any(|stored| stored == name), "{name}");
        }
        let known = |name: &String| {
            ALL.iter().any(|setting| setting.name == name)
                || OPTIONS.iter().any(|(option, _)| option == name)
                || name == "dimension"
        };
        assert_eq!(stored.iter().find(|name| !known(name)), None);
    }

    #[test]
    fn unknown_names_get_similar_ones() {
        for (text, words) in [
            ("beta=1,2", "no setting is called `beta`; similar: `betas`"),
            ("learning-rate=1", "similar: `learning_rate`"),
            ("weight=1", "`fixed_weights`"),
            ("qqqqqq=1", "no setting is called `qqqqqq`\nhint: "),
            ("seed=1", "`seed` has a separate option: `--seed`"),
            ("batch", "a setting is given as NAME=VALUE, such as `batch=256`"),
            ("batch=0", "`batch` must be a whole number of at least 1, found: `0`"),
            ("decay=nan", "`decay` must be a number above 0 and at most 1, found: `nan`"),
        ] {
            let error = text.parse::<Assignment>().unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn edit_distances_are_those_of_levenshtein() {
        assert_eq!([edits("", "abc"), edits("abc", "abc"), edits("kitten", "sitting"), edits("step", "steps")], [3, 0, 3, 1]);
    }

    #[test]
    fn every_default_that_is_a_value_is_allowed() {
        for setting in &ALL {
            let is_prose = setting.default == "none" || setting.default.contains(' ');
            assert!(is_prose || (setting.store)(&mut Settings::default(), setting.default), "{}", setting.name);
        }
    }
}
